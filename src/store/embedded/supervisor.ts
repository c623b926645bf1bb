import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { open, realpath } from 'node:fs/promises';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import {
  connect,
  findPostmaster,
  isTransient,
  LEASE_LOCK,
  logSince,
  logSize,
  readCredentials,
  rotateLog,
  START_MARK,
  stopPostmaster,
  SUPERVISOR_LOCK,
  SUPERVISOR_NAME,
  waitUntilGone,
} from './server.js';
import { exists, files, type Place, readSmall, writePrivate } from './place.js';
import { asUser, plainEnvironment, runAs } from './service-user.js';

/*
 * The supervisor is a small separate process. It starts the embedded server, and stops it once nobody has been
 * connected for two seconds and `db start` does not hold it. The server runs on without it: the next command
 * replaces a killed supervisor.
 */

/** A supervisor's first argument, as JSON. Holds no secret, since every user can read arguments. */
export interface SupervisorTask {
  readonly place: Place;
  readonly postgres: string;
  readonly durable: boolean;
  /** Identifies the server started for this task. See `START_MARK`. */
  readonly mark: string;
}

/** Longest wait for the backends of a killed server to end (ms). */
const START_TIMEOUT_MS = 60_000;

/** Longest wait for the port of a killed server to become free (ms). */
const PORT_PATIENCE_MS = 10_000;

/**
 * Makes sure that a server runs, and waits until it accepts connections, however long recovery takes.
 * @returns false if it could not be started; the server's log says why
 */
async function ensureServer(task: SupervisorTask): Promise<boolean> {
  const { location } = task.place;
  for (let end = Date.now() + START_TIMEOUT_MS; Date.now() < end; await sleep(250)) {
    const running = await findPostmaster(location);
    if (running?.ready === true) return true;
    if (running !== null) {
      // Still starting (for another supervisor), or stopping.
      end = Date.now() + START_TIMEOUT_MS;
      continue;
    }
    const before = await logSize(location);
    if (await startOnce(task)) return true;
    if (!mayPass(await logSince(location, before))) return false;
  }
  return false;
}

/** Whether the log of a failed start shows an error that another try may not meet. */
function mayPass(log: string): boolean {
  return (
    /pre-existing shared memory block .* still in use/.test(log) || // by backends of a killed server
    /lock file "postmaster\.pid" already exists/.test(log) || // another supervisor was faster
    /could not (bind|create any TCP)/.test(log) // another program took the port
  );
}

/** Starts the server and waits for it to be ready (true) or to end (false). */
async function startOnce(task: SupervisorTask): Promise<boolean> {
  const { place } = task;
  const port = await choosePort(place.location);
  await removeStaleLock(place);
  const log = await open(files.log(place.location), 'a', 0o600);
  const child = spawn(task.postgres, serverArguments(task, port), {
    ...asUser(place.user),
    cwd: '/',
    env: plainEnvironment(),
    detached: true, // so that it survives a killed supervisor
    stdio: ['ignore', log.fd, log.fd],
  });
  // Before any await: a server that can't start may end within milliseconds.
  const over = new AbortController();
  for (const event of ['error', 'exit']) child.once(event, () => over.abort());
  child.unref();
  await log.close();
  for (; !over.signal.aborted; await sleep(25)) {
    const running = await findPostmaster(place.location);
    if (running?.ready !== true || running.pid !== child.pid) continue;
    await writePrivate(files.port(place.location), String(port)).catch(() => {}); // best effort
    return true;
  }
  return false;
}

/** Settings that the program relies on. They override postgresql.conf. */
function serverArguments({ place, durable, mark }: SupervisorTask, port: number): string[] {
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '', // their paths have a limit of about 100 bytes
    hba_file: files.hba(place.location),
    logging_collector: 'off', // the supervisor rotates the log
    [START_MARK]: mark,
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  };
  const pairs = Object.entries(settings);
  return ['-D', files.data(place.location), ...pairs.flatMap(([k, v]) => ['-c', `${k}=${v}`])];
}

/**
 * Removes the lock file of a killed server if another process now has its PID: PostgreSQL would refuse to start. Runs
 * as the service user, who owns the file.
 */
async function removeStaleLock({ location, user }: Place): Promise<void> {
  if ((await findPostmaster(location)) !== null) return;
  const pid = Number((await readSmall(files.postmaster(location)))?.split('\n')[0]);
  // PostgreSQL itself removes the lock file of a PID that doesn't exist.
  if (!Number.isInteger(pid) || !(await exists(`/proc/${pid}`))) return;
  await runAs(user, '/bin/sh', ['-c', 'rm -f -- "$1"', 'sh', files.postmaster(location)]);
}

/**
 * Chooses the last port again, since users of a killed server know no other. A dying backend may hold it for a moment.
 * The lock file of a killed server has the port even if the server died before we stored it. Without a last port,
 * chooses one below the range of outgoing connections.
 */
