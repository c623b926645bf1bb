import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { cursorText, parseCursor, type FeedCursor } from '../../domain/feed-cursor.js';
import { writeWhole } from '../../intake/index.js';
import { CommandError } from '../errors.js';
import { EXIT } from '../exit-codes.js';

/** Which rows a cursor is about. */
export interface CursorScope {
  readonly view: string;
  /** null: all sellers. */
  readonly seller: string | null;
}

const FILE = z.object({ view: z.string(), seller: z.string().nullable(), cursor: z.string() });

/**
 * The cursor in a file; null when there is no such file, as before the first export.
 * @throws {CommandError} when the file holds something else, or the cursor of other rows
 */
export async function readCursorFile(path: string, scope: CursorScope): Promise<FeedCursor | null> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw usage(`${path}: it can't be read (${code})`, 'name another file');
  });
  if (text === null) return null;
  const { view, seller, cursor } = parsed(path, text);
  if (view !== scope.view || seller !== scope.seller) {
    const of = seller === null ? view : `${view} of seller "${seller}"`;
    throw usage(
      `${path} holds the cursor of ${of}`,
      'each export has a cursor file of its own: name another one',
    );
  }
  return cursor;
}

function parsed(path: string, text: string): CursorScope & { readonly cursor: FeedCursor } {
  const file = FILE.safeParse(jsonIn(text));
  const cursor = file.success ? parseCursor(file.data.cursor) : null;
  if (!file.success || cursor === null) {
    throw usage(
      `${path} holds no cursor`,
      'name the file that an earlier export wrote, or one that does not exist to begin anew',
    );
  }
  return { ...file.data, cursor };
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Writes a cursor for `readCursorFile`, whole or not at all. */
export async function writeCursorFile(
  path: string,
  { view, seller }: CursorScope,
  cursor: FeedCursor,
): Promise<void> {
  await writeWhole(path, [`${JSON.stringify({ view, seller, cursor: cursorText(cursor) })}\n`]);
}

function usage(message: string, remedy: string): CommandError {
  return new CommandError(message, remedy, EXIT.usage);
}
