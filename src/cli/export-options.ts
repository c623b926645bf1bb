import { readFile, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { z } from 'zod';
import type { CsvDialect } from '../domain/csv.js';
import { cursorText, parseCursor, type FeedCursor } from '../domain/feeds.js';
import { EXPORT_FORMATS, type ExportFormat } from '../export/index.js';
import { assertWritable, writeWhole } from '../intake/write-whole.js';
import { usageError } from './errors.js';
import { csvDialect, outPlace, STDOUT, type CsvOptions, type FilePlace } from './options.js';

export interface ExportOptions extends CsvOptions {
  readonly format?: ExportFormat;
  readonly since?: FeedCursor;
  readonly cursorFile?: string;
  readonly nextCursorFile?: string;
  readonly seller?: string;
  readonly out?: string;
  readonly raw?: boolean;
  readonly json?: boolean;
}

export interface Place extends FilePlace<ExportFormat> {
  readonly dialect: CsvDialect;
}

/** @throws {CommandError} when options contradict each other, or the format is unknown */
export function placeOf(options: ExportOptions, terminal: boolean): Place {
  const { out = STDOUT, raw, json, cursorFile, nextCursorFile } = options;
  const { path, format } = outPlace(out, options.format, EXPORT_FORMATS);
  const files = [path, cursorFile, nextCursorFile].flatMap((one) => (one ? [resolve(one)] : []));
  if (new Set(files).size < files.length) {
    throw usageError(
      'the export and its cursors would overwrite each other',
      'give --out, --cursor-file and --next-cursor-file a file each',
    );
  }
  if (raw === true && format !== 'csv') {
    throw usageError('--raw goes with --format csv', `leave it out: ${format} is always exact`);
  }
  if (path === null && json === true) {
    throw usageError(
      '--json and the export both write to stdout',
      'name a file with --out, or say --format ndjson for rows in JSON',
    );
  }
  if (path === null && (format === 'parquet' || format === 'xlsx') && terminal) {
    const what = format === 'parquet' ? 'Parquet' : 'A workbook';
    throw usageError(`${what} is not for terminals`, 'name a file with --out, or pipe it on');
  }
  return { path, format, dialect: csvDialect(options, format) };
}

/** Whether this export continues an earlier one, or a later one will continue it. */
export function isFollowing({ since, cursorFile, nextCursorFile }: ExportOptions): boolean {
  return [since, cursorFile, nextCursorFile].some((one) => one !== undefined);
}

/** The cursor after which the export starts; null for all rows. */
export async function cursorOf(
  { since, cursorFile }: ExportOptions,
  scope: CursorScope,
): Promise<FeedCursor | null> {
  const cursor =
    since ?? (cursorFile === undefined ? null : await readCursorFile(cursorFile, scope));
  // The cursor of an empty store: all rows, without the deleted ones.
  return cursor?.seq === 0n ? null : cursor;
}

/**
 * Checks that all files can be written, before rows are read. Deletes the next cursor of an earlier
 * export, so that it can't be mistaken for the one of an export that fails.
 */
export async function prepareFiles(place: Place, options: ExportOptions): Promise<void> {
  const { cursorFile, nextCursorFile } = options;
  for (const path of [place.path, nextCursorFile ?? cursorFile]) {
    if (path !== null && path !== undefined) await assertWritable(path);
  }
  if (nextCursorFile !== undefined) await rm(nextCursorFile, { force: true });
}

interface CursorScope {
  readonly view: string;
  /** null: all sellers. */
  readonly seller: string | null;
}

const FILE = z
  .string()
  .transform((text, context) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue('no JSON');
      return z.NEVER;
    }
  })
  .pipe(z.object({ view: z.string(), seller: z.string().nullable(), cursor: z.string() }));

/**
 * The cursor in a file; null when there is no such file, as before the first export.
 * @throws {CommandError} when the file holds something else, or the cursor of other rows
 */
async function readCursorFile(path: string, scope: CursorScope): Promise<FeedCursor | null> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw usageError(`${path}: it can't be read (${code})`, 'name another file');
  });
  if (text === null) return null;
  const file = FILE.safeParse(text);
  const cursor = file.success ? parseCursor(file.data.cursor) : null;
  if (!file.success || cursor === null) {
    throw usageError(
      `${path} holds no cursor`,
      'name the file that an earlier export wrote, or one that does not exist yet to start over',
    );
  }
  const { view, seller } = file.data;
  if (view !== scope.view || seller !== scope.seller) {
    const of = seller === null ? view : `${view} of seller "${seller}"`;
    throw usageError(
      `${path} holds the cursor of ${of}`,
      'each export needs its own cursor file: name another one',
    );
  }
  return cursor;
}

export async function writeCursorFile(
  path: string,
  { view, seller }: CursorScope,
  cursor: FeedCursor,
): Promise<void> {
  await writeWhole(path, [`${JSON.stringify({ view, seller, cursor: cursorText(cursor) })}\n`]);
}
