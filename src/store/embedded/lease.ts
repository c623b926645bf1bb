import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { errorCode } from '../../domain/error-code.js';
import { EmbeddedStartError, type StoreError } from '../errors.js';
import { findBinaries } from './binaries.js';
import { sweepDrafts } from './cluster.js';
import {
  connect,
  type Credentials,
  findPostmaster,
  isTransient,
  lastErrors,
  LEASE_LOCK,
  logSince,
  logSize,
  START_MARK,
  SUPERVISOR_LOCK,
} from './server.js';
import type { SupervisorTask } from './supervisor.js';
import { assertSameMajor, diskFull, files, type Place } from './place.js';
import { plainEnvironment, runAs } from './service-user.js';

const RENEW_PAUSE_MS = 5_000;

/** A lease on the server. While its connection is open, the supervisor keeps the server running. */
interface Lease {
  readonly client: Client;
  readonly port: number;
  readonly isSupervised: boolean;
  /** The `START_MARK` of the server. */
  readonly mark: string | null;
}

/** Takes a lease if the server is ready. @returns null while it is down, starts or stops */
async function tryLease(
  place: Place,
  credentials: Credentials,
  name: string,
): Promise<Lease | null> {
  const server = await findPostmaster(place.location);
  if (server?.ready !== true || server.port === null) return null;
  let client: Client | null = null;
  try {
    client = await connect(credentials, server.port, 'app', name);
    await client.query(`SELECT pg_advisory_lock_shared(${LEASE_LOCK})`);
    const [classId, objectId] = SUPERVISOR_LOCK.split(', ');
    const { rows } = await client.query<{ isSupervised: boolean; mark: string | null }>(
      `SELECT current_setting('${START_MARK}', true) AS mark, EXISTS (
         SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
           AND classid = ${classId} AND objid = ${objectId} AND objsubid = 2
       ) AS "isSupervised"`,
    );
    const { isSupervised = false, mark = null } = rows[0] ?? {};
    return { client, port: server.port, isSupervised, mark };
  } catch (error) {
    await client?.end().catch(() => {});
    if (isTransient(error)) return null;
    throw connectionRefused(error, place);
  }
}

function connectionRefused(error: unknown, place: Place): StoreError {
  const reason = error instanceof Error ? error.message : String(error);
  if (reason.includes('No space left on device')) return diskFull(place.location, error);
  const isFull = errorCode(error) === '53300';
  return new EmbeddedStartError(
    `the embedded database in ${place.location} refused the connection: ${reason}`,
    isFull
      ? `End other sessions, or raise max_connections in ${files.data(place.location)}/postgresql.conf.`
      : `See its log: ${files.log(place.location)}`,
    { cause: error },
  );
}

/**
 * Keeps a lease until the returned function is called. If the server crashes or is killed, takes a new lease, so
 * that a command such as `run` continues. Does not restart a server that was stopped on purpose.
 */
export function keepLease(first: Lease, lease: () => Promise<Lease>): () => Promise<void> {
  let isClosed = false;
  const watch = (client: Client): Client => {
    let isShutdown = false;
    client.on('error', (error) => {
      // The server uses the same code for a shutdown and a crash.
      const crashed = error.message.includes('unexpected postmaster exit');
      if (errorCode(error) === '57P01' && !crashed) isShutdown = true;
    });
    client.once('end', () => {
      if (!isShutdown) void renew();
    });
    return client;
  };
  // Retries forever: `run` must survive a full disk. Meanwhile its own queries report the errors.
  const renew = async (): Promise<void> => {
    while (!isClosed) {
      const renewed = await lease().catch(() => null);
      if (renewed === null) await sleep(RENEW_PAUSE_MS, undefined, { ref: false });
      else if (isClosed) await renewed.client.end();
      else {
        current = watch(renewed.client);
        return;
      }
    }
  };
  let current = watch(first.client);
  return async () => {
    if (isClosed) return;
    isClosed = true;
    await current.end().catch(() => {});
  };
}

/** Longest wait while no server process runs (ms). */
const START_TIMEOUT_MS = 60_000;
/**
 * Longest wait for a server process to answer (ms). After a crash it syncs every file of the data folder, which took
 * 19 s on a busy disk, and then replays the log. On a busy machine a ready one may take more than a minute to answer.
 */
const RECOVERY_TIMEOUT_MS = 15 * 60_000;

