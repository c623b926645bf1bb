import { randomBytes } from 'node:crypto';
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { IntakeError, errorCode, shown } from './types.js';

export interface WriteOptions {
  /** Gives up; the file stays as it was. */
  readonly signal?: AbortSignal;
  /** By default 0600: results hold whole codes, which are as good as keys. */
  readonly mode?: number;
}

/**
 * Writes a file whole or not at all: writes to another name in the same folder, syncs it to the disk,
 * and renames it. A link is replaced, and the file that it leads to stays as it is: somebody else may
 * have made the link. On failure nothing is left behind and the former file stays.
 * @param text pieces of the file, taken as fast as they are written
 * @throws IntakeError when the file can't be written; or the errors of `text` and `signal`
 */
export async function writeWhole(
  path: string,
  text: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  { signal, mode = 0o600 }: WriteOptions = {},
): Promise<void> {
  signal?.throwIfAborted();
  await explaining(path, () => assertReplaceable(path));
  const draft = draftOf(path);
  const file = await explaining(path, () => open(draft, 'wx', mode));
  try {
    try {
      await fill(path, file, text, signal);
    } finally {
      await file.close();
    }
    signal?.throwIfAborted();
    await explaining(path, () => rename(draft, path));
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

/**
 * Checks that `writeWhole` can write to this path, before hours of work are spent.
 * @throws IntakeError
 */
export async function assertWritable(path: string): Promise<void> {
  await explaining(path, () => assertReplaceable(path));
  const probe = draftOf(path);
  const file = await explaining(path, () => open(probe, 'wx', 0o600));
  await file.close();
  await rm(probe, { force: true });
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
  throw Object.assign(new Error('no ordinary file'), {
    code: found.isDirectory() ? 'EISDIR' : 'NOT_A_FILE',
  });
}

async function fill(
  path: string,
  file: FileHandle,
  text: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<void> {
  // Only the file's own failures become an IntakeError; those of the text are the caller's.
  const into = async (pieces: AsyncIterable<string | Uint8Array>): Promise<void> => {
    for await (const piece of pieces) await explaining(path, () => file.writeFile(piece));
    await explaining(path, () => file.sync());
  };
  await pipeline(Readable.from(text, { highWaterMark: 1 }), into, signal ? { signal } : {});
}

/** Syncs the new name to the disk as well; some systems can't sync folders. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch {
    // The file is written; only a power failure at this moment could bring the old one back.
  }
}

async function explaining<T>(path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw explained(path, error);
  }
}

const ELSEWHERE = 'Name another file.';

const PROBLEMS: Readonly<Record<string, readonly [problem: string, remedy: string]>> = {
  EISDIR: ['is a folder', 'Name a file in it.'],
  NOT_A_FILE: [
    'is not an ordinary file',
    'Leave it out to have the result printed, or name a file.',
  ],
  ENOENT: ['there is no such folder', 'Create it first, or name another file.'],
  ENOTDIR: ['there is no such folder', 'Create it first, or name another file.'],
  EACCES: ['this user may not write there', ELSEWHERE],
  EPERM: ['this user may not write there', ELSEWHERE],
  EROFS: ['the disk is read-only', ELSEWHERE],
  ENOSPC: ['the disk is full', 'Free some space, then repeat: nothing was half written.'],
  EDQUOT: ['the disk quota is used up', 'Free some space, then repeat: nothing was half written.'],
  ENAMETOOLONG: ['the name is too long', ELSEWHERE],
};

function explained(path: string, error: unknown): IntakeError {
  const code = errorCode(error);
  const [problem, remedy] = PROBLEMS[code] ?? [
    `it can't be written (${code || 'for no known reason'})`,
    ELSEWHERE,
  ];
  return new IntakeError(`${shown(path, 200)}: ${problem}`, remedy, { cause: error });
}
