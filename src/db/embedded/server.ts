import { cannotStart } from './errors.js';
import { copyFile, open, readlink, realpath, stat, truncate } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import type { Client } from 'pg';
import { DbClient } from '../connection.js';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
import { files, readSmall } from './place.js';

/** A running server, as its lock file `postmaster.pid` describes it. */
interface Postmaster {
  readonly pid: number;
  /** Null until it listens. */
  readonly port: number | null;
  readonly ready: boolean;
}

/** The server that runs on `location`. @returns null if none runs, or its lock file is stale */
export async function findPostmaster(location: string): Promise<Postmaster | null> {
  const text = await readSmall(files.postmaster(location)).catch(() => null);
  if (text === null) return null;
  const lines = text.split('\n');
  const [pid, port] = [Number(lines[0]), Number(lines[3])];
  if (!Number.isInteger(pid) || pid <= 1 || !(await runsIn(pid, files.data(location)))) return null;
  return { pid, port: port > 0 ? port : null, ready: lines[7]?.trim() === 'ready' };
}

/** Whether `pid` is a server in folder `data`. PIDs are reused, quickly in containers. */
async function runsIn(pid: number, data: string): Promise<boolean> {
  if (!isRunning(pid)) return false;
  if (process.platform !== 'linux') return true;
  const folder = await readlink(`/proc/${pid}/cwd`).catch(() => null);
  return folder !== null && folder === (await realpath(data).catch(() => null));
}

/** False for another user's process, too: it is not our server. */
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Stops the server: `INT` ends sessions and flushes data, `QUIT` aborts at once and needs recovery. */
export function stopPostmaster(pid: number, signal: 'INT' | 'QUIT'): void {
  try {
    process.kill(pid, `SIG${signal}`);
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
}

/** Waits until the process is gone. @returns false if it still runs after `timeoutMs` */
export async function waitUntilGone(pid: number, timeoutMs: number): Promise<boolean> {
  for (const end = performance.now() + timeoutMs; performance.now() < end; await sleep(50)) {
    if (!isRunning(pid) || (await isZombie(pid))) return true;
  }
  return false;
}

/** Whether the process has ended, but its parent hasn't collected its exit code. */
async function isZombie(pid: number): Promise<boolean> {
  const status = await readSmall(`/proc/${pid}/stat`).catch(() => null);
  return status !== null && /\) [ZX] /.test(status);
}

/** Size at which the log is rotated. */
const MAX_LOG_BYTES = 8 * 1024 * 1024;
const TAIL_BYTES = 16 * 1024;

/** Size of the log in bytes, for a later `logSince`. */
export async function logSize(location: string): Promise<number> {
  return (await stat(files.log(location)).catch(() => null))?.size ?? 0;
}

/** The log from byte `since`, at most its last 16 KiB, without control sequences. */
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

/** The last three lines with errors since byte `since` of the log, or its last three lines, joined for a message. */
export async function errorsSince(location: string, since: number): Promise<string> {
  const lines = (await logSince(location, since)).split('\n');
  const errors = lines.filter((line) => /(FATAL|PANIC|ERROR|DETAIL|HINT|watcher):/.test(line));
  return (errors.length > 0 ? errors : lines).slice(-3).join(' | ') || 'its log is empty';
}

/** Moves a log of more than 8 MiB to `.1`. Truncates instead of renaming, since writers keep the file open. */
export async function rotateLog(location: string): Promise<void> {
  if ((await logSize(location)) <= MAX_LOG_BYTES) return;
  await copyFile(files.log(location), `${files.log(location)}.1`);
  await truncate(files.log(location), 0);
}

/** Advisory lock in database `postgres`, held by the watcher, so that there is only one. */
export const WATCHER_LOCK = '21325, 2';
/** Application name of the watcher. Its PID follows, and ` closing` once it has decided to stop the server. */
export const WATCHER_NAME = 'seller-mirror watcher';

/** `app` owns the database. `reader` may read schema `reporting`, once `prisma/grants.sql` has run. */
export const ROLES = {
  admin: 'seller_mirror_admin',
  app: 'seller_mirror',
  reader: 'reporting_reader',
} as const;
type Role = keyof typeof ROLES;

/** Passwords of the roles. They are base64url, so SQL and URLs need no escaping. */
const CREDENTIALS = z.object({ admin: z.string(), app: z.string(), reader: z.string() });
export type Credentials = z.infer<typeof CREDENTIALS>;

export async function readCredentials(location: string): Promise<Credentials> {
  const text = await readSmall(files.credentials(location));
  try {
    return CREDENTIALS.parse(JSON.parse(text ?? ''));
  } catch {
    // Without the cause: the parser's message quotes the file, which holds passwords.
    throw cannotStart(
      `the passwords of the embedded database, ${files.credentials(location)}, are missing or damaged`,
      'Restore the file from a backup, or set DATA_DIR to a new folder and mirror again.',
    );
  }
}

/** Connection string of a database on the embedded server, with the password. */
export function addressOf(
  credentials: Credentials,
  port: number,
  role: Role,
  database: string = ROLES.app,
): string {
  return `postgresql://${ROLES[role]}:${credentials[role]}@127.0.0.1:${port}/${database}`;
}

/** Connects to database `postgres`. */
export async function connect(
  credentials: Credentials,
  port: number,
  role: Role,
  applicationName: string,
): Promise<Client> {
  const client = new DbClient({
    connectionString: addressOf(credentials, port, role, 'postgres'),
    application_name: applicationName,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  });
  await client.connect();
  return client;
}

const TRANSIENT = new Set(['57P01', '57P02', '57P03', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE']);

/** Whether a retry may help: the server starts, stops, or recovers from a crash. */
export function isTransient(error: unknown): boolean {
  const message = error instanceof Error ? error.message : '';
  return TRANSIENT.has(errorCode(error)) || /Connection terminated|timeout expired/i.test(message);
}
