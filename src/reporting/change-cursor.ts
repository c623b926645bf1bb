import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { errorCode } from '../domain/error-code.js';
import { FileError } from '../listing/file-error.js';
import { writeWhole } from '../listing/write-file.js';
/** How far a reader has read the numbered changes. */
export interface ChangeCursor {
  /** The reader has everything up to this number. */
  readonly seq: bigint;
  /** When it was read, ISO 8601 in UTC; null if the time does not matter. */
  readonly at: string | null;
}

const CURSOR = /^(\d{1,18})(?:@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z))?$/;

/** Reads `4711` or `4711@2026-03-01T02:00:00Z`; null for anything else. */
export function parseCursor(text: string): ChangeCursor | null {
  const [, seq, at = null] = CURSOR.exec(text) ?? [];
  if (seq === undefined || (at !== null && Number.isNaN(Date.parse(at)))) return null;
  return { seq: BigInt(seq), at };
}

export function cursorText({ seq, at }: ChangeCursor): string {
  return at === null ? String(seq) : `${seq}@${at}`;
}

/** The rows that a cursor applies to. */
interface CursorScope {
  readonly view: string;
  /** Null: all sellers. */
  readonly seller: string | null;
}

const FILE = z.object({ view: z.string(), seller: z.string().nullable(), cursor: z.string() });

/**
 * Reads the cursor in a file.
 * @returns null if there is no such file, as before the first export
 * @throws {FileError} when the file has no cursor, or a cursor of other rows
 */
export async function readCursorFile(
  path: string,
  scope: CursorScope,
): Promise<ChangeCursor | null> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const code = errorCode(error);
    if (code === 'ENOENT') return null;
    throw new FileError(`${path}: it can’t be read (${code})`, 'name another file');
  });
  if (text === null) return null;
  const content = parseFile(text);
  if (content === null) {
    throw new FileError(
      `${path} has no cursor`,
      'name the file of an earlier export, or a new file to start over',
    );
  }
  const { view, seller, cursor } = content;
  if (view !== scope.view || seller !== scope.seller) {
    const owner = seller === null ? view : `${view} of seller "${seller}"`;
    throw new FileError(
      `${path} has the cursor of ${owner}`,
      'each export needs its own cursor file: name another one',
    );
  }
  return cursor;
}

function parseFile(text: string): (CursorScope & { readonly cursor: ChangeCursor }) | null {
  try {
    const { cursor: encoded, ...scope } = FILE.parse(JSON.parse(text));
    const cursor = parseCursor(encoded);
    return cursor === null ? null : { ...scope, cursor };
  } catch {
    return null;
  }
}

/** @throws {FileError} when the file can't be written */
export async function writeCursorFile(
  path: string,
  { view, seller }: CursorScope,
  cursor: ChangeCursor,
): Promise<void> {
  await writeWhole(path, [`${JSON.stringify({ view, seller, cursor: cursorText(cursor) })}\n`]);
}
