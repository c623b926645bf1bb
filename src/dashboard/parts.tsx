import type { Child, FC, PropsWithChildren } from 'hono/jsx';

const NUMBER = new Intl.NumberFormat('en-GB');

/** A count with thousands apart. */
export function count(n: number | bigint): string {
  return NUMBER.format(n);
}

/** A count in a table; a zero stands back. */
export const Count: FC<{ of: number }> = ({ of }) =>
  of === 0 ? <span class="muted">0</span> : <>{count(of)}</>;

/** A text that begins with a capital letter. */
export function capital(text: string): string {
  return text.replace(/^./u, (first) => first.toUpperCase());
}

/** A count with its noun: `1 item`, `2,000 items`. */
export function plural(n: number | bigint, one: string, many = `${one}s`): string {
  return `${count(n)} ${Number(n) === 1 ? one : many}`;
}

/** An amount of money as text with its currency; a dash when there is none. */
export function money(
  amount: { toFixed(digits: number): string } | string | null,
  currency: string | null,
): string {
  if (amount === null) return '–';
  const text = typeof amount === 'string' ? amount : amount.toFixed(2);
  const [whole = '', cents = '00'] = text.split('.');
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
  return [`${grouped}.${cents}`, currency].filter(Boolean).join(' ');
}

const MOMENT = new Intl.DateTimeFormat('sv-SE', {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});

/** The time zone in which the dashboard shows times: the server's. */
export const TIME_ZONE = MOMENT.resolvedOptions().timeZone;

/** `2026-11-23 08:00:05` in the server's time zone. */
export function moment(at: Date): string {
  return MOMENT.format(at);
}

const MONTH = new Intl.DateTimeFormat('en-GB', {
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
});
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

/** `Nov 2026` for a day of that month, as PostgreSQL writes it. */
export function monthName(day: string | null): string {
  return day === null ? 'unknown' : MONTH.format(new Date(`${day}T00:00:00Z`));
}

/** `23 Nov` for a day as PostgreSQL writes it. */
export function dayName(day: string): string {
  return DAY.format(new Date(`${day}T00:00:00Z`));
}

/** Length of a time in one or two units: `6 h`, `3 min 20 s`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10 && seconds % 60 > 0) return `${minutes} min ${seconds % 60} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48)
    return minutes % 60 > 0 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  if (days < 90) return `${days} days`;
  return days < 730 ? `${Math.floor(days / 30.4)} months` : `${Math.floor(days / 365.25)} years`;
}

/** How long ago, or in how long, with the moment itself as its title. */
export const Ago: FC<{ at: Date | null; none?: string }> = ({ at, none = 'never' }) => {
  if (at === null) return <span class="muted">{none}</span>;
  const ms = Date.now() - at.getTime();
  // One unit says how long ago; the title says when.
  const [length, unit] = duration(Math.abs(ms)).split(' ');
  const text = ms >= 0 ? `${length} ${unit} ago` : `in ${length} ${unit}`;
  return (
    <time datetime={at.toISOString()} title={moment(at)}>
      {text}
    </time>
  );
};

/** A moment in full. */
export const Moment: FC<{ at: Date | null; none?: string }> = ({ at, none = '–' }) =>
  at === null ? (
    <span class="muted">{none}</span>
  ) : (
    <time datetime={at.toISOString()}>{moment(at)}</time>
  );

/** How good or bad something is; also its colour. */
export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'quiet';

const TONES: Readonly<Record<Tone, readonly string[]>> = {
  good: ['succeeded', 'valid', 'finished', 'live', 'current', 'ok'],
  warn: ['held', 'unproven', 'missing', 'stale', 'paused', 'never'],
  bad: ['failed', 'failing', 'parked', 'invalid', 'denied', 'removed', 'interrupted'],
  busy: ['running', 'waiting'],
  quiet: [],
};

function toneOf(state: string): Tone {
  const tones = Object.keys(TONES) as Tone[];
  return tones.find((tone) => TONES[tone].includes(state)) ?? 'quiet';
}

/** A state in a word. */
export const State: FC<{ of: string; tone?: Tone }> = ({ of, tone }) => (
  <span class={`state ${tone ?? toneOf(of)}`}>{of}</span>
);

/** A section with a heading. */
export const Section: FC<
  PropsWithChildren<{ title: string; id?: string; note?: Child; actions?: Child }>
> = ({ title, id, note, actions, children }) => (
  <section aria-labelledby={id ?? slug(title)}>
    <div class="section-head">
      <h2 id={id ?? slug(title)}>{title}</h2>
      {note === undefined ? null : <p class="muted">{note}</p>}
      {actions}
    </div>
    {children}
  </section>
);

function slug(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, '-');
}

/** What a table shows of a row: a column's name, and its cells. */
export type Column<Row> = { readonly cell: (row: Row) => Child } & (
  | { readonly name: string }
  /** Figures stand at the right, in columns. Where a table flows, the name stands before the value. */
  | { readonly figure: string; readonly isMinor?: boolean }
  /** Its name stands before the value where a table flows. */
  | { readonly named: string }
  /** Left out on a phone, unless the table flows there. */
  | { readonly minor: string }
);

