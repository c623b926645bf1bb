import { parse } from 'csv-parse/sync';
import type { CsvRecord } from './csv-records.js';

/** The cells of each record, in order; a blank record has one that is empty. */
export function cellsOf(records: readonly CsvRecord[], delimiter: string): (readonly string[])[] {
  const quoted = records.filter(isQuoted);
  const parsed = quoted.length === 0 ? [] : parsedCells(quoted, delimiter);
  let next = 0;
  return records.map((record) => {
    if (isQuoted(record)) return parsed[next++] ?? [];
    return record.text.trim() === '' ? [''] : record.text.split(delimiter);
  });
}

/** Where no character is special but the delimiter, there is nothing to parse. */
function isQuoted({ kind, text }: CsvRecord): boolean {
  return kind === 'sound' && text.includes('"');
}

function parsedCells(records: readonly CsvRecord[], delimiter: string): string[][] {
  const parsed = parse(records.map(({ text }) => text).join('\n'), {
    delimiter,
    record_delimiter: '\n',
    // Quotes where RFC 4180 has none: within a cell that doesn't begin with one.
    relax_quotes: true,
    relax_column_count: true,
  });
  if (parsed.length !== records.length) {
    throw new Error(`${records.length} records of CSV became ${parsed.length}`);
  }
  return parsed;
}
