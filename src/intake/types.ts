import { errorCode } from '../domain/error-code.js';
import type { Secret } from '../domain/secret.js';

export const FORMATS = ['txt', 'csv', 'json', 'ndjson', 'xlsx'] as const;
export type Format = (typeof FORMATS)[number];

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252';

export interface IntakeOptions {
  /** File name, or `stdin`: its ending is a hint of the format. */
  readonly name: string;
  readonly format?: Format;
  /** The column of codes: its name (any letter case) or its number from 1. */
  readonly column?: string;
  /** The sheet of an Excel workbook: its name (any letter case) or its number from 1. */
  readonly sheet?: string;
  /** Longest line or record, in UTF-16 units, which are bytes in most lists. Default 1,048,576. */
  readonly maxRecordBytes?: number;
  /** API keys: they are masked in rows and messages and never taken for codes. Default: none. */
  readonly keys?: readonly Secret[];
  /** Most bytes that a gzip-compressed list may unpack to. Default 4 GiB. */
  readonly maxUnpackedBytes?: number;
}

export interface Columns {
  /** CSV only. */
  readonly delimiter: string | null;
  /** The first line names the columns. */
  readonly header: boolean;
  /** Names in the list's order, each once: the list's own, or `column_1` where it has none. */
  readonly columns: readonly string[];
  /** Index in `columns` of the one that holds the codes. */
  readonly codeColumn: number;
  /** Why each of the above was chosen, as sentences. Names from the list are shortened and safe to print. */
  readonly reasons: readonly string[];
}

export interface Layout extends Columns {
  readonly format: Format;
  readonly encoding: Encoding;
  /** The text begins with a byte order mark. */
  readonly bom: boolean;
  readonly compressed: boolean;
}

export type IntakeRow = TakenRow | RejectedRow;

interface TakenRow {
  /** Where the record begins in the file, from 1. */
  readonly line: number;
  /** The code as given, not trimmed; in CSV without a guarding apostrophe. */
  readonly text: string;
  /** The record's cells, one for each of the layout's columns. */
  readonly columns: readonly string[];
}

/** A record without a usable code. */
interface RejectedRow {
  readonly line: number;
  /** The fault, which continues "line 5: ". Never quotes the record. */
  readonly rejected: string;
  /** Its cells, as far as they could be read; at most as many as the layout has columns. */
  readonly columns: readonly string[];
}

/** Counts so far; complete when the last row was taken. */
export interface Tally {
  /** Rows given, the rejected ones included. */
  rows: number;
  rejected: number;
  /** Empty lines, which are skipped. */
  blankLines: number;
  /** Faults that were tolerated, as sentences. */
  readonly notes: string[];
}

export interface Intake {
  readonly layout: Layout;
  /** The first rows, at most 1,000. They come again in `rows`. */
  readonly first: readonly IntakeRow[];
  /**
   * The rows in the list's order, in batches; reads no further than is asked for. Can be iterated once.
   * @throws IntakeError when the list breaks off or can't be read further
   */
  readonly rows: AsyncIterable<readonly IntakeRow[]>;
  readonly tally: Readonly<Tally>;
  /** Closes the source; needed unless all rows are taken. */
  close(): Promise<void>;
}

/** A list whose format is known. */
export interface Reading extends Columns {
  readonly format: Format;
  readonly encoding: Encoding;
  readonly bom: boolean;
  /** The first rows, at most 1,000. Codes are not checked yet. */
  readonly first: readonly IntakeRow[];
  /** Reads all rows, from the first; counts blank lines and notes in `tally`. Can be called once. */
  readonly rows: (tally: Tally) => AsyncIterable<readonly IntakeRow[]>;
}

/** Cuts a text that arrives in pieces: returns what ends in this piece, or with the last one. */
export type Splitter<Part> = (piece: string, isLast: boolean) => Part[];

export interface Plan extends Columns {
  /** A reader from the list's beginning, which counts in `tally`. It doesn't check the codes. */
  readonly newReader: (tally: Tally) => Splitter<IntakeRow>;
}

export interface Sample {
  readonly text: string;
  readonly whole: boolean;
  readonly column: string | undefined;
  /** Longest record, in UTF-16 units. */
  readonly maxLength: number;
  /** Masks API keys in a cell. */
  readonly mask: (cell: string) => string;
}

/** Rows that a sheet of Excel takes below its header. */
export const MOST_SHEET_ROWS = 1_048_575;

/** Why so many rows can't be a file of this format; null when they can. */
export function roomFault(format: string, rows: number): string | null {
  if (format !== 'xlsx' || rows <= MOST_SHEET_ROWS) return null;
  const [most, wanted] = [MOST_SHEET_ROWS, rows].map((n) => n.toLocaleString('en'));
  return `an Excel sheet has room for ${most} rows, and these are ${wanted}`;
}

export const TO_CSV = 'Save it as CSV (UTF-8) and check that file.';

/** A list can't be read or a result can't be written. Says what to do about it. */
export class IntakeError extends Error {
  override readonly name = 'IntakeError';

  constructor(
    message: string,
    readonly remedy: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** What is wrong with a file and what to do about it, by the code of Node's error. */
export type FileProblems = Readonly<Record<string, readonly [problem: string, remedy: string]>>;

/** Explains why a file can't be opened, read or written. @param other for codes without an entry */
export function fileError(
  path: string,
  error: unknown,
  problems: FileProblems,
  [problem, remedy]: readonly [problem: string, remedy: string],
): IntakeError {
  const code = errorCode(error);
  const other = [`${problem} (${code || 'for no known reason'})`, remedy] as const;
  const [what, whatToDo] = problems[code] ?? other;
  return new IntakeError(`${shown(path, 200)}: ${what}`, whatToDo, { cause: error });
}

/** Text from a list for a message: quoted, shortened, without control characters. */
export function shown(text: string, maxLength = 60): string {
  const safe = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u061C\u200B-\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/gu, '\uFFFD');
  return `"${safe.length > maxLength ? `${safe.slice(0, maxLength - 1)}…` : safe}"`;
}
