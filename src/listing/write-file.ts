import { randomBytes } from 'node:crypto';
import { open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { errorCode } from '../domain/error-code.js';
import { fileError, type FileProblems } from './file-error.js';

/** Results hold purchase codes, which are as good as keys: only the owner may read the file. */
const MODE = 0o600;

/**
 * Writes a whole file or nothing: writes to a temporary file in the same folder, syncs it, and renames it. Replaces a
 * link instead of following it, since somebody else may have made it. On failure the old file stays.
 * @throws UserError when the file can't be written; errors of `text` and `signal`
 */
export async function writeWhole(
  path: string,
  text: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted();
  // Only failures of the file become a UserError. Errors of `text` are the caller's.
  const explaining = <T>(action: Promise<T>): Promise<T> =>
    action.catch((error: unknown) => {
      throw explained(path, error);
    });
  await explaining(assertReplaceable(path));
  const draft = draftOf(path);
  const file = await explaining(open(draft, 'wx', MODE));
  try {
    try {
      const fill = async (pieces: AsyncIterable<string | Uint8Array>): Promise<void> => {
        for await (const piece of pieces) await explaining(file.writeFile(piece));
        await explaining(file.sync());
      };
      await pipeline(Readable.from(text, { highWaterMark: 1 }), fill, signal ? { signal } : {});
    } finally {
      await file.close();
    }
    signal?.throwIfAborted();
    await explaining(rename(draft, path));
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  // Best effort: some systems can't sync folders. Without it, a power cut right now could bring the old file back.
  await syncFolder(dirname(path)).catch(() => undefined);
}

/** Call this before long work. @throws UserError when `writeWhole` could not write to this path */
export async function assertWritable(path: string): Promise<void> {
  try {
    await assertReplaceable(path);
    const probe = draftOf(path);
    await (await open(probe, 'wx', MODE)).close();
    await rm(probe, { force: true });
  } catch (error) {
    throw explained(path, error);
  }
}

function draftOf(path: string): string {
  const id = randomBytes(6).toString('hex');
  return join(dirname(path), `.${basename(path).slice(0, 100)}.${id}.tmp`);
}

/** Refuses to replace a folder, device or pipe, or a link to one, such as /dev/stdout. */
async function assertReplaceable(path: string): Promise<void> {
  if (path.endsWith('/')) throw Object.assign(new Error('a folder'), { code: 'EISDIR' });
  const found = await stat(path).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  });
  if (found === null || found.isFile()) return;
  const code = found.isDirectory() ? 'EISDIR' : 'NOT_A_FILE';
  throw Object.assign(new Error('not an ordinary file'), { code });
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const ELSEWHERE = 'Name another file.';
const NO_FOLDER = ['there is no such folder', 'Create it first, or name another file.'] as const;
const NOT_ALLOWED = ['this user may not write there', ELSEWHERE] as const;
const FREE_SPACE = 'Free some space, then repeat. No partial file was written.';

const PROBLEMS: FileProblems = {
  EISDIR: ['is a folder', 'Name a file in it.'],
  NOT_A_FILE: ['is not an ordinary file', 'Leave it out to print the result, or name a file.'],
  ENOENT: NO_FOLDER,
  ENOTDIR: NO_FOLDER,
  EACCES: NOT_ALLOWED,
  EPERM: NOT_ALLOWED,
  EROFS: ['the disk is read-only', ELSEWHERE],
  ENOSPC: ['the disk is full', FREE_SPACE],
  EDQUOT: ['the disk quota is used up', FREE_SPACE],
  ENAMETOOLONG: ['the name is too long', ELSEWHERE],
};

function explained(path: string, error: unknown): Error {
  return fileError(path, error, PROBLEMS, ['it can’t be written', ELSEWHERE]);
}
