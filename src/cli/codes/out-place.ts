import { existsSync, realpathSync } from 'node:fs';
import {
  assertWritable,
  IntakeError,
  RESULT_FORMATS,
  type ResultFormat,
} from '../../intake/index.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { CommandError } from '../errors.js';
import { EXIT } from '../exit-codes.js';
import type { CommonOptions } from '../options.js';
import type { OutOptions } from './options.js';

/** Where a result goes, and as what. */
export interface OutPlace {
  /** null: stdout. */
  readonly path: string | null;
  readonly format: ResultFormat;
}

export const STDOUT = '-';

/**
 * Where a result goes: its format is the one asked for, or what the file's name says; on stdout CSV.
 * @throws {CommandError} when the name says nothing
 */
export function outPlace(out: string, asked: ResultFormat | undefined): OutPlace {
  if (out === STDOUT) return { path: null, format: asked ?? 'csv' };
  const format = asked ?? formatOf(out);
  if (format !== null) return { path: out, format };
  throw usage(
    `the ending of ${JSON.stringify(out)} says no format`,
    `name a file ending in .csv, .json or .ndjson, or say --format ${RESULT_FORMATS.join('|')}`,
  );
}

/** The format that a file's name says; null: none. */
export function formatOf(path: string): ResultFormat | null {
  const ending = /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase();
  if (ending === 'jsonl') return 'ndjson';
  return RESULT_FORMATS.find((format) => format === ending) ?? null;
}

/**
 * Where a command that works on an audit puts the result; null: nowhere.
 * @throws {CommandError} when the options contradict each other
 */
export function placeOf(options: OutOptions & Pick<CommonOptions, 'json'>): OutPlace | null {
  const { out, format, json } = options;
  if (out === undefined) {
    if (format === undefined) return null;
    throw usage('--format goes with --out', 'say where the result goes: --out result.csv');
  }
  if (out === STDOUT && json === true) {
    throw usage(
      '--json and --out - both write to stdout',
      'leave --json out, and say --format json for a result in JSON',
    );
  }
  return outPlace(out, format);
}

/**
 * Where `--out` told an earlier command to put the result of an audit; null when nowhere, or when it
 * is there already.
 * @throws {CommandError} when it can't be written there
 */
export async function rememberedPlace({
  auditId,
  result,
}: AuditProgress): Promise<OutPlace | null> {
  if (result === null || result.writtenAt !== null) return null;
  try {
    await assertWritable(result.path);
    return result;
  } catch (error) {
    if (!(error instanceof IntakeError)) throw error;
    throw usage(
      `the result of audit ${auditId} can’t go to ${error.message}`,
      'name another file with --out, or - for stdout',
    );
  }
}

function usage(message: string, remedy: string): CommandError {
  return new CommandError(message, remedy, EXIT.usage);
}

/** Makes sure that the result can be written, before hours of work are spent. */
export async function checkOut(place: OutPlace | null): Promise<void> {
  if (place !== null && place.path !== null) await assertWritable(place.path);
}

/**
 * A result holds the rows of its list, but not its encoding, blank lines or nested fields.
 * @param lists files and `-`
 * @throws {CommandError} when the result would take the place of one of them
 */
export function keepLists(place: OutPlace | null, lists: readonly string[]): void {
  const path = place?.path ?? null;
  if (path === null || !existsSync(path)) return;
  const target = realpathSync(path);
  if (!lists.some((list) => existsSync(list) && realpathSync(list) === target)) return;
  throw usage(`the result would replace the list ${JSON.stringify(path)}`, 'name another file');
}
