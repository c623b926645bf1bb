import { UserError } from '../../domain/user-error.js';
import type { Secret } from '../../domain/secret.js';

export const FORMATS = ['txt', 'csv', 'xlsx'] as const;
export type Format = (typeof FORMATS)[number];

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252';

export interface ListOptions {
  /** File name, or `stdin`. Its extension is a hint about the format. */
  readonly name: string;
  readonly format?: Format;
  /** The column of codes: its name (any letter case) or its number from 1. */
  readonly column?: string;
  /** The sheet of an Excel workbook: its name (any letter case) or its number from 1. */
  readonly sheet?: string;
  /** API keys to mask in cells and messages, and to reject as codes. Default: none. */
  readonly keys?: readonly Secret[];
  /** Stops reading when it aborts. */
  readonly signal?: AbortSignal;
}

/** A list of codes, read whole. */
export interface List {
  readonly name: string;
  readonly layout: Layout;
  /** In the order of the list. */
  readonly entries: readonly Entry[];
  /** Number of entries without a usable code. */
  readonly rejected: number;
  /** Number of empty lines, which are left out. */
  readonly blankLines: number;
  /** Sentences about tolerated faults. */
  readonly notes: readonly string[];
  /** For a result that keeps the workbook as it came. Null for other lists, and if it holds an API key. */
  readonly workbook: KeptWorkbook | null;
}

/** A record of a list: its code, or why it has none. */
export type Entry = CodeEntry | RejectedEntry;

interface CodeEntry {
  /** The line where the record begins, from 1; in a workbook its row. */
  readonly line: number;
  /** The record's cells. Missing ones at the end are empty. */
  readonly columns: readonly string[];
  /** As written, without what surrounds it. */
  readonly code: string;
}

interface RejectedEntry {
  readonly line: number;
  /** Its readable cells, at most as many as the layout has columns. */
  readonly columns: readonly string[];
  /** The reason, to follow "line 5: ". Never quotes the record. */
  readonly rejected: string;
}

/** How a list is written. */
export interface Layout {
  readonly format: Format;
  readonly encoding: Encoding;
  /** True if the text begins with a byte order mark. */
  readonly bom: boolean;
  /** Null except for CSV. */
  readonly delimiter: string | null;
  /** True if a line names the columns. */
  readonly header: boolean;
  /** Unique names of the columns: the list's own, or `column_1` and so on. */
  readonly columns: readonly string[];
  /** Index in `columns` of the column with the codes. */
  readonly codeColumn: number;
  /** Sentences that explain each choice. Names from the list are shortened and safe to print. */
  readonly reasons: readonly string[];
}

/** The file of an Excel workbook, and where the list is in it. */
export interface KeptWorkbook {
  readonly bytes: Buffer;
  /** The sheet's part of the archive, such as `xl/worksheets/sheet1.xml`. */
  readonly sheet: string;
  /** The row of the header, from 1; null without a header. */
  readonly headerRow: number | null;
}

/** A record as its format has it, before its code is read. */
export interface Row {
  readonly line: number;
  /** The last line of the record, if it has several. */
  readonly lastLine?: number;
  readonly cells: readonly string[];
  /** Why cells of a workbook can't hold the code that was entered, by their index; none for text. */
  readonly faults?: Readonly<Record<number, string>>;
}

/** A list of known format, before its codes are read. */
export interface Reading {
  readonly layout: Layout;
  /** Index of the first row below the header, or 0. */
  readonly start: number;
  /** All rows, with the API keys in their cells masked. Can be iterated more than once. */
  readonly rows: Iterable<Row>;
  /** Sentences about tolerated faults, once all rows were read. */
  readonly notes: () => readonly string[];
  readonly workbook: Omit<KeptWorkbook, 'bytes'> | null;
}

/** Masks API keys in a text. */
export type Mask = (text: string) => string;

/** Rows with the API keys in their cells masked. */
export function masked(rows: Iterable<Row>, mask: Mask): Iterable<Row> {
  return {
    *[Symbol.iterator]() {
      for (const row of rows) yield { ...row, cells: row.cells.map(mask) };
    },
  };
}

/** Most bytes of a list. Some 3 million codes. */
export const MOST_BYTES = 128 * 1024 ** 2;
/** Most characters (UTF-16) of a line, and of a cell: Excel’s own limit. */
const LONGEST_LINE = 64 * 1024;
const LONGEST_CELL = 32_767;
/** Most lines, columns and cells. More would not fit into the memory that Node takes by default. */
const MOST_LINES = 4_000_000;
export const MOST_COLUMNS = 1_000;
const MOST_CELLS = 16_000_000;

/** @throws UserError when a list has too many cells: a list of commas would take gigabytes */
export function assertCells(cells: number): void {
  if (cells > MOST_CELLS) throw tooLarge(`${MOST_CELLS.toLocaleString('en')} cells`);
}

/** @throws UserError when a list has too many lines or columns */
export function assertSize(lines: number, columns: number): void {
  if (lines > MOST_LINES) throw tooLarge(`${MOST_LINES.toLocaleString('en')} lines`);
  if (columns > MOST_COLUMNS) {
    const problem = `a list may have at most ${MOST_COLUMNS} columns, and this one has ${columns}`;
    throw refused(problem, 'Export the codes with fewer columns.');
  }
}

/** @throws UserError when a line is too long */
export function assertLine(length: number, line: number): void {
  if (length > LONGEST_LINE) throw wrongFile(`line ${line} is longer than 64 kB`);
}

/** @param place such as `line 5` @throws UserError when a cell is too long */
export function assertCell(length: number, place: string): void {
  if (length <= LONGEST_CELL) return;
  throw refused(
    `${place} has a cell of more than ${LONGEST_CELL.toLocaleString('en')} characters`,
    'Export the codes without that column. In CSV, a quote may be left open there.',
  );
}

/** @param what such as `4,000,000 lines` */
export function tooLarge(what: string): UserError {
  return refused(`a list may have at most ${what}`, SPLIT);
}

export const SPLIT = 'Split it into several lists, and check them one after the other.';
export const TO_CSV = 'Save it as CSV (UTF-8) and check that file.';

/** The error for a file that is probably not the one that the user meant. */
export function wrongFile(problem: string): UserError {
  return refused(problem, 'Check that you exported the right file.');
}

/** The error for a file that is not read as a list of codes. */
export function refused(problem: string, remedy: string, cause?: unknown): UserError {
  return new UserError(problem, remedy, 'FILE', 2, { cause });
}
