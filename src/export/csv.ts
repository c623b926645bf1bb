import { guarded } from '../domain/csv-cell.js';
import type { ExportColumn } from '../store/export-view.js';
import type { TextRow } from '../store/text-cursor.js';
import { isNumeric, isoMoment, kindOf } from './values.js';

/**
 * Rows as CSV (RFC 4180) with a header, in chunks. NULL is an empty cell, an empty text a quoted one;
 * lists and JSON are in PostgreSQL's own notation, which its COPY reads.
 * @param raw leaves text as it is, where it is otherwise guarded against being run by a spreadsheet
 */
export async function* csvChunks(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<readonly TextRow[]>,
  { raw }: { readonly raw: boolean },
): AsyncGenerator<string, void, undefined> {
  const cells = columns.map((column) => cellWriter(column, raw));
  yield line(columns.map(({ name }) => quoted(name)));
  for await (const rows of batches) {
    let chunk = '';
    for (const row of rows) {
      chunk += line(row.map((text, n) => (text === null ? '' : (cells[n]?.(text) ?? ''))));
    }
    yield chunk;
  }
}

function line(cells: readonly string[]): string {
  // A line that is one empty cell would read as no line at all.
  return cells.length === 1 && cells[0] === '' ? '""\r\n' : `${cells.join(',')}\r\n`;
}

function cellWriter(column: ExportColumn, raw: boolean): (text: string) => string {
  const kind = kindOf(column);
  if (isNumeric(kind) || kind.kind === 'date') return (text) => text;
  if (kind.kind === 'boolean') return (text) => (text === 't' ? 'true' : 'false');
  if (kind.kind === 'moment') return isoMoment;
  return raw ? quoted : (text) => quoted(guarded(text));
}

/** Semicolons and tabs are quoted too: spreadsheets of many countries split there. */
function quoted(text: string): string {
  return /^$|[",;\t\r\n]|^\s|\s$|^\\\.$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
