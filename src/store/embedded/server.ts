import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomInt } from 'node:crypto';
import { open } from 'node:fs/promises';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { readSmall, writePrivate } from './folders.js';
import { START_MARK, type KeeperTask } from './keeper-task.js';
import { files, type Place } from './place.js';
import { findPostmaster } from './postmaster.js';
import { logSince, logSize } from './server-log.js';
import { asUser, plainEnvironment, runAs } from './service-user.js';

/** How long backends of a killed server may take to end, and another start may stand in the way. */
const PATIENCE_MS = 60_000;

/**
 * Makes sure that a server runs, and waits until it takes connections, however long recovery
 * takes. False when it could not be started; the server's log says why.
 */
export async function ensureServer(task: KeeperTask): Promise<boolean> {
  const { location } = task.place;
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(250)) {
    const running = await findPostmaster(location);
    if (running?.ready === true) return true;
    if (running !== null) continue; // another keeper's, still starting, or stopping
    const before = await logSize(location);
    if (await startOnce(task)) return true;
    if (!mayPass(await logSince(location, before))) return false;
  }
  return false;
}

/** Troubles of a start that are gone at the next try. */
function mayPass(log: string): boolean {
  return (
    /pre-existing shared memory block .* still in use/.test(log) || // of a server that was killed
    /lock file "postmaster\.pid" already exists/.test(log) || // another keeper was first
    /could not (bind|create any TCP)/.test(log) // another program took the port
  );
}

/** Starts the server and waits for it to be ready (true) or to end (false). */
async function startOnce(task: KeeperTask): Promise<boolean> {
  const { place } = task;
  await removeStaleLock(place);
  const port = await choosePort(place.location);
  const log = await open(files.log(place.location), 'a', 0o600);
  const child = spawn(task.postgres, serverArguments(task, port), {
    ...asUser(place.user),
    cwd: '/',
    env: plainEnvironment(),
    detached: true, // it goes on when this keeper is killed; the next one adopts it
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

/** What the program relies on, whatever postgresql.conf says. */
function serverArguments({ place, durable, mark }: KeeperTask, port: number): string[] {
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '', // their paths have a limit of about 100 bytes
    hba_file: files.hba(place.location),
    logging_collector: 'off', // the keeper bounds the log
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

/** The port of last time; else one below those that systems give to outgoing connections. */
async function choosePort(location: string): Promise<number> {
  const last = Number(await readSmall(files.port(location)));
  if (Number.isInteger(last) && last > 1023 && last < 65_536 && (await isFree(last))) return last;
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
