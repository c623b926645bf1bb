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
import { HostShare } from './share.js';
import { readPayload, subjectOf, type Payload, type QueueName, type TaskOf } from './tasks.js';

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
  readonly place: { readonly connection: unknown; readonly prefix: string };
  readonly factory: BackendFactory<IQueueBackend, unknown>;
  /** Resolves when the server has answered. */
  readonly untilReady: () => Promise<void>;
  /** Called with each error of the connection. */
  readonly onError: (error: Error) => void;
  readonly times: Times;
  readonly log: Log;
}

export interface QueueWorker {
  /**
   * Takes no new jobs and waits for the active ones. After `timeoutMs` their signals are aborted; a few seconds
   * later they are left to other workers. Never throws.
   */
  stop(timeoutMs: number): Promise<void>;
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
export function startWorker<N extends QueueName>(setup: WorkerSetup<N>): QueueWorker {
  const { queue, times } = setup;
  const log = setup.log.child({ queue });
  const share = new HostShare(setup.concurrency);
  /** Aborted when the worker begins to stop. */
  const stopping = new AbortController();
  let stopped: Promise<void> | null = null;
  const opened = open();
  return { stop: (timeoutMs) => (stopped ??= stop(timeoutMs)) };

  async function stop(timeoutMs: number): Promise<void> {
    stopping.abort(new Error('the worker is stopping'));
    const closed = opened.then((worker) => worker?.close());
    if (await endsWithin(timeoutMs, closed)) return;
    // A server that does not answer may keep it from opening.
    void opened.then((worker) => worker?.cancelAllJobs('the worker is stopping'));
    await endsWithin(times.graceMs, closed);
  }

  /** @returns null if the worker was stopped before the server could be reached */
  async function open(): Promise<BullWorker | null> {
    while (!stopping.signal.aborted) {
      try {
        await setup.untilReady();
        return await start();
      } catch {
        // Logged where it failed.
        await pause(times.retryMs, stopping.signal);
      }
    }
    return null;
  }

  async function start(): Promise<BullWorker> {
    const worker = new BullWorker(
      queue,
      // BullMQ passes the signal only to functions that declare it.
      (job: BullJob, token: string | undefined, signal: AbortSignal | undefined) =>
        perform(job, token ?? '', signal ?? new AbortController().signal),
      {
        ...setup.place,
        concurrency: setup.concurrency,
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
      setup.factory,
    );
    worker.on('error', (error) => {
      setup.onError(error);
      void rest(worker);
    });
    worker.on('lockRenewalFailed', (jobs) => {
      for (const job of jobs) worker.cancelJob(job, 'the job belongs to another worker by now');
    });
    worker.on('stalled', (job) => log.warn('a job lost its worker and will run again', { job }));
    try {
      await worker.waitUntilReady();
      return worker;
    } catch (error) {
      await worker.close(true).catch(() => undefined);
      throw error;
    }
  }

  /** Takes no job for a while: after some errors BullMQ would ask again at once, for hours if the server is full. */
  async function rest(worker: BullWorker): Promise<void> {
    if (worker.isPaused() || stopping.signal.aborted) return;
    try {
      await worker.pause(true);
      await pause(Math.min(1_000, times.retryMs), stopping.signal);
      if (!stopping.signal.aborted) void worker.resume();
    } catch {
      // The worker is closing.
    }
  }

  /** Runs the handler, and tells BullMQ its outcome as BullMQ's documentation says. */
  async function perform(job: BullJob, token: string, signal: AbortSignal): Promise<unknown> {
    const payload = readPayload(queue, job.data);
    if ('fault' in payload) {
      log.error('a job’s payload is invalid', { job: job.id, problem: payload.fault });
      throw new UnrecoverableError(`the job's payload is invalid: ${payload.fault}`);
    }
    const { task } = payload;
    const seller = 'seller' in task ? task.seller : null;
    const host = seller === null ? null : (setup.hostOf?.(seller) ?? null);
    const slot = host === null ? null : share.admit(host.host, host.isAlone, performance.now());
    if (slot !== null && 'delayMs' in slot) return await delay(job, token, slot.delayMs);
    const subject = subjectOf(task);
    const context: JobContext = {
      subject,
      attempt: job.attemptsMade + 1,
      attempts: job.opts.attempts ?? 1,
      signal,
      closing: stopping.signal,
      log: log.child({ job: subject, ...(seller === null ? {} : { seller }) }),
    };
    try {
      return await conclude(job, token, await handle(task, context), context);
    } finally {
      slot?.free();
    }
  }

  /** Never rejects. A failed last attempt gives the job up. */
  async function handle(task: TaskOf<N>, context: JobContext): Promise<JobOutcome> {
    const { attempt, attempts, signal, closing } = context;
    if (closing.aborted) return { kind: 'hand-back' };
    const startedAt = performance.now();
    const outcome = await setup
      .handler(task, context)
      .catch((error: unknown) => errorOutcome(error, signal));
    const isLast = outcome.kind === 'retry' && attempt >= attempts;
    const end: JobOutcome = isLast ? { kind: 'give-up', problem: outcome.problem } : outcome;
    const durationMs = performance.now() - startedAt;
    try {
      setup.onJob?.({ queue, name: task.kind, outcome: end.kind, durationMs });
    } catch (error) {
      // The job is done all the same.
      context.log.warn('could not count a job', { error });
    }
    return end;
  }

  async function conclude(
    job: BullJob,
    token: string,
    outcome: JobOutcome,
    { log: line, attempt, attempts }: JobContext,
  ): Promise<unknown> {
    const timeAfter = (ms: number): string => new Date(Date.now() + ms).toISOString();
    switch (outcome.kind) {
      case 'done':
        return null;
      case 'retry': {
        const problem = errorText(outcome.problem);
        const delayMs = backoffMs(attempt, outcome.notBefore, Date.now(), Math.random());
        const facts = { problem, attempt, attempts, again: timeAfter(delayMs) };
        line.warn('job failed; it will be retried', facts);
        throw new RetryAfter(problem, Math.max(1, delayMs));
      }
      case 'later': {
        const { reason, delayMs } = outcome;
        // Without a delay, it only lets other jobs take their turn.
        if (delayMs > 0) line.info('job delayed', { reason, again: timeAfter(delayMs) });
        return await delay(job, token, delayMs);
      }
      case 'give-up': {
        const problem = errorText(outcome.problem);
        line.error('job failed for good', { problem, attempt, attempts });
        throw new UnrecoverableError(problem);
      }
      case 'hand-back':
        await job.moveToWait(token);
        line.info('job handed back to the queue');
        throw new WaitingError();
    }
  }
}

/** Runs the job again after a time, without using up an attempt. */
async function delay(job: BullJob, token: string, delayMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + Math.max(1, Math.ceil(delayMs)), token);
  throw new DelayedError();
}

function endsWithin(ms: number, promise: Promise<unknown>): Promise<boolean> {
  return withTimeout(ms, promise).then(
    () => true,
    () => false,
  );
}
