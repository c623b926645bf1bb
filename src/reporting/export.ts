import {
  csvHead,
  csvLine,
  csvNumber,
  escapeFormula,
  PLAIN_CSV,
  type CsvDialect,
} from '../domain/csv.js';
import { parquetChunks } from './parquet.js';
import { isNumeric, isoMoment, kindOf, rowEncoder } from './values.js';
import { VERDICT_TONES, type WorkbookColumn } from '../listing/workbook-column.js';
import type { ViewColumn, ReadView } from './views.js';
import type { QueryColumn } from '../db/read-only.js';
import type { TextRow } from '../db/text-cursor.js';
import { columnsFor, type Listing, type ListingColumn, type Value } from '../listing/listing.js';

export const EXPORT_FORMATS = ['csv', 'ndjson', 'parquet', 'xlsx'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/**
 * Writes rows of a view in chunks. CSV has lists and JSON in COPY's notation, NULL as an empty cell, and empty text as
 * `""`. NDJSON has decimals, and numbers that a double can't hold exactly, as strings with all digits.
 * @param options.raw for CSV: don't guard formulas, for readers other than spreadsheets
 * @param options.dialect for CSV
 */
export async function* exportChunks(
  { columns, batches }: Pick<ReadView, 'columns' | 'batches'>,
  format: ExportFormat,
  {
    raw,
    dialect = PLAIN_CSV,
  }: { readonly raw: boolean; readonly dialect?: CsvDialect | undefined },
): AsyncGenerator<string | Uint8Array, void, undefined> {
  if (format === 'parquet') {
    yield* parquetChunks(columns, batches);
    return;
  }
  if (format === 'xlsx') {
    // Loaded on demand: only workbooks need its library.
    const { workbookChunks } = await import('../listing/write-workbook.js');
    yield* workbookChunks(columns.map(sheetColumn), sheetRows(columns, batches));
    return;
  }
  const names = columns.map(({ name }) => name);
  const line = format === 'csv' ? csvRow(columns, raw, dialect) : jsonRow(columns);
  if (format === 'csv') yield csvHead(names, dialect);
  for await (const rows of batches) yield rows.map(line).join('');
}

function sheetColumn(column: ViewColumn): WorkbookColumn {
  const { name } = column;
  const kind = kindOf(column);
  if (isNumeric(kind)) return { name, kind: 'number' };
  if (name === 'verdict') return { name, kind: 'text', width: 16, tones: VERDICT_TONES };
  return { name, kind: kind.kind === 'date' || kind.kind === 'moment' ? kind.kind : 'text' };
}

async function* sheetRows(
  columns: readonly ViewColumn[],
  batches: ReadView['batches'],
): AsyncGenerator<readonly (string | null)[], void, undefined> {
  const kinds = columns.map((column) => kindOf(column).kind);
  for await (const rows of batches) {
    for (const row of rows) {
      yield row.map((text, n) => {
        if (text === null) return null;
        if (kinds[n] === 'boolean') return text === 't' ? 'true' : 'false';
        return kinds[n] === 'moment' ? isoMoment(text) : text;
      });
    }
  }
}

function csvRow(
  columns: readonly ViewColumn[],
  raw: boolean,
  dialect: CsvDialect,
): (row: TextRow) => string {
  const cells = columns.map((column): ((text: string) => string) => {
    const kind = kindOf(column);
    if (isNumeric(kind)) return (text) => csvNumber(text, dialect);
    if (kind.kind === 'date') return (text) => text;
    if (kind.kind === 'boolean') return (text) => (text === 't' ? 'true' : 'false');
    if (kind.kind === 'moment') return isoMoment;
    return raw ? (text) => text : escapeFormula;
  });
  return (row) =>
    csvLine(
      row.map((text, n) => (text === null ? null : (cells[n]?.(text) ?? text))),
      dialect.delimiter,
    );
}

function jsonRow(columns: readonly ViewColumn[]): (row: TextRow) => string {
  const encode = rowEncoder(columns.map((column) => ({ name: column.name, type: typeOf(column) })));
  return (row) => `${encode(row)}\n`;
}

/** The column type of `sql` results with the same JSON. Integers of any size are written exactly. */
function typeOf(column: ViewColumn): QueryColumn['type'] {
  const { kind } = kindOf(column);
  if (kind === 'integer' || kind === 'float') return 'number';
  if (kind === 'number') return 'decimal';
  return kind === 'date' ? 'text' : kind;
}

/** PostgreSQL's type of the columns of a listing that are not text. */
const TYPES: Readonly<Record<string, string>> = {
  id: 'bigint',
  count: 'bigint',
  number: 'bigint',
  milliseconds: 'bigint',
  percent: 'numeric(18,2)',
  money: 'numeric(14,2)',
  texts: 'text[]',
  moment: 'timestamp with time zone',
};

/** Writes rows of a listing as a file, in chunks. @param batches rows, in pages */
export async function* listingChunks<Row, Db>(
  listing: Pick<Listing<Row, Db>, 'columns'>,
  batches: AsyncIterable<readonly Row[]>,
  format: ExportFormat,
  dialect: CsvDialect = PLAIN_CSV,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  const columns = columnsFor(listing, 'files');
  const exported = {
    columns: columns.map(({ name, type }) => ({ name, type: TYPES[type] ?? 'text' })),
    batches: textRows(columns, batches, dialect),
  };
  yield* exportChunks(exported, format, { raw: false, dialect });
}

async function* textRows<Row>(
  columns: readonly ListingColumn<Row>[],
  batches: AsyncIterable<readonly Row[]>,
  dialect: CsvDialect,
): AsyncGenerator<(string | null)[][], void, undefined> {
  for await (const rows of batches) {
    yield rows.map((row) =>
      columns.map(({ value, isNumber }) => {
        const text = textOf(value(row));
        return text !== null && isNumber?.(row) === true ? csvNumber(text, dialect) : text;
      }),
    );
  }
}

/** The value in PostgreSQL's text form. */
function textOf(value: Value): string | null {
  if (value instanceof Date) {
    return value
      .toISOString()
      .replace('T', ' ')
      .replace(/\.?0*Z$/, '+00');
  }
  if (typeof value === 'object' && value !== null) return `{${value.map(elementOf).join(',')}}`;
  return value === null ? null : String(value);
}

/** An element of an array, in quotes if PostgreSQL would quote it. */
function elementOf(text: string): string {
  return /^(?:null)?$|[\s"\\{},]/i.test(text) ? `"${text.replaceAll(/["\\]/g, '\\$&')}"` : text;
}
