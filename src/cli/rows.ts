import { Option } from 'commander';
import type { CsvDialect } from '../domain/csv.js';
import { exportChunks } from '../reporting/export.js';
import { rowEncoder as encoderOf } from '../reporting/values.js';
import { textsOf, type QueryResult, type QueryColumn } from '../db/read-only.js';
import { printPaged, stdoutLook } from './console.js';
import type { TableOptions } from './options.js';
import { csvDialect, type CsvOptions } from './out-file.js';
import { safeJson } from './output/formats.js';
import {
  fits,
  RECORD_CHARACTERS,
  table,
  type TableCell,
  type TableColumn,
} from './output/table.js';
import { type Look, safeLines } from './output/text.js';
import { plural } from '../domain/text.js';
import { writeAll } from './output/write.js';

const FORMATS = ['table', 'csv', 'json', 'ndjson'] as const;
type Format = (typeof FORMATS)[number];

export interface FormatOptions extends CsvOptions {
  readonly format?: Format;
  readonly json?: boolean;
}

export function formatOption(description: string): Option {
  return new Option('--format <format>', description).choices(FORMATS).conflicts('json');
}

type RowsOptions = TableOptions & FormatOptions;

type Row = readonly (string | null)[];

/** Writes the rows of a query to stdout with bounded memory. Tables are paged. */
export async function writeRows(answer: QueryResult, options: RowsOptions): Promise<void> {
  const format = formatOf(options);
  const dialect = csvDialect(options, format);
  if (format === 'table') await printPaged(tableLines(answer, stdoutLook(), options), options);
  else await writeAll(process.stdout, LINES[format](answer, dialect));
}

export function formatOf({ json, format = 'table' }: FormatOptions): Format {
  return json === true ? 'json' : format;
}

const LINES = {
  csv: ({ columns, batches }: QueryResult, dialect: CsvDialect) => {
    const exported = columns.map(({ name, type }) => ({ name, type: EXPORTED_AS[type] }));
    return forStdout(exportChunks({ columns: exported, batches }, 'csv', { raw: false, dialect }));
  },

  /** One array, with one row per line. */
  async *json({ columns, batches }: QueryResult) {
    const encode = rowEncoder(columns);
    let before = '[\n  ';
    for await (const rows of batches) {
      yield before + rows.map(encode).join(',\n  ');
      before = ',\n  ';
    }
    yield before.startsWith('[') ? '[]\n' : '\n]\n';
  },

  async *ndjson({ columns, batches }: QueryResult) {
    const encode = rowEncoder(columns);
    for await (const rows of batches) yield rows.map((row) => `${encode(row)}\n`).join('');
  },
};

/** Types of PostgreSQL that export writes as a query prints its columns. */
const EXPORTED_AS: Readonly<Record<QueryColumn['type'], string>> = {
  number: 'double precision',
  decimal: 'numeric',
  boolean: 'boolean',
  json: 'jsonb',
  texts: 'text[]',
  moment: 'timestamp with time zone',
  text: 'text',
};

/** On a terminal, text of the marketplace in CSV must not act as control characters. */
export async function* forStdout(
  chunks: AsyncIterable<string | Uint8Array>,
): AsyncGenerator<string | Uint8Array> {
  const isTerminal = stdoutLook().columns !== null;
  for await (const chunk of chunks) yield isTerminal ? safeLines(String(chunk)) : chunk;
}

/** A table gets a new header and new column widths after this many rows. */
const PAGE_ROWS = 500;

async function* tableLines(
  { columns, batches }: QueryResult,
  look: Look,
  { vertical }: RowsOptions,
): AsyncGenerator<string> {
  if (columns.length === 0) return;
  const shown = columns.map((column, index): TableColumn<Row> => ({
    header: column.name,
    value: (row) => cellOf(row[index] ?? null, column.type),
    align: isNumeric(column) ? 'right' : 'left',
  }));
  let isCut = false;
  let asRecords = vertical;
  let pageRows: Row[] = [];
  let total = 0;
  const formatPage = (): string => {
    asRecords ??= !fits(pageRows, shown, look);
    isCut ||= asRecords && vertical !== true && pageRows.some((row) => row.some(isLong));
    const first = total - pageRows.length + 1;
    return table(pageRows, shown, look, { vertical: asRecords, isWhole: vertical === true, first });
  };
  for await (const rows of batches) {
    for (const row of rows) {
      pageRows.push(row);
      total++;
      if (pageRows.length < PAGE_ROWS) continue;
      yield formatPage();
      pageRows = [];
    }
  }
  if (pageRows.length > 0 || total === 0) yield formatPage();
  // No summary in pipes and files.
  if (look.columns === null) return;
  yield `(${plural(total, 'row')}${isCut ? '; --vertical shows long values whole' : ''})\n`;
}

function isLong(text: string | null): boolean {
  return text !== null && text.length > RECORD_CHARACTERS;
}

function isNumeric({ type }: Pick<QueryColumn, 'type'>): boolean {
  return type === 'number' || type === 'decimal';
}

/** Converts a value of a query to a cell: integers become numbers, times lose fractions, lists get commas. */
function cellOf(text: string | null, type: QueryColumn['type']): TableCell {
  if (text === null) return null;
  if (isNumeric({ type }) && /^-?\d+$/.test(text)) return BigInt(text);
  if (type === 'texts') return (textsOf(text) as unknown[]).join(', ');
  if (type !== 'moment') return text;
  return text.replace(/(:\d\d)\.\d+/, '$1').replace(/\+00$/, 'Z');
}

/** Returns a function that formats a row as one line of JSON, safe for terminals. */
export function rowEncoder(columns: readonly QueryColumn[]): (row: Row) => string {
  const encode = encoderOf(columns);
  return (row) => safeJson(encode(row));
}