async function choosePort(location: string): Promise<number> {
  const lock = await readSmall(files.postmaster(location)).catch(() => null);
  const last = Number(lock?.split('\n')[3]) || Number(await readSmall(files.port(location)));
  if (Number.isInteger(last) && last > 1023 && last < 65_536) {
    for (const end = Date.now() + (lock === null ? 0 : PORT_PATIENCE_MS); ; await sleep(100)) {
      if (await isFree(last)) return last;
      if (Date.now() >= end) break;
    }
  }
  for (let tries = 0; tries < 100; tries += 1) {
    const port = randomInt(20_000, 32_768);
    if (await isFree(port)) return port;
  }
  return randomInt(20_000, 32_768);
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  try {
    probe.listen(port, '127.0.0.1');
    await once(probe, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    probe.close();
  }
}

const POLL_MS = 500;
/** The server stops after this long without connections (ms). */
const IDLE_MS = 2_000;
/** Longest wait for a server that refuses the supervisor, or doesn't stop (ms). */
const PATIENCE_MS = 60_000;

/** Watches server `pid` until it stops, or until another supervisor is found. */
async function watch({ place }: SupervisorTask, pid: number): Promise<void> {
  let isStopRequested = false;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => (isStopRequested = true));
  }
  let client: Client | null = null;
  let idleSince: number | null = null;
  let lastAnswer = Date.now();
  for (; ; await sleep(POLL_MS)) {
    const server = await findPostmaster(place.location);
    if (server?.pid !== pid) return await stop(place, pid, 'QUIT'); // it ended, or its files are gone
    if (isStopRequested) return await stop(place, pid, 'INT');
    await rotateLog(place.location).catch(() => {}); // a full disk must not end the supervisor
    try {
      if (client === null) {
        const credentials = await readCredentials(place.location);
        const name = `${SUPERVISOR_NAME} ${process.pid}`;
        client = await connect(credentials, server.port ?? 0, 'admin', name);
        client.once('end', () => (client = null));
        if (!(await tryAdvisoryLock(client, SUPERVISOR_LOCK))) return;
      }
      lastAnswer = Date.now();
      if (await isInUse(client, place)) idleSince = null;
      else {
        idleSince ??= Date.now();
        const isIdle = Date.now() - idleSince >= IDLE_MS;
        if (isIdle && (await blockLeases(client, place))) return await stop(place, pid, 'INT');
      }
    } catch (error) {
      await client?.end().catch(() => {});
      client = null;
      if (isTransient(error)) lastAnswer = Date.now(); // it recovers from a crash, or stops
      if (Date.now() - lastAnswer > PATIENCE_MS) {
        logError(error);
        return await stop(place, pid, 'INT');
      }
    }
  }
}

/** Whether anybody is connected, or `db start` holds the server. */
async function isInUse(client: Client, { location, pointer }: Place): Promise<boolean> {
  const { rows } = await client.query<{ isConnected: boolean }>(
    `SELECT EXISTS (
       SELECT FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
     ) AS "isConnected"`,
  );
  if (rows[0]?.isConnected === true) return true;
  if (!(await exists(files.held(location)))) return false;
  // If DATA_DIR no longer points to this database, nobody could end the hold.
  return (await realpath(pointer).catch(() => null)) === location;
}

/** Blocks new leases until the server has stopped. @returns false if a lease was taken meanwhile */
async function blockLeases(client: Client, place: Place): Promise<boolean> {
  if (!(await tryAdvisoryLock(client, LEASE_LOCK))) return false;
  if (!(await isInUse(client, place))) return true;
  await client.query(`SELECT pg_advisory_unlock(${LEASE_LOCK})`);
  return false;
}

async function stop(place: Place, pid: number, signal: 'INT' | 'QUIT'): Promise<void> {
  if (await waitUntilGone(pid, 1)) return;
  await stopPostmaster(place, pid, signal);
  if (await waitUntilGone(pid, PATIENCE_MS)) return;
  await stopPostmaster(place, pid, 'QUIT');
}

async function tryAdvisoryLock(client: Client, lock: string): Promise<boolean> {
  const { rows } = await client.query<{ locked: boolean }>(
    `SELECT pg_try_advisory_lock(${lock}) AS locked`,
  );
  return rows[0]?.locked === true;
}

/** Writes to the server's log, which a failed start quotes. */
function logError(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`supervisor: ${text}\n`);
}

async function main(): Promise<number> {
  const task = JSON.parse(process.argv[2] ?? '') as SupervisorTask;
  if (!(await ensureServer(task))) return 1;
  const server = await findPostmaster(task.place.location);
  if (server !== null) await watch(task, server.pid);
  return 0;
}

try {
  process.exit(await main());
} catch (error) {
  logError(error);
  process.exit(1);
}
