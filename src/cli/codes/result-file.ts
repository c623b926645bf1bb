import { isUserError, UserError } from '../../domain/user-error.js';
import { existsSync, realpathSync } from 'node:fs';
import type { App } from '../../app.js';
import { COMMA_CSV } from '../../domain/csv.js';
import { RESULT_FORMATS, type ResultFormat } from '../../codes/lists/write-result.js';
import { assertWritable, writeWhole } from '../../listing/write-file.js';
import { auditResult } from '../../codes/audit-result.js';
import type { AuditProgress } from '../../codes/types.js';
import { usageError } from '../errors.js';
import type { CommonOptions } from '../options.js';
import { checkRowLimit, destinationOf, STDOUT, type Destination } from '../out-file.js';
import { writeAll } from '../output/write.js';
import { ownCommand } from '../own-command.js';
import type { ResultOptions } from './options.js';

export type ResultDestination = Destination<ResultFormat>;

/** Reads `--out` and `--format`. @returns null without --out @throws {UserError} when they conflict */
export function resultDestination(
  options: ResultOptions & Pick<CommonOptions, 'json'>,
): ResultDestination | null {
  const { out, format, json, decimalComma } = options;
  if (out === undefined) {
    if (format === undefined && decimalComma === undefined) return null;
    const option = format === undefined ? '--decimal-comma' : '--format';
    throw usageError(`${option} needs --out`, 'name a file for the result: --out result.csv');
  }
  if (out === STDOUT && json === true) {
    throw usageError(
      '--json and --out - both write to stdout',
      'leave out --json; --format json writes the result as JSON',
    );
  }
  return destinationOf(options, RESULT_FORMATS);
}

/**
 * Returns where an earlier command with `--out` wanted the result. Null without --out, or if the result is
 * written already.
 * @throws {UserError} when the file can't be written
 */
export async function savedDestination({
  auditId,
  result,
}: AuditProgress): Promise<ResultDestination | null> {
  if (result === null || result.writtenAt !== null) return null;
  try {
    await assertWritable(result.path);
    return result;
  } catch (error) {
    if (!isUserError(error, 'FILE')) throw error;
    throw usageError(
      `the result of check ${auditId} can’t be written to ${error.message}`,
      'name another file with --out, or - for stdout',
    );
  }
}

/** @throws {UserError} when the result is a workbook, and a sheet can't have that many lines */
export function checkResultRows({ format }: ResultDestination, lines: number): void {
  checkRowLimit(format, lines, 'name a file ending in .csv with --out');
}

/**
 * Protects the lists: a result lacks a list's encoding, blank lines and nested fields.
 * @param lists paths of files, and `-`
 * @throws {UserError} when the result would replace one of the lists
 */
export function protectLists(
  destination: Pick<ResultDestination, 'path'> | null,
  lists: readonly string[],
): void {
  const path = destination?.path ?? null;
  if (path === null || !existsSync(path)) return;
  const target = realpathSync(path);
  if (!lists.some((list) => existsSync(list) && realpathSync(list) === target)) return;
  throw usageError(
    `the result would replace the list ${JSON.stringify(path)}`,
    'name another file',
  );
}

/**
 * Writes the current result of an audit to stdout, or atomically to a file.
 * @param parts as in `auditResult`
 * @throws {UserError}
 */
export async function writeResult(
  { db }: App,
  parts: Parameters<typeof auditResult>[1],
  destination: ResultDestination,
  signal: AbortSignal,
): Promise<void> {
  const program = ownCommand();
  const [{ auditId }] = parts;
  const dialect = destination.decimalComma ? COMMA_CSV : null;
  const result = await auditResult(db, parts, destination.format, dialect);
  if (result === null) {
    throw new UserError(
      `the list of check ${auditId} is no longer kept`,
      `KEEP_AUDITS_DAYS limits how long lists are kept; verdicts stay: \`${program} codes show CODE\``,
      'FAILED',
    );
  }
  if (destination.path === null) {
    await writeAll(process.stdout, result.pieces);
    return;
  }
  try {
    await writeWhole(destination.path, result.pieces, signal);
  } catch (error) {
    if (!isUserError(error, 'FILE')) throw error;
    const again = `${program} audits export ${auditId}`;
    throw new UserError(
      error.message,
      `${error.remedy} Nothing is lost: \`${again}\` writes it again`,
      'FAILED',
    );
  }
}
