import type { IQueueBackend } from 'bullmq';
import { pause } from './concurrency.js';
import type { Connection } from './connection.js';
import { wordsOf } from './errors.js';
import type { Tuning } from './tuning.js';

interface SteadyOptions {
  readonly connection: Connection;
  readonly tuning: Tuning;
  /** Milliseconds before the server is asked again after a failure. */
  readonly retryMs: number;
  /** Aborted when the worker begins to stop. */
  readonly ending: AbortSignal;
  /**
   * Told of each lock that was to be renewed.
   * @param ageMs how long ago, at most, the server renewed it
   */
  readonly onRenewed: (token: string, isLost: boolean, ageMs: number) => void;
}

/**
 * The backend of BullMQ's worker, with three changes. It never waits for a job longer than
 * `blockMs` (BullMQ waits up to an hour on PostgreSQL, also on a connection that is half open), and
 * a failed wait ends as one without a job, so that the worker looks for jobs next. Renewals of locks
 * are reported. BullMQ retries after a pause when a connection is refused, and without one after other
 * errors (the server shuts down, is full, or does not answer): so all get that error's code, except
 * what the server says of a job.
 */
export function steadyBackend(
  backend: IQueueBackend,
  { connection, tuning, retryMs, ending, onRenewed }: SteadyOptions,
): IQueueBackend {
  const answered = async <T>(answer: Promise<T>): Promise<T> => {
    try {
      const result = await answer;
      connection.worked();
      return result;
    } catch (error) {
      if (isRefused(error)) throw error;
      connection.failed(error);
      throw Object.assign(new Error(wordsOf(error), { cause: error }), { code: 'ECONNREFUSED' });
    }
  };
  const changed: Partial<IQueueBackend> = {
    maximumBlockTimeout: tuning.blockMs / 1_000,
    waitForJob: async (seconds) => {
      try {
        return await backend.waitForJob(seconds);
      } catch (error) {
        if (ending.aborted) throw error; // its connection was closed
        connection.failed(error);
        backend.reconnectBlocking().catch(() => undefined);
        await pause(retryMs, ending);
        return null;
      }
    },
    extendLocks: async (ids, tokens, durationMs) => {
      const sentAt = performance.now();
      const lost = await answered(backend.extendLocks(ids, tokens, durationMs));
      const ageMs = performance.now() - sentAt;
      for (const [index, token] of tokens.entries()) {
        onRenewed(token, lost.includes(ids[index] ?? ''), ageMs);
      }
      return lost;
    },
  };
  return new Proxy(backend, {
    get(target, name) {
      if (name in changed) return Reflect.get(changed, name) as unknown;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        const answer: unknown = Reflect.apply(value, target, args);
        const isCommand = answer instanceof Promise && !NO_COMMANDS.has(name);
        return isCommand ? answered(answer) : answer;
      };
    },
  });
}

/** Methods of a backend that handle its connections instead of giving a command. */
const NO_COMMANDS = new Set<string | symbol>([
  'waitUntilReady',
  'disconnectBlocking',
  'reconnectBlocking',
  'disconnect',
  'close',
]);

/** The job is gone, not active, or locked by another worker: BullMQ's errors with a negative code. */
export function isRefused(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  return typeof error.code === 'number' && error.code < 0;
}
