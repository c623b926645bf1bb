import { randomBytes } from 'node:crypto';
import { chmod, chown, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { EmbeddedStartError } from '../errors.js';
import { findBinaries, type Binaries } from './binaries.js';
import { ADMIN_ROLE, APP_ROLE, type Credentials } from './connections.js';
import { makeDraft, publish, removeDraft } from './drafts.js';
import { diskFull, explainFileError, makeFolders, writePrivate } from './folders.js';
import { files, findPlace, pointerOf, type Place } from './place.js';
import { isRoot, newServiceUser, runAs, type ServiceUser } from './service-user.js';

/** Folders that any account can be let into, for when the project's own can't be reached. */
export interface Fallback {
  readonly data: readonly string[];
  readonly binaries: readonly string[];
}

export const SYSTEM_FALLBACK: Fallback = {
  data: ['/var/lib/seller-mirror', '/srv/seller-mirror', '/opt/seller-mirror'],
  binaries: ['/var/cache/seller-mirror', '/var/lib/seller-mirror', '/opt/seller-mirror'],
};

/**
 * Settings of a new database. They go to its postgresql.conf, where a person may change them;
 * what the program relies on is given at each start instead.
 */
const SETTINGS = {
  shared_buffers: '128MB',
  max_connections: '100',
  max_wal_size: '2GB',
  log_checkpoints: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/** Where the copy of the binaries goes, should one be needed. */
export function binaryFolders(dataDir: string, fallback: Fallback): readonly string[] {
  return isRoot() ? fallback.binaries : [join(dirname(pointerOf(dataDir)), '.postgres-programs')];
}

/**
 * Makes the database of `dataDir`. It is built beside its final place and published by one rename,
 * so that it is there whole or not at all; when another process publishes first, that one counts.
 */
export async function createPlace(
  dataDir: string,
  fallback: Fallback,
  durable: boolean,
): Promise<Place> {
  const pointer = pointerOf(dataDir);
  const user = await newServiceUser();
  try {
    await makeFolders(dirname(pointer));
    const binaries = await findBinaries(user, binaryFolders(dataDir, fallback));
    for (const base of [dirname(pointer), ...(user === null ? [] : fallback.data)]) {
      const draft = await makeDraft(base, user, base === dirname(pointer));
      if (draft === null) continue;
      try {
        await makeCluster(draft, user, binaries, durable);
        await publish(draft, pointer, user);
      } finally {
        await removeDraft(draft);
      }
      const place = await findPlace(dataDir);
      if (place !== null) return place;
    }
  } catch (error) {
    throw explainFileError(error, dirname(pointer));
  }
  throw new EmbeddedStartError(
    `PostgreSQL does not run as root, and found no folder that another account can use: neither ${dirname(pointer)} nor ${fallback.data.join(', ')}`,
    'Run as an ordinary user, set DATA_DIR to a folder others may enter, or set DATABASE_URL.',
  );
}

async function makeCluster(
  draft: string,
  user: ServiceUser | null,
  binaries: Binaries,
  durable: boolean,
): Promise<void> {
  const password = () => randomBytes(24).toString('base64url');
  const credentials: Credentials = { admin: password(), app: password() };
  const passwordFile = join(draft, 'initdb-password');
  await writePrivate(files.credentials(draft), JSON.stringify(credentials));
  await writePrivate(files.hba(draft), 'host all all 127.0.0.1/32 scram-sha-256\n');
  await chmod(files.hba(draft), 0o644);
  await writePrivate(passwordFile, credentials.admin);
  if (user !== null) await chown(passwordFile, user.uid, user.gid);
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const how = ['-E', 'UTF8', '-A', 'scram-sha-256', '--data-checksums'];
  // The same order of text on every system, whatever its C library and locales.
  const locale = ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const who = ['-U', ADMIN_ROLE, `--pwfile=${passwordFile}`];
  const initdb = ['-D', files.data(draft), ...who, ...how, ...locale, ...settings];
  if (!durable) initdb.push('--no-sync');
  await run(draft, user, binaries.initdb, initdb);
  await rm(passwordFile);
  // Alone and before anybody can connect, so that no half-furnished database is ever seen.
  const statements = [
    `CREATE ROLE ${APP_ROLE} LOGIN PASSWORD '${credentials.app}'`,
    `CREATE DATABASE ${APP_ROLE} OWNER ${APP_ROLE}`,
  ];
  const alone = ['--single', '-c', 'exit_on_error=on', '-c', 'log_min_messages=fatal'];
  const fast = durable ? [] : ['-c', 'fsync=off'];
  await run(
    draft,
    user,
    binaries.postgres,
    [...alone, ...fast, '-D', files.data(draft), 'postgres'],
    `${statements.join('\n')}\n`,
  );
}

async function run(
  draft: string,
  user: ServiceUser | null,
  file: string,
  args: string[],
  input?: string,
): Promise<void> {
  const { code, output } = await runAs(user, file, args, input);
  if (code === 0) return;
  if (/No space left on device|quota exceeded/i.test(output)) throw diskFull(dirname(draft));
  const said = output.trim().split('\n').slice(-4).join(' | ');
  throw new EmbeddedStartError(
    `the embedded database could not be made: ${basename(file)} said: ${said}`,
    'If the message does not tell, set DATA_DIR to another folder, or set DATABASE_URL.',
  );
}
