import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { errorCode } from '../../domain/error-code.js';
import type { UserError } from '../../domain/user-error.js';
import { explainNoRoom } from '../errors.js';
import { cannotStart, databaseIn } from './errors.js';
import { files, type Place } from './place.js';
import {
  connect,
  type Credentials,
  errorsSince,
  findPostmaster,
  isTransient,
  logSize,
  WATCHER_NAME,
} from './server.js';
import { isRunning, lastPort, randomPort, savePort, startServer, startWatcher } from './start.js';

/** Longest wait while no server process runs (ms), for example for the backends of a killed server to end. */
const START_TIMEOUT_MS = 60_000;
/**
 * Longest wait for a server process to answer (ms). After a crash it syncs every file of the data folder, which took
 * 19 s on a busy disk, and then replays the log. On a busy machine a ready one may take more than a minute to answer.
 */
const RECOVERY_TIMEOUT_MS = 15 * 60_000;
/** Longest wait for the last port to become free (ms). A dying backend may hold it for a moment. */
const PORT_PATIENCE_MS = 10_000;
const POLL_MS = 50;
const RETRY_MS = 250;
const RENEW_PAUSE_MS = 5_000;

const PORT_TAKEN = /could not (?:bind|create any TCP)/;
/** Failures that another try may not meet: backends of a killed server, a faster command, a port in use. */
const MAY_PASS = new RegExp(
  `pre-existing shared memory block .* still in use|"postmaster\\.pid" already exists|${PORT_TAKEN.source}`,
);

interface SessionOptions {
  readonly applicationName: string;
  readonly signal?: AbortSignal | undefined;
}

/** A connection that does nothing. While it is open, the watcher keeps the server running. */
interface Session {
  readonly client: Client;
  readonly port: number;
  readonly startedHere: boolean;
}

/** Connects to the server of `place`. Starts the server if it is not running, or once it has stopped. */
export async function openSession(
  place: Place,
  credentials: Credentials,
  { applicationName, signal }: SessionOptions,
): Promise<Session> {
  const { location } = place;
  let port = await lastPort(location);
  let server: ChildProcess | null = null;
  let logStart = await logSize(location);
  const begin = performance.now();
  const keepPortUntil = begin + PORT_PATIENCE_MS;
  /** When a server process was last seen. */
  let seenAt = begin;
  const isOver = (): boolean =>
    performance.now() > Math.min(seenAt + START_TIMEOUT_MS, begin + RECOVERY_TIMEOUT_MS);
  for (; !isOver(); await sleep(POLL_MS)) {
    signal?.throwIfAborted();
    const found = await tryConnect(place, credentials, applicationName);
    if (found !== null) {
      const startedHere = server !== null && isRunning(server);
      if (startedHere) await savePort(location, port);
      // A killed watcher leaves its server running.
      else if (!found.isWatched) await startWatcher(place, found.pid);
      return { client: found.client, port: found.port, startedHere };
    }
    if ((await findPostmaster(location)) !== null) seenAt = performance.now();
    else if (server === null || !isRunning(server)) {
      if (server !== null && server.exitCode !== 0) {
        const why = await errorsSince(location, logStart);
        if (!MAY_PASS.test(why)) throw failed(location, 'did not start', why, seeLog(location));
        if (PORT_TAKEN.test(why) && performance.now() > keepPortUntil) port = randomPort();
        await sleep(RETRY_MS);
      }
      logStart = await logSize(location);
      server = await startServer(place, port);
    }
  }
  const what = `was not ready after ${Math.round((performance.now() - begin) / 1000)} s`;
  const advice = `It may be recovering from a crash: try again in a minute. ${seeLog(location)}`;
  throw failed(location, what, await errorsSince(location, logStart), advice);
}

/** @returns null while the server is down, starts or stops */
async function tryConnect(place: Place, credentials: Credentials, name: string) {
  const server = await findPostmaster(place.location);
  if (server?.ready !== true || server.port === null) return null;
  let client: Client | null = null;
  try {
    client = await connect(credentials, server.port, 'app', name);
    const { rows } = await client.query<{ name: string }>(
      'SELECT application_name AS name FROM pg_stat_activity WHERE starts_with(application_name, $1)',
      [WATCHER_NAME],
    );
    // The watcher names itself so before it looks for connections a last time: it may not have seen ours.
    if (rows.some(({ name: watcher }) => watcher.endsWith('closing'))) {
      await client.end();
      return null;
    }
    return { client, pid: server.pid, port: server.port, isWatched: rows.length > 0 };
  } catch (error) {
    await client?.end().catch(() => {});
    if (isTransient(error)) return null;
    const { location } = place;
    const reason = error instanceof Error ? error.message : String(error);
    const advice =
      errorCode(error) === '53300'
        ? `End other sessions, or raise max_connections in ${files.data(location)}/postgresql.conf.`
        : seeLog(location);
    throw failed(location, 'refused the connection', reason, advice, error);
  }
}

/**
 * Keeps a session until the returned function is called. If the server crashes or is killed, opens a new one, so that
 * a command such as `run` continues. Does not restart a server that was stopped on purpose.
 */
export function keepSession(first: Client, reopen: () => Promise<Session>): () => Promise<void> {
  let isClosed = false;
  let current = first;
  const watch = (client: Client): void => {
    let isShutdown = false;
    client.on('error', (error) => {
      // The server uses the same code for a shutdown and a crash.
      const crashed = error.message.includes('unexpected postmaster exit');
      if (errorCode(error) === '57P01' && !crashed) isShutdown = true;
    });
    client.once('end', () => {
      if (!isShutdown) void renew();
    });
  };
  // Retries forever: `run` must survive a full disk. Meanwhile its own queries report the errors.
  const renew = async (): Promise<void> => {
    while (!isClosed) {
      const renewed = await reopen().catch(() => null);
      if (renewed === null) await sleep(RENEW_PAUSE_MS, undefined, { ref: false });
      else if (isClosed) await renewed.client.end();
      else {
        current = renewed.client;
        return watch(current);
      }
    }
  };
  watch(current);
  return async () => {
    if (isClosed) return;
    isClosed = true;
    await current.end().catch(() => {});
  };
}

function seeLog(location: string): string {
  return `See its log: ${files.log(location)}`;
}

/** @param what a predicate, such as `did not start` @param why the server's words, in one line */
function failed(
  location: string,
  what: string,
  why: string,
  advice: string,
  cause?: unknown,
): UserError {
  return (
    explainNoRoom(why, databaseIn(location), cause) ??
    cannotStart(`the embedded database in ${location} ${what}: ${why}`, advice, cause)
  );
}
