import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedStartError, type StoreError } from '../errors.js';
import { findBinaries } from './binaries.js';
import type { Credentials } from './connections.js';
import { sweepDrafts } from './drafts.js';
import { diskFull } from './folders.js';
import { startKeeper } from './keeper-task.js';
import { tryLease, type Taken } from './lease.js';
import { assertSameMajor, files, type Place } from './place.js';
import { findPostmaster } from './postmaster.js';
import { lastWords, logSince, logSize } from './server-log.js';
import { runAs } from './service-user.js';

/** Longest wait for a server to be ready; recovery after a crash may take that long. */
const PATIENCE_MS = 60_000;

export interface StartOptions {
  /** Shown to whoever looks at the server's sessions. */
  readonly applicationName: string;
  /** Where binaries are copied to when the account that runs PostgreSQL can't reach them. */
  readonly binaryFolders: readonly string[];
  /** False: commits need not survive a power cut. For tests. */
  readonly durable: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface Started extends Taken {
  /** Whether the server was started for this call. */
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
  let keeper: ChildProcess | null = null;
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(50)) {
    options.signal?.throwIfAborted();
    const taken = await tryLease(place, credentials, options.applicationName);
    if (taken !== null) {
      // A keeper that was killed leaves its server running; this one takes it over.
      if (!taken.kept && !isRunning(keeper)) await launch(place, options, mark);
      return { ...taken, startedHere: taken.mark === mark };
    }
    if (keeper?.exitCode === 1) throw startFailed(location, await logSince(location, logStart));
    if (isRunning(keeper) || (await findPostmaster(location)) !== null) continue;
    keeper = await launch(place, options, mark);
  }
  throw tooLate(location, await logSince(location, logStart));
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
  return await startKeeper({ place, postgres: binaries.postgres, durable, mark });
}

function startFailed(location: string, log: string): StoreError {
  if (/No space left on device|quota exceeded/i.test(log)) return diskFull(location);
  return new EmbeddedStartError(
    `the embedded database in ${location} did not start: ${lastWords(log)}`,
    `Its log may tell more: ${files.log(location)}`,
  );
}

function tooLate(location: string, log: string): StoreError {
  if (/No space left on device|quota exceeded/i.test(log)) return diskFull(location);
  return new EmbeddedStartError(
    `the embedded database in ${location} was not ready after ${PATIENCE_MS / 1000} s: ${lastWords(log) || 'its log is silent'}`,
    `It may be recovering from a crash: try again in a minute. Its log: ${files.log(location)}`,
  );
}
