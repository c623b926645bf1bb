import { copyFile, open, readlink, realpath, stat, truncate } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { Client } from 'pg';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
import { EmbeddedStartError } from '../errors.js';
import { files, type Place, readSmall } from './place.js';
import { runAs } from './service-user.js';

/** A running server, as described in its lock file `postmaster.pid`. */
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

/** A server works in its folder `data`; process numbers come round again, quickly so in containers. */
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
 * `INT` ends sessions and writes everything out, `QUIT` drops dead and recovers at the next start. Sent under
 * the service user's name, so that a forged lock file can't make root hit another process.
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

const MAX_BYTES = 8 * 1024 * 1024;
const TAIL_BYTES = 16 * 1024;

/** Bytes in the log now: what is written later begins here. */
export async function logSize(location: string): Promise<number> {
  return (await stat(files.log(location)).catch(() => null))?.size ?? 0;
}

/** The end of the log from byte `since` on, at most 16 KiB, fit to be printed. */
export async function logSince(location: string, since: number): Promise<string> {
  const file = await open(files.log(location), 'r').catch(() => null);
  if (file === null) return '';
  try {
    const { size } = await file.stat();
    const from = Math.max(since > size ? 0 : since, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    return stripVTControlCharacters(buffer.toString('utf8', 0, bytesRead)).trim();
  } finally {
    await file.close();
  }
}

/** The last lines that tell of trouble; of anything, when none does. One line, for a message. */
export function lastWords(log: string): string {
  const lines = log.split('\n');
  const trouble = lines.filter((line) => /(FATAL|PANIC|ERROR|HINT|supervisor):/.test(line));
  return (trouble.length > 0 ? trouble : lines).slice(-3).join(' | ');
}

/** Keeps the log and one older part within 8 MiB each. Writers append, so the file can be cut. */
export async function boundLog(location: string): Promise<void> {
  if ((await logSize(location)) <= MAX_BYTES) return;
  await copyFile(files.log(location), `${files.log(location)}.1`);
  await truncate(files.log(location), 0);
}

/**
 * Locks that commands and supervisor talk through; advisory, in database `postgres`, where nobody
 * else has business. A lease is held, shared, by everything that needs the server.
 */
export const LEASE_LOCK = '21325, 1';
/** Held by the one supervisor. */
export const SUPERVISOR_LOCK = '21325, 2';

/** A setting of the server's in which it carries the mark of the task it was started for. */
export const START_MARK = 'seller_mirror.start_mark';

/** How a supervisor's own session is called, with its process number behind. */
export const SUPERVISOR_NAME = 'seller-mirror supervisor';

export const ADMIN_ROLE = 'seller_mirror_admin';
export const APP_ROLE = 'seller_mirror';

/** Passwords of the two roles; both are of letters that need no escape in SQL or a URL. */
const CREDENTIALS = z.object({ admin: z.string(), app: z.string() });
export type Credentials = z.infer<typeof CREDENTIALS>;

export async function readCredentials(location: string): Promise<Credentials> {
  const text = await readSmall(files.credentials(location));
  try {
    return CREDENTIALS.parse(JSON.parse(text ?? ''));
  } catch {
    // Neither the text nor the parser's message, which quotes it, may go on.
    throw new EmbeddedStartError(
      `the passwords of the embedded database, ${files.credentials(location)}, are missing or damaged`,
      'Bring the file back from a backup, or set DATA_DIR to a new folder and mirror again.',
    );
  }
}

/** Address of database `database` on the embedded server, password included. */
export function addressOf(
  credentials: Credentials,
  port: number,
  role: keyof Credentials,
  database: string = APP_ROLE,
): string {
  const name = role === 'admin' ? ADMIN_ROLE : APP_ROLE;
  return `postgresql://${name}:${credentials[role]}@127.0.0.1:${port}/${database}`;
}

/** Connects to database `postgres`. `end` reports a lost connection, so `error` is ignored. */
export async function connect(
  credentials: Credentials,
  port: number,
  role: keyof Credentials,
  applicationName: string,
): Promise<Client> {
  const client = new Client({
    connectionString: addressOf(credentials, port, role, 'postgres'),
    application_name: applicationName,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  });
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
  return client;
}

const PASSING = new Set(['57P01', '57P02', '57P03', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE']);

/** Whether an error may go away by itself: the server starts, stops, or recovers from a crash. */
export function isPassing(error: unknown): boolean {
  const words = error instanceof Error ? error.message : '';
  return PASSING.has(errorCode(error)) || /Connection terminated|timeout expired/i.test(words);
}
