import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { open, realpath } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { exists, files, type Place, readSmall, writePrivate } from './place.js';
import {
  connect,
  findPostmaster,
  isTransient,
  logSince,
  logSize,
  readCredentials,
  rotateLog,
  stopPostmaster,
  waitUntilGone,
  WATCHER_LOCK,
  WATCHER_NAME,
} from './server.js';
import { childOptions, shellAs } from './service-user.js';

/*
 * The watcher is a small separate process. It starts the embedded server, and stops it once nobody has been
 * connected for two seconds and `db start` does not hold it. The server runs on without it: the next command starts
 * another watcher.
 */

/** The watcher's first argument, as JSON. Holds no secret, since every user can read arguments. */
export interface WatcherTask {
  readonly place: Place;
  readonly postgres: string;
}

/** Longest wait for the backends of a killed server to end, or for a server that doesn't stop (ms). */
const PATIENCE_MS = 60_000;
/** Longest wait for the last port to become free (ms). A dying backend may hold it for a moment. */
const PORT_PATIENCE_MS = 10_000;
const POLL_MS = 500;
/** The server stops after this long without connections (ms). */
const IDLE_MS = 2_000;

const PORT_TAKEN = /could not (?:bind|create any TCP)/;
/** Failures that another try may not meet: backends of a killed server, a faster watcher, a port in use. */
const MAY_PASS = new RegExp(
  `pre-existing shared memory block .* still in use|"postmaster\\.pid" already exists|${PORT_TAKEN.source}`,
);

/**
 * Makes sure that a server runs, and waits until it accepts connections, however long recovery takes.
 * @returns false if it could not be started; the server's log says why
 */
async function ensureServer(task: WatcherTask): Promise<boolean> {
  const { location } = task.place;
  // The last port again, so that addresses saved in BI tools stay valid. A killed server left it in its lock file.
  const lock = await readSmall(files.postmaster(location));
  const last = Number(lock?.split('\n')[3]) || Number(await readSmall(files.port(location)));
  let port = last > 1023 && last < 65_536 ? last : randomPort();
  const keepPortUntil = performance.now() + (lock === null ? 0 : PORT_PATIENCE_MS);
  for (let end = performance.now() + PATIENCE_MS; performance.now() < end; await sleep(250)) {
    const running = await findPostmaster(location);
    if (running?.ready === true) return true;
    // Still starting (for another watcher), or stopping.
    if (running !== null) end = performance.now() + PATIENCE_MS;
    else {
      const before = await logSize(location);
      if (await startOnce(task, port)) return true;
      const log = await logSince(location, before);
      if (!MAY_PASS.test(log)) return false;
      if (PORT_TAKEN.test(log) && performance.now() > keepPortUntil) port = randomPort();
    }
  }
  return false;
}

/** A port below the range of outgoing connections. */
function randomPort(): number {
  return randomInt(20_000, 32_768);
}

/** Starts the server and waits for it to be ready (true) or to end (false). */
async function startOnce({ place, postgres }: WatcherTask, port: number): Promise<boolean> {
  const { location, user } = place;
  await removeStaleLock(place);
  // Settings that the program relies on. They override postgresql.conf.
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '', // their paths have a limit of about 100 bytes
    hba_file: files.hba(location),
    logging_collector: 'off', // the watcher rotates the log
  };
  const pairs = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const log = await open(files.log(location), 'a', 0o600);
  const child = spawn(postgres, ['-D', files.data(location), ...pairs], {
    ...childOptions(user),
    detached: true, // so that it survives a killed watcher
    stdio: ['ignore', log.fd, log.fd],
  });
  // Before any await: a server that can't start may end within milliseconds.
  const over = new AbortController();
  for (const event of ['error', 'exit']) child.once(event, () => over.abort());
  child.unref();
  await log.close();
  for (; !over.signal.aborted; await sleep(25)) {
    const running = await findPostmaster(location);
    if (running?.ready !== true || running.pid !== child.pid) continue;
    await writePrivate(files.port(location), String(port)).catch(() => {}); // best effort
    return true;
  }
  return false;
}

