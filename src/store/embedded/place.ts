import { constants } from 'node:fs';
import { chmod, lstat, mkdir, open, readdir, readlink, realpath, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { errorCode } from '../../domain/error-code.js';
import { DiskFullError, EmbeddedStartError, StoreError } from '../errors.js';
import { isRoot, type ServiceUser, userName } from './service-user.js';

/**
 * Where an embedded database is on disk. `location` belongs to the user who runs commands, and `data` in it to the
 * account that runs PostgreSQL. The two differ only for root, who must not write into a folder where another account
 * could have put a link.
 */
export interface Place {
  /** `DATA_DIR/postgres`: the folder itself, or a link to it. */
  readonly pointer: string;
  readonly location: string;
  /** The user who runs PostgreSQL. Null: the current user. */
  readonly user: ServiceUser | null;
}

export const files = {
  data: (location: string) => join(location, 'data'),
  postmaster: (location: string) => join(location, 'data', 'postmaster.pid'),
  version: (location: string) => join(location, 'data', 'PG_VERSION'),
  credentials: (location: string) => join(location, 'credentials.json'),
  hba: (location: string) => join(location, 'pg_hba.conf'),
  log: (location: string) => join(location, 'server.log'),
  /** While this file exists, the server keeps running with nobody connected. */
  held: (location: string) => join(location, 'held'),
  /** The last port, for `watcher.ts`. */
  port: (location: string) => join(location, 'port'),
};

export function pointerOf(dataDir: string): string {
  return resolve(dataDir, 'postgres');
}

/**
 * The database of `dataDir`, or null if there is none yet.
 * @throws EmbeddedStartError for another user's database, a broken link, or a folder with other contents
 */
export async function findPlace(dataDir: string): Promise<Place | null> {
  const pointer = pointerOf(dataDir);
  try {
    const found = await unlessMissing(lstat(pointer));
    if (found === null) return null;
    // Trust a link only if root or we own it: another user's could lead anywhere.
    if (!found.isSymbolicLink() || found.uid !== 0) await assertOwner(found.uid, pointer);
    const location = await followPointer(pointer);
    await assertOwner((await stat(location)).uid, location);
    if (!(await exists(files.data(location)))) {
      if ((await readdir(location)).length === 0) return null;
      throw new EmbeddedStartError(
        `${pointer} exists, but is not a database of this program`,
        'Move that folder away, or set DATA_DIR to another one.',
      );
    }
    return { pointer, location, user: await ownerOfData(location) };
  } catch (error) {
    throw explainFileError(error, pointer);
  }
}

export async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null)) !== null;
}

/** The operation's result, or null if the file does not exist. */
export async function unlessMissing<T>(operation: Promise<T>): Promise<T | null> {
  try {
    return await operation;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}

async function followPointer(pointer: string): Promise<string> {
  const location = await unlessMissing(realpath(pointer));
  if (location !== null) return location;
  throw new EmbeddedStartError(
    `${pointer} links to ${await readlink(pointer)}, but that folder does not exist`,
    `Restore the folder (is its disk mounted?), or delete ${pointer} to start with an empty database.`,
  );
}

/** Refuses another user's folder: its owner could add a link for us to write through, and PostgreSQL refuses too. */
async function assertOwner(uid: number, path: string): Promise<void> {
  const own = process.geteuid?.() ?? -1;
  if (uid === own) return;
  const [owner, user] = [await userName(uid), await userName(own)];
  const changeOwner = `; or stop it and change the owner: sudo chown -R ${user} ${quoted(path)}/`;
  throw new EmbeddedStartError(
    `the database in ${path} belongs to user ${owner}, and this command runs as ${user}`,
    `Run the command as ${owner}${own === 0 ? '.' : changeOwner}`,
  );
}

/** Root runs an existing database as the owner of its files. Other users run it as themselves. */
async function ownerOfData(location: string): Promise<ServiceUser | null> {
  const { uid, gid } = await lstat(files.data(location));
  if (!isRoot()) {
    await assertOwner(uid, location);
    return null;
  }
  if (uid !== 0) return { uid, gid };
  throw new EmbeddedStartError(
    `the files of the database in ${location} belong to root, and PostgreSQL does not run as root`,
    `Change their owner to the account that created them, for example: chown -R nobody ${quoted(files.data(location))}`,
  );
}

/** @throws EmbeddedStartError when another major version made the files */
export async function assertSameMajor(location: string, major: string): Promise<void> {
  const found = (await readSmall(files.version(location)))?.trim() ?? 'unknown';
  if (found === major) return;
  throw new EmbeddedStartError(
    `the database in ${location} was made by PostgreSQL ${/^\d+$/.test(found) ? found : 'of an unknown version'}, but this program comes with PostgreSQL ${major}`,
    'Use the version of this program that made it, or set DATA_DIR to a new folder and mirror again.',
  );
}

function quoted(path: string): string {
  return /^[\w/.-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

const MAX_SMALL_BYTES = 64 * 1024;

/**
 * The first 64 KiB of a regular file as text, or null if there is none. Never follows a link or waits for a pipe, since
 * root reads folders of the service user.
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
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_SMALL_BYTES), { position: 0 });
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Writes a file that only its owner can read. Refuses to write through a link. */
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

/** Makes a rename within `folder` survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Creates a folder and its parents. Node's `recursive` never returns in a folder that can't have new entries, such as
 * `/proc`.
 * @returns false if the folder existed
 */
export async function makeFolders(path: string): Promise<boolean> {
  const makeOne = async (): Promise<boolean> => {
    try {
      await mkdir(path);
      return true;
    } catch (error) {
      if (errorCode(error) === 'EEXIST' && (await stat(path)).isDirectory()) return false;
      throw error;
    }
  };
  try {
    return await makeOne();
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    await makeFolders(dirname(path));
    return await makeOne();
  }
}

/** Creates a folder that only we can change. @returns false if it exists and somebody else can change it */
export async function makeOwnFolder(path: string): Promise<boolean> {
  if (await makeFolders(path)) await chmod(path, 0o755);
  const found = await lstat(path);
  return found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o022) === 0;
}

export function explainFileError(error: unknown, path: string): StoreError {
  if (error instanceof StoreError) return error;
  const code = errorCode(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') return diskFull(path, error);
  // Leave out the path of the error, which may be an internal one.
  const reason = error instanceof Error ? error.message.replace(/, \w+ '.*$/s, '') : String(error);
  const reasons: Record<string, string> = {
    ENOENT: 'it does not exist and can’t be created',
    EACCES: 'this user may not enter it or write to it',
    EPERM: 'this user may not change it',
    EROFS: 'it is read-only',
    ENOTDIR: 'a part of the path is a file, not a folder',
    EEXIST: 'a part of the path is a file, not a folder',
  };
  return new EmbeddedStartError(
    `the data folder ${path} cannot be used: ${reasons[code] ?? reason}`,
    'Set DATA_DIR to a folder that this user can write to, or set DATABASE_URL.',
    { cause: error },
  );
}

export function diskFull(path: string, cause?: unknown): DiskFullError {
  return new DiskFullError(
    `the disk is full: the database in ${path} has no room left`,
    'Free some space on it (or move DATA_DIR to a larger disk), then repeat. No partial data was written.',
    { cause },
  );
}
