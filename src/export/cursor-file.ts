import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { errorCode } from '../domain/error-code.js';
import { cursorText, parseCursor, type FeedCursor } from '../domain/feeds.js';
import { IntakeError } from '../intake/types.js';
import { writeWhole } from '../intake/write-whole.js';

/** The rows that a cursor is about. */
export interface CursorScope {
  readonly view: string;
  /** null: all sellers. */
  readonly seller: string | null;
}

const FILE = z.object({ view: z.string(), seller: z.string().nullable(), cursor: z.string() });

/**
 * The cursor in a file; null when there is no such file, as before the first export.
 * @throws {IntakeError} when the file holds something else, or the cursor of other rows
 */
export async function readCursorFile(path: string, scope: CursorScope): Promise<FeedCursor | null> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const code = errorCode(error);
    if (code === 'ENOENT') return null;
    throw new IntakeError(`${path}: it can't be read (${code})`, 'name another file');
  });
  if (text === null) return null;
  const found = contentOf(text);
  if (found === null) {
    throw new IntakeError(
      `${path} holds no cursor`,
      'name the file that an earlier export wrote, or one that does not exist yet to start over',
    );
  }
  const { view, seller, cursor } = found;
  if (view !== scope.view || seller !== scope.seller) {
    const of = seller === null ? view : `${view} of seller "${seller}"`;
    throw new IntakeError(
      `${path} holds the cursor of ${of}`,
      'each export needs its own cursor file: name another one',
    );
  }
  return cursor;
}

function contentOf(text: string): (CursorScope & { readonly cursor: FeedCursor }) | null {
  try {
    const { cursor: written, ...scope } = FILE.parse(JSON.parse(text));
    const cursor = parseCursor(written);
    return cursor === null ? null : { ...scope, cursor };
  } catch {
    return null;
  }
}

/** @throws {IntakeError} when it can't be written */
export async function writeCursorFile(
  path: string,
  { view, seller }: CursorScope,
  cursor: FeedCursor,
): Promise<void> {
  await writeWhole(path, [`${JSON.stringify({ view, seller, cursor: cursorText(cursor) })}\n`]);
}
