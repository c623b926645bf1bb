import { Option, type Command } from 'commander';
import type { App } from '../app.js';
import type { Db } from '../db/db.js';
import {
  columnsFor,
  type FilterValues,
  type Listing,
  type ListingColumn,
  pagesOf,
  stateWord,
  type Tone,
  toneOf,
  type Value,
  type ValueType,
} from '../listing/listing.js';
import { moment } from '../domain/moment.js';
import { listingChunks } from '../reporting/export.js';
import { print, printPaged, stdoutLook } from './console.js';
import { appAction } from './execute.js';
import {
  assertSeller,
  describeCommand,
  parseMoment,
  positiveInteger,
  type CommonOptions,
  type TableOptions,
} from './options.js';
import { csvDialect } from './out-file.js';
import { json, ndjsonLine, withColumnNames } from './output/formats.js';
import { table, type TableCell, type TableColumn, type TableForm } from './output/table.js';
import { cut, type Look, momentCell, safeLine, type Style } from './output/text.js';
import { count, age, duration } from '../domain/text.js';
import { writeAll } from './output/write.js';
import { withRunnableCommands } from './own-command.js';
import { formatOf, formatOption, forStdout, type FormatOptions } from './rows.js';

/** The options that `describeListing` adds. */
export type ListingOptions = CommonOptions &
  TableOptions &
  FormatOptions & { readonly limit?: number } & Readonly<Record<string, unknown>>;

/** Rows that people read at once, unless --limit says how many. */
const LIMIT = 20;

/**
 * Makes a command print a listing: adds its options and help, and the action.
 * @param about.check refuses filters, before anything is read
 */
export function addListing<Row extends object>(
  command: Command,
  listing: Listing<Row, Db>,
  about: Parameters<typeof describeCommand>[1] & {
    readonly limit?: number;
    readonly check?: (app: App, options: ListingOptions) => Promise<void>;
  },
): void {
  const { name, filters } = listing;
  for (const { name: filter, about: only, type, choices } of filters) {
    if (type === 'seller') continue;
    const option = new Option(
      type === 'flag' ? `--${filter}` : `--${filter} <${filter}>`,
      type === 'order' ? only : `only ${only}`,
    );
    if (choices !== undefined) option.choices(choices);
    if (type === 'number') option.argParser(positiveInteger);
    if (type === 'since' || type === 'until') option.argParser(parseMoment);
    command.addOption(option);
  }
  const { limit = LIMIT, check, options = [] } = about;
  const most = new Option('--limit <n>', 'how many at most').argParser(positiveInteger);
  describeCommand(command, {
    ...about,
    options: [
      ...options,
      limit === Infinity ? most : most.default(limit),
      formatOption(`how to print the ${name} (default: table)`),
      ...(['decimalComma', 'json', 'seller', 'vertical', 'pager'] as const),
    ],
  }).action(
    appAction('store', async (app, chosen: ListingOptions) => {
      await assertSeller(app, chosen.seller);
      await check?.(app, chosen);
      await printListing(app, listing, chosen);
    }),
  );
}

/** What the options select. */
function filtersIn<Row>({ filters }: Listing<Row, Db>, options: ListingOptions): FilterValues {
  const chosen = filters.flatMap(({ name, type }) => {
    const value: unknown =
      options[name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase())];
    if (value instanceof Date) return [[name, value.toISOString()] as const];
    if (value === true && type === 'flag') return [[name, 'yes'] as const];
    return typeof value === 'string' || typeof value === 'number'
      ? [[name, String(value)] as const]
      : [];
  });
  return Object.fromEntries(chosen);
}

/** Rows per query. A table gets a new header after so many. */
const PAGE_ROWS = 500;

/** Prints the rows of a listing as a table, CSV, JSON or NDJSON. */
async function printListing<Row extends object>(
  { db }: Pick<App, 'db'>,
  listing: Listing<Row, Db>,
  options: ListingOptions,
): Promise<void> {
  const filters = filtersIn(listing, options);
  const format = formatOf(options);
  const { limit = Infinity } = options;
  const pages = pagesOf(listing, db, filters, {
    face: format === 'table' ? 'tables' : 'files',
    size: PAGE_ROWS,
    limit,
  });
  const dialect = csvDialect(options, format);
  if (format !== 'table') {
    const rows =
      format === 'csv'
        ? forStdout(listingChunks(listing, pages, 'csv', dialect))
        : LINES[format](pages, listing.json ?? ((row) => row));
    await writeAll(process.stdout, rows);
    return;
  }
  const first = await pages.next();
  if (first.done === true) {
    const isFiltered = Object.keys(filters).length > 0;
    await print(isFiltered ? `No ${listing.name} match the filter.\n` : `${listing.none}\n`);
    return;
  }
  await printPaged(tables(listing, first.value, pages, options), options);
}

