import { parse } from 'csv-parse/sync';
import type { CsvRecord } from './csv-records.js';

/**
 * The cells of each record, in order.
 * @param records none of which is blank
 */
export function cellsOf(records: readonly CsvRecord[], delimiter: string): (readonly string[])[] {
  const sound = records.filter(({ kind }) => kind === 'sound');
  const parsed = parse(sound.map(({ text }) => text).join('\n'), {
    delimiter,
    record_delimiter: '\n',
    // Quotes where RFC 4180 has none: within a cell that doesn't begin with one.
    relax_quotes: true,
    relax_column_count: true,
  });
  if (parsed.length !== sound.length) {
    throw new Error(`${sound.length} records of CSV became ${parsed.length}`);
  }
  let next = 0;
  return records.map(({ kind, text }) =>
    kind === 'sound' ? (parsed[next++] ?? []) : text.split(delimiter),
  );
}
