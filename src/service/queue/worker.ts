import { hostname } from 'node:os';
import {
  UnrecoverableError,
  WaitingError,
  Worker,
  type IQueueBackend,
  type Job,
  type JobProgress,
} from 'bullmq';
import type { Log } from '../../domain/log.js';
import { errorOutcome } from '../../catalogue/problem.js';
import type { JobOutcome } from '../../catalogue/types.js';
import { pause, withTimeout } from '../concurrency.js';
import type { Connection } from './connection.js';
import { errorText } from './errors.js';
import { readPayload, type Payload, type QueueName, type TaskOf } from './tasks.js';
import type { Tuning } from './tuning.js';
import { isRefused, makeResilient } from './worker-backend.js';

export interface JobContext {
  readonly jobId: string;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Total attempts allowed. */
  readonly attempts: number;
  /** Aborted when the handler must end now: the worker stops, or may have lost the job. */
  readonly signal: AbortSignal;
  /** Aborted when the worker begins to stop. The handler may still finish, but soon. */
  readonly closing: AbortSignal;
  /** Adds the job's id and seller to every line. */
  readonly log: Log;
}

export type JobHandler<T> = (task: T, context: JobContext) => Promise<JobOutcome>;

/** A job whose outcome was recorded; for metrics. */
export interface JobEvent {
  readonly queue: QueueName;
  readonly name: string;
  readonly outcome: JobOutcome['kind'];
  readonly durationMs: number;
}

export interface WorkOptions {
  /** Jobs processed at the same time. */
  readonly concurrency: number;
  /** Called after each job whose outcome was recorded. */
  readonly onJob?: (event: JobEvent) => void;
}

interface WorkerSetup<N extends QueueName> extends WorkOptions {
  readonly connection: Connection;
  readonly queue: N;
  readonly handler: JobHandler<TaskOf<N>>;
  readonly tuning: Tuning;
  readonly log: Log;
}

/** Makes BullMQ retry a job after exactly this delay. */
class RetryAfter extends Error {
  constructor(
    message: string,
    readonly delayMs: number,
  ) {
    super(message);
  }
}

type BullJob = Job<Payload>;
const BullWorker = Worker<Payload, unknown, string, IQueueBackend, JobProgress, unknown>;
type BullWorker = InstanceType<typeof BullWorker>;

/** A job whose handler is running, or whose outcome is being recorded. */
interface ActiveJob {
  readonly log: Log;
  readonly startedAt: number;
  readonly attempt: number;
  readonly attempts: number;
  readonly interruption: AbortController;
  /** Interrupts the job if its lock is not renewed in time. */
  lockTimer?: NodeJS.Timeout;
  /** Stops waiting for the handler. */
  abandon?: () => void;
}

/** How to record a job's outcome, and how to log it once it is recorded. */
interface Conclusion {
  readonly record: () => Promise<unknown>;
  readonly log: () => void;
}

/**
 * Works on a queue with BullMQ's worker until it is stopped. Starts as soon as the server can be reached, and
 * survives outages. BullMQ fetches jobs and renews their locks. Outcomes are recorded here: BullMQ would take an
 * outage at that moment for a failure of the job.
 */
export class QueueWorker<N extends QueueName = QueueName> {
  readonly #setup: WorkerSetup<N>;
  readonly #log: Log;
  /** Milliseconds before a failed command is repeated. */
  readonly #retryMs: number;
  /** By the token of the job's lock. */
  readonly #active = new Map<string, ActiveJob>();
  /** Null if the worker was stopped before the server could be reached. */
  readonly #bull: Promise<BullWorker | null>;
  /** Aborted when the worker begins to stop. */
  readonly #stopping = new AbortController();
  /** Aborted when the worker stops waiting for handlers and for the server. */
  readonly #givingUp = new AbortController();
  #stopped: Promise<{ handedBack: number }> | null = null;
  #handedBack = 0;

