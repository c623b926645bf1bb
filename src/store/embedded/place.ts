import { lstat, readdir, readlink, realpath, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { EmbeddedStartError, errorCode } from '../errors.js';
import { explainFileError, readSmall } from './folders.js';
import { isRoot, userName, type ServiceUser } from './service-user.js';

/**
 * An embedded database on disk. `location` belongs to whoever runs the commands; inside it, `data`
 * belongs to the account that runs PostgreSQL. They differ only for root, who thus never writes
 * into a folder where another account could have laid a link.
 */
export interface Place {
  /** `DATA_DIR/postgres`: the folder itself, or a link to it. */
  readonly pointer: string;
  /** The real folder. */
  readonly location: string;
  /** Who runs PostgreSQL; null: the current user. */
  readonly user: ServiceUser | null;
}

/** What is in `location`. */
export const files = {
  data: (location: string) => join(location, 'data'),
  postmaster: (location: string) => join(location, 'data', 'postmaster.pid'),
  version: (location: string) => join(location, 'data', 'PG_VERSION'),
  credentials: (location: string) => join(location, 'credentials.json'),
  hba: (location: string) => join(location, 'pg_hba.conf'),
  log: (location: string) => join(location, 'server.log'),
  /** Its presence keeps the server up while nobody is connected. */
  held: (location: string) => join(location, 'held'),
  /** Last port, taken again when it is free, so that addresses in BI tools stay good. */
  port: (location: string) => join(location, 'port'),
};

export function pointerOf(dataDir: string): string {
  return resolve(dataDir, 'postgres');
}

/**
 * The database of `dataDir`, or null when there is none yet.
 * @throws EmbeddedStartError when there is something that can't be used: another user's database, a
 *   link to nowhere, a folder that holds something else.
 */
export async function findPlace(dataDir: string): Promise<Place | null> {
  const pointer = pointerOf(dataDir);
  try {
    const found = await lstat(pointer).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return null;
      throw error;
    });
    if (found === null) return null;
    // A link of root's is as good as one of ours; anybody else's could lead us astray.
    if (!found.isSymbolicLink() || found.uid !== 0) assertOwner(found.uid, pointer);
    const location = await followPointer(pointer);
    const owner = await stat(location);
    assertOwner(owner.uid, location);
    if ((await lstat(files.data(location)).catch(() => null)) === null) {
      if ((await readdir(location)).length === 0) return null;
      throw foreignFolder(pointer);
    }
    return { pointer, location, user: await ownerOfData(location) };
  } catch (error) {
    throw explainFileError(error, pointer);
  }
}

async function followPointer(pointer: string): Promise<string> {
  try {
    return await realpath(pointer);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    const target = await readlink(pointer);
    throw new EmbeddedStartError(
      `the database should be in ${target}, where ${pointer} points to, but that folder is gone`,
      `Bring the folder back (is a disk not mounted?); or delete ${pointer} to start with an empty database.`,
      { cause: error },
    );
  }
}

/** Another owner could lay a link for us to write through, and PostgreSQL would refuse anyway. */
function assertOwner(uid: number, path: string): void {
  const own = process.geteuid?.() ?? -1;
  if (uid === own) return;
  const giveAway = `; or stop it, and give the folder away: sudo chown -R ${userName(own)} ${quoted(path)}/`;
  throw new EmbeddedStartError(
    `the database in ${path} belongs to user ${userName(uid)}, and this command runs as ${userName(own)}`,
    `Run the command as ${userName(uid)}${own === 0 ? '.' : giveAway}`,
  );
}

/** Root runs an existing database as whoever owns its files; anybody else as themselves. */
async function ownerOfData(location: string): Promise<ServiceUser | null> {
  const { uid, gid } = await lstat(files.data(location));
  if (!isRoot()) {
    assertOwner(uid, location);
    return null;
  }
  if (uid !== 0) return { uid, gid };
  throw new EmbeddedStartError(
    `the files of the database in ${location} belong to root, and PostgreSQL does not run as root`,
    `Give them back to the account that made them, such as: chown -R nobody ${quoted(files.data(location))}`,
  );
}

function foreignFolder(pointer: string): EmbeddedStartError {
  return new EmbeddedStartError(
    `${pointer} is there, but is no database of this program`,
    'Move that folder away, or set DATA_DIR to another one.',
  );
}

/** @throws EmbeddedStartError when the files were made by another major version. */
export async function assertSameMajor(location: string, major: string): Promise<void> {
  const found = (await readSmall(files.version(location)))?.trim() ?? 'unknown';
  if (found === major) return;
  throw new EmbeddedStartError(
    `the database in ${location} was made by PostgreSQL ${/^\d+$/.test(found) ? found : 'of an unknown version'}, this program brings PostgreSQL ${major}`,
    'Use the version of this program that made it, or set DATA_DIR to a new folder and mirror again.',
  );
}

function quoted(path: string): string {
  return /^[\w/.-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
