import { lstat, mkdtemp, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { assertPlatform } from './binaries.js';
import { SYSTEM_FALLBACK, binaryFolders, createPlace, type Fallback } from './cluster.js';
import {
  addressOf,
  connect,
  type Credentials,
  findPostmaster,
  isPassing,
  SUPERVISOR_NAME,
  readCredentials,
  stopPostmaster,
  waitUntilGone,
} from './server.js';
import {
  explainFileError,
  writePrivate,
  files,
  findPlace,
  pointerOf,
  unlessMissing,
  type Place,
} from './place.js';
import { keepLease, leaseServer } from './lease.js';
import { newServiceUser } from './service-user.js';

export interface EmbeddedOptions {
  /** The data folder; the database is `postgres` in it. */
  readonly dataDir: string;
  readonly applicationName: string;
  readonly signal?: AbortSignal;
  /** False: commits need not survive a power cut. For tests. Default true. */
  readonly durable?: boolean;
  /** Folders for root's use when `dataDir` can't be reached by another account. For tests. */
  readonly fallback?: Fallback;
  /** Longest wait while no server process runs (ms). For tests. Default: a minute. */
  readonly startTimeoutMs?: number;
}

export interface EmbeddedDatabase {
  /** Connection string, password included: not for logs. */
  readonly url: string;
  /** The same for the server's superuser, who makes roles. */
  readonly adminUrl: string;
  /** Where the data really is: `dataDir/postgres`, or the folder that this is a link to. */
  readonly location: string;
  readonly port: number;
  /** Whether this call started the server. */
  readonly startedHere: boolean;
  /** Gives the server up; it stops some seconds after the last one did. */
  close(): Promise<void>;
}

export interface EmbeddedSession {
  readonly applicationName: string;
  readonly database: string | null;
}

export interface EmbeddedDescription {
  readonly location: string;
  /** Whether `db start` keeps the server up. */
  readonly held: boolean;
  /** Null when the server does not run. */
  readonly server: {
    readonly pid: number;
    readonly port: number;
    readonly url: string;
    /** Everybody connected, this call and the supervisor left out. */
    readonly sessions: readonly EmbeddedSession[];
  } | null;
}

/**
 * Makes the embedded PostgreSQL under `dataDir`, starts or shares it; any number of processes may. It
 * outlives a killed caller, and stops by itself when nobody is connected any more.
 * @throws StoreError (EmbeddedStartError, DiskFullError); the signal's reason when aborted
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const { dataDir, applicationName, signal, durable = true, fallback = SYSTEM_FALLBACK } = options;
  const { startTimeoutMs } = options;
  signal?.throwIfAborted();
  const place = (await findPlace(dataDir)) ?? (await createPlace(dataDir, fallback, durable));
  try {
    const credentials = await readCredentials(place.location);
    const settings = {
      applicationName,
      durable,
      binaryFolders: binaryFolders(dataDir, fallback),
      ...(startTimeoutMs === undefined ? {} : { startTimeoutMs }),
    };
    const first = await leaseServer(place, credentials, { ...settings, signal });
    return {
      url: addressOf(credentials, first.port, 'app'),
      adminUrl: addressOf(credentials, first.port, 'admin'),
      location: place.location,
      port: first.port,
      startedHere: first.startedHere,
      close: keepLease(first, () => leaseServer(place, credentials, settings)),
    };
  } catch (error) {
    if (signal?.aborted === true) throw error;
    throw explainFileError(error, place.location);
  }
}

/** Starts the server if need be, and keeps it up with nobody connected, until `release`. */
export async function hold(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const database = await openEmbedded(options);
  try {
    // Under the lease: the supervisor looks at it again once no lease is left, before it stops.
    await writePrivate(files.held(database.location), '');
    return database;
  } catch (error) {
    throw explainFileError(error, database.location);
  } finally {
    await database.close();
  }
}

/** Ends a `hold`; `now` cuts off everybody at once. @returns what was running before */
export async function release(
  dataDir: string,
  { now = false } = {},
): Promise<EmbeddedDescription | null> {
  const place = await findPlace(dataDir);
  if (place === null) return null;
  const before = await describe(place);
  try {
    await rm(files.held(place.location), { force: true });
    if (now && before.server !== null) {
      await stopPostmaster(place, before.server.pid, 'INT');
      await waitUntilGone(before.server.pid, 60_000);
    }
    return before;
  } catch (error) {
    throw explainFileError(error, place.location);
  }
}

/** Describes the database under `dataDir` without starting it; null when there is none. */
export async function describeEmbedded(dataDir: string): Promise<EmbeddedDescription | null> {
  const place = await findPlace(dataDir);
  return place === null ? null : await describe(place);
}

/** @throws EmbeddedStartError when no database could be made under `dataDir`; leaves nothing there */
export async function assertCanBeMade(dataDir: string): Promise<void> {
  await newServiceUser();
  await assertPlatform();
  const folder = dirname(pointerOf(dataDir));
  try {
    await rmdir(await mkdtemp(join(await nearestFolder(folder), '.seller-mirror-')));
  } catch (error) {
    throw explainFileError(error, folder);
  }
}

async function nearestFolder(path: string): Promise<string> {
  const found = await unlessMissing(lstat(path));
  return found === null && dirname(path) !== path ? nearestFolder(dirname(path)) : path;
}

async function describe(place: Place): Promise<EmbeddedDescription> {
  const { location } = place;
  const held = (await lstat(files.held(location)).catch(() => null)) !== null;
  const server = await findPostmaster(location);
  if (server === null || server.port === null) return { location, held, server: null };
  const credentials = await readCredentials(location);
  const sessions = await sessionsOn(credentials, server.port);
  if (sessions === null) return { location, held, server: null };
  const url = addressOf(credentials, server.port, 'app');
  return { location, held, server: { pid: server.pid, port: server.port, url, sessions } };
}

/** Null when the server is just stopping or starting. */
async function sessionsOn(
  credentials: Credentials,
  port: number,
): Promise<EmbeddedSession[] | null> {
  try {
    const client = await connect(credentials, port, 'admin', 'seller-mirror');
    try {
      const { rows } = await client.query<EmbeddedSession>(
        `SELECT application_name AS "applicationName", datname AS database
         FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
           AND datname IS NOT NULL -- else it is still logging in
           AND NOT starts_with(application_name, $1)
         ORDER BY backend_start`,
        [SUPERVISOR_NAME],
      );
      return rows;
    } finally {
      await client.end();
    }
  } catch (error) {
    if (isPassing(error)) return null;
    throw error;
  }
}
