import { Queue, type IQueueBackend } from 'bullmq';
import type { RedisTarget } from '../../domain/redis-target.js';
import { isUserError, UserError } from '../../domain/user-error.js';
import { withTimeout } from '../concurrency.js';
import { ATTEMPTS } from './backoff.js';
import { errorText, OutageLog } from './errors.js';
import { postgresServer } from './postgres.js';
import { redisServer } from './redis.js';
import { type QueueSettings, type Server, type Times, TIMES } from './server.js';
import {
  QUEUE_NAMES,
  readPayload,
  subjectOf,
  type Payload,
  type QueueName,
  type TaskOf,
} from './tasks.js';
import { startWorker, type JobHandler, type QueueWorker, type WorkOptions } from './worker.js';

export interface QueueOptions extends Omit<QueueSettings, 'times'> {
  /** Redis or Valkey. Null: the queue is in PostgreSQL, in schema `bullmq` of `databaseUrl`. */
  readonly target: RedisTarget | null;
  readonly databaseUrl: string;
  readonly times?: Partial<Times>;
}

/** A failed job that the queue still keeps. */
export interface EndedJob {
  readonly queue: QueueName;
  readonly jobId: string;
  /** Such as `sync` or `send`. */
  readonly kind: string;
  /** Null if the job's task names no seller. */
  readonly seller: string | null;
  readonly attempts: number;
  /** Why the job failed. */
  readonly problem: string;
  readonly endedAt: Date;
}

/** Number of jobs in each state. */
export type QueueCounts = Readonly<Record<(typeof STATES)[number], number>>;
const STATES = ['waiting', 'active', 'delayed', 'completed', 'failed'] as const;

type BullQueue = Queue<Payload, unknown, string, Payload, unknown, string, IQueueBackend, unknown>;
type BullQueues = Readonly<Record<QueueName, BullQueue>>;

/** Finished jobs kept in each queue, so that a busy queue can't fill the server. */
const KEPT_JOBS = 5_000;
/** Length of a queue's event stream. Only the latest events are ever read. */
const EVENTS_KEPT = 100;

/**
 * Opens the queues. Also resolves if the server can't be reached: that is logged, and until the server is back, calls
 * throw a `UserError` and workers wait.
 */
export async function openQueues(options: QueueOptions): Promise<Queues> {
  const queues = new Queues(options);
  await queues.ping().catch(() => undefined);
  return queues;
}

/**
 * The queues of BullMQ on one server.
 *
 * A job is a hint to look: what is due stands in the database, and who handles a job reads it there. So a job may be
 * lost, be there twice or run twice. Handlers work under a lock of the seller, check or feed, and do what is due only
 * once; `service/due.ts` adds lost jobs again.
 *
 * Each method throws a `UserError` within seconds if the server can't be reached.
 */
export class Queues {
  readonly #server: Server;
  readonly #outages: OutageLog;
  readonly #settings: QueueSettings;
  readonly #workers: QueueWorker[] = [];
  #queues: Promise<BullQueues> | null = null;
  #closing: Promise<void> | null = null;

