import { readlink, realpath } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../errors.js';
import { readSmall } from './folders.js';
import { files, type Place } from './place.js';
import { runAs } from './service-user.js';

/** A running server, as its own lock file `postmaster.pid` tells. */
export interface Postmaster {
  readonly pid: number;
  /** Null until it listens. */
  readonly port: number | null;
  readonly ready: boolean;
}

/** The server that runs on `location`; null when there is none, or only a stale lock file. */
export async function findPostmaster(location: string): Promise<Postmaster | null> {
  const text = await readSmall(files.postmaster(location)).catch(() => null);
  if (text === null) return null;
  const lines = text.split('\n');
  const [pid, port] = [Number(lines[0]), Number(lines[3])];
  if (!Number.isInteger(pid) || pid <= 1 || !(await runsIn(pid, files.data(location)))) return null;
  return { pid, port: port > 0 ? port : null, ready: lines[7]?.trim() === 'ready' };
}

/**
 * Whether process `pid` is alive and works in folder `data`, as a server always does: process
 * numbers come round again, quickly so in containers.
 */
async function runsIn(pid: number, data: string): Promise<boolean> {
  if (!isRunning(pid)) return false;
  if (process.platform !== 'linux') return true;
  try {
    return (await readlink(`/proc/${pid}/cwd`)) === (await realpath(data));
  } catch {
    return false; // ended meanwhile, or another user's
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false; // EPERM is another user's process, thus no server of ours
  }
}

/**
 * Asks the server to stop: `INT` ends sessions and writes everything out, `QUIT` drops dead and
 * recovers at the next start. Sent under the service user's name, so that a forged lock file can't
 * make root hit another process.
 */
export async function stopPostmaster(
  { user }: Place,
  pid: number,
  signal: 'INT' | 'QUIT',
): Promise<void> {
  if (user !== null) {
    await runAs(user, '/bin/sh', ['-c', 'kill -s "$1" "$2"', 'sh', signal, String(pid)]);
    return;
  }
  try {
    process.kill(pid, `SIG${signal}`);
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
}

/** Waits until the process is gone; false when it is still there after `timeoutMs`. */
export async function waitUntilGone(pid: number, timeoutMs: number): Promise<boolean> {
  for (const end = Date.now() + timeoutMs; Date.now() < end; await sleep(50)) {
    if (!isRunning(pid) || (await isZombie(pid))) return true;
  }
  return false;
}

/** Dead, but not yet collected by its parent. */
async function isZombie(pid: number): Promise<boolean> {
  const status = await readSmall(`/proc/${pid}/stat`).catch(() => null);
  return status !== null && /\) [ZX] /.test(status);
}
