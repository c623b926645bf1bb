import { describeCodeFault, readCode } from '../domain/codes/code.js';
import type { IntakeRow } from './types.js';

/** A row of the list, rejected where its text can't be a code. */
export function rowOf(line: number, text: string, columns: readonly string[]): IntakeRow {
  const read = readCode(text);
  if ('code' in read) return { line, text, columns };
  return { line, rejected: `the code ${describeCodeFault(read.reason)}`, columns };
}

/** Reads a list as its text comes in. */
export interface RowReader {
  /** The rows that end in this piece. */
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
  readonly reader: RowReader;
}

/** The beginning of a list's text, and what was asked for. */
export interface Sample {
  readonly text: string;
  /** There is nothing after it. */
  readonly whole: boolean;
  readonly column: string | number | undefined;
  /** Longest record, in UTF-16 units. */
  readonly most: number;
}
