import { stateWord, type Tone, toneOf } from '../listing/listing.js';
import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import { moment, printable, utc } from './format.js';
import { age, count } from '../domain/text.js';
import { Icon } from './icons.js';

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
          ends at <Moment at={new Date(endsAt)} />
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
