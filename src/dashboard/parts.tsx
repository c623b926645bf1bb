import { stateWord, type Tone, toneOf } from '../listing/listing.js';
import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import { moment, printable, utc, whenText } from './format.js';
import { age, count } from '../domain/text.js';

/** A count in a table; zeros are muted. */
const Count: FC<{ of: number }> = ({ of }) =>
  of === 0 ? <span class="muted">0</span> : <>{count(of)}</>;

/** An age such as `6 h ago` or `in 2 min`; the tooltip shows the exact time in UTC. */
export const Ago: FC<{ at: Date | null; none?: string }> = ({ at, none = 'never' }) => {
  if (at === null) return <span class="muted">{none}</span>;
  return (
    <time datetime={at.toISOString()} title={utc(at)} data-ago>
      {age(at, new Date())}
    </time>
  );
};

/** An exact time. The page's script shows it in the reader's zone; the tooltip is in UTC. */
export const Moment: FC<{ at: Date | null; none?: string }> = ({ at, none = '–' }) =>
  at === null ? (
    <span class="muted">{none}</span>
  ) : (
    <time datetime={at.toISOString()} title={utc(at)}>
      {moment(at)}
    </time>
  );

/** A time as people say it: `today, 07:33` or `21 Nov`. The page’s script shows it in the reader’s zone. */
export const When: FC<{ at: Date; form?: 'day' | 'minute' | 'second' }> = ({
  at,
  form = 'minute',
}) => (
  <time datetime={at.toISOString()} title={utc(at)} data-when={form}>
    {whenText(at, form, new Date())}
  </time>
);

/** A state as a coloured label. */
export const State: FC<{ of: string; tone?: Tone }> = ({ of, tone }) => (
  <span class={`state ${tone ?? toneOf(of)}`}>{stateWord(of)}</span>
);

/** A titled section of a page. */
export const Section: FC<
  PropsWithChildren<{ title: string; id?: string; note?: Child; actions?: Child }>
> = ({ title, id = slug(title), note, actions, children }) => (
  <section aria-labelledby={id}>
    <div class="section-head">
      <h2 id={id}>{title}</h2>
      {note === undefined ? null : <p class="muted">{note}</p>}
      {actions}
    </div>
    {children}
  </section>
);

function slug(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, '-');
}

/** A column of a `Table`. */
export type Column<Row> = {
  readonly name: string;
  /** Aligns digits to the right. Implies `isLabelled`. */
  readonly isNumber?: boolean;
  /** Shows the column's name before each value where the table flows. */
  readonly isLabelled?: boolean;
  /** Hidden on phones. */
  readonly isMinor?: boolean;
  /** What the row is about: on phones it leads the two lines of a list’s row. */
  readonly isLead?: boolean;
} & ({ readonly cell: (row: Row) => Child } | { readonly count: (row: Row) => number });

interface TableProps<Row> {
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  /** Shown without rows. */
  empty?: Child;
  /** Shows each row as a paragraph on phones, or as two lines, for tables too wide for them. */
  flows?: boolean | 'two lines';
  /** A last row with a cell for each column. */
  total?: readonly Child[];
}

const TABLE_CLASSES: Readonly<Record<string, string>> = {
  false: 'table',
  true: 'table flows',
  'two lines': 'table flows two-lines',
};

