import { rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { FeedCursor } from '../../domain/feed-cursor.js';
import { EXPORT_FORMATS, type ExportFormat } from '../../export/index.js';
import { assertWritable } from '../../intake/index.js';
import { CommandError } from '../errors.js';
import { EXIT } from '../exit-codes.js';
import { readCursorFile, type CursorScope } from './cursor-file.js';

/** What was typed after `export VIEW`. */
export interface ExportOptions {
  readonly format?: ExportFormat;
  readonly since?: FeedCursor;
  readonly cursorFile?: string;
  readonly nextCursorFile?: string;
  readonly seller?: string;
  readonly out?: string;
  readonly raw?: true;
  readonly json?: true;
}

const STDOUT = '-';

/** Where an export goes, and as what. */
export interface Place {
  /** null: stdout. */
  readonly path: string | null;
  readonly format: ExportFormat;
}

/** @throws {CommandError} when options contradict each other, or say too little */
export function placeOf(options: ExportOptions, terminal: boolean): Place {
  const { out = STDOUT, raw, json } = options;
  const path = out === STDOUT ? null : out;
  refuseSameFile(path, options);
  const format = options.format ?? (path === null ? 'csv' : formatOf(path));
  if (raw === true && format !== 'csv') {
    throw usage('--raw goes with --format csv', `leave it out: ${format} is always exact`);
  }
  if (path === null && json === true) {
    throw usage(
      '--json and the export both write to stdout',
      'name a file with --out, or say --format ndjson for rows in JSON',
    );
  }
  if (path === null && format === 'parquet' && terminal) {
    throw usage('Parquet is not for terminals', 'name a file with --out, or pipe it on');
  }
  return { path, format };
}

function refuseSameFile(path: string | null, { cursorFile, nextCursorFile }: ExportOptions): void {
  const files = [path, cursorFile, nextCursorFile].flatMap((one) =>
    one === null || one === undefined ? [] : [resolve(one)],
  );
  if (new Set(files).size === files.length) return;
  throw usage(
    'the export and its cursors would overwrite each other',
    'give --out, --cursor-file and --next-cursor-file a file each',
  );
}

function formatOf(path: string): ExportFormat {
  const ending = /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase();
  const format = EXPORT_FORMATS.find((one) => one === (ending === 'jsonl' ? 'ndjson' : ending));
  if (format !== undefined) return format;
  throw usage(
    `the ending of ${JSON.stringify(path)} says no format`,
    `name a file ending in .csv, .ndjson or .parquet, or say --format ${EXPORT_FORMATS.join('|')}`,
  );
}

/** Whether the export is one of a row of exports, each of which goes on after the one before. */
export function isFollowing({ since, cursorFile, nextCursorFile }: ExportOptions): boolean {
  return [since, cursorFile, nextCursorFile].some((one) => one !== undefined);
}

/** The cursor to go on after; null to begin. */
export async function cursorOf(
  { since, cursorFile }: ExportOptions,
  scope: CursorScope,
): Promise<FeedCursor | null> {
  const cursor =
    since ?? (cursorFile === undefined ? null : await readCursorFile(cursorFile, scope));
  // After nothing comes everything, without a word of what is gone.
  return cursor?.seq === 0n ? null : cursor;
}

/**
 * Makes sure that everything can be written before rows are read, and that no next cursor is left of
 * an export that failed.
 */
export async function prepare(place: Place, options: ExportOptions): Promise<void> {
  const { cursorFile, nextCursorFile } = options;
  for (const path of [place.path, nextCursorFile ?? cursorFile]) {
    if (path !== null && path !== undefined) await assertWritable(path);
  }
  if (nextCursorFile !== undefined) await rm(nextCursorFile, { force: true });
}

function usage(message: string, remedy: string): CommandError {
  return new CommandError(message, remedy, EXIT.usage);
}
