import type { Secret } from '../domain/secret.js';

export const FORMATS = ['txt', 'csv', 'json', 'ndjson'] as const;
export type Format = (typeof FORMATS)[number];

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252';

export interface IntakeOptions {
  /** File name, or `stdin`: its ending is a hint of the format. */
  readonly name: string;
  /** Read as this, whatever name and content look like. */
  readonly format?: Format;
  /** Where the codes are: a column's name (any letter case) or its number from 1. */
  readonly column?: string | number;
  /** Longest line or record, in UTF-16 units, which are bytes in most lists. Default 1 MiB. */
  readonly maxRecordBytes?: number;
  /** API keys: none of them is in the rows or in a message, nor taken for a code. Default: none. */
  readonly keys?: readonly Secret[];
  /** Most bytes that a gzip-compressed list may unpack to. Default 4 GiB. */
  readonly maxUnpackedBytes?: number;
}

/** How a list is read; all of it is known before the first row. */
export interface Layout {
  readonly format: Format;
  readonly encoding: Encoding;
  /** The text begins with a byte order mark. */
  readonly bom: boolean;
  readonly compressed: boolean;
  /** CSV only. */
  readonly delimiter: string | null;
  /** The first line names the columns. */
  readonly header: boolean;
  /** Names in the list's order, each once: the list's own, or `column_1` where it has none. */
  readonly columns: readonly string[];
  /** Index in `columns` of the one that holds the codes. */
  readonly codeColumn: number;
  /** Why each of the above was chosen, as sentences. Names from the list are shown cut and safe. */
  readonly reasons: readonly string[];
}

/** One record of the list. */
export type IntakeRow = TakenRow | RejectedRow;

export interface TakenRow {
  /** Where the record begins in the file, from 1. */
  readonly line: number;
  /** The code as given, not trimmed; in CSV without the apostrophe that guards it from being run. */
  readonly text: string;
  /** The record's cells, one for each of the layout's columns. */
  readonly columns: readonly string[];
}

/** A record without a code that could be asked. */
export interface RejectedRow {
  readonly line: number;
  /** What is wrong with it, to be read after "line 5: ". Never quotes the record. */
  readonly rejected: string;
  /** What there is of its cells; no more than the layout has columns. */
  readonly columns: readonly string[];
}

/** What was met so far; complete when the last row was taken. */
export interface Tally {
  /** Rows given, the rejected ones included. */
  readonly rows: number;
  readonly rejected: number;
  /** Lines with nothing on them: skipped. */
  readonly blankLines: number;
  /** What had to be tolerated, as sentences. */
  readonly notes: readonly string[];
}

/** A list that is being read. */
export interface Intake {
  readonly layout: Layout;
  /** The first rows, 1,000 at most: they are looked at, and come again among `rows`. */
  readonly first: readonly IntakeRow[];
  /**
   * The rows in the list's order, a batch at a time; nothing is read ahead of what is asked for.
   * To be gone through once.
   * @throws IntakeError when the list breaks off or can't be read further
   */
  readonly rows: AsyncIterable<readonly IntakeRow[]>;
  readonly tally: Tally;
  /** Lets go of the source when the rows aren't wanted (any more). */
  close(): Promise<void>;
}

/** Reads a list as its text comes in. */
export interface RowReader {
  /** The rows that end in this piece. Whether a row's text can be a code is not looked at yet. */
  push(piece: string): IntakeRow[];
  /** The rows that the end of the text completes. */
  end(): IntakeRow[];
  readonly blankLines: number;
  /** What had to be tolerated so far, as sentences. */
  notes(): readonly string[];
}

/** How a list is to be read, found out from its beginning. */
export interface Plan {
  readonly delimiter: string | null;
  readonly header: boolean;
  readonly columns: readonly string[];
  readonly codeColumn: number;
  readonly reasons: readonly string[];
  readonly newReader: () => RowReader;
}

/** The beginning of a list's text, and what was asked for. */
export interface Sample {
  readonly text: string;
  /** There is nothing after it. */
  readonly whole: boolean;
  readonly column: string | number | undefined;
  /** Longest record, in UTF-16 units. */
  readonly most: number;
  /** Masks API keys in a cell. */
  readonly mask: (cell: string) => string;
}

/** What keeps a list from being read or a result from being written, with what to do about it. */
export class IntakeError extends Error {
  override readonly name = 'IntakeError';

  /** @param remedy one sentence: what to do about it */
  constructor(
    message: string,
    readonly remedy: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The code of an error of Node's, such as `ENOENT`; empty when it has none. */
export function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}

/**
 * Text from a list as it may stand in a message: in quotes, cut, without what could move a
 * terminal's cursor or turn the direction of writing.
 */
export function shown(text: string, most = 60): string {
  const safe = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u061C\u200B-\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/gu, '\uFFFD');
  return `"${safe.length > most ? `${safe.slice(0, most - 1)}…` : safe}"`;
}

/** `"a", "b" and 3 more`. */
export function shownList(texts: readonly string[], most = 20): string {
  const some = texts.slice(0, most).map((text) => shown(text));
  const more = texts.length - some.length;
  return more > 0 ? `${some.join(', ')} and ${more} more` : some.join(', ');
}