  constructor(setup: WorkerSetup<N>) {
    this.#setup = setup;
    this.#log = setup.log.child({ queue: setup.queue });
    this.#retryMs = Math.min(setup.tuning.retryMs, 1_000);
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
    const { graceMs, commandMs } = this.#setup.tuning;
    this.#stopping.abort();
    const closed = this.#bull.then((bull) => bull?.close());
    if (!(await endsWithin(timeoutMs, closed))) {
      for (const { interruption } of this.#active.values()) {
        interruption.abort(new Error('the worker is stopping'));
      }
      await endsWithin(graceMs, closed);
    }
    this.#givingUp.abort();
    for (const { abandon } of this.#active.values()) abandon?.();
    await endsWithin(commandMs, closed);
    return { handedBack: this.#handedBack };
  }

  async #open(): Promise<BullWorker | null> {
    while (!this.#stopping.signal.aborted) {
      try {
        const bull = await this.#setup.connection.use(() => this.#create());
        void this.#run(bull);
        return bull;
      } catch {
        // The connection has logged the error.
        await pause(this.#retryMs, this.#stopping.signal);
      }
    }
    return null;
  }

  async #create(): Promise<BullWorker> {
    const { queue, concurrency, tuning, connection } = this.#setup;
    const { factory, ...place } = connection.bull;
    const bull = new BullWorker(
      queue,
      (job: BullJob, token = '') => this.#process(job, token),
      {
        ...place,
        concurrency,
        name: `${hostname()}.${process.pid}`,
        autorun: false,
        skipVersionCheck: true,
        drainDelay: tuning.blockMs / 1_000,
        runRetryDelay: this.#retryMs,
        lockDuration: tuning.lockMs,
        stalledInterval: tuning.stalledMs,
        maxStalledCount: tuning.maxStalled,
        settings: {
          backoffStrategy: (_attempts, _type, error) =>
            error instanceof RetryAfter ? error.delayMs : 0,
        },
      },
      (name, options, more) =>
        makeResilient(factory(name, options, more), {
          connection,
          tuning,
          retryMs: this.#retryMs,
          stopping: this.#stopping.signal,
          onRenewed: (token, isLost, ageMs) => this.#onRenewed(token, isLost, ageMs),
        }),
    );
    bull.on('error', () => undefined); // logged where the command failed
    bull.on('stalled', (job) => {
      this.#log.warn('a job lost its worker and will run again', { job });
    });
    // The worker itself fails only jobs that stalled too often.
    bull.on('failed', (job) => {
      if (job === undefined) return;
      const { id, name, attemptsMade: attempt, opts, failedReason } = job;
      const facts = { job: id, problem: errorText(failedReason), attempt, attempts: opts.attempts };
      this.#log.error('job failed for good', facts);
      this.#count(name, 'give-up', 0);
    });
    try {
      await bull.waitUntilReady();
      return bull;
    } catch (error) {
      await bull.close(true).catch(() => undefined);
      throw error;
    }
  }

  async #run(bull: BullWorker): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      try {
        await bull.run();
      } catch (error) {
        this.#log.error('a worker ended unexpectedly; it restarts', { problem: errorText(error) });
        await pause(this.#retryMs, this.#stopping.signal);
      }
    }
  }

  async #process(job: BullJob, token: string): Promise<never> {
    const payload = readPayload(this.#setup.queue, job.data);
    const seller =
      'task' in payload && 'seller' in payload.task ? { seller: payload.task.seller } : {};
    const active: ActiveJob = {
      log: this.#log.child({ job: job.id, ...seller }),
      startedAt: performance.now(),
      attempt: job.attemptsMade + 1,
      attempts: job.opts.attempts ?? 1,
      interruption: new AbortController(),
    };
    this.#active.set(token, active);
    this.#startLockTimer(active, Date.now() - (job.processedOn ?? Date.now()));
    const outcome = await new Promise<JobOutcome | null>((resolve) => {
      active.abandon = () => resolve(null);
      void this.#handle(payload, job.id ?? '', active).then(resolve);
    });
    this.#active.delete(token);
    clearTimeout(active.lockTimer);
    // An abandoned job keeps its state until its lock expires.
    if (outcome !== null) await this.#record(job, token, active, outcome);
    throw new WaitingError(); // makes BullMQ record nothing and take the next job
  }

  /** Runs the handler. A failed last attempt gives the job up. Never rejects. */
  async #handle(
    payload: ReturnType<typeof readPayload<N>>,
    jobId: string,
    { attempt, attempts, log, interruption: { signal } }: ActiveJob,
  ): Promise<JobOutcome> {
    if ('fault' in payload) {
      return { kind: 'give-up', problem: `the job's payload is invalid: ${payload.fault}` };
    }
    const closing = this.#stopping.signal;
    if (closing.aborted) return { kind: 'hand-back' };
    let outcome: JobOutcome;
    try {
      const context = { jobId, signal, closing, attempt, attempts, log };
      outcome = await this.#setup.handler(payload.task, context);
    } catch (error) {
      outcome = errorOutcome(error, signal);
    }
    if (outcome.kind !== 'retry' || attempt < attempts) return outcome;
    return { kind: 'give-up', problem: outcome.problem };
  }

  /**
   * Records a job's outcome, retrying through outages. If the server says that the job no longer belongs to this
   * worker, nothing is recorded: its new owner runs it again.
   */
  async #record(
    job: BullJob,
    token: string,
    active: ActiveJob,
    outcome: JobOutcome,
  ): Promise<void> {
    const { connection } = this.#setup;
    const { record, log } = this.#conclude(outcome, job, token, active);
    let mayBeRecorded = false;
    while (!this.#givingUp.signal.aborted) {
      try {
        await record();
        connection.succeeded();
      } catch (error) {
        if (!isRefused(error)) {
          connection.failed(error);
          mayBeRecorded = true;
          await pause(this.#retryMs, this.#givingUp.signal);
          continue;
        }
        // If an earlier attempt lost its answer, a refusal means that it succeeded.
        if (!mayBeRecorded) break;
      }
      log();
      if (outcome.kind === 'hand-back') this.#handedBack += 1;
      this.#count(job.name, outcome.kind, performance.now() - active.startedAt);
      return;
    }
    const message = 'could not record the outcome of a job; the job will run again';
    active.log.warn(message, { outcome: outcome.kind });
  }

  #conclude(
    outcome: JobOutcome,
    job: BullJob,
    token: string,
    { log, attempt, attempts }: ActiveJob,
  ): Conclusion {
    const timeAfter = (ms: number): string => new Date(Date.now() + ms).toISOString();
    switch (outcome.kind) {
      case 'done': {
        const result = boundedResult(outcome.result);
        return { record: () => job.moveToCompleted(result, token, false), log: () => undefined };
      }
      case 'retry': {
        const problem = errorText(outcome.problem);
        const { backoff } = this.#setup.tuning;
        const delayMs = Math.max(1, backoff(attempt, outcome.notBefore, Date.now(), Math.random()));
        const facts = { problem, attempt, attempts };
        return {
          record: () => job.moveToFailed(new RetryAfter(problem, delayMs), token),
          log: () =>
            log.warn('job failed; it will be retried', { ...facts, again: timeAfter(delayMs) }),
        };
      }
      case 'later': {
        const { reason } = outcome;
        const delayMs = Math.max(1, outcome.delayMs);
        return {
          record: () => job.moveToDelayed(Date.now() + delayMs, token),
          log: () => {
            // Without a delay, it only lets other jobs take their turn.
            if (outcome.delayMs > 0) log.info('job delayed', { reason, again: timeAfter(delayMs) });
          },
        };
      }
      case 'give-up': {
        const problem = errorText(outcome.problem);
        return {
          record: () => job.moveToFailed(new UnrecoverableError(problem), token),
          log: () => log.error('job failed for good', { problem, attempt, attempts }),
        };
      }
      case 'hand-back':
        return {
          record: () => job.moveToWait(token),
          log: () => log.info('job handed back to the queue'),
        };
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

  #onRenewed(token: string, isLost: boolean, ageMs: number): void {
    const active = this.#active.get(token);
    if (active === undefined) return;
    if (isLost) interruptLost(active);
    else this.#startLockTimer(active, ageMs);
  }

  /** @param ageMs how long ago, at most, the server granted or renewed the lock */
  #startLockTimer(active: ActiveJob, ageMs: number): void {
    clearTimeout(active.lockTimer);
    const leftMs = Math.max(0, this.#setup.tuning.lockMs - ageMs);
    active.lockTimer = setTimeout(() => interruptLost(active), leftMs);
  }
}

function interruptLost({ interruption }: ActiveJob): void {
  interruption.abort(new Error('the job may belong to another worker by now'));
}

function endsWithin(ms: number, promise: Promise<unknown>): Promise<boolean> {
  return withTimeout(ms, promise).then(
    () => true,
    () => false,
  );
}

/** Characters of JSON. Results are kept for days. */
const MAX_RESULT_LENGTH = 2_048;

/** The result as plain JSON, or a note that it was too large. */
export function boundedResult(result: Readonly<Record<string, unknown>>): unknown {
  const text = JSON.stringify(result, (_key, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  return text.length <= MAX_RESULT_LENGTH ? (JSON.parse(text) as unknown) : { tooLarge: true };
}
