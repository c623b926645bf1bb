import { UserError } from '../domain/user-error.js';
import { errorCode } from '../domain/error-code.js';

/** Problems and remedies by Node's error code. */
export type FileProblems = Readonly<Record<string, readonly [problem: string, remedy: string]>>;

/** Explains why a file can't be opened, read or written. @param fallback for codes not in `problems` */
export function fileError(
  path: string,
  error: unknown,
  problems: FileProblems,
  fallback: readonly [problem: string, remedy: string],
): UserError {
  const code = errorCode(error);
  const [problem, remedy] = problems[code] ?? [
    `${fallback[0]} (${code || 'no error code'})`,
    fallback[1],
  ];
  return new UserError(`${quoted(path, 200)}: ${problem}`, remedy, 'FILE', 2, { cause: error });
}

/** Text from a file for a message: quoted, shortened, without control characters. */
export function quoted(text: string, maxLength = 60): string {
  const safe = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u061C\u200B-\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/gu, '\uFFFD');
  return `"${safe.length > maxLength ? `${safe.slice(0, maxLength - 1)}…` : safe}"`;
}

/** Most rows of an Excel sheet, without the header. */
export const MOST_SHEET_ROWS = 1_048_575;

/** Why a file of this format can't have so many rows, or null if it can. */
export function roomFault(format: string, rows: number): string | null {
  if (format !== 'xlsx' || rows <= MOST_SHEET_ROWS) return null;
  const [most, wanted] = [MOST_SHEET_ROWS, rows].map((n) => n.toLocaleString('en'));
  return `an Excel sheet has room for ${most} rows, and these are ${wanted}`;
}
