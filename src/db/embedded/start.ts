import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { sweepDrafts } from './create.js';
import { cannotStart } from './errors.js';
import { exists, files, type Place, readSmall, writePrivate } from './place.js';
import { findPrograms } from './programs.js';
import { findPostmaster } from './server.js';
import { childOptions, type ServiceUser, shellAs } from './service-user.js';

/** The last port again, so that addresses saved in BI tools stay valid; at first a random one. */
export async function lastPort(location: string): Promise<number> {
  const last = Number(await readSmall(files.port(location)));
  return last > 1023 && last < 65_536 ? last : randomPort();
}

/** Keeps the port for the next start, if there is room on the disk. */
export async function savePort(location: string, port: number): Promise<void> {
  await writePrivate(files.port(location), String(port)).catch(() => undefined);
}

/** A port below the range of outgoing connections. */
export function randomPort(): number {
  return randomInt(20_000, 32_768);
}

/**
 * Starts the server, and its watcher once the server has its lock file. Both outlive this process. A server that can't
 * start ends by itself; its log says why.
 */
export async function startServer(place: Place, port: number): Promise<ChildProcess> {
  const { location, pointer, user } = place;
  for (const folder of new Set([dirname(location), dirname(pointer)])) await sweepDrafts(folder);
  const { postgres } = await findPrograms(user, pointer);
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
  const args = ['-D', files.data(location), ...pairs];
  const server = await spawnDetached(location, user, postgres, args);
  while (isRunning(server) && (await findPostmaster(location))?.pid !== server.pid) await sleep(10);
  if (server.pid !== undefined && isRunning(server)) await startWatcher(place, server.pid);
  return server;
}

/** Starts a watcher of server `pid`. It ends at once if the server has one. */
export async function startWatcher(place: Place, pid: number): Promise<void> {
  // The new process needs compiled JavaScript, even when tests run TypeScript.
  const isSource = import.meta.url.endsWith('.ts');
  const compiled = isSource ? '../../../dist/db/embedded/watcher.js' : './watcher.js';
  const program = fileURLToPath(new URL(compiled, import.meta.url));
  if (!existsSync(program)) {
    throw cannotStart(`${program} is missing`, 'Build the program first: npm run build');
  }
  const args = [program, JSON.stringify(place), String(pid)];
  await spawnDetached(place.location, null, process.execPath, args);
}

/** Starts a process that outlives this one, shares no stream or setting with it, and writes to the server's log. */
async function spawnDetached(
  location: string,
  user: ServiceUser | null,
  program: string,
  args: readonly string[],
): Promise<ChildProcess> {
  const log = await open(files.log(location), 'a', 0o600);
  try {
    const child = spawn(program, args, {
      ...childOptions(user),
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    child.unref();
    await once(child, 'spawn');
    return child;
  } finally {
    await log.close();
  }
}

export function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
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
  // Only now, and only this PID's file: another command may have started a server meanwhile.
  if ((await findPostmaster(location)) !== null) return;
  await shellAs(user, 'test "$(head -n 1 "$1")" = "$2" && rm -f -- "$1"', lock, pid);
}
