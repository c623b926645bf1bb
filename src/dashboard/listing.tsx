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
  type Value,
  type ValueType,
} from '../listing/listing.js';
import type { Db } from '../db/db.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
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
  Pages,
  Percent,
  SellerField,
  SellerLink,
  Sentence,
  splitPage,
  State,
  Table,
  Untrusted,
  without,
} from './parts.js';
import { oneOf, parseDay, parseNumber } from './query.js';

const PAGE_SIZE = 50;
/** Rows per query of a download. */
const BATCH_SIZE = 2_000;

interface ListingParts {
  /** Of the page; by default the listing's name. */
  readonly title?: string;
  /** Buttons beside the title. */
  readonly actions?: (c: DashboardContext) => Child;
}

/** Serves a listing: `/NAME` with filters and pages, and all rows that match as `/NAME.csv`, `.xlsx` and `.parquet`. */
export function addListing<Row>(
  app: Dashboard,
  { db }: Pick<DashboardParts, 'db'>,
  original: Listing<Row, Db>,
  { actions, title }: ListingParts = {},
): void {
  const { name, about, filters } = original;

  app.get(`/${name}`, async (c) => {
    const listing = shownTo(c, original);
    const chosen = filtersOf(c, listing);
    const from = parseNumber(c.req.query('from'));
    const rows = await listing.read(db, chosen, { from, limit: PAGE_SIZE + 1, face: 'tables' });
    const { shown, last } = splitPage(rows, PAGE_SIZE);
    const query = new URLSearchParams(without(new URL(c.req.url).searchParams, 'from'));
    return page(
      c,
      {
        title: title ?? capital(name),
        lead: about,
        actions: (
          <>
            {actions?.(c)}
            <Downloads
              of={name}
              path={`/${name}`}
              query={query}
              as={['csv', 'csv-comma', 'xlsx', 'parquet']}
            />
          </>
        ),
      },
      <>
        <Filter>
          {filters.map((filter) => (
            <FilterField of={filter} value={c.req.query(filter.name)} listing={name} />
          ))}
          <SellerField value={chosen.seller} />
        </Filter>
        <ListingTable
          listing={listing}
          rows={shown}
          isFiltered={from !== null || Object.keys(chosen).length > 0}
        />
        <Pages
          url={c.req.url}
          next={last === undefined ? null : listing.next(last, (from ?? 0n) + BigInt(PAGE_SIZE))}
        />
      </>,
    );
  });

  app.get(`/:file{${name}\\.[a-z]+}`, async (c) => {
    const format = formatOf(c.req.param('file')?.split('.')[1]);
    if (format === undefined) {
      throw new Problem('File not found', `Download it from the page ${capital(name)}.`, 404);
    }
    const listing = shownTo(c, original);
    const chosen = filtersOf(c, listing);
    if (listing.count !== undefined)
      await checkRoom(format, () => listing.count?.(db, chosen) ?? 0);
    return sendFile(c, name, format, async (write) => {
      const rows = pagesOf(listing, db, chosen, { face: 'files', size: BATCH_SIZE });
      for await (const chunk of listingChunks(listing, rows, format, csvDialectOf(c))) {
        await write(chunk);
      }
    });
  });
}

/** For viewers: masks what may contain a purchase code, and leaves out what only operators may see. */
export function shownTo<Row>(c: DashboardContext, listing: Listing<Row, Db>): Listing<Row, Db> {
  if (!isViewer(c)) return listing;
  const columns = listing.columns.flatMap((column) => {
    const { type, forViewers } = column;
    if (forViewers === null) return [];
    if (forViewers !== undefined) return [{ ...column, value: forViewers }];
    if (type !== 'secret') return [column];
    return [{ ...column, value: (row: Row) => maskCode(String(column.value(row) ?? '')) }];
  });
  return { ...listing, columns };
}

const FilterField: FC<{ of: ListingFilter; value: string | undefined; listing: string }> = ({
  of,
  value = '',
  listing,
}) => {
  const { name, type, choices = [] } = of;
  const label = capital(name.replaceAll('-', ' '));
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
  const kind = { text: 'search', number: 'text', since: 'date', until: 'date' }[type];
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
function filtersOf<Row>(c: DashboardContext, { filters }: Listing<Row, Db>): FilterValues {
  const chosen = filters.flatMap((filter) => {
    const text = (c.req.query(filter.name) ?? '').trim().slice(0, MAX_FILTER_CHARS);
    const value = text === '' ? undefined : filterValue(filter, text);
    return value === undefined ? [] : [[filter.name, value] as const];
  });
  const seller = c.req.query('seller');
  return { ...Object.fromEntries(chosen), ...(seller ? { seller } : {}) };
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
  empty,
}: {
  listing: Pick<Listing<Row, Db>, 'name' | 'none' | 'columns'>;
  rows: readonly Row[];
  isFiltered?: boolean;
  hide?: readonly string[];
  empty?: string;
}) {
  const { name, none } = listing;
  const columns = columnsFor(listing, 'tables').filter((column) => !hide.includes(column.name));
  return (
    <Table
      caption={capital(name)}
      flows
      rows={rows}
      empty={isFiltered ? `No ${name} match the filter.` : <Sentence text={empty ?? none} />}
      columns={columns.map((column): Column<Row> => columnOf(name, column))}
    />
  );
}

/** Types whose digits are aligned. */
const NUMBERS: readonly ValueType[] = ['count', 'milliseconds', 'percent', 'money'];
/** The tooltip of a name shows this much. */
const MAX_TITLE_CHARS = 240;

function columnOf<Row>(path: string, column: ListingColumn<Row>): Column<Row> {
  const { name, type, value } = column;
  const link = type === 'id' ? (row: Row) => `/${path}/${String(value(row))}` : column.link;
  return {
    name: capital(name),
    isNumber: NUMBERS.includes(type),
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
    const { name, value, link } = column;
    const shown = value(row);
    const fact =
      shown instanceof Date ? <Moment at={shown} /> : linked(column, row, link?.(row) ?? null);
    return [capital(name), fact];
  });
}

/** A value in the form of its type. */
const Cell: FC<{ of: Value; type: ValueType }> = ({ of, type }): Child => {
  if (of === null) return <span class="muted">–</span>;
  if (of instanceof Date) return <Ago at={of} />;
  if (typeof of === 'object') return <Untrusted text={of.join(', ')} />;
  switch (type) {
    case 'seller':
      return <SellerLink name={String(of)} />;
    case 'state':
      return <State of={String(of)} />;
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
    case 'proof':
      return (
        <details>
          <summary>Show proof</summary>
          <Untrusted text={`${capital(String(of))}.`} isWhole />
        </details>
      );
    case 'text':
    case 'texts':
    case 'secret':
    case 'sentence':
      return <Untrusted text={String(of)} isCut />;
    case 'long text':
      return <Untrusted text={String(of)} />;
  }
};
