import { csvLine, guarded, isNumberText } from '../../domain/csv.js';

export type CsvCell = string | number | bigint | boolean | Date | null | undefined;

export interface CsvOptions {
  /** Columns whose text is numbers, such as PostgreSQL's numeric: by index. */
  readonly numeric?: readonly boolean[];
  /** The rows go to a terminal, where control characters must not take effect. */
  readonly terminal?: boolean;
}

/**
 * Header and rows as lines of CSV, one by one, so that any number of rows can be written. Text that a
 * spreadsheet would run as a formula gets a leading apostrophe; numbers stay numbers.
 */
export async function* csv(
  header: readonly string[],
  rows: Iterable<readonly CsvCell[]> | AsyncIterable<readonly CsvCell[]>,
  options: CsvOptions = {},
): AsyncGenerator<string, void, undefined> {
  const line = (cells: readonly CsvCell[], numeric?: readonly boolean[]): string =>
    csvLine(
      cells.map((cell, index) => {
        const text = cellText(cell, numeric?.[index] === true);
        const shown = options.terminal === true ? withoutControls(text) : text;
        // Readers of these rows need not tell an empty text from null.
        return shown === '' ? null : shown;
      }),
    );
  yield line(header);
  for await (const row of rows) yield line(row, options.numeric);
}

function cellText(cell: CsvCell, numeric: boolean): string {
  if (cell === null || cell === undefined) return '';
  if (cell instanceof Date) return Number.isNaN(cell.getTime()) ? '' : cell.toISOString();
  if (typeof cell !== 'string') return String(cell);
  return numeric && isNumberText(cell) ? cell : guarded(cell);
}

function withoutControls(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/(?!\n)\p{Cc}/gu, '\uFFFD')
    .replaceAll(/[\u202A-\u202E\u2066-\u2069]/g, '');
}

/** What JSON alone would write as itself, and a terminal or a reader would act on. */
const UNSAFE = /[\u007F-\u009F\u202A-\u202E\u2066-\u2069\u2028\u2029]/g;

/** What stands under these names came from elsewhere: its own names stay. */
const AS_RECEIVED = new Set(['extra', 'layout', 'raw', 'tolerated']);

/** The value with names of columns for its members: `runId` becomes `run_id`, at every depth. */
export function withColumnNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withColumnNames);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      AS_RECEIVED.has(name) ? member : withColumnNames(member),
    ]),
  );
}

/** A value as indented JSON text with a line end; see `ndjsonLine`. */
export function json(value: unknown): string {
  return `${encode(value, 2)}\n`;
}

/**
 * A value as one line of JSON. Integers of any size are numbers as long as every reader reads them
 * exactly, else text; dates are ISO 8601; bytes are hexadecimal as PostgreSQL writes them. Control
 * characters are escaped, so that the text is safe on a terminal.
 */
export function ndjsonLine(value: unknown): string {
  return `${encode(value, 0)}\n`;
}

/** Rows as lines of JSON. */
export async function* ndjson(
  rows: Iterable<unknown> | AsyncIterable<unknown>,
): AsyncGenerator<string, void, undefined> {
  for await (const row of rows) yield ndjsonLine(row);
}

function encode(value: unknown, indent: number): string {
  return safeJson(JSON.stringify(value, replace, indent) ?? 'null');
}

/** JSON text in which what a terminal would act on is escaped; it means the same. */
export function safeJson(text: string): string {
  return text.replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function replace(this: unknown, key: string, value: unknown): unknown {
  // Buffers have turned themselves into something else by now: look at the original.
  const original = (this as Record<string, unknown>)[key];
  if (original instanceof Uint8Array) return `\\x${Buffer.from(original).toString('hex')}`;
  if (typeof value === 'bigint') {
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  }
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value;
}
