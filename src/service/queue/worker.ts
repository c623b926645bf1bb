import { hostname } from 'node:os';
import {
  DelayedError,
  UnrecoverableError,
  WaitingError,
  Worker,
  type BackendFactory,
  type IQueueBackend,
  type Job,
  type JobProgress,
} from 'bullmq';
import type { Log } from '../../domain/log.js';
import { errorOutcome } from '../../catalogue/problem.js';
import type { JobOutcome } from '../../catalogue/types.js';
import { pause, withTimeout } from '../concurrency.js';
import { backoffMs } from './backoff.js';
import { errorText } from './errors.js';
import type { Times } from './server.js';
import { type Admission, HostShare } from './share.js';
import {
  boundedResult,
  readPayload,
  subjectOf,
  type Payload,
  type QueueName,
  type TaskOf,
} from './tasks.js';

export interface JobContext {
  /** What the job is about, such as `sync.acme.20261121T020000Z`. */
  readonly subject: string;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Total attempts allowed. */
  readonly attempts: number;
  /** Aborted when the handler must end now: the worker stops, or has lost the job. */
  readonly signal: AbortSignal;
  /** Aborted when the worker begins to stop. The handler may still finish, but soon. */
  readonly closing: AbortSignal;
  /** Adds subject and seller to every line. */
  readonly log: Log;
}

export type JobHandler<T> = (task: T, context: JobContext) => Promise<JobOutcome>;

/** What a handler ended with; for metrics. */
export interface JobEvent {
  readonly queue: QueueName;
  readonly name: string;
  readonly outcome: JobOutcome['kind'];
  readonly durationMs: number;
}

export interface WorkOptions {
  /** Jobs processed at the same time. */
  readonly concurrency: number;
  /**
   * The marketplace host of a seller, which may have half of the slots, or all of them if no other host is configured.
   * Null or not set: the job is about no host.
   */
  readonly hostOf?: (seller: string) => { readonly host: string; readonly isAlone: boolean } | null;
  readonly onJob?: (event: JobEvent) => void;
}

interface WorkerSetup<N extends QueueName> extends WorkOptions {
  readonly queue: N;
  readonly handler: JobHandler<TaskOf<N>>;
  readonly bull: {
    readonly connection: unknown;
    readonly factory: BackendFactory<IQueueBackend, unknown>;
    readonly prefix: string;
  };
  /** Resolves when the server has answered. */
  readonly untilReady: () => Promise<void>;
  /** Called with each error of the connection. */
  readonly onError: (error: Error) => void;
  readonly times: Times;
  readonly log: Log;
}

/** Makes BullMQ retry a job after this delay. */
class RetryAfter extends Error {
  constructor(
    message: string,
    readonly delayMs: number,
  ) {
    super(message);
  }
}

/** A job that lost its worker more often than this is given up as the likely cause. */
const MAX_STALLED = 20;
/** Minutes of throughput that dashboards for BullMQ can show. */
const METRICS_MINUTES = 7 * 24 * 60;

type BullJob = Job<Payload>;
const BullWorker = Worker<Payload, unknown, string, IQueueBackend, JobProgress, unknown>;
type BullWorker = InstanceType<typeof BullWorker>;

/**
 * Works on a queue with BullMQ's worker until it is stopped. Starts as soon as the server can be reached, and survives
 * outages. If the server is lost while a handler runs, its outcome may be lost too; then the job runs again.
 */
export class QueueWorker<N extends QueueName = QueueName> {
  readonly #setup: WorkerSetup<N>;
  readonly #log: Log;
  readonly #share: HostShare;
  /** Null if the worker was stopped before the server could be reached. */
  readonly #bull: Promise<BullWorker | null>;
  /** Aborted when the worker begins to stop. */
  readonly #stopping = new AbortController();
  /** Called when the worker no longer waits for handlers, one for each of them. BullMQ then records nothing. */
  readonly #abandon = new Set<() => void>();
  #stopped: Promise<{ handedBack: number }> | null = null;
  #handedBack = 0;

