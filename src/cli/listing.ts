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
import { type Look, momentCell, type Style } from './output/text.js';
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

/** Adds the options of a listing, its help, and nothing else: the command's action calls `printListing`. */
export function describeListing<Row>(
  command: Command,
  { name, filters }: Listing<Row, Db>,
  about: Parameters<typeof describeCommand>[1] & { readonly limit?: number },
): Command {
  for (const { name: filter, about: only, type, choices } of filters) {
    const option = new Option(
      type === 'flag' ? `--${filter}` : `--${filter} <${filter}>`,
      type === 'order' ? only : `only ${only}`,
    );
    if (choices !== undefined) option.choices(choices);
    if (type === 'number') option.argParser(positiveInteger);
    if (type === 'since' || type === 'until') option.argParser(parseMoment);
    command.addOption(option);
  }
  const { limit = LIMIT, options = [] } = about;
  const most = new Option('--limit <n>', 'how many at most').argParser(positiveInteger);
  return describeCommand(command, {
    ...about,
    options: [
      ...options,
      limit === Infinity ? most : most.default(limit),
      formatOption(`how to print the ${name} (default: table)`),
      ...(['decimalComma', 'json', 'seller', 'vertical', 'pager'] as const),
    ],
  });
}

/** What the options select. */
function filtersIn<Row>(
  { filters }: Listing<Row, Db>,
  { seller, ...options }: ListingOptions,
): FilterValues {
  const chosen = filters.flatMap(({ name, type }) => {
    const value: unknown =
      options[name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase())];
    if (value instanceof Date) return [[name, value.toISOString()] as const];
    if (value === true && type === 'flag') return [[name, 'yes'] as const];
    return typeof value === 'string' || typeof value === 'number'
      ? [[name, String(value)] as const]
      : [];
  });
  return { ...Object.fromEntries(chosen), ...(seller === undefined ? {} : { seller }) };
}

/** Rows per query. A table gets a new header after so many. */
const PAGE_ROWS = 500;

/** Prints the rows of a listing as a table, CSV, JSON or NDJSON. */
export async function printListing<Row extends object>(
  { db, config }: Pick<App, 'db' | 'config'>,
  listing: Listing<Row, Db>,
  options: ListingOptions,
): Promise<void> {
  await assertSeller({ db, config }, options.seller);
  const filters = filtersIn(listing, options);
  const format = formatOf(options);
  const { limit = Infinity } = options;
  const pages = pagesOf(listing, db, filters, {
    face: format === 'table' ? 'tables' : 'files',
    size: PAGE_ROWS,
    limit,
  });
  const dialect = csvDialect(options, format);
  if (format === 'csv') return printCsv(listing, pages, dialect);
  if (format === 'ndjson') {
    await writeAll(process.stdout, linesOf(pages));
    return;
  }
  if (format === 'json') {
    await writeAll(process.stdout, jsonOf(pages));
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

/** Formats all rows as one list. */
async function* jsonOf<Row>(pages: AsyncIterable<readonly Row[]>): AsyncGenerator<string> {
  let isFirst = true;
  for await (const rows of pages) {
    yield (
      (isFirst ? '[\n' : ',\n') + json(withColumnNames(rows)).slice('[\n'.length, -'\n]\n'.length)
    );
    isFirst = false;
  }
  yield isFirst ? '[]\n' : '\n]\n';
}

async function* linesOf<Row>(pages: AsyncIterable<readonly Row[]>): AsyncGenerator<string> {
  for await (const rows of pages) {
    yield rows.map((row) => ndjsonLine(withColumnNames(row))).join('');
  }
}

/** Prints rows with the columns of files. */
export async function printCsv<Row>(
  listing: Pick<Listing<Row, Db>, 'columns'>,
  pages: AsyncIterable<readonly Row[]>,
  dialect: ReturnType<typeof csvDialect>,
): Promise<void> {
  await writeAll(process.stdout, forStdout(listingChunks(listing, pages, 'csv', dialect)));
}

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
  { vertical, hasHeader, first = 1 }: TableOptions & Pick<TableForm, 'hasHeader' | 'first'> = {},
): string {
  const look = stdoutLook();
  const columns = columnsFor(listing, 'tables').filter((column) => !isSame(column, rows, look));
  return table(rows, columns.map(tableColumn(look)), look, {
    vertical,
    hasHeader,
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
    isNote: type === 'sentence' || type === 'long text',
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

function cellOf(value: Value, type: ValueType, look: Pick<Look, 'columns'>): TableCell {
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
    default:
      return value;
  }
}
