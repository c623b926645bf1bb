import {
  csvHead,
  csvLine,
  csvNumber,
  escapeFormula,
  isNumberText,
  PLAIN_CSV,
  type CsvDialect,
} from '../../domain/csv.js';
import { asTyped } from '../own-command.js';

export type CsvCell = string | number | bigint | boolean | Date | null | undefined;

export interface CsvForm {
  /** Columns whose text is numbers, such as PostgreSQL's numeric: by index. */
  readonly numeric?: readonly boolean[];
  /** The rows go to a terminal, where control characters must not take effect. */
  readonly terminal?: boolean;
  readonly dialect?: CsvDialect;
}

/** Lines of CSV, one by one. A formula gets a leading apostrophe; numbers stay numbers. */
export async function* csv(
  header: readonly string[],
  rows: Iterable<readonly CsvCell[]> | AsyncIterable<readonly CsvCell[]>,
  { numeric, terminal = false, dialect = PLAIN_CSV }: CsvForm = {},
): AsyncGenerator<string, void, undefined> {
  const cellOf = (cell: CsvCell, isNumeric: boolean): string | null => {
    const text = cellText(cell, isNumeric, dialect);
    const shown = terminal ? withoutControls(text) : text;
    // These rows don't distinguish an empty text from null.
    return shown === '' ? null : shown;
  };
  yield csvHead(
    header.map((name) => cellOf(name, false)),
    dialect,
  );
  for await (const row of rows) {
    const cells = row.map((cell, index) => cellOf(cell, numeric?.[index] === true));
    yield csvLine(cells, dialect.delimiter);
  }
}

function cellText(cell: CsvCell, isNumeric: boolean, dialect: CsvDialect): string {
  if (cell === null || cell === undefined) return '';
  if (cell instanceof Date) return Number.isNaN(cell.getTime()) ? '' : cell.toISOString();
  if (typeof cell !== 'string') return csvNumber(String(cell), dialect);
  return isNumeric && isNumberText(cell) ? csvNumber(cell, dialect) : escapeFormula(cell);
}

function withoutControls(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/(?!\n)\p{Cc}/gu, '\uFFFD')
    .replaceAll(/[\u202A-\u202E\u2066-\u2069]/g, '');
}

/** Characters that JSON does not escape, but on which a terminal or a reader acts. */
const UNSAFE = /[\u007F-\u009F\u202A-\u202E\u2066-\u2069\u2028\u2029]/g;

/** Members whose content came from elsewhere: its names are not changed. */
const AS_RECEIVED = new Set(['extra', 'layout', 'raw', 'tolerated']);

/**
 * Renames members as columns are named, at every depth: `runId` becomes `run_id`. The commands in a remedy
 * become what must be typed here.
 */
export function withColumnNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withColumnNames);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      AS_RECEIVED.has(name) ? member : withColumnNames(name === 'remedy' ? typed(member) : member),
    ]),
  );
}

function typed(remedy: unknown): unknown {
  return typeof remedy === 'string' ? asTyped(remedy) : remedy;
}

export function json(value: unknown): string {
  return `${encode(value, 2)}\n`;
}

/**
 * One line of JSON. Integers that not every reader reads exactly are text; dates are ISO 8601; bytes are
 * hexadecimal as in PostgreSQL. Control characters are escaped, for terminals.
 */
export function ndjsonLine(value: unknown): string {
  return `${encode(value, 0)}\n`;
}

function encode(value: unknown, indent: number): string {
  return safeJson(JSON.stringify(value, replace, indent) ?? 'null');
}

/** Escapes characters on which a terminal acts; the JSON means the same. */
export function safeJson(text: string): string {
  return text.replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function replace(this: unknown, key: string, value: unknown): unknown {
  // A Buffer's toJSON() ran before: the original still has its bytes.
  const original = (this as Record<string, unknown>)[key];
  if (original instanceof Uint8Array) return `\\x${Buffer.from(original).toString('hex')}`;
  if (typeof value === 'bigint') {
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  }
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value;
}
