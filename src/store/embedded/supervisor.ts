import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { lstat, open, realpath } from 'node:fs/promises';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import {
  boundLog,
  connect,
  findPostmaster,
  isPassing,
  SUPERVISOR_LOCK,
  SUPERVISOR_NAME,
  LEASE_LOCK,
  logSince,
  logSize,
  readCredentials,
  START_MARK,
  stopPostmaster,
  waitUntilGone,
} from './server.js';
import { files, type Place, readSmall, writePrivate } from './place.js';
import { asUser, plainEnvironment, runAs } from './service-user.js';

/*
 * The supervisor is a small process of its own that starts the embedded server, and stops it when nobody
 * has been connected for a while and nobody holds it. The server does not depend on it: a killed
 * supervisor is replaced by the next command.
 */

/** A supervisor's first argument, as JSON. It holds no secret: arguments can be seen. */
export interface SupervisorTask {
  readonly place: Place;
  readonly postgres: string;
  readonly durable: boolean;
  /** Tells the server started for this task from others; see `START_MARK`. */
  readonly mark: string;
}

/** How long the backends of a killed server may block a start (ms). */
const START_TIMEOUT_MS = 60_000;

/** How long the port of a server that was killed is waited for (ms). */
const PORT_PATIENCE_MS = 10_000;

/**
 * Makes sure that a server runs, and waits until it takes connections, however long recovery
 * takes. False when it could not be started; the server's log says why.
 */
async function ensureServer(task: SupervisorTask): Promise<boolean> {
  const { location } = task.place;
  for (let end = Date.now() + START_TIMEOUT_MS; Date.now() < end; await sleep(250)) {
    const running = await findPostmaster(location);
    if (running?.ready === true) return true;
    if (running !== null) {
      // Another supervisor's, still starting, or stopping.
      end = Date.now() + START_TIMEOUT_MS;
      continue;
    }
    const before = await logSize(location);
    if (await startOnce(task)) return true;
    if (!mayPass(await logSince(location, before))) return false;
  }
  return false;
}

function mayPass(log: string): boolean {
  return (
    /pre-existing shared memory block .* still in use/.test(log) || // of a server that was killed
    /lock file "postmaster\.pid" already exists/.test(log) || // another supervisor was first
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
    detached: true, // it goes on when this supervisor is killed; the next one adopts it
    stdio: ['ignore', log.fd, log.fd],
  });
  await log.close();
  const over = new AbortController();
  for (const event of ['error', 'exit']) child.once(event, () => over.abort());
  child.unref();
  for (; !over.signal.aborted; await sleep(25)) {
    const running = await findPostmaster(place.location);
    if (running?.ready !== true || running.pid !== child.pid) continue;
    await writePrivate(files.port(place.location), String(port)).catch(() => {}); // only a wish
    return true;
  }
  return false;
}

/** Settings that the program relies on; they override postgresql.conf. */
function serverArguments({ place, durable, mark }: SupervisorTask, port: number): string[] {
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '', // their paths have a limit of about 100 bytes
    hba_file: files.hba(place.location),
    logging_collector: 'off', // the supervisor bounds the log
    [START_MARK]: mark,
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  };
  const pairs = Object.entries(settings);
  return ['-D', files.data(place.location), ...pairs.flatMap(([k, v]) => ['-c', `${k}=${v}`])];
}

/**
 * Removes the lock file of a server that was killed when its process number now belongs to some
 * other process, which would keep PostgreSQL from starting. Done under the service user's name.
 */
async function removeStaleLock({ location, user }: Place): Promise<void> {
  if ((await findPostmaster(location)) !== null) return;
  const pid = Number((await readSmall(files.postmaster(location)))?.split('\n')[0]);
  if (!Number.isInteger(pid) || !(await exists(pid))) return; // PostgreSQL sees to it
  await runAs(user, '/bin/sh', ['-c', 'rm -f -- "$1"', 'sh', files.postmaster(location)]);
}

