import { Option, type Command } from 'commander';
import type { App } from '../app.js';
import type { Db } from '../db/db.js';
import { type Listing, type ListingColumn, type Tone, toneOf } from '../listing/listing.js';
import { print, printJson, printPaged, stdoutLook } from './console.js';
import {
  assertSeller,
  describeCommand,
  positiveInteger,
  type CommonOptions,
  type TableOptions,
} from './options.js';
import { csvDialect } from './out-file.js';
import { csv, type CsvCell, ndjsonLine, withColumnNames } from './output/formats.js';
import { table, type TableColumn } from './output/table.js';
import { duration, type Look, momentCell, type Style } from './output/text.js';
import { writeAll } from './output/write.js';
import { withRunnableCommands } from './own-command.js';
import { formatOf, formatOption, type FormatOptions } from './rows.js';

/** The options that `describeListing` adds. */
export type ListingOptions = CommonOptions &
  TableOptions &
  FormatOptions & { readonly limit: number } & Readonly<Record<string, unknown>>;

/** Adds the options of a listing, its help, and nothing else: the command's action calls `printListing`. */
export function describeListing<Row>(
  command: Command,
  { name, filters }: Listing<Row, Db>,
  about: { readonly summary: string; readonly examples: readonly string[] },
): Command {
  for (const { name: filter, about: only, choices } of filters) {
    command.addOption(new Option(`--${filter} <${filter}>`, `only ${only}`).choices(choices));
  }
  return describeCommand(command, {
    ...about,
    options: [
      new Option('--limit <n>', 'how many at most').argParser(positiveInteger).default(20),
      formatOption(`how to print the ${name} (default: table)`),
      ...(['decimalComma', 'json', 'seller', 'vertical', 'pager'] as const),
    ],
  });
}

/** Prints the newest rows of a listing as a table, CSV, JSON or NDJSON. */
export async function printListing<Row extends object>(
  { db, config }: Pick<App, 'db' | 'config'>,
  listing: Listing<Row, Db>,
  options: ListingOptions,
): Promise<void> {
  const { seller, limit } = options;
  await assertSeller({ db, config }, seller);
  const chosen = listing.filters.flatMap(({ name }) => {
    const value = options[name];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
  const filters = { ...Object.fromEntries(chosen), ...(seller === undefined ? {} : { seller }) };
  const rows = await listing.read(db, filters, { before: null, limit });
  const format = formatOf(options);
  const dialect = csvDialect(options, format);
  if (format === 'json') return printJson(rows);
  if (format === 'ndjson') {
    await writeAll(
      process.stdout,
      rows.map((row) => ndjsonLine(withColumnNames(row))),
    );
    return;
  }
  const { columns } = listing;
  if (format === 'csv') {
    const cells = (row: Row): CsvCell[] => columns.map(({ value }) => value(row));
    const names = columns.map(({ name }) => name);
    const terminal = stdoutLook().columns !== null;
    await writeAll(process.stdout, csv(names, rows.map(cells), { terminal, dialect }));
    return;
  }
  if (rows.length === 0) {
    const isFiltered = Object.keys(filters).length > 0;
    await print(isFiltered ? `No ${listing.name} match the filter.\n` : `${listing.none}\n`);
    return;
  }
  const look = stdoutLook();
  const { vertical } = options;
  const shown = columns.filter((column) => !isSame(column, rows, look));
  const text = table(rows, shown.map(tableColumn(look)), look, {
    vertical,
    isWhole: vertical === true,
  });
  await printPaged([text], options);
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
    isNote: type === 'sentence',
    ...(type === 'milliseconds' ? { align: 'right' } : {}),
    ...(type === 'state' ? { style: (row: Row) => styleOf(String(value(row))) } : {}),
    value: (row) => {
      const shown = value(row);
      if (shown instanceof Date) return momentCell(shown, new Date(), look);
      if (type === 'milliseconds') return shown === null ? '' : duration(Number(shown));
      return type === 'sentence' ? withRunnableCommands(String(shown ?? '')) : shown;
    },
  });
}
