import { Option, type Command } from 'commander';
import {
  columnsFor,
  type FilterValues,
  type Listing,
  type ListingColumn,
  type ListingFilter,
  pagesOf,
  stateWord,
  type Tone,
  toneOf,
  type Value,
  type ValueType,
  wordOf,
} from '../listing/listing.js';
import type { CsvDialect } from '../domain/csv.js';
import { moment } from '../domain/moment.js';
import { age, count, duration } from '../domain/text.js';
import { listingChunks } from '../reporting/export.js';
import { printNote, stdoutLook } from './console.js';
import { appAction, type CommandApp } from './execute.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import {
  assertSeller,
  type CommandParts,
  type CommonOptions,
  describeCommand,
  parseMoment,
  positiveInteger,
  type TableOptions,
} from './options.js';
import { checkDestination, outOption } from './out-file.js';
import { ndjsonLine, withColumnNames } from './output/formats.js';
import { table, type TableCell, type TableColumn, type TableForm } from './output/table.js';
import { cut, type Look, momentCell, safeLine, type Style } from './output/text.js';
import { withRunnableCommands } from './own-command.js';
import { formatOption, type FormatOptions, PAGE_ROWS, printRows, rowsDestination } from './rows.js';

/** The options that `addListing` adds. */
export type ListingOptions = CommonOptions &
  FormatOptions & { readonly limit?: number } & Readonly<Record<string, unknown>>;

/** Rows on stdout without --limit, unless all rows are few. */
const LIMIT = 20;

/** How a command prints a listing. */
export interface ListingCommand<Source> extends CommandParts {
  readonly source: (app: CommandApp) => Source;
  /** Rows on stdout without --limit; default 20, or all if they are few. Files have all. */
  readonly limit?: number;
  /** Called before anything is read: refuses filters, or returns the exit code. */
  readonly check?: (app: CommandApp, options: ListingOptions) => Promise<ExitCode | void>;
}

/** Makes a command print a listing: adds its options and help, and the action. */
export function addListing<Row extends object, Source>(
  command: Command,
  listing: Listing<Row, Source>,
  about: ListingCommand<Source>,
): void {
  const { name, filters } = listing;
  for (const filter of filters) {
    if (filter.type !== 'seller') command.addOption(optionOf(filter));
  }
  const { limit = listing.areFew === true ? Infinity : LIMIT, source, check, options = [] } = about;
  const most = limit === Infinity ? '' : ` (default: ${limit}, and all in a file of -o)`;
  describeCommand(command, {
    ...about,
    options: [
      ...options,
      new Option('--limit <n>', `how many at most${most}`).argParser(positiveInteger),
      formatOption(`the ${wordOf(name)}`),
      ...outOption('write them to this file, in the format of its ending'),
      ...(filters.some(({ type }) => type === 'seller') ? (['seller'] as const) : []),
      ...(['decimalComma', 'json', 'quiet', 'vertical', 'pager'] as const),
    ],
  }).action(
    appAction('store', async (app, chosen: ListingOptions) => {
      await assertSeller(app, chosen.seller);
      const exitCode = (await check?.(app, chosen)) ?? EXIT.done;
      await printListing(source(app), listing, chosen, limit, app.signal);
      return exitCode;
    }),
  );
}

function optionOf({ name, about, type, choices }: ListingFilter): Option {
  const option = new Option(
    type === 'flag' ? `--${name}` : `--${name} <${name}>`,
    type === 'order' ? about : `only ${about}`,
  );
  if (choices !== undefined) option.choices(choices);
  if (type === 'number') option.argParser(positiveInteger);
  if (type === 'since' || type === 'until') option.argParser(parseMoment);
  return option;
}

/** What the options select. */
function filtersIn(filters: readonly ListingFilter[], options: ListingOptions): FilterValues {
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

/** Prints the rows of a listing, or writes them to a file. @param most rows on stdout without --limit */
async function printListing<Row extends object, Source>(
  source: Source,
  listing: Listing<Row, Source>,
  options: ListingOptions,
  most: number,
  signal: AbortSignal,
): Promise<void> {
  const { name, none, json = (row: Row): object => row } = listing;
  const filters = filtersIn(listing.filters, options);
  const destination = rowsDestination(options);
  await checkDestination(destination);
  const face = destination.format === 'table' ? 'tables' : 'files';
  const limit = options.limit ?? (destination.path === null ? most : Infinity);
  // One more shows that there are more.
  const wanted = options.limit ?? limit + 1;
  const found = pagesOf(listing, source, filters, { face, size: PAGE_ROWS, limit: wanted });
  let isCut = false;
  const isFiltered = Object.keys(filters).length > 0;
  const rows = {
    name,
    batches: firstOf(found, limit, () => (isCut = true)),
    columns: (page: readonly Row[], look: Look) => tableColumns(listing, page, look),
    none: isFiltered ? `No ${wordOf(name)} match the filter.` : none,
    json: (row: Row) => ndjsonLine(withColumnNames(json(row))).trimEnd(),
    file: (
      batches: AsyncIterable<readonly Row[]>,
      format: 'csv' | 'parquet' | 'xlsx',
      dialect: CsvDialect,
    ) => listingChunks(listing, batches, format, dialect),
  };
  await printRows(rows, destination, options, signal);
  if (isCut) printNote(`more than ${limit} ${wordOf(name)}; --limit shows more\n`);
}

/** The first rows. @param onMore called when there are more */
async function* firstOf<Row>(
  pages: AsyncIterable<readonly Row[]>,
  limit: number,
  onMore: () => void,
): AsyncGenerator<readonly Row[]> {
  let left = limit;
  for await (const rows of pages) {
    if (rows.length > left) onMore();
    yield rows.slice(0, left);
    left -= rows.length;
  }
}

/** Formats rows of a listing as a table, on a terminal without the seller if all have the same. */
export function listingTable<Row>(
  listing: Pick<Listing<Row, never>, 'columns'>,
  rows: readonly Row[],
  { vertical, first = 1 }: TableOptions & Pick<TableForm, 'first'> = {},
): string {
  const look = stdoutLook();
  const form = { vertical, first, isWhole: vertical === true };
  return table(rows, tableColumns(listing, rows, look), look, form);
}

function tableColumns<Row>(
  listing: Pick<Listing<Row, never>, 'columns'>,
  rows: readonly Row[],
  look: Look,
): readonly TableColumn<Row>[] {
  return columnsFor(listing, 'tables')
    .filter((column) => !isSame(column, rows, look))
    .map(tableColumn(look));
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
    header: wordOf(name),
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
