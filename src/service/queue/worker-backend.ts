import type { IQueueBackend } from 'bullmq';
import { pause } from '../concurrency.js';
import type { Connection } from './connection.js';
import { errorText } from './errors.js';
import type { Tuning } from './tuning.js';

interface ResilientOptions {
  readonly connection: Connection;
  readonly tuning: Tuning;
  /** Milliseconds to wait after a failure. */
  readonly retryMs: number;
  /** Aborted when the worker begins to stop. */
  readonly stopping: AbortSignal;
  /**
   * Called for each lock whose renewal was attempted.
   * @param ageMs how long ago, at most, the server renewed the lock
   */
  readonly onRenewed: (token: string, isLost: boolean, ageMs: number) => void;
}

/**
 * Replaces the commands that BullMQ's worker sends by itself:
 * - It waits for a job no longer than `blockMs`. On PostgreSQL, BullMQ waits up to an hour, even on a half-open
 *   connection. A failed wait ends like one that found no job, so that the worker then looks for jobs.
 * - Renewals of locks are reported.
 * - Connection errors get the code ECONNREFUSED. BullMQ pauses before a retry only after that one; after others
 *   (shutdown, server full, no answer) it would retry in a tight loop.
 */
export function makeResilient(
  backend: IQueueBackend,
  { connection, tuning, retryMs, stopping, onRenewed }: ResilientOptions,
): IQueueBackend {
  const original = {
    moveToActive: backend.moveToActive.bind(backend),
    moveStalledJobsToWait: backend.moveStalledJobsToWait.bind(backend),
    waitForJob: backend.waitForJob.bind(backend),
    extendLocks: backend.extendLocks.bind(backend),
  };
  const reported = async <T>(command: Promise<T>): Promise<T> => {
    try {
      const result = await command;
      connection.succeeded();
      return result;
    } catch (error) {
      if (isRefused(error)) throw error;
      connection.failed(error);
      throw Object.assign(new Error(errorText(error), { cause: error }), { code: 'ECONNREFUSED' });
    }
  };
  backend.moveToActive = (token, name) => reported(original.moveToActive(token, name));
  backend.moveStalledJobsToWait = () => reported(original.moveStalledJobsToWait());
  backend.waitForJob = async (seconds) => {
    try {
      return await original.waitForJob(Math.min(seconds, tuning.blockMs / 1_000));
    } catch (error) {
      if (stopping.aborted) throw error; // the worker closed its connection
      connection.failed(error);
      backend.reconnectBlocking().catch(() => undefined);
      await pause(retryMs, stopping);
      return null;
    }
  };
  backend.extendLocks = async (ids, tokens, durationMs) => {
    const sentAt = performance.now();
    const lost = await reported(original.extendLocks(ids, tokens, durationMs));
    const ageMs = performance.now() - sentAt;
    for (const [index, token] of tokens.entries()) {
      onRenewed(token, lost.includes(ids[index] ?? ''), ageMs);
    }
    return lost;
  };
  return backend;
}

/** True for BullMQ's errors with a negative code: the job is gone, not active, or locked by another worker. */
export function isRefused(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  return typeof error.code === 'number' && error.code < 0;
}