/**
 * Removes the lock file of a killed server if another process now has its PID: PostgreSQL would refuse to start. Runs
 * as the service user, who owns the file.
 */
async function removeStaleLock({ location, user }: Place): Promise<void> {
  const lock = files.postmaster(location);
  const pid = (await readSmall(lock))?.split('\n')[0] ?? '';
  // PostgreSQL itself removes the lock file of a PID that doesn't exist.
  if (!/^\d+$/.test(pid) || !(await exists(`/proc/${pid}`))) return;
  // Only now, and only this PID's file: another watcher may have started a server meanwhile.
  if ((await findPostmaster(location)) !== null) return;
  await shellAs(user, 'test "$(head -n 1 "$1")" = "$2" && rm -f -- "$1"', lock, pid);
}

/** Watches server `pid` until it stops, or until another watcher is found. */
async function watch(place: Place, pid: number): Promise<void> {
  const name = `${WATCHER_NAME} ${process.pid}`;
  let client: Client | null = null;
  let usedAt = performance.now();
  let answeredAt = performance.now();
  for (; ; await sleep(POLL_MS)) {
    const server = await findPostmaster(place.location);
    if (server?.pid !== pid) return await stop(pid, 'QUIT'); // it ended, or its files are gone
    await rotateLog(place.location).catch(() => {}); // a full disk must not end the watcher
    try {
      if (client === null) {
        const credentials = await readCredentials(place.location);
        client = await connect(credentials, server.port ?? 0, 'admin', name);
        client.once('end', () => (client = null));
        if (!(await isTrue(client, `pg_try_advisory_lock(${WATCHER_LOCK})`))) return;
      }
      answeredAt = performance.now();
      if (await isInUse(client, place)) usedAt = performance.now();
      if (performance.now() - usedAt < IDLE_MS) continue;
      // Who connects from now on sees the new name and waits. Who connected before is seen by the second look.
      await client.query(`SET application_name = '${name} closing'`);
      if (!(await isInUse(client, place))) return await stop(pid, 'INT');
      await client.query(`SET application_name = '${name}'`);
    } catch (error) {
      await client?.end().catch(() => {});
      client = null;
      if (isTransient(error)) answeredAt = performance.now(); // it recovers from a crash, or stops
      if (performance.now() - answeredAt < PATIENCE_MS) continue;
      logError(error);
      return await stop(pid, 'INT');
    }
  }
}

/** Whether anybody is connected, or `db start` holds the server. */
async function isInUse(client: Client, { location, pointer }: Place): Promise<boolean> {
  const others = `EXISTS (SELECT FROM pg_stat_activity
                           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())`;
  if (await isTrue(client, others)) return true;
  if (!(await exists(files.held(location)))) return false;
  // If DATA_DIR no longer points to this database, nobody could end the hold.
  return (await realpath(pointer).catch(() => null)) === location;
}

async function isTrue(client: Client, expression: string): Promise<boolean> {
  const { rows } = await client.query<{ value: boolean }>(`SELECT ${expression} AS value`);
  return rows[0]?.value === true;
}

async function stop(pid: number, signal: 'INT' | 'QUIT'): Promise<void> {
  if (await waitUntilGone(pid, 1)) return;
  stopPostmaster(pid, signal);
  if (!(await waitUntilGone(pid, PATIENCE_MS))) stopPostmaster(pid, 'QUIT');
}

/** Writes to the server's log, which a failed start quotes. */
function logError(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`watcher: ${text}\n`);
}

/** @returns the exit code: 1 if the server could not be started */
async function main(): Promise<number> {
  const task = JSON.parse(process.argv[2] ?? '') as WatcherTask;
  if (!(await ensureServer(task))) return 1;
  const server = await findPostmaster(task.place.location);
  if (server !== null) await watch(task.place, server.pid);
  return 0;
}

try {
  process.exit(await main());
} catch (error) {
  logError(error);
  process.exit(1);
}
