import type { Child, FC } from 'hono/jsx';
import { maskCode } from '../domain/secret.js';
import { listingChunks } from '../reporting/export.js';
import {
  columnsFor,
  type FilterValues,
  type Listing,
  type ListingColumn,
  type ListingFilter,
  pagesOf,
  stateWord,
  toneOf,
  type Value,
  type ValueType,
  wordOf,
} from '../listing/listing.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  isOperator,
  isViewer,
  Problem,
} from './context.js';
import { checkRoom, csvDialectOf, Downloads, formatOf, sendFile } from './downloads.js';
import { capital, printable } from './format.js';
import { count, duration } from '../domain/text.js';
import { page } from './layout.js';
import {
  Ago,
  Choice,
  type Column,
  type Fact,
  Filter,
  Moment,
  Percent,
  SellerLink,
  Sentence,
  State,
  Table,
  Untrusted,
  WebLink,
  withoutCommands,
} from './parts.js';
import { oneOf, parseDay, parseNumber } from './query.js';

const PAGE_SIZE = 25;
/** Rows that match are counted up to this. */
const MAX_COUNT = 10_000;
/** Rows per query of a download. */
const BATCH_SIZE = 2_000;

/** What a page adds to its list. */
export interface ListingParts<Row = never> {
  /** Of the page; by default the listing's name. */
  readonly title?: string;
  /** Buttons beside the title. */
  readonly actions?: (c: DashboardContext) => Child;
  /** What stands above the list. */
  readonly above?: (c: DashboardContext) => Child;
  /** What an operator can do about a row. */
  readonly buttonsOf?: (c: DashboardContext, row: Row) => Child;
}

/** Serves a listing: `/NAME` with filters and pages, and all rows that match as `/NAME.csv`, `.xlsx` and `.parquet`. */
export function addListing<Row, Source>(
  app: Dashboard,
  parts: Pick<DashboardParts, 'config' | 'mirror'>,
  original: Listing<Row, Source>,
  source: Source,
  { actions, above, title, buttonsOf }: ListingParts<Row> = {},
): void {
  const { name, about, filters } = original;

  app.get(`/${name}`, async (c) => {
    const listing = { ...original, columns: shownTo(c, original.columns) };
    const chosen = filtersOf(c, filters);
    const from = parseNumber(c.req.query('from'));
    const before = Number(parseNumber(c.req.query('before')) ?? 0n);
    const [rows, total, isOneSeller] = await Promise.all([
      listing.read(source, chosen, { from, limit: PAGE_SIZE + 1, face: 'tables' }),
      listing.count(source, chosen, MAX_COUNT + 1),
      hasOneSeller(parts),
    ]);
    const shown = rows.slice(0, PAGE_SIZE);
    // One more row was read, which says whether there is a next page.
    const last = rows.length > PAGE_SIZE ? shown.at(-1) : undefined;
    const query = new URL(c.req.url).searchParams;
    for (const one of ['from', 'before', 'notice']) query.delete(one);
    const end = before + shown.length;
    const next = last === undefined ? null : listing.next(last, BigInt(end));
    const isFiltered = from !== null || Object.keys(chosen).length > 0;
    return page(
      c,
      {
        title: title ?? capital(wordOf(name)),
        lead: about,
        actions: (
          <>
            {total === 0 ? null : (
              <Downloads
                of={wordOf(name)}
                path={`/${name}`}
                query={query}
                rows={shownCount(total)}
              />
            )}
            {actions?.(c)}
          </>
        ),
      },
      <>
        {above?.(c)}
        {total === 0 && !isFiltered ? null : (
          <Filter>
            {filters.map((filter) =>
              filter.type === 'seller' && isOneSeller ? null : (
                <FilterField of={filter} value={c.req.query(filter.name)} listing={name} />
              ),
            )}
          </Filter>
        )}
        <ListingTable
          listing={listing}
          rows={shown}
          isFiltered={isFiltered}
          buttonsOf={isOperator(c) && buttonsOf ? (row) => buttonsOf(c, row) : undefined}
          hide={isOneSeller ? listing.columns.filter(isOfSeller).map((one) => one.name) : []}
        />
        <nav class="pages" aria-label="Pages">
          {shown.length === 0 ? null : (
            <span class="muted">{placeOf(before, shown.length, total, next === null)}</span>
          )}
          {from === null ? null : <a href={`/${name}?${query.toString()}`}>First</a>}
          {next === null ? null : (
            <a href={`/${name}?${nextQuery(query, next, end)}`} rel="next">
              Next
            </a>
          )}
        </nav>
      </>,
    );
  });

  app.get(`/:file{${name}\\.[a-z]+}`, async (c) => {
    const format = formatOf(c.req.param('file')?.split('.')[1]);
    if (format === undefined) {
      throw new Problem(
        'File not found',
        `Download it from the page ${capital(wordOf(name))}.`,
        404,
      );
    }
    const listing = { ...original, columns: shownTo(c, original.columns) };
    const chosen = filtersOf(c, filters);
    await checkRoom(format, () => listing.count(source, chosen, Number.MAX_SAFE_INTEGER));
    return sendFile(c, name, format, async (write) => {
      const rows = pagesOf(listing, source, chosen, { face: 'files', size: BATCH_SIZE });
      for await (const chunk of listingChunks(listing, rows, format, csvDialectOf(c))) {
        await write(chunk);
      }
    });
  });
}

