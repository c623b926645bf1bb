import { Option } from 'commander';
import type { CsvDialect } from '../domain/csv.js';
import { bytes as bytesText, plural } from '../domain/text.js';
import { writeWhole } from '../listing/write-file.js';
import type { ExportFormat } from '../reporting/export.js';
import { printNote, printPaged, shownText, stdoutLook, write } from './console.js';
import { writtenOrFailed } from './errors.js';
import type { TableOptions } from './options.js';
import {
  csvDialect,
  destinationOf,
  type Destination,
  jsonOf,
  type OutOptions,
  STDOUT,
} from './out-file.js';
import { withProgress } from './output/progress.js';
import { fits, RECORD_CHARACTERS, table, type TableColumn } from './output/table.js';
import { type Look, safeLine, safeLines } from './output/text.js';
import { writeAll } from './output/write.js';

const FILE_FORMATS = ['csv', 'json', 'ndjson', 'parquet', 'xlsx'] as const;
type Format = 'table' | (typeof FILE_FORMATS)[number];

export interface FormatOptions extends OutOptions<Format>, TableOptions {
  readonly json?: boolean;
}

/** `--format` of a command that prints rows. @param rows what it prints */
export function formatOption(rows: string): Option {
  return new Option('--format <format>', `how to print ${rows} (default: table)`)
    .choices(['table', ...FILE_FORMATS])
    .conflicts('json');
}

/** Rows, and how each format shows one. */
export interface Printed<Row> {
  /** What progress calls them. */
  readonly name: string;
  readonly batches: AsyncIterable<readonly Row[]>;
  readonly columns: (rows: readonly Row[], look: Look) => readonly TableColumn<Row>[];
  /** A row as JSON, on one line. */
  readonly json: (row: Row) => string;
  /** All rows as a file. */
  readonly file: (
    batches: AsyncIterable<readonly Row[]>,
    format: Exclude<ExportFormat, 'ndjson'>,
    dialect: CsvDialect,
  ) => AsyncIterable<string | Uint8Array>;
  /** Said in place of a table without rows. Absent: the table's header. */
  readonly none?: string;
  /** On a terminal, a last line says how many rows there were. */
  readonly isCounted?: boolean;
}

/** Where rows go, and in which format. @throws {UserError} when the options contradict each other */
export function rowsDestination({ json, out = STDOUT, ...options }: FormatOptions) {
  const usual = options.format ?? (out === STDOUT ? 'table' : null);
  const format = json === true ? jsonOf(out, FILE_FORMATS) : usual;
  const chosen = format === null ? {} : { format };
  return destinationOf<Format>({ ...options, ...chosen, out }, FILE_FORMATS);
}

/** Prints rows with bounded memory, as a table that is paged, or writes them as a file. */
export async function printRows<Row>(
  rows: Printed<Row>,
  destination: Destination<Format>,
  options: TableOptions,
  signal: AbortSignal,
): Promise<void> {
  const { path, format, decimalComma } = destination;
  const dialect = csvDialect({ decimalComma }, format);
  if (format === 'table' && path === null) {
    await printPaged(tables(rows, options, stdoutLook()), options);
    return;
  }
  const work = { ...rows, path, signal };
  const written = await writeRows(work, (batches) => {
    if (format === 'table') return tables({ ...rows, batches }, options, PLAIN);
    if (format === 'json' || format === 'ndjson') return LINES[format](batches, rows.json);
    return rows.file(batches, format, dialect);
  });
  if (path !== null && written !== null) printWritten(written, path);
}

const PLAIN: Look = { columns: null, colour: false };

/** How much was written. */
interface Written {
  readonly rows: number;
  readonly bytes: number;
}

/** Says on stderr what was written. @param path null: to stdout */
export function printWritten({ rows, bytes }: Written, path: string | null, of = ''): void {
  const target = path === null ? '' : ` → ${safeLine(path)}`;
  printNote(`${of}${plural(rows, 'row')}${target} (${bytesText(bytes)})\n`);
}

/**
 * Writes rows to a file, whole or not at all, or to stdout, and shows progress.
 * @param chunksOf formats the rows
 * @returns null when the reader of stdout went away before the end
 */
