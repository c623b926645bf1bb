import { constants } from 'node:fs';
import { chmod, lstat, mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DiskFullError, EmbeddedStartError, StoreError, errorCode } from '../errors.js';

const SMALL = 64 * 1024;

/**
 * Text of a small regular file, or null when there is none. Never follows a link and never waits
 * on a pipe, since folders of the service user are read by root too.
 */
export async function readSmall(path: string): Promise<string | null> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  let file;
  try {
    file = await open(path, flags);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(error))) return null;
    throw error;
  }
  try {
    if (!(await file.stat()).isFile()) return null;
    const { buffer, bytesRead } = await file.read(Buffer.alloc(SMALL), 0, SMALL, 0);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Writes a file that only we can read. Refuses to write through a link. */
export async function writePrivate(path: string, text: string): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  const file = await open(path, flags, 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes a rename within `folder` last through a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Makes a folder and those above it; returns whether there was none. Node's own way never returns where
 * a folder that is there takes no other, as `/proc`.
 */
export async function makeFolders(path: string): Promise<boolean> {
  const wasMade = await makeFolder(path);
  if (wasMade !== null) return wasMade;
  await makeFolders(dirname(path));
  return (await makeFolder(path)) ?? fail(path);
}

/** Null when the one above it is not there. */
async function makeFolder(path: string): Promise<boolean | null> {
  try {
    await mkdir(path);
    return true;
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT') return null;
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return false;
    throw error;
  }
}

function fail(path: string): never {
  throw new Error(`no folder can be made in ${dirname(path)}`);
}

/**
 * Makes sure of a folder of ours that everybody can enter and nobody else can write to. False when
 * one is there already that somebody else could tamper with.
 */
export async function makeOwnFolder(path: string): Promise<boolean> {
  if (await makeFolders(path)) await chmod(path, 0o755);
  const found = await lstat(path);
  return found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o022) === 0;
}

/** What a failed file operation under `path` means to a person. */
export function explainFileError(error: unknown, path: string): StoreError {
  if (error instanceof StoreError) return error;
  const code = errorCode(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') return diskFull(path, error);
  const reason = error instanceof Error ? error.message : String(error);
  const told: Record<string, string> = {
    EACCES: 'this user may not enter or write it',
    EPERM: 'this user may not change it',
    EROFS: 'it is read-only',
    ENOTDIR: 'a part of the path is a file, not a folder',
    EEXIST: 'a part of the path is a file, not a folder',
  };
  return new EmbeddedStartError(
    `the data folder ${path} cannot be used: ${told[code] ?? reason}`,
    'Set DATA_DIR to a folder that this user can write to, or set DATABASE_URL.',
    { cause: error },
  );
}

export function diskFull(path: string, cause?: unknown): DiskFullError {
  return new DiskFullError(
    `the disk is full: the database in ${path} has no room left`,
    'Free some space on it (or move DATA_DIR to a larger disk), then repeat: nothing was half written.',
    { cause },
  );
}