  constructor({ target, databaseUrl, times, ...options }: QueueOptions) {
    this.#settings = { ...options, times: { ...TIMES, ...times } };
    this.#outages = new OutageLog(options.log, {
      lost: 'the queue is unavailable',
      back: 'the queue is available again',
    });
    this.#server =
      target === null
        ? postgresServer(databaseUrl, this.#settings)
        : redisServer(target, this.#settings, this.#outages);
  }

  get times(): Times {
    return this.#settings.times;
  }

  get backend(): Server['backend'] {
    return this.#server.backend;
  }

  /**
   * Adds a job unless the queue has an unfinished one about the same. A job that was delayed while a clock was ahead
   * starts now: its delay might end in a month.
   * @param promote starts a delayed job now
   */
  async add<N extends QueueName>(
    name: N,
    task: TaskOf<N>,
    { promote = false } = {},
  ): Promise<void> {
    const id = subjectOf(task);
    await this.#use(async ({ [name]: queue }) => {
      await queue.add(task.kind, { v: 2, task }, { deduplication: { id } });
      const jobId = await queue.getDeduplicationJobId(id);
      const job = jobId === null ? undefined : await queue.getJob(jobId);
      if (job === undefined || !(promote || isFromTheFuture(job.processedOn))) return;
      if ((await job.getState()) === 'delayed') await job.promote().catch(unlessRefused);
    });
  }

  /** Adds the job of a check. @param promote starts it now if it is delayed */
  addAudit(seller: string, auditId: bigint, options?: { promote?: boolean }): Promise<void> {
    return this.add('audits', { kind: 'audit', seller, auditId: String(auditId) }, options);
  }

  counts(): Promise<Record<QueueName, QueueCounts>> {
    return this.#use(async (queues) => {
      const entries = QUEUE_NAMES.map(async (name) => {
        const found = await queues[name].getJobCounts(
          'waiting',
          'active',
          'delayed',
          'completed',
          'failed',
        );
        return [name, Object.fromEntries(STATES.map((state) => [state, found[state] ?? 0]))];
      });
      return Object.fromEntries(await Promise.all(entries)) as Record<QueueName, QueueCounts>;
    });
  }

  /** The latest failed jobs of a queue, newest first. */
  failedJobs(name: QueueName, limit: number): Promise<EndedJob[]> {
    return this.#use(async ({ [name]: queue }) => {
      const jobs = await queue.getJobs(['failed'], 0, limit - 1, false);
      return jobs.map((job) => ({
        queue: name,
        jobId: job.id ?? '',
        kind: job.name,
        seller: sellerOf(name, job.data),
        attempts: job.attemptsMade,
        problem: errorText(job.failedReason),
        endedAt: new Date(job.finishedOn ?? job.timestamp),
      }));
    });
  }

  /**
   * Runs a failed job again, with all its attempts.
   * @returns its task; null if the queue has no failed job with this id (any more)
   */
  retry<N extends QueueName>(name: N, jobId: string): Promise<TaskOf<N> | null> {
    return this.#use(async ({ [name]: queue }) => {
      const job = await queue.getJob(jobId);
      const payload = readPayload(name, job?.data);
      if (job === undefined || !('task' in payload)) return null;
      const isFailed = await job
        .retry('failed', { resetAttemptsMade: true, resetAttemptsStarted: true })
        .then(() => true, unlessRefused);
      return isFailed === true ? payload.task : null;
    });
  }

  /** Deletes the jobs of a seller that is removed or renamed, but those that a worker has. */
  forgetSeller(seller: string): Promise<void> {
    return this.#use(async (queues) => {
      for (const name of QUEUE_NAMES) {
        const jobs = await queues[name].getJobs(['waiting', 'delayed', 'completed', 'failed']);
        for (const job of jobs) {
          if (sellerOf(name, job.data) === seller) await job.remove().catch(unlessRefused);
        }
      }
    });
  }

  /** Resolves if the queue accepts writes. */
  ping(): Promise<void> {
    return this.#use(() => this.#server.ping());
  }

  /** Starts a worker, which begins as soon as the server can be reached. Don't call this after `close`. */
  work<N extends QueueName>(
    queue: N,
    handler: JobHandler<TaskOf<N>>,
    options: WorkOptions,
  ): QueueWorker {
    const { forWorkers: connection, factory } = this.#server;
    const worker = startWorker<N>({
      ...options,
      ...this.#settings,
      queue,
      handler: (task, context) => {
        // A job arrived, so an outage is over, also if nobody adds one.
        this.#outages.succeeded();
        return handler(task, context);
      },
      place: { connection, prefix: this.#prefix },
      factory,
      untilReady: () => this.#use(() => Promise.resolve()),
      onError: (error) => void this.#failed(error),
    });
    this.#workers.push(worker);
    return worker;
  }

  /** Stops all workers and closes the connections. Takes a limited time, even without a server. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.stop(0)));
    const closed = this.#queues?.then((queues) => closeAll(Object.values(queues)));
    // If the server doesn't answer, close the connection all the same.
    if (closed) await withTimeout(this.#settings.times.answerMs, closed).catch(() => undefined);
    await this.#server.close();
  }

  /** Calls `work` with the queues, for a limited time. @throws {UserError} */
  async #use<T>(work: (queues: BullQueues) => Promise<T>): Promise<T> {
    if (this.#closing) throw new UserError('the queue is closed', 'Restart the program.', 'QUEUE');
    try {
      this.#queues ??= this.#open();
      const value = await withTimeout(this.#settings.times.answerMs, this.#queues.then(work));
      this.#outages.succeeded();
      return value;
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** Explains an error. Logs it as an outage, but not once the connection is closing. */
  #failed(error: unknown): UserError {
    const explained = isUserError(error, 'QUEUE') ? error : this.#server.explain(error);
    if (!this.#closing) this.#outages.failed(explained.message);
    return explained;
  }

  /** Opens all or none: BullMQ does not recover from a failed first use of a connection, so the next call tries again. */
  async #open(): Promise<BullQueues> {
    const opened: BullQueue[] = [];
    try {
      await this.#server.prepare();
      for (const name of QUEUE_NAMES) {
        const queue = this.#openQueue(name);
        opened.push(queue);
        await queue.waitUntilReady();
      }
      return Object.fromEntries(opened.map((queue) => [queue.name, queue])) as BullQueues;
    } catch (error) {
      this.#queues = null;
      await closeAll(opened);
      throw error;
    }
  }

  #openQueue(name: QueueName): BullQueue {
    const { forQueues: connection, factory } = this.#server;
    // PostgreSQL accepts only whole seconds.
    const kept = { age: Math.ceil(this.#settings.keepJobsDays * 86_400), count: KEPT_JOBS };
    const queue: BullQueue = new Queue(
      name,
      {
        connection,
        prefix: this.#prefix,
        skipVersionCheck: true, // would print to the console, and `prepare` has checked the server
        streams: { events: { maxLen: EVENTS_KEPT } },
        defaultJobOptions: {
          attempts: ATTEMPTS,
          backoff: { type: 'custom' },
          stackTraceLimit: 0,
          removeOnComplete: kept,
          removeOnFail: kept,
        },
      },
      factory,
    );
    // Errors are reported by the calls that fail. Without a listener they would end the process.
    queue.on('error', () => undefined);
    return queue;
  }

  /** The braces are those of earlier versions, whose jobs wait under such keys. */
  get #prefix(): string {
    return `{${this.#settings.prefix}}`;
  }
}

function sellerOf(name: QueueName, data: unknown): string | null {
  const payload = readPayload(name, data);
  return 'task' in payload && 'seller' in payload.task ? payload.task.seller : null;
}

/** Whether a job began when this machine's clock says it is not yet that late. @param processedOn ms since 1970 */
function isFromTheFuture(processedOn: number | undefined): boolean {
  return processedOn !== undefined && processedOn > Date.now() + 60_000;
}

async function closeAll(queues: readonly BullQueue[]): Promise<void> {
  for (const queue of queues.toReversed()) await queue.close().catch(() => undefined);
}

/** BullMQ's errors with a negative code: the job is gone, or in another state. @throws any other error */
function unlessRefused(error: unknown): undefined {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  if (typeof code === 'number' && code < 0) return undefined;
  throw error;
}
