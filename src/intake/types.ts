import { errorCode } from '../domain/error-code.js';
import type { Secret } from '../domain/secret.js';

export const FORMATS = ['txt', 'csv', 'json', 'ndjson', 'xlsx'] as const;
export type Format = (typeof FORMATS)[number];

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252';

export interface IntakeOptions {
  /** File name, or `stdin`. Its extension is a hint about the format. */
  readonly name: string;
  readonly format?: Format;
  /** The column of codes: its name (any letter case) or its number from 1. */
  readonly column?: string;
  /** The sheet of an Excel workbook: its name (any letter case) or its number from 1. */
  readonly sheet?: string;
  /** Longest line or record, in UTF-16 units, which are bytes in most lists. Default 1,048,576. */
  readonly maxRecordBytes?: number;
  /** API keys to mask in rows and messages, and to reject as codes. Default: none. */
  readonly keys?: readonly Secret[];
  /** Most bytes that a gzip-compressed list may expand to. Default 4 GiB. */
  readonly maxUnpackedBytes?: number;
}

export interface Columns {
  /** Null except for CSV. */
  readonly delimiter: string | null;
  /** True if the first line names the columns. */
  readonly header: boolean;
  /** Unique names of the columns: the list's own, or `column_1` and so on. */
  readonly columns: readonly string[];
  /** Index in `columns` of the column with the codes. */
  readonly codeColumn: number;
  /** Sentences that explain each choice. Names from the list are shortened and safe to print. */
  readonly reasons: readonly string[];
}

export interface Layout extends Columns {
  readonly format: Format;
  readonly encoding: Encoding;
  /** True if the text begins with a byte order mark. */
  readonly bom: boolean;
  readonly compressed: boolean;
}

export type IntakeRow = CodeRow | RejectedRow;
/** A row before its code is checked. */
export type UncheckedRow = TextRow | RejectedRow;

interface Row {
  /** The line where the record begins in the file, from 1. */
  readonly line: number;
  /** The record's cells, one for each column of the layout. */
  readonly columns: readonly string[];
}

interface CodeRow extends Row {
  /** Normalized. */
  readonly code: string;
}

interface TextRow extends Row {
  /** The code as in the list, not trimmed. In CSV without an apostrophe that guards against formulas. */
  readonly text: string;
}

/** A record without a usable code. */
interface RejectedRow {
  readonly line: number;
  /** The reason, to follow "line 5: ". Never quotes the record. */
  readonly rejected: string;
  /** Its readable cells, at most as many as the layout has columns. */
  readonly columns: readonly string[];
}

/** Counts of the rows read so far. */
export interface Tally {
  /** All rows, rejected ones included. */
  rows: number;
  rejected: number;
  /** Empty lines, which are skipped. */
  blankLines: number;
  /** Sentences about tolerated faults. */
  readonly notes: string[];
}

export interface Intake {
  readonly layout: Layout;
  /** The first rows, at most 1,000. `rows` has them too. */
  readonly first: readonly IntakeRow[];
  /**
   * The rows in list order, in batches, read on demand. Can be iterated once.
   * @throws FileError when the list is cut off or can't be read further
   */
  readonly rows: AsyncIterable<readonly IntakeRow[]>;
  readonly tally: Readonly<Tally>;
  /** Closes the source. Needed unless all rows are read. */
  close(): Promise<void>;
}

/** A list of known format, before its codes are checked. */
export interface Reading extends Columns {
  readonly format: Format;
  readonly encoding: Encoding;
  readonly bom: boolean;
  /** The first rows, at most 1,000. */
  readonly first: readonly UncheckedRow[];
  /** Reads all rows. Adds blank lines and notes to `tally`. Can be called once. */
  readonly rows: (tally: Tally) => AsyncIterable<readonly UncheckedRow[]>;
}

/** Splits a text that arrives in pieces: returns the parts that end in this piece. */
export type Splitter<Part> = (piece: string, isLast: boolean) => Part[];

export interface Plan extends Columns {
  /** Creates a reader for the list from its beginning. It adds blank lines and notes to `tally`. */
  readonly newReader: (tally: Tally) => Splitter<UncheckedRow>;
}

/** The beginning of a list, and how the user wants it read. */
export interface Sample {
  readonly text: string;
  /** True if `text` is the whole list. */
  readonly whole: boolean;
  /** The requested column: name or number. */
  readonly column: string | undefined;
  /** Longest record, in UTF-16 units. */
  readonly maxLength: number;
  /** Masks API keys in a cell. */
  readonly mask: (cell: string) => string;
}

/** Most rows of an Excel sheet, without the header. */
export const MOST_SHEET_ROWS = 1_048_575;

/** Why a file of this format can't have so many rows, or null if it can. */
export function roomFault(format: string, rows: number): string | null {
  if (format !== 'xlsx' || rows <= MOST_SHEET_ROWS) return null;
  const [most, wanted] = [MOST_SHEET_ROWS, rows].map((n) => n.toLocaleString('en'));
  return `an Excel sheet has room for ${most} rows, and these are ${wanted}`;
}

export const TO_CSV = 'Save it as CSV (UTF-8) and check that file.';

/** A file can't be read as the user wants, or can't be written. */
export class FileError extends Error {
  override readonly name = 'FileError';

  constructor(
    message: string,
    readonly remedy: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The error for a file that is probably not the one that the user meant. */
export function wrongFile(problem: string): FileError {
  return new FileError(problem, 'Check that you exported the right file.');
}

/** Problems and remedies by Node's error code. */
export type FileProblems = Readonly<Record<string, readonly [problem: string, remedy: string]>>;

/** Explains why a file can't be opened, read or written. @param fallback for codes not in `problems` */
export function fileError(
  path: string,
  error: unknown,
  problems: FileProblems,
  fallback: readonly [problem: string, remedy: string],
): FileError {
  const code = errorCode(error);
  const [problem, remedy] = problems[code] ?? [
    `${fallback[0]} (${code || 'no error code'})`,
    fallback[1],
  ];
  return new FileError(`${quoted(path, 200)}: ${problem}`, remedy, { cause: error });
}

/** Text from a list for a message: quoted, shortened, without control characters. */
export function quoted(text: string, maxLength = 60): string {
  const safe = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u061C\u200B-\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/gu, '\uFFFD');
  return `"${safe.length > maxLength ? `${safe.slice(0, maxLength - 1)}…` : safe}"`;
}
