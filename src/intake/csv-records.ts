import { parse } from 'csv-parse/sync';
import type { Line } from './text-list.js';

/** One record of a CSV file, not yet split into cells. */
export interface CsvRecord {
  /** Where it begins, from 1. */
  readonly line: number;
  /** Where it ends. */
  readonly lastLine: number;
  /** The text without the end of its last line. */
  readonly text: string;
  /**
   * `sound`: follows RFC 4180. In the others quotes are characters: in `literal` ones something follows
   * a closing quote, in `unclosed` ones it is missing. A `too long` record is cut.
   */
  readonly kind: 'sound' | 'literal' | 'unclosed' | 'too long';
}

/**
 * Joins lines whose break is within quotes. CSV libraries can't do this safely: after a quote that is
 * never closed they swallow the rest of the file or stop. Here a cell that opens with a quote must
 * follow RFC 4180. If it doesn't, or becomes too long, its lines are records of their own, with quotes
 * taken literally.
 */
export class RecordJoiner {
  readonly #delimiter: string;
  readonly #maxLength: number;
  #waiting: Line[] = [];
  #size = 0;

  /** @param maxLength longest record, in UTF-16 units */
  constructor(delimiter: string, maxLength: number) {
    this.#delimiter = delimiter;
    this.#maxLength = maxLength;
  }

  /** The records that this line ends. */
  push(line: Line): CsvRecord[] {
    if (line.tooLong) return [...this.#giveUp(), recordOf([line], 'too long')];
    const open = this.#waiting.length > 0;
    if (!open && !line.text.includes('"')) return [recordOf([line], 'sound')];
    const state = quoteState(line.text, this.#delimiter, open);
    if (state === 'closed') {
      const record = recordOf([...this.#waiting, line], 'sound');
      this.#forget();
      return [record];
    }
    const size = this.#size + line.text.length + line.end.length;
    if (state === 'open' && size <= this.#maxLength) {
      this.#waiting.push(line);
      this.#size = size;
      return [];
    }
    if (!open) return [recordOf([line], ALONE[state])];
    return [...this.#giveUp(), ...this.push(line)];
  }

  /** The lines without a closing quote at the end of the file. */
  end(): CsvRecord[] {
    return this.#giveUp();
  }

  /**
   * Each waiting line as a record of its own. They aren't joined in another way: a hostile file could
   * make that take for ever.
   */
  #giveUp(): CsvRecord[] {
    const records = this.#waiting.map((line) =>
      recordOf([line], ALONE[quoteState(line.text, this.#delimiter, false)]),
    );
    this.#forget();
    return records;
  }

  #forget(): void {
    this.#waiting = [];
    this.#size = 0;
  }
}

/** The kind of a line that is a record of its own, by the state of its quotes. */
const ALONE = { closed: 'sound', open: 'unclosed', broken: 'literal' } as const;

function recordOf(lines: readonly Line[], kind: CsvRecord['kind']): CsvRecord {
  const [first] = lines;
  const last = lines.at(-1);
  const text =
    lines.length === 1
      ? (first?.text ?? '')
      : lines.map((line) => (line === last ? line.text : line.text + line.end)).join('');
  return { line: first?.number ?? 0, lastLine: last?.number ?? 0, text, kind };
}

/**
 * The state of the quotes at a line's end: `closed`; `open`, to continue in the next line; or `broken`,
 * when something other than a delimiter follows a closing quote. A quote within an unquoted cell is an
 * ordinary character.
 * @param open whether the line begins within quotes
 */
function quoteState(line: string, delimiter: string, open: boolean): 'closed' | 'open' | 'broken' {
  let at = 0;
  let within = open;
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
  const quoted = records.filter(isQuoted);
  const parsed = quoted.length === 0 ? [] : parsedCells(quoted, delimiter);
  let next = 0;
  return records.map((record) => {
    if (isQuoted(record)) return parsed[next++] ?? [];
    return record.text.trim() === '' ? [''] : record.text.split(delimiter);
  });
}

/** True when a record needs a parser; the others are split at their delimiters. */
function isQuoted({ kind, text }: CsvRecord): boolean {
  return kind === 'sound' && text.includes('"');
}

function parsedCells(records: readonly CsvRecord[], delimiter: string): string[][] {
  const parsed = parse(records.map(({ text }) => text).join('\n'), {
    delimiter,
    record_delimiter: '\n',
    // Allows quotes within a cell that doesn't begin with one, unlike RFC 4180.
    relax_quotes: true,
    relax_column_count: true,
  });
  if (parsed.length !== records.length) {
    throw new Error(`${records.length} records of CSV became ${parsed.length}`);
  }
  return parsed;
}