/** Whether no second seller is configured or in the store. */
export async function hasOneSeller({
  config,
  mirror,
}: Pick<DashboardParts, 'config' | 'mirror'>): Promise<boolean> {
  const stored = await mirror.seller.findMany({ select: { sellerId: true }, take: 2 });
  const names = [...config.sellers.map((one) => one.name), ...stored.map((one) => one.sellerId)];
  return new Set(names).size < 2;
}

function isOfSeller({ type }: { readonly type: ValueType }): boolean {
  return type === 'seller';
}

function shownCount(total: number): string {
  return total > MAX_COUNT ? `more than ${count(MAX_COUNT)}` : count(total);
}

/** `1 to 25 of 198`. A page whose lines stand for many rows says only how many rows there are. */
function placeOf(before: number, shown: number, total: number, isLast: boolean): string {
  const end = before + shown;
  const all = shownCount(total);
  return isLast && total > end
    ? `${all} in all`
    : `${count(before + 1)} to ${count(end)} of ${all}`;
}

/** @param before rows before the next page */
function nextQuery(query: URLSearchParams, from: bigint, before: number): string {
  const next = new URLSearchParams(query);
  next.set('from', String(from));
  next.set('before', String(before));
  return next.toString();
}

/** Columns as this reader may see them: for viewers, what may contain a purchase code is masked. */
export function shownTo<Row>(
  c: DashboardContext,
  columns: readonly ListingColumn<Row>[],
): readonly ListingColumn<Row>[] {
  if (!isViewer(c)) return columns;
  return columns.map((column) =>
    column.type === 'secret'
      ? { ...column, value: (row) => maskCode(String(column.value(row) ?? '')) }
      : column,
  );
}

const FilterField: FC<{ of: ListingFilter; value: string | undefined; listing: string }> = ({
  of,
  value = '',
  listing,
}) => {
  const { name, type, choices = [] } = of;
  const label = capital(wordOf(name));
  if (type === 'choice' || type === 'order') {
    const all = type === 'choice' ? 'all' : null;
    return <Choice name={name} label={label} of={choices} chosen={value} all={all} />;
  }
  if (type === 'flag') {
    return (
      <label class="check">
        <input name={name} type="checkbox" value="yes" checked={value === 'yes'} />
        {`${label} ${listing}`}
      </label>
    );
  }
  const kind = { text: 'search', seller: 'text', number: 'text', since: 'date', until: 'date' }[
    type
  ];
  return (
    <label>
      {label}
      <input
        name={name}
        type={kind}
        inputmode={type === 'number' ? 'numeric' : undefined}
        size={type === 'number' ? 8 : undefined}
        value={value}
      />
    </label>
  );
};

/** @throws {Problem} when a number or a day can't be read */
function filtersOf(c: DashboardContext, filters: readonly ListingFilter[]): FilterValues {
  const chosen = filters.flatMap((filter) => {
    const text = (c.req.query(filter.name) ?? '').trim().slice(0, MAX_FILTER_CHARS);
    const value = text === '' ? undefined : filterValue(filter, text);
    return value === undefined ? [] : [[filter.name, value] as const];
  });
  return Object.fromEntries(chosen);
}

const MAX_FILTER_CHARS = 200;

function filterValue(
  { name, type, choices = [] }: ListingFilter,
  text: string,
): string | undefined {
  switch (type) {
    case 'choice':
    case 'order':
      return oneOf(choices, text);
    case 'flag':
    case 'seller':
    case 'text':
      return text;
    case 'number':
      if (parseNumber(text) !== null) return text;
      throw new Problem(`${capital(name)} is a number`, 'Write it with digits only.');
    case 'since':
    case 'until': {
      const start = parseDay(text);
      if (start === null) throw new Problem('There is no such day', 'Write a day as 2026-11-23.');
      return (type === 'since' ? start : new Date(`${text}T23:59:59.999`)).toISOString();
    }
  }
}

/** The rows of a listing as a table. @param hide names of columns that all rows share */
export function ListingTable<Row>({
  listing,
  rows,
  isFiltered = false,
  hide = [],
  buttonsOf,
}: {
  listing: Pick<Listing<Row, never>, 'name' | 'none' | 'columns'>;
  rows: readonly Row[];
  isFiltered?: boolean;
  hide?: readonly string[];
  buttonsOf?: ((row: Row) => Child) | undefined;
}) {
  const { name, none } = listing;
  const columns = columnsFor(listing, 'tables').filter(
    (column) => !hide.includes(column.name) && !saysNothing(column, rows),
  );
  const lead = columns.find(({ type }) => type === 'text' || type === 'secret') ?? columns[0];
  return (
    <Table
      caption={capital(wordOf(name))}
      flows="two lines"
      rows={rows}
      empty={isFiltered ? `No ${wordOf(name)} match the filter.` : <Sentence text={none} />}
      columns={[
        ...columns.map((column): Column<Row> => {
          const isLead = column === lead;
          return { ...columnOf(column, isLead ? linkOf(name, columns) : null), isLead };
        }),
        ...(buttonsOf === undefined ? [] : [{ name: 'Action', cell: buttonsOf }]),
      ]}
    />
  );
}