/**
 * A table; what fills it when it is empty is the caller's to say.
 * @param flows on a phone each row is a paragraph: for more columns than fit there
 * @param isEven its columns stand as those of others like it, whatever is in them
 */
export function Table<Row>({
  caption,
  columns,
  rows,
  empty,
  flows = false,
  isEven = false,
}: {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  empty: Child;
  flows?: boolean;
  isEven?: boolean;
}) {
  if (rows.length === 0) return <Empty>{empty}</Empty>;
  const heads = columns.map((column) => {
    const { cell } = column;
    if ('name' in column) return { name: column.name, cell };
    if ('minor' in column) return { name: column.minor, kind: 'minor', cell };
    if ('named' in column) return { name: column.named, told: column.named, cell };
    const { figure: name, isMinor } = column;
    return { name, told: name, kind: isMinor === true ? 'figure minor' : 'figure', cell };
  });
  return (
    <div
      class={`table${flows ? ' flows' : ''}${isEven ? ' even' : ''}`}
      tabindex={0}
      role="group"
      aria-label={caption}
    >
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {heads.map(({ name, kind }) => (
              <th scope="col" class={kind}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {heads.map(({ kind, told, cell }) => (
                <td class={kind} data-name={flows ? told : undefined}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Says what fills an empty place. */
export const Empty: FC<PropsWithChildren> = ({ children }) => <p class="empty">{children}</p>;

/** Texts of others below each other. */
export const Lines: FC<{ of: readonly string[] }> = ({ of }) => (
  <ul class="lines">
    {of.map((text) => (
      <li>
        <Foreign text={text} isWhole />
      </li>
    ))}
  </ul>
);

/** A chart, and its figures as a table for who asks. */
export const WithTable: FC<{ chart: Child; table: Child }> = ({ chart, table }) => (
  <div class="chart-box">
    {chart}
    <details>
      <summary>As a table</summary>
      {table}
    </details>
  </div>
);

/** Figures side by side. */
export const Figures: FC<{ of: readonly { label: string; value: Child; note?: Child }[] }> = ({
  of,
}) => (
  <dl class="figures">
    {of.map(({ label, value, note }) => (
      <div>
        <dt>{label}</dt>
        <dd>
          {value}
          {note === undefined ? null : <small>{note}</small>}
        </dd>
      </div>
    ))}
  </dl>
);

/** Names and values below each other. */
export const Facts: FC<{ of: readonly (readonly [name: string, value: Child])[] }> = ({ of }) => (
  <dl class="facts">
    {of.map(([name, value]) => (
      <>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </>
    ))}
  </dl>
);

/** Something that waits for a person, with its remedy. */
export const Card: FC<PropsWithChildren<{ title: Child; tone: Tone; actions?: Child }>> = ({
  title,
  tone,
  actions,
  children,
}) => (
  <article class={`card ${tone}`}>
    <h3>{title}</h3>
    <div class="card-text">{children}</div>
    {actions === undefined ? null : <div class="actions">{actions}</div>}
  </article>
);

/** How far something is. Live: the page's script moves it. @param id such as `run 12` */
export const Bar: FC<{
  id: string;
  label: string;
  done: number;
  total: number | null;
  text: string;
}> = ({ id, label, done, total, text }) => (
  <div class="bar" data-live={id}>
    {total === null ? (
      <progress aria-label={label}></progress>
    ) : (
      <progress aria-label={label} max={Math.max(1, total)} value={done}></progress>
    )}
    <span data-live-text>{text}</span>
  </div>
);

/** A text to copy; with a script, by a button. */
export const Copyable: FC<{ text: string }> = ({ text }) => (
  <div class="copyable">
    <pre tabindex={0}>{text}</pre>
    <button type="button" class="small" data-copy>
      Copy
    </button>
  </div>
);

/** The token that every form with an action carries. */
export const Token: FC<{ value: string }> = ({ value }) => (
  <input type="hidden" name="token" value={value} />
);

/** A button that does something, as a form of its own. */
export const ActionButton: FC<
  PropsWithChildren<{
    action: string;
    token: string;
    fields?: Readonly<Record<string, string>>;
    isMain?: boolean;
    isDanger?: boolean;
  }>
> = ({ action, token, fields = {}, isMain, isDanger, children }) => (
  <form method="post" action={action}>
    <Token value={token} />
    {Object.entries(fields).map(([name, value]) => (
      <input type="hidden" name={name} value={value} />
    ))}
    <button class={isMain === true ? 'main' : isDanger === true ? 'danger' : undefined}>
      {children}
    </button>
  </form>
);

/**
 * Links to the other pages of a long list.
 * @param url of this page @param by the value of the query that says where a page begins
 * @param next where the next page begins; null: this is the last one
 */
export const Pages: FC<{
  url: string;
  by: 'before' | 'from';
  next: number | bigint | null;
  words?: readonly [first: string, next: string];
}> = ({ url, by, next, words = ['Newest', 'Older'] }) => {
  const { pathname, searchParams: query } = new URL(url);
  if (!query.has(by) && next === null) return null;
  return (
    <nav class="pages" aria-label="Pages">
      {query.has(by) ? <a href={`${pathname}?${without(query, by)}`}>{words[0]}</a> : null}
      {next === null ? null : (
        <a href={`${pathname}?${withValue(query, by, String(next))}`} rel="next">
          {words[1]}
        </a>
      )}
    </nav>
  );
};

/** The rows of one page, of which one more than its size was asked for, and the row that the next begins after. */
export function onePage<Row>(rows: readonly Row[], size: number) {
  const shown = rows.slice(0, size);
  return { shown, last: rows.length > size ? shown.at(-1) : undefined };
}

/** A query with one value changed. */
function withValue(query: URLSearchParams, name: string, value: string): string {
  const changed = new URLSearchParams(query);
  changed.set(name, value);
  changed.delete('notice');
  return changed.toString();
}

/** A query without one of its values. */
export function without(query: URLSearchParams, name: string): string {
  const changed = new URLSearchParams(query);
  changed.delete(name);
  changed.delete('notice');
  return changed.toString();
}

/** Characters shown of a text where it is one of many. */
const MOST_TEXT = 240;

/** A text of the marketplace: hostile, of any length, in any direction. @param isWhole shows all of it */
export const Foreign: FC<{ text: string | null; none?: string; isWhole?: boolean }> = ({
  text,
  none = '–',
  isWhole = false,
}) => {
  if (text === null || text === '') return <span class="muted">{none}</span>;
  const shown = isWhole || text.length <= MOST_TEXT ? text : `${text.slice(0, MOST_TEXT)}…`;
  return <bdi class="foreign">{printable(shown)}</bdi>;
};

/** Control characters but for tabs and line ends, and marks that turn the direction of text. */
const UNPRINTABLE = /(?![\t\n]|\r\n)\p{Cc}|[\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** More marks above each other than any script has: they would cover the lines around theirs. */
const PILE = /(\p{M}{6})\p{M}+/gu;

/** Makes characters visible that would hide or turn others, and keeps those that pile up in their line. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '\ufffd').replace(PILE, '$1');
}

/** A sentence, with what stands in backticks as a command to type. */
export const Sentence: FC<{ text: string }> = ({ text }) => (
  <>
    {printable(text)
      .split('`')
      .map((part, n) => (n % 2 === 1 ? <code>{part}</code> : part))}
  </>
);

/** A seller's name, as a link to its page. */
export const SellerLink: FC<{ name: string }> = ({ name }) => (
  <a class="seller" href={`/sellers/${encodeURIComponent(name)}`}>
    {name}
  </a>
);

/** A link to an item's page, by the item's name. */
export const ItemLink: FC<{
  seller: string;
  item: bigint | number | string;
  name: string | null;
}> = ({ seller, item, name }) => (
  <a href={`/items/${encodeURIComponent(seller)}/${item}`}>
    <Foreign text={name ?? String(item)} />
  </a>
);

/** A link to an address of the marketplace; plain text when it is no web address. */
export const WebLink: FC<{ url: string | null }> = ({ url }) => {
  if (url === null || url === '') return <span class="muted">–</span>;
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return <Foreign text={url} />;
  return (
    <a href={url} rel="noreferrer noopener nofollow" target="_blank">
      <Foreign text={url} />
    </a>
  );
};

/** A form that narrows a list; what is chosen becomes part of the address. */
export const Filter: FC<PropsWithChildren<{ button?: string; action?: string }>> = ({
  button = 'Filter',
  action,
  children,
}) => (
  <form class="filter" method="get" action={action}>
    {children}
    <button>{button}</button>
  </form>
);

/** A select of a filter, with all of them as the first choice. */
export const Choice: FC<{
  name: string;
  label: string;
  of: readonly string[];
  chosen: string | undefined;
}> = ({ name, label, of, chosen }) => (
  <label>
    {label}
    <select name={name}>
      <option value="">all</option>
      {of.map((value) => (
        <option value={value} selected={value === chosen}>
          {value}
        </option>
      ))}
    </select>
  </label>
);

/** The seller to whom a filter narrows a list; there may be too many to choose from. */
export const SellerField: FC<{ of: string | null | undefined }> = ({ of }) => (
  <label>
    Seller
    <input name="seller" value={of ?? ''} />
  </label>
);

/** Whose something is; where there is one seller only, nobody has to choose. */
export const SellerChoice: FC<{ of: readonly string[] }> = ({ of }) => (
  <label>
    Seller
    <select name="seller" required>
      {of.length === 1 ? null : <option value="">choose</option>}
      {of.map((name) => (
        <option value={name}>{name}</option>
      ))}
    </select>
  </label>
);

/** A value of a field as text; lists are joined. */
export function valueText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A change in percent, with its sign. */
export const Percent: FC<{ of: number }> = ({ of }) => (
  <span class={of < 0 ? 'down' : 'up'}>{`${of > 0 ? '+' : ''}${of.toFixed(1)} %`}</span>
);