interface StartOptions {
  readonly applicationName: string;
  /** Folders to copy the binaries to if the service user can't reach them. */
  readonly binaryFolders: readonly string[];
  readonly durable: boolean;
  /** Longest wait while no server process runs (ms); default: a minute. */
  readonly startTimeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface OpenedLease extends Lease {
  readonly startedHere: boolean;
}

/** Takes a lease on the server of `place`. Starts the server if it is not running. */
export async function leaseServer(
  place: Place,
  credentials: Credentials,
  options: StartOptions,
): Promise<OpenedLease> {
  const { location } = place;
  const mark = randomBytes(8).toString('hex');
  const logStart = await logSize(location);
  let supervisor: ChildProcess | null = null;
  const { startTimeoutMs = START_TIMEOUT_MS } = options;
  const startedAt = Date.now();
  /** When a server process was last seen. */
  let seenAt = startedAt;
  while (Date.now() < Math.min(seenAt + startTimeoutMs, startedAt + RECOVERY_TIMEOUT_MS)) {
    options.signal?.throwIfAborted();
    const taken = await tryLease(place, credentials, options.applicationName);
    if (taken !== null) {
      // A killed supervisor leaves its server running. Start a new supervisor for it.
      if (!taken.isSupervised && !isRunning(supervisor)) await launch(place, options, mark);
      return { ...taken, startedHere: taken.mark === mark };
    }
    if (supervisor?.exitCode === 1) {
      const log = await logSince(location, logStart);
      throw startFailed(location, 'did not start', log, 'See its log:');
    }
    const runs = (await findPostmaster(location)) !== null;
    if (runs) seenAt = Date.now();
    else if (!isRunning(supervisor)) supervisor = await launch(place, options, mark);
    await sleep(50);
  }
  throw startFailed(
    location,
    `was not ready after ${Math.round((Date.now() - startedAt) / 1000)} s`,
    await logSince(location, logStart),
    'It may be recovering from a crash: try again in a minute. Its log:',
  );
}

function isRunning(child: ChildProcess | null): boolean {
  return child !== null && child.exitCode === null && child.signalCode === null;
}

async function launch(place: Place, options: StartOptions, mark: string): Promise<ChildProcess> {
  const { location, user, pointer } = place;
  const binaries = await findBinaries(user, options.binaryFolders);
  await assertSameMajor(location, binaries.major);
  if ((await runAs(user, '/bin/sh', ['-c', 'test -r "$1"', 'sh', files.version(location)])).code) {
    throw new EmbeddedStartError(
      `the account that runs PostgreSQL (user id ${user?.uid ?? process.geteuid?.() ?? -1}) cannot read ${location}`,
      `Let others enter the folders above it (chmod o+x), or move it to a folder that they can enter and make ${pointer} a link to it.`,
    );
  }
  for (const folder of new Set([dirname(location), dirname(pointer)])) await sweepDrafts(folder);
  const { durable } = options;
  return await startSupervisor({ place, postgres: binaries.postgres, durable, mark });
}

/**
 * Starts a supervisor process that outlives this one and shares no stream or setting with it. It exits with code 1
 * if it can't start the server.
 */
async function startSupervisor(task: SupervisorTask): Promise<ChildProcess> {
  // The new process needs compiled JavaScript, even when tests run TypeScript.
  const isSource = import.meta.url.endsWith('.ts');
  const compiled = isSource ? '../../../dist/store/embedded/supervisor.js' : './supervisor.js';
  const program = fileURLToPath(new URL(compiled, import.meta.url));
  if (!existsSync(program)) {
    throw new EmbeddedStartError(`${program} is missing`, 'Build the program first: npm run build');
  }
  const log = await open(files.log(task.place.location), 'a', 0o600);
  try {
    const child = spawn(process.execPath, [program, JSON.stringify(task)], {
      detached: true,
      cwd: '/',
      env: plainEnvironment(),
      stdio: ['ignore', log.fd, log.fd],
    });
    child.on('error', () => {}); // the child has no exit code then, so the caller's wait times out
    child.unref();
    return child;
  } finally {
    await log.close();
  }
}

/** @param what a predicate, such as `did not start` @param log the server's output during the start */
function startFailed(location: string, what: string, log: string, advice: string): StoreError {
  if (/No space left on device|quota exceeded/i.test(log)) return diskFull(location);
  return new EmbeddedStartError(
    `the embedded database in ${location} ${what}: ${lastErrors(log) || 'its log is empty'}`,
    `${advice} ${files.log(location)}`,
  );
}
