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
  isPassing,
  SUPERVISOR_LOCK,
  lastWords,
  LEASE_LOCK,
  logSince,
  logSize,
  START_MARK,
} from './server.js';
import type { SupervisorTask } from './supervisor.js';
import { assertSameMajor, diskFull, files, type Place } from './place.js';
import { plainEnvironment, runAs } from './service-user.js';

const RENEW_PAUSE_MS = 5_000;

/** A lease as it was taken: while its connection lasts, the supervisor leaves the server up. */
export interface Taken {
  readonly client: Client;
  readonly port: number;
  readonly isSupervised: boolean;
  readonly mark: string | null;
}

/** Null when there is no server yet, or it is just starting or stopping. */
async function tryLease(
  place: Place,
  credentials: Credentials,
  name: string,
): Promise<Taken | null> {
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
    if (isPassing(error)) return null;
    throw refused(error, place);
  }
}

function refused(error: unknown, place: Place): StoreError {
  const said = error instanceof Error ? error.message : String(error);
  if (said.includes('No space left on device')) return diskFull(place.location, error);
  const crowded = errorCode(error) === '53300';
  return new EmbeddedStartError(
    `the embedded database in ${place.location} does not let this command in: ${said}`,
    crowded
      ? `End other sessions, or raise max_connections in ${files.data(place.location)}/postgresql.conf.`
      : `Its log may tell more: ${files.log(place.location)}`,
    { cause: error },
  );
}

/**
 * Keeps a lease until the returned function is called: takes it again when the server crashes or is killed,
 * so that a command that waits, such as `run`, goes on. A server told to stop is left in peace.
 */
export function keepLease(first: Taken, take: () => Promise<Taken>): () => Promise<void> {
  let isClosed = false;
  const watch = (client: Client): Client => {
    let isDismissed = false;
    client.on('error', (error) => {
      // The server reports an orderly end and a crash under the same code.
      const died = error.message.includes('unexpected postmaster exit');
      if (errorCode(error) === '57P01' && !died) isDismissed = true;
    });
    client.once('end', () => {
      if (!isDismissed) void renew();
    });
    return client;
  };
  // Until it succeeds: who runs for months must outlive a full disk. Its users meet the trouble themselves.
  const renew = async (): Promise<void> => {
    while (!isClosed) {
      const taken = await take().catch(() => null);
      if (taken === null) await sleep(RENEW_PAUSE_MS, undefined, { ref: false });
      else if (isClosed) await taken.client.end();
      else {
        current = watch(taken.client);
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
 * Longest wait for a server that is starting (ms). After a crash it first syncs each file of the
 * data folder, which took 19 s on a busy disk, then replays the log.
 */
const RECOVERY_TIMEOUT_MS = 15 * 60_000;

export interface StartOptions {
  readonly applicationName: string;
  /** Where binaries are copied to when the account that runs PostgreSQL can't reach them. */
  readonly binaryFolders: readonly string[];
  readonly durable: boolean;
  /** Longest wait while no server process runs (ms); default: a minute. */
  readonly startTimeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

export interface Started extends Taken {
  readonly startedHere: boolean;
}

/** Takes a lease on the server of `place`, which is started when it does not run. */
export async function leaseServer(
  place: Place,
  credentials: Credentials,
  options: StartOptions,
): Promise<Started> {
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
      // A supervisor that was killed leaves its server running; this one takes it over.
      if (!taken.isSupervised && !isRunning(supervisor)) await launch(place, options, mark);
      return { ...taken, startedHere: taken.mark === mark };
    }
    if (supervisor?.exitCode === 1) {
      const log = await logSince(location, logStart);
      throw startFailed(location, 'did not start', log, 'Its log may tell more:');
    }
    const isStarting = (await findPostmaster(location)) !== null;
    if (isStarting) seenAt = Date.now();
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
      `the account that runs PostgreSQL (user id ${user?.uid ?? process.geteuid?.() ?? -1}) cannot get into ${location}`,
      `Let others enter the folders above it (chmod o+x), or move it to a folder they can enter and make ${pointer} a link to it.`,
    );
  }
  for (const folder of new Set([dirname(location), dirname(pointer)])) await sweepDrafts(folder);
  const { durable } = options;
  return await startSupervisor({ place, postgres: binaries.postgres, durable, mark });
}

/**
 * Starts a supervisor that outlives this process and shares no stream or setting with it. It ends with exit
 * code 1 when it could not start the server.
 */
async function startSupervisor(task: SupervisorTask): Promise<ChildProcess> {
  // A process of its own needs compiled JavaScript, even where tests run TypeScript.
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
    child.on('error', () => {}); // then it has no pid and no exit code; the caller's wait times out
    child.unref();
    return child;
  } finally {
    await log.close();
  }
}

/** @param what happened to the start @param log what the server wrote meanwhile */
function startFailed(location: string, what: string, log: string, advice: string): StoreError {
  if (/No space left on device|quota exceeded/i.test(log)) return diskFull(location);
  return new EmbeddedStartError(
    `the embedded database in ${location} ${what}: ${lastWords(log) || 'its log is silent'}`,
    `${advice} ${files.log(location)}`,
  );
}
