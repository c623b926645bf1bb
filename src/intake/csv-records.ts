import { parse } from 'csv-parse/sync';
import type { Line } from './text-list.js';

/** One record of a CSV file, not yet split into cells. */
export interface CsvRecord {
  /** Number of its first line, from 1. */
  readonly line: number;
  readonly lastLine: number;
  readonly text: string;
  /**
   * `valid`: follows RFC 4180. `literal`: text follows a closing quote. `unclosed`: a closing quote is missing. In these
   * two, quotes are ordinary characters. `too long`: the text is cut.
   */
  readonly kind: 'valid' | 'literal' | 'unclosed' | 'too long';
}

/**
 * Joins lines whose line end is within quotes. After a quote that is never closed, CSV libraries swallow the rest of the
 * file. Here a quoted cell must follow RFC 4180. If it doesn't, or becomes too long, each of its lines is a record, with
 * quotes as ordinary characters.
 * @param maxLength longest record, in UTF-16 units
 */
export function recordJoiner(
  delimiter: string,
  maxLength: number,
): (lines: readonly Line[], isLast: boolean) => CsvRecord[] {
  let waiting: Line[] = [];
  let size = 0;
  /** Makes each waiting line a record. Trying to join some of them could take forever in a hostile file. */
  const flushSeparately = (records: CsvRecord[]): void => {
    for (const line of waiting) {
      records.push(recordOf([line], ALONE[stateOfQuotes(line.text, delimiter, false)]));
    }
    waiting = [];
    size = 0;
  };
  const join = (line: Line, records: CsvRecord[]): void => {
    const isOpen = waiting.length > 0;
    const state = stateOfQuotes(line.text, delimiter, isOpen);
    const length = size + line.text.length + line.end.length;
    if (line.tooLong) {
      flushSeparately(records);
      records.push(recordOf([line], 'too long'));
    } else if (state === 'closed') {
      records.push(recordOf([...waiting, line], 'valid'));
      waiting = [];
      size = 0;
    } else if (state === 'open' && length <= maxLength) {
      waiting.push(line);
      size = length;
    } else if (isOpen) {
      flushSeparately(records);
      join(line, records);
    } else {
      records.push(recordOf([line], ALONE[state]));
    }
  };
  return (lines, isLast) => {
    const records: CsvRecord[] = [];
    for (const line of lines) join(line, records);
    if (isLast) flushSeparately(records);
    return records;
  };
}

/** The kind of a single line by the state of its quotes. */
const ALONE = { closed: 'valid', open: 'unclosed', broken: 'literal' } as const;

function recordOf(lines: readonly Line[], kind: CsvRecord['kind']): CsvRecord {
  const [first, last] = [lines[0] as Line, lines.at(-1) as Line];
  const before = lines.slice(0, -1).map(({ text, end }) => text + end);
  const text = before.length === 0 ? last.text : before.join('') + last.text;
  return { line: first.number, lastLine: last.number, text, kind };
}

/**
 * The state of the quotes at a line's end: `closed`, `open` (the cell continues in the next line), or `broken` (text
 * follows a closing quote). Within an unquoted cell a quote is an ordinary character.
 */
function stateOfQuotes(
  line: string,
  delimiter: string,
  isOpen: boolean,
): 'closed' | 'open' | 'broken' {
  if (!isOpen && !line.includes('"')) return 'closed';
  let at = 0;
  let within = isOpen;
  for (;;) {
    if (!within && line[at] !== '"') {
      const next = line.indexOf(delimiter, at);
      if (next < 0) return 'closed';
      at = next + 1;
      continue;
    }
    const close = closingQuote(line, within ? at : at + 1);
    if (close < 0) return 'open';
    if (close + 1 === line.length) return 'closed';
    if (line[close + 1] !== delimiter) return 'broken';
    within = false;
    at = close + 2;
  }
}

/** The next quote that is not doubled. */
function closingQuote(line: string, from: number): number {
  let at = line.indexOf('"', from);
  while (at >= 0 && line[at + 1] === '"') at = line.indexOf('"', at + 2);
  return at;
}

/** The cells of each record. A blank record has one empty cell. */
export function cellsOf(records: readonly CsvRecord[], delimiter: string): (readonly string[])[] {
  // One call of the library for all records with quotes, since each call is slow.
  const isQuoted = ({ kind, text }: CsvRecord): boolean => kind === 'valid' && text.includes('"');
  const quoted = records.filter(isQuoted);
  const parsed = parse(quoted.map(({ text }) => text).join('\n'), {
    delimiter,
    record_delimiter: '\n',
    // Unlike RFC 4180, allow quotes within a cell that doesn't begin with one.
    relax_quotes: true,
    relax_column_count: true,
  });
  if (parsed.length !== quoted.length) {
    throw new Error(`${quoted.length} records of CSV became ${parsed.length}`);
  }
  let next = 0;
  return records.map((record) => {
    if (isQuoted(record)) return parsed[next++] ?? [];
    return record.text.trim() === '' ? [''] : record.text.split(delimiter);
  });
}
