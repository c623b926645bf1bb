import { randomBytes } from 'node:crypto';
import { open, realpath, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { errorCode, IntakeError } from './error.js';
import { shown } from './shown.js';

export interface WriteOptions {
  /** Gives up; the file stays as it was. */
  readonly signal?: AbortSignal;
  /** By default 0600: results hold whole codes, which are as good as keys. */
  readonly mode?: number;
}

/**
 * Writes a file whole or not at all: under another name in the same folder, to the disk, and then
 * in the place of what was there. A link is followed, so that it stays one. When anything fails,
 * nothing is left behind and the former file is as it was.
 * @param text pieces of the file, taken as fast as they are written
 * @throws IntakeError when the file can't be written; or what `text` or `signal` throw
 */
export async function writeWhole(
  path: string,
  text: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  { signal, mode = 0o600 }: WriteOptions = {},
): Promise<void> {
  signal?.throwIfAborted();
  const target = await explaining(path, () => targetOf(path));
  const draft = join(dirname(target), `.${basename(target).slice(0, 100)}.${draftId()}.tmp`);
  const file = await explaining(path, () => open(draft, 'wx', mode));
  try {
    try {
      await fill(path, file, text, signal);
    } finally {
      await file.close();
    }
    signal?.throwIfAborted();
    await explaining(path, () => rename(draft, target));
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(dirname(target));
}

/**
 * Makes sure that `writeWhole` will have a place to write to, before hours of work are spent.
 * @throws IntakeError
 */
export async function assertWritable(path: string): Promise<void> {
  const target = await explaining(path, () => targetOf(path));
  const probe = join(dirname(target), `.${basename(target).slice(0, 100)}.${draftId()}.tmp`);
  const file = await explaining(path, () => open(probe, 'wx', 0o600));
  await file.close();
  await rm(probe, { force: true });
}

function draftId(): string {
  return randomBytes(6).toString('hex');
}

/** The file itself behind links; a device or pipe must not be replaced by a file. */
async function targetOf(path: string): Promise<string> {
  if (path.endsWith('/')) throw Object.assign(new Error('a folder'), { code: 'EISDIR' });
  let target: string;
  try {
    target = await realpath(path);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    return path;
  }
  const found = await stat(target);
  if (found.isDirectory()) throw Object.assign(new Error('a folder'), { code: 'EISDIR' });
  if (!found.isFile()) throw Object.assign(new Error('no ordinary file'), { code: 'NOT_A_FILE' });
  return target;
}

async function fill(
  path: string,
  file: FileHandle,
  text: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<void> {
  // Only the file's own failures are put into words; the text's belong to whoever gave it.
  const into = async (pieces: AsyncIterable<string | Uint8Array>): Promise<void> => {
    for await (const piece of pieces) await explaining(path, () => file.writeFile(piece));
    await explaining(path, () => file.sync());
  };
  await pipeline(Readable.from(text, { highWaterMark: 1 }), into, signal ? { signal } : {});
}

/** So that the new name, too, is on the disk; not every system lets a folder be synced. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch {
    // The file is written; only a loss of power in this very moment could bring the old one back.
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
  NOT_A_FILE: ['is no ordinary file', 'Leave it out to have the result printed, or name a file.'],
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