  constructor(setup: WorkerSetup<N>) {
    this.#setup = setup;
    this.#log = setup.log.child({ queue: setup.queue });
    this.#share = new HostShare(setup.concurrency);
    this.#bull = this.#open();
  }

  /**
   * Takes no new jobs and waits for the active ones. After `timeoutMs` their signals are aborted; a few seconds
   * later they are left to other workers. Never throws.
   */
  stop(timeoutMs: number): Promise<{ handedBack: number }> {
    this.#stopped ??= this.#stop(timeoutMs);
    return this.#stopped;
  }

  async #stop(timeoutMs: number): Promise<{ handedBack: number }> {
    this.#stopping.abort(new Error('the worker is stopping'));
    const closed = this.#bull.then((bull) => bull?.close());
    if (!(await endsWithin(timeoutMs, closed))) {
      (await this.#bull)?.cancelAllJobs('the worker is stopping');
      await endsWithin(this.#setup.times.graceMs, closed);
    }
    for (const abandon of this.#abandon) abandon();
    await endsWithin(this.#setup.times.commandMs, closed);
    return { handedBack: this.#handedBack };
  }

  async #open(): Promise<BullWorker | null> {
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#setup.untilReady();
        return await this.#start();
      } catch {
        // Logged where it failed.
        await pause(this.#setup.times.retryMs, this.#stopping.signal);
      }
    }
    return null;
  }

  async #start(): Promise<BullWorker> {
    const { queue, concurrency, times, bull, onError } = this.#setup;
    const { factory, ...place } = bull;
    const worker = new BullWorker(
      queue,
      // BullMQ passes the signal only to functions that declare it.
      (job: BullJob, token: string | undefined, signal: AbortSignal | undefined) =>
        this.#process(job, token ?? '', signal ?? new AbortController().signal),
      {
        ...place,
        concurrency,
        name: `${hostname()}.${process.pid}`,
        skipVersionCheck: true,
        drainDelay: times.blockMs / 1_000,
        runRetryDelay: times.retryMs,
        lockDuration: times.lockMs,
        stalledInterval: times.stalledMs,
        maxStalledCount: MAX_STALLED,
        metrics: { maxDataPoints: METRICS_MINUTES },
        settings: {
          backoffStrategy: (_attempts, _type, error) =>
            error instanceof RetryAfter ? error.delayMs : 0,
        },
      },
      factory,
    );
    worker.on('error', (error) => {
      onError(error);
      this.#rest(worker);
    });
    worker.on('lockRenewalFailed', (jobs) => {
      for (const job of jobs) worker.cancelJob(job, 'the job belongs to another worker by now');
    });
    worker.on('stalled', (job) => {
      this.#log.warn('a job lost its worker and will run again', { job });
    });
    try {
      await worker.waitUntilReady();
      return worker;
    } catch (error) {
      await worker.close(true).catch(() => undefined);
      throw error;
    }
  }

  /** Takes no job for a while: after some errors BullMQ would ask again at once, for hours if the server is full. */
  #rest(worker: BullWorker): void {
    if (worker.isPaused() || this.#stopping.signal.aborted) return;
    void worker
      .pause(true)
      .then(() => pause(Math.min(1_000, this.#setup.times.retryMs), this.#stopping.signal))
      .then(() => (this.#stopping.signal.aborted ? undefined : worker.resume()))
      .catch(() => undefined);
  }

  /** Runs the handler, and tells BullMQ its outcome as BullMQ's documentation says. */
  async #process(job: BullJob, token: string, signal: AbortSignal): Promise<unknown> {
    const payload = readPayload(this.#setup.queue, job.data);
    if ('fault' in payload) {
      this.#log.error('a job’s payload is invalid', { job: job.id, problem: payload.fault });
      throw new UnrecoverableError(`the job's payload is invalid: ${payload.fault}`);
    }
    const { task } = payload;
    const slot = this.#admit(task);
    if ('delayMs' in slot) {
      await job.moveToDelayed(Date.now() + slot.delayMs, token);
      throw new DelayedError();
    }
    try {
      return await this.#perform(job, token, task, signal);
    } finally {
      slot.free();
    }
  }

  #admit(task: TaskOf<N>): Admission {
    const of = 'seller' in task ? this.#setup.hostOf?.(task.seller) : null;
    if (!of) return { free: () => undefined };
    return this.#share.admit(of.host, of.isAlone, performance.now());
  }

  async #perform(
    job: BullJob,
    token: string,
    task: TaskOf<N>,
    signal: AbortSignal,
  ): Promise<unknown> {
    const startedAt = performance.now();
    const subject = subjectOf(task);
    const attempts = job.opts.attempts ?? 1;
    const context: JobContext = {
      subject,
      attempt: job.attemptsMade + 1,
      attempts,
      signal,
      closing: this.#stopping.signal,
      log: this.#log.child({ job: subject, ...('seller' in task ? { seller: task.seller } : {}) }),
    };
    const outcome = await this.#unlessAbandoned(this.#handle(task, context));
    this.#count(job.name, outcome.kind, performance.now() - startedAt);
    return await this.#conclude(job, token, outcome, context);
  }

  /** A race against one promise of the worker would keep every outcome in memory for as long as the worker lives. */
  #unlessAbandoned(handling: Promise<JobOutcome>): Promise<JobOutcome> {
    return new Promise((resolve, reject) => {
      const abandon = (): void => reject(new WaitingError());
      this.#abandon.add(abandon);
      void handling.then(resolve, reject).finally(() => this.#abandon.delete(abandon));
    });
  }

  /** Never rejects. A failed last attempt gives the job up. */
  async #handle(task: TaskOf<N>, context: JobContext): Promise<JobOutcome> {
    const { attempt, attempts, signal, closing } = context;
    if (closing.aborted) return { kind: 'hand-back' };
    const outcome = await this.#setup
      .handler(task, context)
      .catch((error: unknown) => errorOutcome(error, signal));
    if (outcome.kind !== 'retry' || attempt < attempts) return outcome;
    return { kind: 'give-up', problem: outcome.problem };
  }

  async #conclude(
    job: BullJob,
    token: string,
    outcome: JobOutcome,
    { log, attempt, attempts }: JobContext,
  ): Promise<unknown> {
    const timeAfter = (ms: number): string => new Date(Date.now() + ms).toISOString();
    switch (outcome.kind) {
      case 'done':
        return boundedResult(outcome.result);
      case 'retry': {
        const problem = errorText(outcome.problem);
        const delayMs = Math.max(
          1,
          backoffMs(attempt, outcome.notBefore, Date.now(), Math.random()),
        );
        const facts = { problem, attempt, attempts, again: timeAfter(delayMs) };
        log.warn('job failed; it will be retried', facts);
        throw new RetryAfter(problem, delayMs);
      }
      case 'later': {
        const delayMs = Math.max(1, Math.ceil(outcome.delayMs));
        await job.moveToDelayed(Date.now() + delayMs, token);
        // Without a delay, it only lets other jobs take their turn.
        if (outcome.delayMs > 0) {
          log.info('job delayed', { reason: outcome.reason, again: timeAfter(delayMs) });
        }
        throw new DelayedError();
      }
      case 'give-up': {
        const problem = errorText(outcome.problem);
        log.error('job failed for good', { problem, attempt, attempts });
        throw new UnrecoverableError(problem);
      }
      case 'hand-back':
        await job.moveToWait(token);
        this.#handedBack += 1;
        log.info('job handed back to the queue');
        throw new WaitingError();
    }
  }

  #count(name: string, outcome: JobEvent['outcome'], durationMs: number): void {
    try {
      const { queue, onJob } = this.#setup;
      onJob?.({ queue, name, outcome, durationMs });
    } catch (error) {
      this.#log.error('could not count a job', { problem: errorText(error) });
    }
  }
}

function endsWithin(ms: number, promise: Promise<unknown>): Promise<boolean> {
  return withTimeout(ms, promise).then(
    () => true,
    () => false,
  );
}
