import { hostname } from 'node:os';
import {
  UnrecoverableError,
  WaitingError,
  Worker,
  type IQueueBackend,
  type Job,
  type JobProgress,
} from 'bullmq';
import type { Log } from '../domain/log.js';
import { errorOutcome } from '../jobs/problem.js';
import type { JobOutcome } from '../jobs/types.js';
import { pause, within } from './concurrency.js';
import type { Connection } from './connection.js';
import { bounded, wordsOf } from './errors.js';
import { readPayload, type Payload, type QueueName, type TaskOf } from './tasks.js';
import type { Tuning } from './tuning.js';
import { isRefused, steadyBackend } from './worker-backend.js';

export interface JobContext {
  readonly jobId: string;
  /** 1 for the first. */
  readonly attempt: number;
  readonly attempts: number;
  /** Aborted when the handler must end at once: the worker stops, or may have lost the job. */
  readonly signal: AbortSignal;
  /** Aborted when the worker begins to stop: the handler may still finish, but soon. */
  readonly closing: AbortSignal;
  /** Its lines carry the job's id and seller. */
  readonly log: Log;
}

export type JobHandler<T> = (task: T, context: JobContext) => Promise<JobOutcome>;

/** A job whose end was recorded; for metrics. */
export interface JobEvent {
  readonly queue: QueueName;
  readonly name: string;
  readonly outcome: JobOutcome['kind'];
  readonly durationMs: number;
}

export interface WorkOptions {
  /** Jobs at work at the same time. */
  readonly concurrency: number;
  /** Called for each job whose end was recorded. */
  readonly onJob?: (event: JobEvent) => void;
}

interface WorkerSetup<N extends QueueName> extends WorkOptions {
  readonly connection: Connection;
  readonly queue: N;
  readonly handler: JobHandler<TaskOf<N>>;
  readonly tuning: Tuning;
  readonly log: Log;
}

/** Makes BullMQ try a job again after exactly this pause. */
class TryAgain extends Error {
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

/** A job whose handler runs here, or whose end is being recorded. */
interface ActiveJob {
  readonly log: Log;
  readonly startedAt: number;
  readonly attempt: number;
  readonly attempts: number;
  readonly interruption: AbortController;
  /** Interrupts the job when its lock was not renewed in time. */
  deadline?: NodeJS.Timeout;
  /** Ends the wait for the handler. */
  abandon?: () => void;
}

interface JobEnd {
  readonly kind: JobOutcome['kind'];
  readonly write: () => Promise<unknown>;
  readonly log: () => void;
}

/**
 * Works on a queue with BullMQ's worker until it is stopped, from now on or as soon as the server can
 * be reached, and through outages. BullMQ fetches jobs and renews their locks. The end of a job is
 * recorded here: BullMQ would take an outage at that moment for a failure of the job.
 */
export class QueueWorker<N extends QueueName = QueueName> {
  readonly #setup: WorkerSetup<N>;
  readonly #log: Log;
  /** Milliseconds before a failed command is given again. */
  readonly #retryMs: number;
  /** By the token of the job's lock. */
  readonly #active = new Map<string, ActiveJob>();
  /** Null when the worker was stopped before the server could be reached. */
  readonly #bull: Promise<BullWorker | null>;
  /** Aborted when the worker begins to stop. */
  readonly #ending = new AbortController();
  /** Aborted when nothing is waited for any more. */
  readonly #over = new AbortController();
  #stopping: Promise<{ handedBack: number }> | null = null;
  #handedBack = 0;

  constructor(setup: WorkerSetup<N>) {
    this.#setup = setup;
    this.#log = setup.log.child({ queue: setup.queue });
    this.#retryMs = Math.min(setup.tuning.retryMs, 1_000);
    this.#bull = this.#open();
  }

  /**
   * Takes no new job and waits for those at work; after `timeoutMs` their signals are aborted, and
   * after a few seconds more they are left to other workers. Never throws.
   */
  stop(timeoutMs: number): Promise<{ handedBack: number }> {
    this.#stopping ??= this.#stop(timeoutMs);
    return this.#stopping;
  }

