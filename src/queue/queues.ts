import type { RedisTarget } from '../domain/redis-target.js';
import { Connection, type QueueSettings } from './connection.js';
import { Outage, wordsOf } from './errors.js';
import { postgresServer } from './postgres.js';
import { redisServer } from './redis.js';
import {
  afreshId,
  askedId,
  checkJobId,
  chunkId,
  payloadOf,
  readPayload,
  QUEUE_NAMES,
  type AuditTask,
  type QueueName,
  type TaskOf,
} from './tasks.js';
import { TUNING, type Tuning } from './tuning.js';
import { QueueWorker, type JobHandler, type WorkOptions } from './worker.js';
import { isRefused } from './worker-backend.js';

export interface QueueOptions extends Omit<QueueSettings, 'tuning'> {
  /** Redis or Valkey; null keeps the queue in PostgreSQL, in schema `bullmq` of `databaseUrl`. */
  readonly target: RedisTarget | null;
  readonly databaseUrl: string;
  readonly tuning?: Partial<Tuning>;
}

/** Of jobs that are not kept once they ended. */
const UNKEPT = { removeOnComplete: true, removeOnFail: true };

/** The job of an id; `added` is false when the queue had it already. */
interface Added {
  readonly jobId: string;
  readonly added: boolean;
}

/** A job that ended, as long as the queue keeps it. */
export interface EndedJob {
  readonly queue: QueueName;
  readonly jobId: string;
  /** Such as `sync` or `run-failed`. */
  readonly kind: string;
  /** The seller that it is for; null when its task names none. */
  readonly seller: string | null;
  readonly state: 'completed' | 'failed';
  readonly attempts: number;
  /** Why it failed. */
  readonly problem: string | null;
  readonly endedAt: Date;
  /** What its handler said when it was done. */
  readonly result: unknown;
}

/** How many jobs of a queue are in which state. */
export interface QueueCounts {
  readonly waiting: number;
  readonly active: number;
  readonly delayed: number;
  readonly completed: number;
  readonly failed: number;
}

/**
 * Opens the queues, and brings their schema in PostgreSQL up to date. They also open when the server
 * can't be reached within a few seconds: that is logged, calls throw a `QueueError` until the server
 * is back, and workers start by themselves then.
 */
export async function openQueues(options: QueueOptions): Promise<Queues> {
  const queues = new Queues(options);
  await queues.ping().catch(() => undefined);
  return queues;
}

/** The queues on one server. */
export class Queues {
  readonly #connection: Connection;
  readonly #settings: QueueSettings;
  readonly #workers: Pick<QueueWorker, 'stop'>[] = [];
  #closing: Promise<void> | null = null;

  constructor({ target, databaseUrl, tuning, ...options }: QueueOptions) {
    const settings = { ...options, tuning: { ...TUNING, ...tuning } };
    const outage = new Outage(options.log, {
      lost: 'the queue can not be used',
      stillLost: 'the queue can still not be used',
      back: 'the queue can be used again',
    });
    const server =
      target === null
        ? postgresServer(databaseUrl, settings)
        : redisServer(target, settings, outage);
    this.#settings = settings;
    this.#connection = new Connection(server, outage, settings);
  }

  get backend(): 'redis' | 'postgres' {
    return this.#connection.backend;
  }

  /**
   * Adds a job to a queue.
   * @param jobId a second job of this id is not added while the first is kept; without one it is unique
   * @throws {QueueError} within seconds, when the queue can't be reached
   */
  add<N extends QueueName>(
    queue: N,
    task: TaskOf<N>,
    jobId: string = askedId(task, new Date()),
  ): Promise<Added> {
    return this.#add(queue, task, jobId, {});
  }

