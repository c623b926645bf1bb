import { cannotStart, explainFileError } from './errors.js';
import {
  chmod,
  lstat,
  mkdir,
  readFile,
  readdir,
  readlink,
  realpath,
  stat,
  writeFile,
} from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { errorCode } from '../../domain/error-code.js';
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
    const location = await unlessMissing(realpath(pointer));
    if (location === null) {
      throw cannotStart(
        `${pointer} links to ${await readlink(pointer)}, but that folder does not exist`,
        `Restore the folder (is its disk mounted?), or delete ${pointer} to start with an empty database.`,
      );
    }
    await assertOwner((await stat(location)).uid, location);
    if (!(await exists(files.data(location)))) {
      if ((await readdir(location)).length === 0) return null;
      throw cannotStart(
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

/** Refuses another user's folder: its owner could add a link for us to write through, and PostgreSQL refuses too. */
async function assertOwner(uid: number, path: string): Promise<void> {
  const own = process.geteuid?.() ?? -1;
  if (uid === own) return;
  const [owner, user] = [await userName(uid), await userName(own)];
  const changeOwner = `; or stop it and change the owner: sudo chown -R ${user} '${path}/'`;
  throw cannotStart(
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
  throw cannotStart(
    `the files of the database in ${location} belong to root, and PostgreSQL does not run as root`,
    `Change their owner to the account that created them, for example: chown -R nobody '${files.data(location)}'`,
  );
}

/** The text of a small file, or null if there is none. */
export async function readSmall(path: string): Promise<string | null> {
  return unlessMissing(readFile(path, 'utf8'));
}

/** Writes a file that only its owner can read. */
export async function writePrivate(path: string, text: string): Promise<void> {
  await writeFile(path, text, { mode: 0o600, flush: true });
}

/**
 * Creates a folder and its parents. Node's `recursive` never returns in a folder that can't have new entries, such as
 * `/proc`.
 * @returns false if the folder existed
 */
export async function makeFolders(path: string): Promise<boolean> {
  const isFolder = async (): Promise<boolean> =>
    (await unlessMissing(stat(path)))?.isDirectory() === true;
  if (await isFolder()) return false;
  if (dirname(path) !== path) await makeFolders(dirname(path));
  try {
    await mkdir(path);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST' && (await isFolder())) return false;
    throw error;
  }
}

/** Creates a folder that only we can change. @returns false if it exists and somebody else can change it */
export async function makeOwnFolder(path: string): Promise<boolean> {
  if (await makeFolders(path)) await chmod(path, 0o755);
  const found = await lstat(path);
  return found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o022) === 0;
}
