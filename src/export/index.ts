import { csvLine, guarded } from '../domain/csv.js';
import { parquetChunks } from './parquet.js';
import { isExact, isNumeric, isoMoment, kindOf } from './values.js';
import type { ExportColumn, Exported } from '../store/exports.js';
import { textsOf } from '../store/read-only.js';
import type { TextRow } from '../store/text-cursor.js';

export const EXPORT_FORMATS = ['csv', 'ndjson', 'parquet'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/**
 * An export as a file of a format, in chunks and bounded memory.
 * @param raw for CSV: leaves text as it is, for readers other than spreadsheets
 */
export function exportChunks(
  { columns, batches }: Pick<Exported, 'columns' | 'batches'>,
  format: ExportFormat,
  options: { readonly raw: boolean },
): AsyncIterable<string | Uint8Array> {
  switch (format) {
    case 'csv':
      return csvChunks(columns, batches, options);
    case 'ndjson':
      return ndjsonChunks(columns, batches);
    case 'parquet':
      return parquetChunks(columns, batches);
  }
}

/**
 * Rows as CSV (RFC 4180) with a header, in chunks. NULL is an empty cell, an empty text a quoted one;
 * lists and JSON are in PostgreSQL's own notation, which its COPY reads.
 * @param raw leaves text as it is; by default, formulas are guarded
 */
async function* csvChunks(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<readonly TextRow[]>,
  { raw }: { readonly raw: boolean },
): AsyncGenerator<string, void, undefined> {
  const cells = columns.map((column) => cellWriter(column, raw));
  yield csvLine(columns.map(({ name }) => name));
  for await (const rows of batches) {
    let chunk = '';
    for (const row of rows) {
      chunk += csvLine(row.map((text, n) => (text === null ? null : (cells[n]?.(text) ?? text))));
    }
    yield chunk;
  }
}

function cellWriter(column: ExportColumn, raw: boolean): (text: string) => string {
  const kind = kindOf(column);
  if (isNumeric(kind) || kind.kind === 'date') return (text) => text;
  if (kind.kind === 'boolean') return (text) => (text === 't' ? 'true' : 'false');
  if (kind.kind === 'moment') return isoMoment;
  return raw ? (text) => text : guarded;
}

/**
 * Rows as JSON objects, one on each line, in chunks. Decimals, such as money, are text with all their
 * digits; so is another number that a double can't hold exactly.
 */
async function* ndjsonChunks(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<readonly TextRow[]>,
): AsyncGenerator<string, void, undefined> {
  const members = columns.map((column) => ({
    head: `${JSON.stringify(column.name)}:`,
    write: valueWriter(column),
  }));
  for await (const rows of batches) {
    let chunk = '';
    for (const row of rows) {
      const parts = members.map(({ head, write }, n) => {
        const text = row[n] ?? null;
        return head + (text === null ? 'null' : write(text));
      });
      chunk += `{${parts.join(',')}}\n`;
    }
    yield chunk;
  }
}

function valueWriter(column: ExportColumn): (text: string) => string {
  const kind = kindOf(column);
  if (kind.kind === 'integer' || kind.kind === 'float') {
    return (text) => (isExact(text) ? text : JSON.stringify(text));
  }
  switch (kind.kind) {
    case 'boolean':
      return (text) => (text === 't' ? 'true' : 'false');
    case 'json':
      // As it is, since reading it would round its numbers. Within its texts line ends are escaped.
      return (text) => text.replaceAll(/[\t\r\n]/g, ' ');
    case 'texts':
      return (text) => JSON.stringify(textsOf(text));
    case 'moment':
      return (text) => JSON.stringify(isoMoment(text));
    default:
      return (text) => JSON.stringify(text);
  }
}