  /**
   * Adds a chunk of an audit, unless it is in the queue. A chunk that ended is not kept: the store
   * knows what is left of it, and it may have to be done again.
   * @param afresh adds a second job when the first can't start now, because a worker that may be gone
   *   holds it or because it was put off; two jobs of a chunk do no harm
   * @throws {QueueError} within seconds, when the queue can't be reached
   */
  async addChunk(
    seller: string,
    auditId: bigint,
    chunk: number,
    { afresh = false } = {},
  ): Promise<Added> {
    const task: AuditTask = { kind: 'chunk', seller, auditId: String(auditId), chunk };
    const jobId = chunkId(auditId, chunk);
    const added = await this.#add('audits', task, jobId, UNKEPT);
    if (!afresh || added.added) return added;
    const state = await this.#connection.use(async ({ audits }) =>
      (await audits.getJob(jobId))?.getState(),
    );
    if (state !== 'active' && state !== 'delayed') return added;
    return this.#add('audits', task, afreshId(auditId, chunk), UNKEPT);
  }

  /**
   * Adds the delivery of a feed, unless the queue has one.
   * @param atOnce ends the pause of one that was put off
   * @throws {QueueError} within seconds, when the queue can't be reached
   */
  async addFeed(feed: string, { atOnce = false } = {}): Promise<Added> {
    const jobId = `feed-${feed}`;
    const added = await this.#add('feeds', { kind: 'deliver', feed }, jobId, UNKEPT);
    if (atOnce && !added.added) {
      await this.#connection.use(async ({ feeds }) => {
        const job = await feeds.getJob(jobId);
        if (job === undefined || !(await job.isDelayed())) return;
        await job.promote().catch((error: unknown) => {
          if (!isRefused(error)) throw error;
        });
      });
    }
    return added;
  }

  async #add<N extends QueueName>(
    name: N,
    task: TaskOf<N>,
    jobId: string,
    options: Partial<typeof UNKEPT>,
  ): Promise<Added> {
    checkJobId(jobId);
    const payload = payloadOf(name, task);
    return this.#connection.use(async ({ [name]: queue }) => {
      await queue.add(task.kind, payload, { ...options, jobId });
      // BullMQ answers the same for a job it added and one it had: the stored mark shows which. A job
      // that is gone was added, done and removed meanwhile. When the server can't be asked, the job is
      // in the queue all the same.
      const job = await queue.getJob(jobId).catch(() => undefined);
      return { jobId, added: job === undefined || job.data.mark === payload.mark };
    });
  }

  /** How many jobs are in which state. @throws {QueueError} within seconds */
  counts(): Promise<Record<QueueName, QueueCounts>> {
    return this.#connection.use(async (queues) => {
      const entries = QUEUE_NAMES.map(async (name) => {
        const counts = await queues[name].getJobCounts(
          'waiting',
          'prioritized',
          'active',
          'delayed',
          'completed',
          'failed',
        );
        const { waiting = 0, prioritized = 0, active = 0, delayed = 0 } = counts;
        const { completed = 0, failed = 0 } = counts;
        const inStates = { waiting: waiting + prioritized, active, delayed, completed, failed };
        return [name, inStates] as const;
      });
      return Object.fromEntries(await Promise.all(entries)) as Record<QueueName, QueueCounts>;
    });
  }

  /** The newest jobs of a queue that ended so, newest first. @throws {QueueError} within seconds */
  ended(name: QueueName, state: EndedJob['state'], limit: number): Promise<EndedJob[]> {
    return this.#connection.use(async ({ [name]: queue }) => {
      const jobs = await queue.getJobs([state], 0, limit - 1, false);
      return jobs.flatMap((job) => {
        const read = readPayload(name, job.data);
        const seller = 'task' in read && 'seller' in read.task ? read.task.seller : null;
        const { id: jobId = '', name: kind, attemptsMade: attempts } = job;
        const endedAt = new Date(job.finishedOn ?? job.timestamp);
        const problem = state === 'failed' ? wordsOf(job.failedReason) : null;
        return {
          queue: name,
          jobId,
          kind,
          seller,
          state,
          attempts,
          problem,
          endedAt,
          result: job.returnvalue,
        };
      });
    });
  }

  /**
   * Puts a failed job into the queue again, with all its attempts.
   * @returns false when the queue has no failed job of this id (any more)
   * @throws {QueueError} within seconds, when the queue can't be reached
   */
  retry(name: QueueName, jobId: string): Promise<boolean> {
    return this.#connection.use(async ({ [name]: queue }) => {
      const job = await queue.getJob(jobId);
      if (job === undefined) return false;
      try {
        await job.retry('failed', { resetAttemptsMade: true, resetAttemptsStarted: true });
        return true;
      } catch (error) {
        if (isRefused(error)) return false;
        throw error;
      }
    });
  }

  /** Resolves when the queue can be used. @throws {QueueError} within seconds, when it can't */
  ping(): Promise<void> {
    return this.#connection.ping();
  }

  /** Starts to work on a queue, now or when the server can be reached. Don't call it after `close`. */
  work<N extends QueueName>(
    queue: N,
    handler: JobHandler<TaskOf<N>>,
    options: WorkOptions,
  ): Pick<QueueWorker, 'stop'> {
    const { tuning, log } = this.#settings;
    const connection = this.#connection;
    const worker = new QueueWorker({ ...options, connection, queue, handler, tuning, log });
    this.#workers.push(worker);
    return worker;
  }

  /** Stops all workers, then ends the connections; bounded, also without a server. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.stop(0)));
    await this.#connection.close();
  }
}