/** Writes rows as JSON. @param jsonOf what JSON has of a row */
const LINES = {
  async *json<Row>(pages: AsyncIterable<readonly Row[]>, jsonOf: (row: Row) => object) {
    let before = '[';
    for await (const rows of pages) {
      yield before + json(withColumnNames(rows.map(jsonOf))).slice('['.length, -'\n]\n'.length);
      before = ',';
    }
    yield before === '[' ? '[]\n' : '\n]\n';
  },

  async *ndjson<Row>(pages: AsyncIterable<readonly Row[]>, jsonOf: (row: Row) => object) {
    for await (const rows of pages) {
      yield rows.map((row) => ndjsonLine(withColumnNames(jsonOf(row)))).join('');
    }
  },
};

async function* tables<Row>(
  listing: Listing<Row, Db>,
  first: readonly Row[],
  others: AsyncIterable<readonly Row[]>,
  options: TableOptions,
): AsyncGenerator<string> {
  yield listingTable(listing, first, options);
  let before = first.length;
  for await (const rows of others) {
    yield listingTable(listing, rows, { ...options, first: before + 1 });
    before += rows.length;
  }
}

/** Formats rows of a listing as a table, on a terminal without the seller if all have the same. */
export function listingTable<Row>(
  listing: Pick<Listing<Row, Db>, 'columns'>,
  rows: readonly Row[],
  { vertical, first = 1 }: TableOptions & Pick<TableForm, 'first'> = {},
): string {
  const look = stdoutLook();
  const columns = columnsFor(listing, 'tables').filter((column) => !isSame(column, rows, look));
  return table(rows, columns.map(tableColumn(look)), look, {
    vertical,
    first,
    isWhole: vertical === true,
  });
}

/** True for the column of the seller, if all rows on a terminal are of one. */
function isSame<Row>(
  { type, value }: ListingColumn<Row>,
  rows: readonly Row[],
  look: Look,
): boolean {
  return type === 'seller' && look.columns !== null && new Set(rows.map(value)).size === 1;
}

const STYLES: Readonly<Record<Tone, Style | null>> = {
  good: 'green',
  warn: 'yellow',
  bad: 'red',
  busy: null,
  quiet: null,
};

/** The colour of a state at the terminal. */
export function styleOf(state: string): Style | null {
  return STYLES[toneOf(state)];
}

function tableColumn(look: Look) {
  return <Row>({ name, type, value }: ListingColumn<Row>): TableColumn<Row> => ({
    header: name,
    isNote: type === 'sentence' || type === 'long text' || type === 'record',
    ...(type === 'milliseconds' || type === 'money' ? { align: 'right' } : {}),
    ...(type === 'state' ? { style: (row: Row) => styleOf(String(value(row))) } : {}),
    value: (row) => cellOf(value(row), type, look),
  });
}

/** The values of one row for `pairs`, without those that are unknown. */
export function fieldsOf<Row>(
  columns: readonly ListingColumn<Row>[],
  row: Row,
  now: Date,
): (readonly [string, TableCell])[] {
  return columns.flatMap(({ name, type, value }) => {
    const shown = value(row);
    if (shown === null) return [];
    if (type === 'count') return [[name, count(BigInt(String(shown)))] as const];
    if (shown instanceof Date) return [[name, `${moment(shown)}, ${age(shown, now)}`] as const];
    return [[name, cellOf(shown, type, { columns: null })] as const];
  });
}

/** Longer records of the marketplace are cut. */
const RECORD_COLUMNS = 200;

/** A value in the form of its type. */
export function cellOf(value: Value, type: ValueType, look: Pick<Look, 'columns'>): TableCell {
  if (value === null) return '';
  if (value instanceof Date) return momentCell(value, new Date(), look);
  if (typeof value === 'object') return value.join(', ');
  switch (type) {
    case 'percent':
      return `${value} %`;
    case 'milliseconds':
      return duration(Number(value));
    case 'state':
      return stateWord(String(value));
    case 'sentence':
      return withRunnableCommands(String(value));
    case 'record':
      return cut(safeLine(String(value)), RECORD_COLUMNS);
    default:
      return value;
  }
}
