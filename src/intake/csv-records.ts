import { parse } from 'csv-parse/sync';
import type { Line } from './text-list.js';

/** One record of a CSV file, not yet split into cells. */
export interface CsvRecord {
  /** Where it begins, from 1. */
  readonly line: number;
  readonly lastLine: number;
  readonly text: string;
  /**
   * `sound`: follows RFC 4180. In the others quotes are characters: in `literal` ones something follows
   * a closing quote, in `unclosed` ones it is missing. A `too long` record is cut.
   */
  readonly kind: 'sound' | 'literal' | 'unclosed' | 'too long';
}

/**
 * Joins lines whose break is within quotes. CSV libraries swallow the rest of the file after a quote that
 * is never closed. Here a cell in quotes must follow RFC 4180; if it does not, or becomes too long, its
 * lines are records of their own, with quotes taken literally.
 * @param maxLength longest record, in UTF-16 units
 */
export function recordJoiner(
  delimiter: string,
  maxLength: number,
): (lines: readonly Line[], isLast: boolean) => CsvRecord[] {
  let waiting: Line[] = [];
  let size = 0;
  /** Each waiting line is a record. Joining some of them could take for ever in a hostile file. */
  const giveUp = (records: CsvRecord[]): void => {
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
      giveUp(records);
      records.push(recordOf([line], 'too long'));
    } else if (state === 'closed') {
      records.push(recordOf([...waiting, line], 'sound'));
      waiting = [];
      size = 0;
    } else if (state === 'open' && length <= maxLength) {
      waiting.push(line);
      size = length;
    } else if (isOpen) {
      giveUp(records);
      join(line, records);
    } else {
      records.push(recordOf([line], ALONE[state]));
    }
  };
  return (lines, isLast) => {
    const records: CsvRecord[] = [];
    for (const line of lines) join(line, records);
    if (isLast) giveUp(records);
    return records;
  };
}

const ALONE = { closed: 'sound', open: 'unclosed', broken: 'literal' } as const;

function recordOf(lines: readonly Line[], kind: CsvRecord['kind']): CsvRecord {
  const [first, last] = [lines[0] as Line, lines.at(-1) as Line];
  const before = lines.slice(0, -1).map(({ text, end }) => text + end);
  const text = before.length === 0 ? last.text : before.join('') + last.text;
  return { line: first.number, lastLine: last.number, text, kind };
}

/**
 * The state of the quotes at a line's end: `closed`; `open`, to continue in the next line; or `broken`, when
 * something follows a closing quote. Within an unquoted cell a quote is an ordinary character.
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

/** The cells of each record, in order; a blank record has one empty cell. */
export function cellsOf(records: readonly CsvRecord[], delimiter: string): (readonly string[])[] {
  // The library is called once for all records that need it: a call takes long.
  const isQuoted = ({ kind, text }: CsvRecord): boolean => kind === 'sound' && text.includes('"');
  const quoted = records.filter(isQuoted);
  const parsed = parse(quoted.map(({ text }) => text).join('\n'), {
    delimiter,
    record_delimiter: '\n',
    // Allows quotes within a cell that doesn't begin with one, unlike RFC 4180.
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
