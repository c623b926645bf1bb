import type { Child, FC } from 'hono/jsx';
import { PLAIN_CSV } from '../domain/csv.js';
import { exportChunks } from '../reporting/export.js';
import type { FilterValues, Listing, ListingColumn } from '../listing/listing.js';
import type { Db } from '../db/db.js';
import type { TextRow } from '../db/text-cursor.js';
import type { Dashboard, DashboardContext, DashboardParts } from './context.js';
import { csvDialectOf, Downloads, sendFile } from './downloads.js';
import { capital, count, duration } from './format.js';
import { page } from './layout.js';
import {
  Ago,
  Choice,
  type Column,
  Filter,
  Pages,
  SellerField,
  SellerLink,
  Sentence,
  splitPage,
  State,
  Table,
  Untrusted,
  without,
} from './parts.js';
import { oneOf, parseNumber } from './query.js';

const PAGE_SIZE = 50;
/** Rows per query of a download. */
const BATCH_SIZE = 2_000;

/** Serves a listing: `/NAME` with filters and pages, and `/NAME.csv` with all rows that match. */
export function addListing<Row>(
  app: Dashboard,
  { db }: Pick<DashboardParts, 'db'>,
  listing: Listing<Row, Db>,
): void {
  const { name, about, filters } = listing;

  app.get(`/${name}`, async (c) => {
    const chosen = filtersOf(c, listing);
    const before = parseNumber(c.req.query('before'));
    const rows = await listing.read(db, chosen, { before, limit: PAGE_SIZE + 1 });
    const { shown, last } = splitPage(rows, PAGE_SIZE);
    const query = new URLSearchParams(without(new URL(c.req.url).searchParams, 'before'));
    return page(
      c,
      {
        title: capital(name),
        lead: about,
        actions: <Downloads of={name} path={`/${name}`} query={query} as={['csv', 'csv-comma']} />,
      },
      <>
        <Filter>
          {filters.map(({ name: filter, choices }) => (
            <Choice name={filter} label={capital(filter)} of={choices} chosen={chosen[filter]} />
          ))}
          <SellerField value={chosen.seller} />
        </Filter>
        <ListingTable
          listing={listing}
          rows={shown}
          isFiltered={before !== null || Object.keys(chosen).length > 0}
        />
        <Pages
          url={c.req.url}
          by="before"
          next={last === undefined ? null : listing.numberOf(last)}
        />
      </>,
    );
  });

  app.get(`/${name}.csv`, (c) => {
    const chosen = filtersOf(c, listing);
    const columns = listing.columns.map((column) => ({
      name: column.name,
      type: SQL_TYPES[column.type] ?? 'text',
    }));
    return sendFile(c, name, 'csv', async (write) => {
      const batches = batchesOf(db, listing, chosen);
      const form = { raw: false, dialect: csvDialectOf(c) ?? PLAIN_CSV };
      for await (const chunk of exportChunks({ columns, batches }, 'csv', form)) await write(chunk);
    });
  });
}

const SQL_TYPES: Readonly<Record<string, string>> = {
  id: 'bigint',
  count: 'bigint',
  milliseconds: 'bigint',
  moment: 'timestamp with time zone',
};

function filtersOf<Row>(c: DashboardContext, { filters }: Listing<Row, Db>): FilterValues {
  const chosen = filters.flatMap(({ name, choices }) => {
    const value = oneOf(choices, c.req.query(name));
    return value === undefined ? [] : [[name, value] as const];
  });
  const seller = c.req.query('seller');
  return { ...Object.fromEntries(chosen), ...(seller ? { seller } : {}) };
}

/** Yields all matching rows in PostgreSQL's text form. */
async function* batchesOf<Row>(
  db: Db,
  listing: Listing<Row, Db>,
  filters: FilterValues,
): AsyncGenerator<readonly TextRow[], void, undefined> {
  for (let before: bigint | null = null; ;) {
    const rows: Row[] = await listing.read(db, filters, { before, limit: BATCH_SIZE });
    yield rows.map((row) => listing.columns.map(({ value }) => textOf(value(row))));
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH_SIZE) return;
    before = listing.numberOf(last);
  }
}

function textOf(value: string | number | bigint | Date | null): string | null {
  if (value instanceof Date) return value.toISOString().replace('T', ' ').replace('Z', '+00');
  return value === null ? null : String(value);
}

/** The rows of a listing as a table. Rows link to their own page. */
export function ListingTable<Row>({
  listing,
  rows,
  isFiltered = false,
}: {
  listing: Listing<Row, Db>;
  rows: readonly Row[];
  isFiltered?: boolean;
}) {
  return (
    <Table
      caption={capital(listing.name)}
      flows
      rows={rows}
      empty={isFiltered ? `No ${listing.name} match the filter.` : <Sentence text={listing.none} />}
      columns={listing.columns.map((column): Column<Row> => columnOf(listing.name, column))}
    />
  );
}

function columnOf<Row>(path: string, { name, type, value }: ListingColumn<Row>): Column<Row> {
  const isNumber = type === 'count' || type === 'milliseconds';
  return {
    name: capital(name),
    isNumber,
    cell: (row) => <Cell of={value(row)} type={type} path={path} />,
  };
}

/** A value in the form of its type. */
const Cell: FC<{
  of: string | number | bigint | Date | null;
  type: ListingColumn<unknown>['type'];
  path: string;
}> = ({ of, type, path }): Child => {
  if (of === null) return <span class="muted">–</span>;
  if (of instanceof Date) return <Ago at={of} />;
  switch (type) {
    case 'id':
      return <a href={`/${path}/${of}`}>{String(of)}</a>;
    case 'seller':
      return <SellerLink name={String(of)} />;
    case 'state':
      return <State of={String(of)} />;
    case 'count':
      return count(BigInt(of));
    case 'milliseconds':
      return Number(of) < 1_000 ? `${of} ms` : duration(Number(of));
    case 'word':
    case 'moment':
      return String(of);
    case 'sentence':
      return <Untrusted text={String(of)} />;
  }
};
