import { isExact } from '../domain/exact-number.js';
import { textsOf } from '../store/read-only.js';
import type { ExportColumn } from '../store/export-view.js';
import type { TextRow } from '../store/text-cursor.js';
import { isoMoment, kindOf } from './values.js';

/**
 * Rows as JSON objects, one on each line, in chunks. Decimals, such as money, are text with all their
 * digits; so is another number that a double can't hold exactly.
 */
export async function* ndjsonChunks(
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
