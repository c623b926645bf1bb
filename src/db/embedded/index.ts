import { lstat, mkdtemp, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { copiesFolder, createPlace } from './create.js';
import { explainFileError } from './errors.js';
import {
  exists,
  files,
  findPlace,
  type Place,
  pointerOf,
  unlessMissing,
  writePrivate,
} from './place.js';
import { findPackage } from './programs.js';
import {
  addressOf,
  connect,
  type Credentials,
  findPostmaster,
  isTransient,
  readCredentials,
  stopPostmaster,
  waitUntilGone,
  WATCHER_NAME,
} from './server.js';
import { findServiceUser } from './service-user.js';
import { keepSession, openSession } from './session.js';

interface EmbeddedOptions {
  /** The data folder, which holds the database in `postgres`. */
  readonly dataDir: string;
  readonly applicationName: string;
  readonly signal?: AbortSignal;
}

export interface EmbeddedDatabase {
  /** Connection string with the password. Don't log it. */
  readonly url: string;
  /** Connection string of a role that may read schema `reporting` only, for BI tools. */
  readonly readOnlyUrl: string;
  /** The folder with the data: `dataDir/postgres`, or the folder that it links to. */
  readonly location: string;
  readonly port: number;
  /** Whether this call started the server. */
  readonly startedHere: boolean;
  /** Releases the server. It stops seconds after its last user closed. */
  close(): Promise<void>;
}

interface EmbeddedSession {
  readonly applicationName: string;
  readonly database: string | null;
}

export interface EmbeddedDescription {
  readonly location: string;
  /** True if `db start` keeps the server running. */
  readonly held: boolean;
  /** Null if the server is not running. */
  readonly server: {
    readonly pid: number;
    readonly port: number;
    readonly url: string;
    readonly readOnlyUrl: string;
    /** All connections except the watcher's and this call's own. */
    readonly sessions: readonly EmbeddedSession[];
  } | null;
}

/**
 * Opens the embedded PostgreSQL under `dataDir`: creates and starts it if needed. Any number of processes may
 * share it. The server survives a killed caller, and stops when nobody is connected any more.
 * @throws UserError, or the reason of `signal`
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const { dataDir, applicationName, signal } = options;
  signal?.throwIfAborted();
  const place = (await findPlace(dataDir)) ?? (await createPlace(dataDir));
  try {
    const credentials = await readCredentials(place.location);
    const own = { applicationName, copyTo: copiesFolder(dataDir) };
    const session = await openSession(place, credentials, { ...own, signal });
    const { client, port, startedHere } = session;
    return {
      url: addressOf(credentials, port, 'app'),
      readOnlyUrl: addressOf(credentials, port, 'reader'),
      location: place.location,
      port,
      startedHere,
      close: keepSession(client, () => openSession(place, credentials, own)),
    };
  } catch (error) {
    if (signal?.aborted === true) throw error;
    throw explainFileError(error, place.location);
  }
}

/** Keeps the server running until `release`, even with nobody connected. Starts it if needed. */
export async function hold(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const database = await openEmbedded(options);
  try {
    // Written while we are connected: the watcher looks for it before it stops the server.
    await writePrivate(files.held(database.location), '');
    return database;
  } catch (error) {
    throw explainFileError(error, database.location);
  } finally {
    await database.close();
  }
}

/**
 * Ends a `hold`.
 * @param options.now disconnects everybody and stops the server at once
 * @returns the state before, or null if there is no database
 */
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
      stopPostmaster(before.server.pid, 'INT');
      await waitUntilGone(before.server.pid, 60_000);
    }
    return before;
  } catch (error) {
    throw explainFileError(error, place.location);
  }
}

/** Describes the database under `dataDir` without starting it. @returns null if there is none */
export async function describeEmbedded(dataDir: string): Promise<EmbeddedDescription | null> {
  const place = await findPlace(dataDir);
  return place === null ? null : await describe(place);
}

/** Checks that a database could be created under `dataDir`, and leaves nothing there. @throws EmbeddedStartError */
export async function assertCanBeMade(dataDir: string): Promise<void> {
  await findServiceUser();
  await findPackage();
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
  return {
    location,
    held: await exists(files.held(location)),
    server: await describeServer(location),
  };
}

async function describeServer(location: string): Promise<EmbeddedDescription['server']> {
  const { pid = 0, port = null } = (await findPostmaster(location)) ?? {};
  if (port === null) return null;
  const credentials = await readCredentials(location);
  const sessions = await sessionsOn(credentials, port);
  const url = addressOf(credentials, port, 'app');
  const readOnlyUrl = addressOf(credentials, port, 'reader');
  return sessions && { pid, port, url, readOnlyUrl, sessions };
}

/** Null while the server starts or stops. */
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
           AND datname IS NOT NULL -- null while a connection is logging in
           AND NOT starts_with(application_name, $1)
         ORDER BY backend_start`,
        [WATCHER_NAME],
      );
      return rows;
    } finally {
      await client.end();
    }
  } catch (error) {
    if (isTransient(error)) return null;
    throw error;
  }
}
