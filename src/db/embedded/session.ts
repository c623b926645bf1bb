import { cannotStart, databaseIn } from './errors.js';
import type { UserError } from '../../domain/user-error.js';
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { errorCode } from '../../domain/error-code.js';
import { explainNoRoom } from '../errors.js';
import { sweepDrafts } from './create.js';
import { files, type Place } from './place.js';
import { findPrograms } from './programs.js';
import {
  connect,
  type Credentials,
  findPostmaster,
  isTransient,
  errorsSince,
  logSize,
  WATCHER_NAME,
} from './server.js';
import { childOptions } from './service-user.js';
import type { WatcherTask } from './watcher.js';

/** Longest wait while no server process runs (ms). */
const START_TIMEOUT_MS = 60_000;
/**
 * Longest wait for a server process to answer (ms). After a crash it syncs every file of the data folder, which took
 * 19 s on a busy disk, and then replays the log. On a busy machine a ready one may take more than a minute to answer.
 */
const RECOVERY_TIMEOUT_MS = 15 * 60_000;
const RENEW_PAUSE_MS = 5_000;

export interface SessionOptions {
  readonly applicationName: string;
  /** Where PostgreSQL's programs are copied if the service user can't reach them. */
  readonly copyTo: string;
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
  options: SessionOptions,
): Promise<Session> {
  const { location } = place;
  const logStart = await logSize(location);
  const seeLog = `See its log: ${files.log(location)}`;
  let watcher: ChildProcess | null = null;
  let startedHere = false;
  const begin = performance.now();
  /** When a server process was last seen. */
  let seenAt = begin;
  const isOver = (): boolean =>
    performance.now() > Math.min(seenAt + START_TIMEOUT_MS, begin + RECOVERY_TIMEOUT_MS);
  for (; !isOver(); await sleep(50)) {
    options.signal?.throwIfAborted();
    const found = await tryConnect(place, credentials, options.applicationName);
    if (found !== null) {
      // A killed watcher leaves its server running.
      if (!found.isWatched && !isRunning(watcher)) await startWatcher(place, options);
      return { ...found, startedHere };
    }
    if (watcher?.exitCode === 1) {
      throw failed(location, 'did not start', await errorsSince(location, logStart), seeLog);
    }
    if ((await findPostmaster(location)) !== null) seenAt = performance.now();
    else if (!isRunning(watcher)) {
      watcher = await startWatcher(place, options);
      startedHere = true;
    }
  }
  const what = `was not ready after ${Math.round((performance.now() - begin) / 1000)} s`;
  const advice = `It may be recovering from a crash: try again in a minute. ${seeLog}`;
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
    return { client, port: server.port, isWatched: rows.length > 0 };
  } catch (error) {
    await client?.end().catch(() => {});
    if (isTransient(error)) return null;
    const { location } = place;
    const reason = error instanceof Error ? error.message : String(error);
    const advice =
      errorCode(error) === '53300'
        ? `End other sessions, or raise max_connections in ${files.data(location)}/postgresql.conf.`
        : `See its log: ${files.log(location)}`;
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

function isRunning(child: ChildProcess | null): boolean {
  return child !== null && child.exitCode === null && child.signalCode === null;
}

/**
 * Starts a watcher, which starts the server if needed. It outlives this process and shares no stream or setting with
 * it. It exits with code 1 if it can't start the server.
 */
async function startWatcher(place: Place, options: SessionOptions): Promise<ChildProcess> {
  const { location, user, pointer } = place;
  const { postgres } = await findPrograms(user, options.copyTo);
  for (const folder of new Set([dirname(location), dirname(pointer)])) await sweepDrafts(folder);
  // The new process needs compiled JavaScript, even when tests run TypeScript.
  const isSource = import.meta.url.endsWith('.ts');
  const compiled = isSource ? '../../../dist/db/embedded/watcher.js' : './watcher.js';
  const program = fileURLToPath(new URL(compiled, import.meta.url));
  if (!existsSync(program)) {
    throw cannotStart(`${program} is missing`, 'Build the program first: npm run build');
  }
  const task: WatcherTask = { place, postgres };
  const log = await open(files.log(location), 'a', 0o600);
  try {
    const child = spawn(process.execPath, [program, JSON.stringify(task)], {
      ...childOptions(null),
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    child.on('error', () => {}); // the child has no exit code then, so the caller's wait times out
    child.unref();
    return child;
  } finally {
    await log.close();
  }
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