/** Whether a column of several rows has no values, only zeros, or one state that is good. */
function saysNothing<Row>({ type, value }: ListingColumn<Row>, rows: readonly Row[]): boolean {
  if (rows.length < 2) return false;
  const [first, ...others] = new Set(rows.map((row) => String(value(row) ?? '')));
  if (first === undefined || others.length > 0) return false;
  return first === '' || (type === 'count' && first === '0') || (type === 'state' && isGood(first));
}

function isGood(state: string): boolean {
  return toneOf(state) === 'good';
}

/** Types whose digits are aligned. */
const NUMBERS: readonly ValueType[] = ['count', 'milliseconds', 'percent', 'money'];
/** The tooltip of a name shows this much. */
const MAX_TITLE_CHARS = 240;

type Link<Row> = NonNullable<ListingColumn<Row>['link']>;

/** What leads from a row to its own page; null if it has none. */
function linkOf<Row>(path: string, columns: readonly ListingColumn<Row>[]): Link<Row> | null {
  const id = columns.find(({ type }) => type === 'id');
  return id === undefined ? null : (id.link ?? ((row) => `/${path}/${String(id.value(row))}`));
}

/** @param lead of a column that leads to the row's page */
function columnOf<Row>(column: ListingColumn<Row>, lead: Link<Row> | null): Column<Row> {
  const { name, type, link = lead } = column;
  return {
    name: capital(wordOf(name)),
    isNumber: NUMBERS.includes(type),
    isLabelled: type === 'id',
    cell: (row) => linked(column, row, link?.(row) ?? null),
  };
}

/** The classes of links. */
const CLASSES: { readonly [Type in ValueType]?: string } = { text: 'name', secret: 'code' };

function linked<Row>({ type, value }: ListingColumn<Row>, row: Row, href: string | null): Child {
  const shown = value(row);
  const cell = <Cell of={shown} type={type} />;
  if (href === null) return cell;
  const title = printable(String(shown)).slice(0, MAX_TITLE_CHARS);
  return (
    <a class={CLASSES[type]} href={href} title={type === 'text' ? title : undefined}>
      {cell}
    </a>
  );
}

/** The values of one row with their names. */
export function factsOf<Row>(columns: readonly ListingColumn<Row>[], row: Row): Fact[] {
  return columns.map((column) => {
    const { name, type, value, link } = column;
    const label = capital(wordOf(name));
    const shown = value(row);
    if (shown instanceof Date) return [label, <Moment at={shown} />];
    if (type === 'long text') return [label, <Untrusted text={String(shown)} isWhole />];
    return [label, linked(column, row, link?.(row) ?? null)];
  });
}

/** A value in the form of its type. */
export const Cell: FC<{ of: Value; type: ValueType }> = ({ of, type }): Child => {
  if (of === null) return <span class="muted">–</span>;
  if (of instanceof Date) return <Ago at={of} />;
  if (typeof of === 'object') {
    if (type !== 'web') return <Untrusted text={of.join(', ')} />;
    return (
      <ul class="plain">
        {of.map((url) => (
          <li>
            <WebLink url={url} />
          </li>
        ))}
      </ul>
    );
  }
  switch (type) {
    case 'seller':
      return <SellerLink name={String(of)} />;
    case 'state':
      // Only what differs from the usual is marked.
      return isGood(String(of)) ? stateWord(String(of)) : <State of={String(of)} />;
    case 'count':
      return BigInt(of) === 0n ? <span class="muted">0</span> : count(BigInt(of));
    case 'percent':
      return <Percent of={Number(of)} />;
    case 'milliseconds':
      return duration(Number(of));
    case 'id':
    case 'number':
    case 'word':
    case 'moment':
    case 'money':
      return String(of);
    case 'text':
    case 'texts':
    case 'secret':
      return <Untrusted text={String(of)} isCut />;
    case 'sentence':
      return <Untrusted text={withoutCommands(String(of))} isCut />;
    case 'long text':
      return <Untrusted text={String(of)} />;
    case 'web':
      return <WebLink url={String(of)} />;
    case 'record':
      return (
        <details>
          <summary>Show</summary>
          <pre>{printable(indented(String(of)).slice(0, MAX_RECORD_CHARS))}</pre>
        </details>
      );
  }
};

/** Longer records are cut off. */
const MAX_RECORD_CHARS = 20_000;

/** JSON on lines of its own for each member; other text as it is. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