async function exists(pid: number): Promise<boolean> {
  return process.platform === 'linux' && (await readSmall(`/proc/${pid}/stat`)) !== null;
}

/**
 * The port of last time; else one below those that systems give to outgoing connections. Who used a server
 * that was killed knows only its old port, which a dying backend may hold for a moment. The lock file that
 * such a server leaves names it, even where the server was killed before its port was noted.
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
const IDLE_MS = 2_000;
/** How long the supervisor waits for a server that does not let it in, or does not stop, ms. */
const PATIENCE_MS = 60_000;

/** Watches server `pid` until it is stopped or gone, or another supervisor turns out to be there. */
async function watch({ place }: SupervisorTask, pid: number): Promise<void> {
  let isAsked = false;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => (isAsked = true));
  }
  let client: Client | null = null;
  let idleSince: number | null = null;
  let lastAnswer = Date.now();
  for (; ; await sleep(POLL_MS)) {
    const server = await findPostmaster(place.location);
    if (server?.pid !== pid) return await stop(place, pid, 'QUIT'); // gone, or its files are
    if (isAsked) return await stop(place, pid, 'INT');
    await boundLog(place.location).catch(() => {}); // a full disk must not end the supervisor
    try {
      if (client === null) {
        const credentials = await readCredentials(place.location);
        const name = `${SUPERVISOR_NAME} ${process.pid}`;
        client = await connect(credentials, server.port ?? 0, 'admin', name);
        client.once('end', () => (client = null));
        const isOnly = await ask(
          client,
          `SELECT pg_try_advisory_lock(${SUPERVISOR_LOCK}) AS answer`,
        );
        if (!isOnly) return;
      }
      lastAnswer = Date.now();
      if (await isWanted(client, place)) idleSince = null;
      else {
        idleSince ??= Date.now();
        const isIdle = Date.now() - idleSince >= IDLE_MS;
        if (isIdle && (await closeLeases(client, place))) return await stop(place, pid, 'INT');
      }
    } catch (error) {
      await client?.end().catch(() => {});
      client = null;
      if (isPassing(error)) lastAnswer = Date.now(); // it recovers from a crash, or stops
      if (Date.now() - lastAnswer > PATIENCE_MS) {
        report(error);
        return await stop(place, pid, 'INT');
      }
    }
  }
}

/** Whether anybody is connected, or `db start` holds the server. */
async function isWanted(client: Client, { location, pointer }: Place): Promise<boolean> {
  if (await hasGuests(client)) return true;
  if ((await lstat(files.held(location)).catch(() => null)) === null) return false;
  // A hold on a database that DATA_DIR no longer points to would last for ever.
  return (await realpath(pointer).catch(() => null)) === location;
}

/** Lets new leases wait until the server is gone. @returns false when one was taken meanwhile */
async function closeLeases(client: Client, place: Place): Promise<boolean> {
  if (!(await ask(client, `SELECT pg_try_advisory_lock(${LEASE_LOCK}) AS answer`))) return false;
  if (!(await isWanted(client, place))) return true;
  await client.query(`SELECT pg_advisory_unlock(${LEASE_LOCK})`);
  return false;
}

async function stop(place: Place, pid: number, signal: 'INT' | 'QUIT'): Promise<void> {
  if (await waitUntilGone(pid, 1)) return;
  await stopPostmaster(place, pid, signal);
  if (await waitUntilGone(pid, PATIENCE_MS)) return;
  await stopPostmaster(place, pid, 'QUIT');
}

async function hasGuests(client: Client): Promise<boolean> {
  return await ask(
    client,
    `SELECT EXISTS (
       SELECT FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
     ) AS answer`,
  );
}

async function ask(client: Client, question: string): Promise<boolean> {
  const { rows } = await client.query<{ answer: boolean }>(question);
  return rows[0]?.answer === true;
}

/** To the server's log, which is where a failed start is looked up. */
function report(error: unknown): void {
  const told = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`supervisor: ${told}\n`);
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
  report(error);
  process.exit(1);
}