  async #stop(timeoutMs: number): Promise<{ handedBack: number }> {
    const { graceMs, commandMs } = this.#setup.tuning;
    this.#ending.abort();
    const closed = this.#bull.then((bull) => bull?.close());
    if (!(await endsWithin(timeoutMs, closed))) {
      for (const { interruption } of this.#active.values()) {
        interruption.abort(new Error('the worker stops'));
      }
      await endsWithin(graceMs, closed);
    }
    this.#over.abort();
    for (const { abandon } of this.#active.values()) abandon?.();
    await endsWithin(commandMs, closed);
    return { handedBack: this.#handedBack };
  }

  async #open(): Promise<BullWorker | null> {
    while (!this.#ending.signal.aborted) {
      try {
        const bull = await this.#setup.connection.use(() => this.#create());
        void this.#run(bull);
        return bull;
      } catch {
        // The connection has logged it.
        await pause(this.#retryMs, this.#ending.signal);
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
            error instanceof TryAgain ? error.delayMs : 0,
        },
      },
      (name, options, more) =>
        steadyBackend(factory(name, options, more), {
          connection,
          tuning,
          retryMs: this.#retryMs,
          ending: this.#ending.signal,
          onRenewed: (token, isLost, ageMs) => this.#renewed(token, isLost, ageMs),
        }),
    );
    bull.on('error', () => undefined); // logged where the command failed
    bull.on('stalled', (job) => {
      this.#log.warn('a job lost its worker and is taken over', { job });
    });
    // BullMQ itself only fails jobs that cost too many workers.
    bull.on('failed', (job) => {
      if (job !== undefined) this.#costTooMany(job);
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
    while (!this.#ending.signal.aborted) {
      try {
        await bull.run();
      } catch (error) {
        this.#log.error('a worker ended in a way it should not', { problem: wordsOf(error) });
        await pause(this.#retryMs, this.#ending.signal);
      }
    }
  }

  #renewed(token: string, isLost: boolean, ageMs: number): void {
    const active = this.#active.get(token);
    if (active === undefined) return;
    if (isLost) interruptLost(active);
    else this.#setDeadline(active, ageMs);
  }

  async #process(job: BullJob, token: string): Promise<never> {
    const read = readPayload(this.#setup.queue, job.data);
    const seller = 'task' in read && 'seller' in read.task ? { seller: read.task.seller } : {};
    const active: ActiveJob = {
      log: this.#log.child({ job: job.id, ...seller }),
      startedAt: performance.now(),
      attempt: job.attemptsMade + 1,
      attempts: job.opts.attempts ?? 1,
      interruption: new AbortController(),
    };
    this.#active.set(token, active);
    this.#setDeadline(active, Date.now() - (job.processedOn ?? Date.now()));
    const outcome = await new Promise<JobOutcome | null>((resolve) => {
      active.abandon = () => resolve(null);
      void this.#handle(read, job.id ?? '', active).then(resolve);
    });
    this.#active.delete(token);
    clearTimeout(active.deadline);
    // An abandoned job stays as it is until its lock ends.
    if (outcome !== null) await this.#record(job, active, this.#endOf(outcome, job, token, active));
    throw new WaitingError(); // BullMQ records nothing, and goes on to the next job
  }

  /** Never rejects. */
  async #handle(
    read: ReturnType<typeof readPayload<N>>,
    jobId: string,
    { attempt, attempts, log, interruption: { signal } }: ActiveJob,
  ): Promise<JobOutcome> {
    if ('fault' in read) {
      return { kind: 'give-up', problem: `the job is not understood: ${read.fault}` };
    }
    const closing = this.#ending.signal;
    if (closing.aborted) return { kind: 'hand-back' };
    try {
      const context = { jobId, signal, closing, attempt, attempts, log };
      return await this.#setup.handler(read.task, context);
    } catch (error) {
      return errorOutcome(error, signal);
    }
  }

  /** A last attempt that failed gives the job up. */
  #endOf(outcome: JobOutcome, job: BullJob, token: string, active: ActiveJob): JobEnd {
    const { log, attempt, attempts } = active;
    const { kind } = outcome;
    const after = (ms: number): string => new Date(Date.now() + ms).toISOString();
    switch (outcome.kind) {
      case 'done': {
        const result = smallResult(outcome.result);
        return {
          kind,
          write: () => job.moveToCompleted(result, token, false),
          log: () => undefined,
        };
      }
      case 'retry': {
        if (attempt >= attempts)
          return this.#endOf({ ...outcome, kind: 'give-up' }, job, token, active);
        const problem = bounded(outcome.problem);
        const { backoff } = this.#setup.tuning;
        const delayMs = Math.max(1, backoff(attempt, outcome.notBefore, Date.now(), Math.random()));
        return {
          kind,
          write: () => job.moveToFailed(new TryAgain(problem, delayMs), token),
          log: () =>
            log.warn('job failed, it is tried again', {
              problem,
              attempt,
              attempts,
              again: after(delayMs),
            }),
        };
      }
      case 'later': {
        const { reason } = outcome;
        const delayMs = Math.max(1, outcome.delayMs);
        return {
          kind,
          write: () => job.moveToDelayed(Date.now() + delayMs, token),
          log: () => log.info('job put off', { reason, again: after(delayMs) }),
        };
      }
      case 'give-up': {
        const problem = bounded(outcome.problem);
        return {
          kind,
          write: () => job.moveToFailed(new UnrecoverableError(problem), token),
          log: () => log.error('job failed for good', { problem, attempt, attempts }),
        };
      }
      case 'hand-back':
        return {
          kind,
          write: () => job.moveToWait(token),
          log: () => log.info('job handed back to the queue'),
        };
    }
  }