/** A table. Without rows: `empty`, or nothing. @param caption for screen readers */
export function Table<Row>({
  caption,
  columns,
  rows,
  empty,
  flows = false,
  total,
}: TableProps<Row> & { caption: string }) {
  if (rows.length === 0) return empty === undefined ? null : <Empty>{empty}</Empty>;
  const cells = columns.map((column) => {
    const { name, isMinor, isLead, isLabelled = false } = column;
    const isNumber = column.isNumber === true || 'count' in column;
    return {
      name,
      kind: [isNumber && 'figure', isMinor && 'minor', isLead && 'lead'].filter(Boolean).join(' '),
      label: flows !== false && (isNumber || isLabelled) ? name : undefined,
      cell: (row: Row) => ('count' in column ? <Count of={column.count(row)} /> : column.cell(row)),
    };
  });
  return (
    <div class={TABLE_CLASSES[String(flows)]} tabindex={0} role="group" aria-label={caption}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {cells.map(({ name, kind }) => (
              <th scope="col" class={kind || undefined}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {cells.map(({ kind, label, cell }) => (
                <td class={kind || undefined} data-name={label}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {total === undefined ? null : (
          <tfoot>
            <tr>
              {cells.map(({ kind }, n) => (
                <td class={kind || undefined}>{total[n]}</td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}

/** A section with a table. Without rows and `empty`: nothing. */
export function TableSection<Row>({
  title,
  note,
  actions,
  ...table
}: TableProps<Row> & { title: string; note?: Child; actions?: Child }) {
  if (table.rows.length === 0 && table.empty === undefined) return null;
  return (
    <Section title={title} note={note} actions={actions}>
      <Table caption={title} {...table} />
    </Section>
  );
}

/** Says why a place is empty, and what fills it. */
export const Empty: FC<PropsWithChildren> = ({ children }) => <p class="empty">{children}</p>;

/** A bulleted list of untrusted texts. */
export const Lines: FC<{ of: readonly string[] }> = ({ of }) => (
  <ul class="lines">
    {of.map((text) => (
      <li>
        <Untrusted text={text} isWhole />
      </li>
    ))}
  </ul>
);

/** A chart with its data in a table that can be expanded. */
export const ChartWithTable: FC<{ chart: Child; table: Child }> = ({ chart, table }) => (
  <div class="chart-box">
    {chart}
    <details>
      <summary>Show as a table</summary>
      {table}
    </details>
  </div>
);

/** Key figures in a row. */
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

/** A line of `Facts`. */
export type Fact = readonly [name: string, value: Child];

/** Names with values, one per line. Skips nulls. */
export const Facts: FC<{ of: readonly (Fact | null)[] }> = ({ of }) => (
  <dl class="facts">
    {of.map((fact) =>
      fact === null ? null : (
        <>
          <dt>{fact[0]}</dt>
          <dd>{fact[1]}</dd>
        </>
      ),
    )}
  </dl>
);

/** A progress bar, updated live by the page's script. @param id as in `LiveBar` */
export const Bar: FC<{
  id: string;
  label: string;
  done: number;
  total: number | null;
  text: string;
  endsAt?: string | null;
}> = ({ id, label, done, total, text, endsAt = null }) => (
  <div class="bar" data-live={id}>
    {total === null ? (
      <progress aria-label={label}></progress>
    ) : (
      <progress aria-label={label} max={Math.max(1, total)} value={done}></progress>
    )}
    <span data-live-text>{text}</span>
    <span data-live-end>
      {endsAt === null ? null : (
        <>
          ends <When at={new Date(endsAt)} />
        </>
      )}
    </span>
  </div>
);

/** Text with a copy button. The button needs JavaScript. */
export const Copyable: FC<{ text: string }> = ({ text }) => (
  <div class="copyable">
    <pre tabindex={0}>{text}</pre>
    <button type="button" data-copy>
      Copy
    </button>
  </div>
);

/** The form token that every posted form must carry. */
export const Token: FC<{ value: string }> = ({ value }) => (
  <input type="hidden" name="token" value={value} />
);

/** A button in its own form that posts to `action`. */
export const ActionButton: FC<
  PropsWithChildren<{
    action: string;
    token: string;
    fields?: Readonly<Record<string, string>>;
    isMain?: boolean;
  }>
> = ({ action, token, fields = {}, isMain = false, children }) => (
  <form method="post" action={action}>
    <Token value={token} />
    {Object.entries(fields).map(([name, value]) => (
      <input type="hidden" name={name} value={value} />
    ))}
    <button class={isMain ? 'main' : undefined}>{children}</button>
  </form>
);

/** Longer texts are cut off, unless shown whole. */
const MAX_TEXT_CHARS = 240;

/** Text from the marketplace or an upload: may be hostile, of any length and direction. */
export const Untrusted: FC<{
  text: string | null;
  none?: string;
  isWhole?: boolean;
  /** Takes at most two lines; the rest is in the tooltip. */
  isCut?: boolean;
}> = ({ text, none = '–', isWhole = false, isCut = false }) => {
  if (text === null || text === '') return <span class="muted">{none}</span>;
  const isShort = isWhole || text.length <= MAX_TEXT_CHARS;
  const shown = printable(isShort ? text : `${text.slice(0, MAX_TEXT_CHARS)}…`);
  return (
    <bdi class={isCut ? 'untrusted cut' : 'untrusted'} title={isCut ? shown : undefined}>
      {shown}
    </bdi>
  );
};

/** A text without its parts that name a command of this program: who reads a page has no terminal. */
export function withoutCommands(text: string): string {
  const parts = text.split(/(?<=[.;]) /).filter((part) => !/`(?:npx )?seller-mirror /.test(part));
  return (
    parts.join(' ').replace(/;$/, text.endsWith('.') ? '.' : '') ||
    'Somebody must look at it on the server.'
  );
}

/** A sentence whose text in backticks is shown as code. */
export const Sentence: FC<{ text: string }> = ({ text }) => (
  <>
    {printable(withoutCommands(text))
      .split('`')
      .map((part, n) => (n % 2 === 1 ? <code>{part}</code> : part))}
  </>
);

/** A link to a seller's page. */
export const SellerLink: FC<{ name: string }> = ({ name }) => (
  <a class="seller" href={`/sellers/${encodeURIComponent(name)}`} title={name}>
    {name}
  </a>
);

/** A link to an item's page. */
export const ItemLink: FC<{
  seller: string;
  item: bigint | number | string;
  name: string | null;
}> = ({ seller, item, name }) => (
  <a
    class="name"
    href={`/items/${encodeURIComponent(seller)}/${item}`}
    title={printable(name ?? '').slice(0, MAX_TEXT_CHARS)}
  >
    <Untrusted text={name?.trim() ? name : String(item)} />
  </a>
);

/** A link to an untrusted URL; plain text unless it is a web address. */
export const WebLink: FC<{ url: string }> = ({ url }) => {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return <Untrusted text={url} />;
  return (
    <a href={url} rel="noreferrer noopener nofollow" target="_blank">
      <Untrusted text={url} />
    </a>
  );
};

/** A form that filters a list through the URL's query. On phones, a button opens its fields. */
export const Filter: FC<PropsWithChildren> = ({ children }) => (
  <form class="filter" method="get">
    <button type="button" class="filter-button" popovertarget="fields">
      <Icon name="filter" /> Filters
    </button>
    <div id="fields" popover="auto">
      {children}
      <button>Filter</button>
    </div>
  </form>
);

/** A select of a filter. @param all what its first choice is called, without this filter; null: none */
export const Choice: FC<{
  name: string;
  label: string;
  of: readonly string[];
  chosen: string | undefined;
  all?: string | null;
}> = ({ name, label, of, chosen, all = 'all' }) => (
  <label>
    {label}
    <select name={name}>
      {all === null ? null : <option value="">{all}</option>}
      {of.map((value) => (
        <option value={value} selected={value === chosen}>
          {stateWord(value)}
        </option>
      ))}
    </select>
  </label>
);

/** A required choice of a seller; a single one is preselected. */
export const SellerSelect: FC<{ of: readonly string[] }> = ({ of }) => (
  <label>
    Seller
    <select name="seller" required>
      {of.length === 1 ? null : <option value="">Choose a seller</option>}
      {of.map((name) => (
        <option value={name}>{name}</option>
      ))}
    </select>
  </label>
);

/** A change in percent with its sign. */
export const Percent: FC<{ of: number }> = ({ of }) => (
  <span class={of < 0 ? 'down' : 'up'}>{`${of > 0 ? '+' : ''}${of.toFixed(1)} %`}</span>
);

/** Paths on a grid of 16 by 16, drawn with a stroke. */
const PATHS = {
  overview: 'M2 2.5h4.5v11H2zM9.5 2.5H14v4H9.5zM9.5 9.5H14v4H9.5z',
  check: 'M13.5 8v5.5h-11v-11H10M5.5 7.5 8 10l6-6.5',
  key: 'M5 8.5a2.75 2.75 0 1 0 0 5.5 2.75 2.75 0 0 0 0-5.5zM7 9.2 13.5 2.5M11 5l2 2',
  box: 'M8 1.8 14 5v6l-6 3.2L2 11V5zM2 5l6 3.2L14 5M8 8.2v6',
  changes: 'M2 5.5h11M10.5 3 13 5.5 10.5 8M14 10.5H3M5.5 8 3 10.5 5.5 13',
  chart: 'M1.5 13.5h13M3.5 11V8M8 11V3M12.5 11V6',
  runs: 'M13.5 8A5.5 5.5 0 0 1 3 10.3M2.5 8A5.5 5.5 0 0 1 13 5.7M13.5 2.5v3.3h-3.3M2.5 13.5v-3.3h3.3',
  system: 'M2 2.5h12v4.5H2zM2 9h12v4.5H2zM4.5 4.8h.01M4.5 11.3h.01',
  copy: 'M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  back: 'M10 3 5 8l5 5',
  menu: 'M2 4h12M2 8h12M2 12h12',
  filter: 'M2 4h12M4.5 8h7M6.5 12h3',
  share: 'M8 10V2M5 4.5 8 2l3 2.5M3.5 8v5.5h9V8',
  info: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.5V11M8 5h.01',
} as const;

type IconName = keyof typeof PATHS;

/** A small drawing in the colour of the text. The words beside it say what it means. */
export const Icon: FC<{ name: IconName }> = ({ name }) => (
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);
