import { cannotStart, databaseIn, explainFileError } from './errors.js';
import { randomBytes } from 'node:crypto';
import { chmod, chown, lstat, mkdir, readdir, rename, rm, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../domain/error-code.js';
import { explainNoRoom } from '../errors.js';
import {
  files,
  findPlace,
  makeFolders,
  makeOwnFolder,
  type Place,
  pointerOf,
  writePrivate,
} from './place.js';
import { findPrograms } from './programs.js';
import { type Credentials, ROLES } from './server.js';
import { findServiceUser, isRoot, runAs, shellAs, type ServiceUser } from './service-user.js';

/** Holds what root can't have in its own folders, because the account that runs PostgreSQL can't enter them. */
const SYSTEM_FOLDER = '/var/lib/seller-mirror';

/**
 * Settings of a new database. initdb writes them to postgresql.conf, where users may change them. Settings that
 * the program relies on are passed at each start instead.
 */
const SETTINGS = {
  shared_buffers: '128MB',
  max_connections: '100',
  max_wal_size: '2GB',
  // Backends read by themselves. With I/O workers (the default) a search took 46 or 66 ms at random.
  io_method: 'sync',
  log_checkpoints: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/** Where copies of PostgreSQL's programs go. */
export function copiesFolder(dataDir: string): string {
  return isRoot() ? SYSTEM_FOLDER : join(dirname(pointerOf(dataDir)), '.postgres-programs');
}

/**
 * Creates the database of `dataDir` as a draft, then publishes it with one rename. If another process publishes
 * first, its database is used.
 */
export async function createPlace(dataDir: string): Promise<Place> {
  const pointer = pointerOf(dataDir);
  const user = await findServiceUser();
  try {
    await makeFolders(dirname(pointer));
    for (const folder of [dirname(pointer), ...(user === null ? [] : [SYSTEM_FOLDER])]) {
      const draft = await makeDraft(folder, user, folder !== dirname(pointer));
      if (draft === null) continue;
      try {
        await initialize(draft, user, copiesFolder(dataDir));
        await publish(draft, pointer);
      } finally {
        await removeTree(draft);
      }
      const place = await findPlace(dataDir);
      if (place !== null) return place;
    }
  } catch (error) {
    throw explainFileError(error, dirname(pointer));
  }
  throw cannotStart(
    `PostgreSQL does not run as root, and another account can use neither ${dirname(pointer)} nor ${SYSTEM_FOLDER}`,
    'Run as an ordinary user, set DATA_DIR to a folder that others may enter, or set DATABASE_URL.',
  );
}

/** Runs initdb in the draft, and creates the program's roles and database. */
async function initialize(draft: string, user: ServiceUser | null, copies: string): Promise<void> {
  const programs = await findPrograms(user, copies);
  const password = () => randomBytes(24).toString('base64url');
  const credentials: Credentials = { admin: password(), app: password(), reader: password() };
  const passwordFile = join(draft, 'initdb-password');
  await writePrivate(files.credentials(draft), JSON.stringify(credentials));
  await writePrivate(files.hba(draft), 'host all all 127.0.0.1/32 scram-sha-256\n');
  await chmod(files.hba(draft), 0o644);
  await writePrivate(passwordFile, credentials.admin);
  if (user !== null) await chown(passwordFile, user.uid, user.gid);
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const format = ['-E', 'UTF8', '-A', 'scram-sha-256', '--data-checksums'];
  // Sorts text in the same order on every system, whatever its C library and locales.
  const locale = ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const owner = ['-U', ROLES.admin, `--pwfile=${passwordFile}`];
  const initdb = ['-D', files.data(draft), ...owner, ...format, ...locale, ...settings];
  await runTool(draft, user, programs.initdb, initdb);
  await rm(passwordFile);
  // In single-user mode, so that nobody can connect before roles and database exist.
  const statements = [
    `CREATE ROLE ${ROLES.app} LOGIN PASSWORD '${credentials.app}'`,
    `CREATE ROLE ${ROLES.reader} LOGIN PASSWORD '${credentials.reader}'`,
    `ALTER ROLE ${ROLES.reader} SET default_transaction_read_only = on`,
    `CREATE DATABASE ${ROLES.app} OWNER ${ROLES.app}`,
  ];
  const singleUser = ['--single', '-c', 'exit_on_error=on', '-c', 'log_min_messages=fatal'];
  const args = [...singleUser, '-D', files.data(draft), 'postgres'];
  await runTool(draft, user, programs.postgres, args, `${statements.join('\n')}\n`);
}

async function runTool(
  draft: string,
  user: ServiceUser | null,
  file: string,
  args: string[],
  input?: string,
): Promise<void> {
  const { code, output } = await runAs(user, file, args, input);
  if (code === 0) return;
  const noRoom = explainNoRoom(output, databaseIn(dirname(draft)));
  if (noRoom !== null) throw noRoom;
  const lastLines = output.trim().split('\n').slice(-4).join(' | ');
  throw cannotStart(
    `the embedded database could not be created: ${basename(file)} printed: ${lastLines}`,
    'If that does not help, set DATA_DIR to another folder, or set DATABASE_URL.',
  );
}

const DRAFT = '.postgres-new-';
/** A draft takes seconds. One older than this (ms) was left by a killed process. */
const MAX_DRAFT_AGE_MS = 15 * 60_000;

/** Makes an empty draft in `folder`. @returns null if `user` can't write to it */
async function makeDraft(
  folder: string,
  user: ServiceUser | null,
  isSystem: boolean,
): Promise<string | null> {
  if (isSystem && !(await makeOwnFolder(folder).catch(() => false))) return null;
  const draft = join(folder, `${DRAFT}${randomBytes(6).toString('hex')}`);
  await mkdir(draft);
  await chmod(draft, user === null ? 0o700 : 0o711);
  await mkdir(files.data(draft), { mode: 0o700 });
  if (user === null) return draft;
  await chown(files.data(draft), user.uid, user.gid);
  if (await shellAs(user, 'cd "$1" && : > probe && rm probe', files.data(draft))) return draft;
  await removeTree(draft);
  return null;
}

async function publish(draft: string, pointer: string): Promise<void> {
  if (dirname(draft) === dirname(pointer)) {
    await unlessExists(rename(draft, pointer));
    return;
  }
  const location = join(dirname(draft), randomBytes(8).toString('hex'));
  await rename(draft, location);
  if (!(await unlessExists(symlink(location, pointer)))) await removeTree(location);
}

/** @returns false if the target of the operation exists already */
async function unlessExists(operation: Promise<void>): Promise<boolean> {
  try {
    await operation;
    return true;
  } catch (error) {
    if (['EEXIST', 'ENOTEMPTY', 'ENOTDIR'].includes(errorCode(error))) return false;
    throw error;
  }
}

/** Removes a folder as far as possible. `sweepDrafts` tries again at a later start. */
async function removeTree(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => {});
}

/** Removes drafts that killed processes left in `folder`. */
export async function sweepDrafts(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    if (!name.startsWith(DRAFT)) continue;
    const found = await lstat(join(folder, name)).catch(() => null);
    const isOurs = found?.isDirectory() === true && found.uid === process.geteuid?.();
    if (isOurs && Date.now() - found.mtimeMs > MAX_DRAFT_AGE_MS) {
      await removeTree(join(folder, name));
    }
  }
}
