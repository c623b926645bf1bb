import { guarded, isNumberText } from '../../domain/csv-cell.js';

export type CsvCell = string | number | bigint | boolean | Date | null | undefined;

export interface CsvOptions {
  /** Columns whose text is numbers, such as PostgreSQL's numeric: by index. */
  readonly numeric?: readonly boolean[];
  /** The rows go to a terminal, where control characters must not take effect. */
  readonly terminal?: boolean;
}

/**
 * One line of CSV as RFC 4180 has it, with its CRLF. Text that a spreadsheet would take for a
 * formula gets a leading apostrophe; numbers stay numbers.
 */
export function csvLine(cells: readonly CsvCell[], options: CsvOptions = {}): string {
  const texts = cells.map((cell, index) => {
    const text = cellText(cell, options.numeric?.[index] === true);
    return quoted(options.terminal === true ? withoutControls(text) : text);
  });
  // A line that is one empty cell would read as no line at all.
  return texts.length === 1 && texts[0] === '' ? '""\r\n' : `${texts.join(',')}\r\n`;
}

/** Header and rows, line by line, so that any number of rows can be written. */
export async function* csv(
  header: readonly string[],
  rows: Iterable<readonly CsvCell[]> | AsyncIterable<readonly CsvCell[]>,
  options: CsvOptions = {},
): AsyncGenerator<string, void, undefined> {
  yield csvLine(header, options.terminal === true ? { terminal: true } : {});
  for await (const row of rows) yield csvLine(row, options);
}

function cellText(cell: CsvCell, numeric: boolean): string {
  if (cell === null || cell === undefined) return '';
  if (cell instanceof Date) return Number.isNaN(cell.getTime()) ? '' : cell.toISOString();
  if (typeof cell !== 'string') return String(cell);
  return numeric && isNumberText(cell) ? cell : guarded(cell);
}

/** Semicolons and tabs are quoted too: spreadsheets of many countries split there. */
function quoted(text: string): string {
  return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function withoutControls(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/(?!\n)\p{Cc}/gu, '\uFFFD')
    .replaceAll(/[\u202A-\u202E\u2066-\u2069]/g, '');
}