export function writeRows<Row>(
  work: {
    readonly name: string;
    readonly batches: AsyncIterable<readonly Row[]>;
    /** How many rows there are, if that is known. */
    readonly total?: number | null;
    /** Null: stdout. */
    readonly path: string | null;
    readonly signal: AbortSignal;
  },
  chunksOf: (batches: AsyncIterable<readonly Row[]>) => AsyncIterable<string | Uint8Array>,
): Promise<Written | null> {
  const { name, batches, total = null, path, signal } = work;
  return withProgress(
    name,
    async (progress) => {
      let [rows, bytes] = [0, 0];
      const counted = async function* (): AsyncGenerator<readonly Row[]> {
        for await (const batch of batches) {
          progress.update((rows += batch.length));
          yield batch;
        }
      };
      const measured = async function* (): AsyncGenerator<string | Uint8Array> {
        for await (const chunk of chunksOf(counted())) {
          bytes += Buffer.byteLength(chunk);
          yield chunk;
        }
      };
      if (path !== null) await writtenOrFailed(writeWhole(path, measured(), signal));
      else if (!(await writeAll(process.stdout, forStdout(measured())))) return null;
      // Waits until the reader has taken the last chunk.
      else await write('');
      return { rows, bytes };
    },
    { total },
  );
}

/** On a terminal, the marketplace's text must not act as control characters. JSON has none. */
async function* forStdout(
  chunks: AsyncIterable<string | Uint8Array>,
): AsyncGenerator<string | Uint8Array> {
  const isTerminal = stdoutLook().columns !== null;
  for await (const chunk of chunks) {
    yield isTerminal && typeof chunk === 'string' ? safeLines(chunk) : chunk;
  }
}

type ToJson<Row> = (row: Row) => string;

const LINES = {
  /** One array, with one row per line. */
  async *json<Row>(batches: AsyncIterable<readonly Row[]>, json: ToJson<Row>) {
    let before = '[\n  ';
    for await (const rows of batches) {
      if (rows.length === 0) continue;
      yield before + rows.map(json).join(',\n  ');
      before = ',\n  ';
    }
    yield before.startsWith('[') ? '[]\n' : '\n]\n';
  },

  async *ndjson<Row>(batches: AsyncIterable<readonly Row[]>, json: ToJson<Row>) {
    for await (const rows of batches) yield rows.map((row) => `${json(row)}\n`).join('');
  },
};

/** Rows per query. A table gets a new header and new column widths after so many. */
export const PAGE_ROWS = 500;

async function* tables<Row>(
  { batches, columns: columnsOf, none, isCounted = false }: Printed<Row>,
  { vertical }: TableOptions,
  look: Look,
): AsyncGenerator<string> {
  let asRecords = vertical;
  let isCut = false;
  let total = 0;
  for await (const rows of pages(batches)) {
    if (rows.length === 0 && none !== undefined) {
      yield shownText(`${none}\n`);
      return;
    }
    const columns = columnsOf(rows, look);
    if (columns.length === 0) return;
    asRecords ??= !fits(rows, columns, look);
    isCut ||= asRecords && vertical !== true && rows.some((row) => isLong(row, columns));
    const form = { vertical: asRecords, isWhole: vertical === true, first: total + 1 };
    yield table(rows, columns, look, form);
    total += rows.length;
  }
  if (!isCounted || look.columns === null) return;
  yield `(${plural(total, 'row')}${isCut ? '; --vertical shows long values whole' : ''})\n`;
}

/** The rows in pages; one empty page if there are none. */
async function* pages<Row>(batches: AsyncIterable<readonly Row[]>): AsyncGenerator<readonly Row[]> {
  let page: Row[] = [];
  let isFirst = true;
  for await (const rows of batches) {
    for (const row of rows) {
      page.push(row);
      if (page.length < PAGE_ROWS) continue;
      yield page;
      page = [];
      isFirst = false;
    }
  }
  if (page.length > 0 || isFirst) yield page;
}

function isLong<Row>(row: Row, columns: readonly TableColumn<Row>[]): boolean {
  return columns.some(({ value }) => String(value(row) ?? '').length > RECORD_CHARACTERS);
}