  /**
   * Records the end of a job, through outages too. When the server says that the job is not this
   * worker's any more, nothing is recorded, and the job is repeated by whoever has it.
   */
  async #record(job: BullJob, { log, startedAt }: ActiveJob, end: JobEnd): Promise<void> {
    let isDoubtful = false;
    while (!this.#over.signal.aborted) {
      try {
        await end.write();
      } catch (error) {
        if (!isRefused(error)) {
          isDoubtful = true;
          await pause(this.#retryMs, this.#over.signal);
          continue;
        }
        // After an attempt whose answer was lost, a refusal means that the end is on record.
        if (!isDoubtful) break;
      }
      end.log();
      if (end.kind === 'hand-back') this.#handedBack += 1;
      this.#count(job.name, end.kind, performance.now() - startedAt);
      return;
    }
    const outcome = end.kind;
    log.warn('what became of a job could not be written down; it is repeated', { outcome });
  }

  #costTooMany({ id: job, name, attemptsMade: attempt, opts, failedReason }: BullJob): void {
    const facts = { job, problem: wordsOf(failedReason), attempt, attempts: opts.attempts };
    this.#log.error('job failed for good', facts);
    this.#count(name, 'give-up', 0);
  }

  #count(name: string, outcome: JobEvent['outcome'], durationMs: number): void {
    try {
      const { queue, onJob } = this.#setup;
      onJob?.({ queue, name, outcome, durationMs });
    } catch (error) {
      this.#log.error('a job could not be counted', { problem: wordsOf(error) });
    }
  }

  /** @param ageMs how long ago, at most, the server gave or renewed the lock */
  #setDeadline(active: ActiveJob, ageMs: number): void {
    clearTimeout(active.deadline);
    const leftMs = Math.max(0, this.#setup.tuning.lockMs - ageMs);
    active.deadline = setTimeout(() => interruptLost(active), leftMs);
  }
}

function interruptLost({ interruption }: ActiveJob): void {
  interruption.abort(new Error('the job may belong to another worker by now'));
}

function endsWithin(ms: number, end: Promise<unknown>): Promise<boolean> {
  return within(ms, end).then(
    () => true,
    () => false,
  );
}

/** Most characters of a result: it is kept for days. */
const LARGEST_RESULT = 2_048;

/** A result as JSON can hold it, or a note that it was too large. */
export function smallResult(result: Readonly<Record<string, unknown>>): unknown {
  const text = JSON.stringify(result, (_key, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  return text.length <= LARGEST_RESULT ? (JSON.parse(text) as unknown) : { tooLarge: true };
}
