import { hostname } from 'node:os';
import {
  DelayedError,
  UnrecoverableError,
  WaitingError,
  type IQueueBackend,
  type Job,
  type JobProgress,
  type Span,
  Worker,
} from 'bullmq';
import { pause } from './concurrency.js';
import type { Session } from './connection.js';
import { wordsOf } from './errors.js';
import type { Payload, QueueName } from './tasks.js';
import type { Tuning } from './tuning.js';

export type QueueJob = Job<Payload>;

/** What a `BullWorker` needs of the worker that it works for. */
export interface WorkerHooks {
  /** Aborted when the worker begins to stop. */
  readonly ending: AbortSignal;
  /** Runs a job. */
  readonly process: (job: QueueJob, token: string) => Promise<unknown>;
  /** Records an outcome by calling `write`, again after each failure. */
  readonly record: <T>(
    job: QueueJob,
    token: string,
    write: () => Promise<T>,
  ) => Promise<T | undefined>;
  /** The lock with this token was renewed, in answer to a command that was sent at `sentAt`. */
  readonly renewed: (token: string, sentAt: number) => void;
  /** The lock with this token is another worker's. */
  readonly lost: (token: string) => void;
  /** A command was answered. */
  readonly worked: () => void;
  /** A command failed. */
  readonly failed: (error: unknown) => void;
}

/**
 * BullMQ's worker, with four changes: it never waits for a job longer than `blockMs`, its pauses end
 * when it is closed, handlers learn at once of a lock that was lost, and an outcome that could not be
 * recorded is recorded later instead of counting as a failure of the job.
 */
export class BullWorker extends Worker<
  Payload,
  unknown,
  string,
  IQueueBackend,
  JobProgress,
  unknown
> {
  readonly #hooks: WorkerHooks;
  readonly #blockMs: number;

  constructor(
    queue: QueueName,
    { connection, factory, prefix }: Session,
    concurrency: number,
    tuning: Tuning,
    hooks: WorkerHooks,
  ) {
    super(
      queue,
      (job, token) => hooks.process(job, token ?? ''),
      {
        connection,
        prefix,
        concurrency,
        name: `${hostname()}.${process.pid}`,
        autorun: false,
        skipVersionCheck: true,
        drainDelay: tuning.blockMs / 1_000,
        runRetryDelay: retryPause(tuning),
        lockDuration: tuning.lockMs,
        stalledInterval: tuning.stalledMs,
        maxStalledCount: tuning.maxStalled,
        settings: {
          backoffStrategy: (_attempts, _type, error) =>
            error instanceof TryAgain ? error.delayMs : 0,
        },
      },
      (name, options, more) =>
        withRetriableErrors(factory(name, options, more), hooks, retryPause(tuning)),
    );
    this.#hooks = hooks;
    this.#blockMs = tuning.blockMs;
  }

  /** Seconds. BullMQ waits up to an hour on PostgreSQL, also on a connection that is half open. */
  override get maximumBlockTimeout(): number {
    return this.#blockMs / 1_000;
  }

  override async delay(milliseconds = 100): Promise<void> {
    await pause(milliseconds, this.#hooks.ending);
  }

  override async extendJobLocks(
    ids: string[],
    tokens: string[],
    durationMs: number,
  ): Promise<string[]> {
    const sentAt = performance.now();
    const lost = await super.extendJobLocks(ids, tokens, durationMs);
    tokens.forEach((token, index) => {
      if (lost.includes(ids[index] ?? '')) this.#hooks.lost(token);
      else this.#hooks.renewed(token, sentAt);
    });
    return lost;
  }

  protected override async handleCompleted(
    result: unknown,
    job: QueueJob,
    token: string,
    fetchNext?: () => boolean,
    span?: Span,
  ): Promise<QueueJob> {
    const write = (): Promise<QueueJob> =>
      super.handleCompleted(result, job, token, fetchNext, span);
    return (await this.#hooks.record(job, token, write)) as QueueJob;
  }

  protected override async handleFailed(
    error: Error,
    job: QueueJob,
    token: string,
    fetchNext?: () => boolean,
    span?: Span,
  ): Promise<QueueJob> {
    const problem = job.deferredFailure
      ? new UnrecoverableError(`it lost its worker more than ${this.opts.maxStalledCount} times`)
      : error;
    const write = (): Promise<QueueJob> => super.handleFailed(problem, job, token, fetchNext, span);
    // These say that the outcome is on record already.
    if (error instanceof DelayedError || error instanceof WaitingError) return write();
    return (await this.#hooks.record(job, token, write)) as QueueJob;
  }
}

/** Methods of a backend that handle its connections instead of giving a command. */
const NO_COMMANDS = new Set<string | symbol>([
  'waitUntilReady',
  'disconnectBlocking',
  'reconnectBlocking',
  'disconnect',
  'close',
]);

/**
 * A backend whose errors BullMQ's worker takes for a refused connection, which it retries after a
 * pause. It retries other errors without one: of a server that shuts down, is full, or does not
 * answer in time. What the server says of a job (that it is not ours any more) stays as it is.
 *
 * A failed wait for a job ends as one without a job, so that the worker looks for jobs next.
 */
function withRetriableErrors(
  backend: IQueueBackend,
  { ending, worked, failed }: WorkerHooks,
  retryMs: number,
): IQueueBackend {
  const retriable = (error: unknown): unknown => {
    if (isRefused(error)) return error;
    failed(error);
    return Object.assign(new Error(wordsOf(error), { cause: error }), { code: RETRIABLE });
  };
  const waitForJob: IQueueBackend['waitForJob'] = async (seconds) => {
    try {
      return await backend.waitForJob(seconds);
    } catch (error) {
      if (ending.aborted) throw error; // its connection was closed
      failed(error);
      backend.reconnectBlocking().catch(() => undefined);
      await pause(retryMs, ending);
      return null;
    }
  };
  return new Proxy(backend, {
    get(target, name) {
      if (name === 'waitForJob') return waitForJob;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (NO_COMMANDS.has(name)) return value.bind(target) as unknown;
      return (...args: unknown[]): unknown => {
        const answer: unknown = Reflect.apply(value, target, args);
        if (!(answer instanceof Promise)) return answer;
        return answer.then(
          (result: unknown) => {
            worked();
            return result;
          },
          (error: unknown) => {
            throw retriable(error);
          },
        );
      };
    },
  });
}

/** The job is gone, not active, or locked by another worker: BullMQ's errors with a negative code. */
export function isRefused(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  return typeof error.code === 'number' && error.code < 0;
}

/** The code by which BullMQ's worker knows an error that it retries after a pause. */
const RETRIABLE = 'ECONNREFUSED';

/** The command failed, and may succeed when it is given again. */
export function isRetriable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === RETRIABLE;
}

/** Milliseconds before a failed command is given again. */
export function retryPause({ retryMs }: Tuning): number {
  return Math.min(retryMs, 1_000);
}

/** Makes BullMQ try a job again after exactly this pause. */
export class TryAgain extends Error {
  override readonly name = 'TryAgain';

  constructor(
    message: string,
    readonly delayMs: number,
  ) {
    super(message);
  }
}
