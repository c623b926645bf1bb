import type { RedisTarget } from '../../domain/redis-target.js';
import { Connection, type QueueSettings } from './connection.js';
import { errorText, OutageLog } from './errors.js';
import { postgresServer } from './postgres.js';
import { redisServer } from './redis.js';
import {
  auditJobId,
  checkJobId,
  payloadOf,
  readPayload,
  QUEUE_NAMES,
  requestedJobId,
  secondAuditJobId,
  type AuditTask,
  type QueueName,
  type TaskOf,
} from './tasks.js';
import { TUNING, type Tuning } from './tuning.js';
import { QueueWorker, type JobHandler, type WorkOptions } from './worker.js';
import { isRefused } from './worker-backend.js';

export interface QueueOptions extends Omit<QueueSettings, 'tuning'> {
  /** Redis or Valkey. Null stores the queue in PostgreSQL, in schema `bullmq` of `databaseUrl`. */
  readonly target: RedisTarget | null;
  readonly databaseUrl: string;
  readonly tuning?: Partial<Tuning>;
}

/** Options for jobs that are deleted as soon as they end. */
const REMOVE_AT_END = { removeOnComplete: true, removeOnFail: true };

interface AddedJob {
  readonly jobId: string;
  /** False if the queue already had a job with this id. */
  readonly added: boolean;
}

/** A finished job that the queue still keeps. */
export interface EndedJob {
  readonly queue: QueueName;
  readonly jobId: string;
  /** Such as `sync` or `run-failed`. */
  readonly kind: string;
  /** Null if the job's task names no seller. */
  readonly seller: string | null;
  readonly state: 'completed' | 'failed';
  readonly attempts: number;
  /** Why the job failed; null if it completed. */
  readonly problem: string | null;
  readonly endedAt: Date;
  /** The result that its handler returned. */
  readonly result: unknown;
}

const ENDED_OR_WAITING = ['waiting', 'delayed', 'prioritized', 'completed', 'failed'] as const;

/** Number of jobs in each state. */
export interface QueueCounts {
  readonly waiting: number;
  readonly active: number;
  readonly delayed: number;
  readonly completed: number;
  readonly failed: number;
}

/**
 * Opens the queues and migrates their schema in PostgreSQL. Also resolves if the server can't be reached: that is
 * logged, and until the server is back, calls throw a `QueueError` and workers wait.
 */
export async function openQueues(options: QueueOptions): Promise<Queues> {
  const queues = new Queues(options);
  await queues.ping().catch(() => undefined);
  return queues;
}

/** The queues on one server. Each method throws a `QueueError` within seconds if the server can't be reached. */
export class Queues {
  readonly #connection: Connection;
  readonly #settings: QueueSettings;
  readonly #workers: Pick<QueueWorker, 'stop'>[] = [];
  #closing: Promise<void> | null = null;

  constructor({ target, databaseUrl, tuning, ...options }: QueueOptions) {
    const settings = { ...options, tuning: { ...TUNING, ...tuning } };
    const outages = new OutageLog(options.log, {
      lost: 'the queue is unavailable',
      stillLost: 'the queue is still unavailable',
      back: 'the queue is available again',
    });
    const server =
      target === null
        ? postgresServer(databaseUrl, settings)
        : redisServer(target, settings, outages);
    this.#settings = settings;
    this.#connection = new Connection(server, outages, settings);
  }

  get backend(): 'redis' | 'postgres' {
    return this.#connection.backend;
  }

  /** Adds a job. @param jobId not added if the queue still keeps a job with this id; default a new id */
  add<N extends QueueName>(
    queue: N,
    task: TaskOf<N>,
    jobId: string = requestedJobId(task, new Date()),
  ): Promise<AddedJob> {
    return this.#add(queue, task, jobId, {});
  }

  /**
   * Adds the job of an audit unless the queue has one. It is deleted when the audit has ended.
   * @param force adds a second job if the first one is active (its worker may be gone). Two jobs for one audit do no
   *   harm
   * @param promote starts a delayed job now; it finds out by itself whether something is due
   */
  async addAudit(
    seller: string,
    auditId: bigint,
    { force = false, promote = false } = {},
  ): Promise<AddedJob> {
    const task: AuditTask = { kind: 'audit', seller, auditId: String(auditId) };
    const jobId = auditJobId(auditId);
    const added = await this.#add('audits', task, jobId, REMOVE_AT_END);
    if (added.added || (!force && !promote)) return added;
    const state = await this.#promote('audits', jobId);
    if (!force || state !== 'active') return added;
    return this.#add('audits', task, secondAuditJobId(auditId), REMOVE_AT_END);
  }

  /**
   * Adds a delivery of a feed unless the queue has one.
   * @param promote starts a delayed delivery now
   */
  async addFeed(feed: string, { promote = false } = {}): Promise<AddedJob> {
    const jobId = `feed-${feed}`;
    const added = await this.#add('feeds', { kind: 'deliver', feed }, jobId, REMOVE_AT_END);
    if (promote && !added.added) await this.#promote('feeds', jobId);
    return added;
  }

  /** Starts a job now if it is delayed. @returns the state it had */
  #promote(name: QueueName, jobId: string): Promise<string | undefined> {
    return this.#connection.use(async ({ [name]: queue }) => {
      const job = await queue.getJob(jobId);
      const state = await job?.getState();
      if (state !== 'delayed') return state;
      await job?.promote().catch((error: unknown) => {
        if (!isRefused(error)) throw error;
      });
      return state;
    });
  }

  async #add<N extends QueueName>(
    name: N,
    task: TaskOf<N>,
    jobId: string,
    options: Partial<typeof REMOVE_AT_END>,
  ): Promise<AddedJob> {
    checkJobId(jobId);
    const payload = payloadOf(name, task);
    return this.#connection.use(async ({ [name]: queue }) => {
      await queue.add(task.kind, payload, { ...options, jobId });
      // BullMQ returns the same for a new job and one it already had. The stored mark shows which. A missing job
      // has been added, done and removed already. If this query fails, the job is in the queue all the same.
      const job = await queue.getJob(jobId).catch(() => undefined);
      return { jobId, added: job === undefined || job.data.mark === payload.mark };
    });
  }

  counts(): Promise<Record<QueueName, QueueCounts>> {
    return this.#connection.use(async (queues) => {
      const entries = QUEUE_NAMES.map(async (name) => {
        const counts = await queues[name].getJobCounts(
          'waiting',
          'active',
          'delayed',
          'completed',
          'failed',
        );
        const { waiting = 0, active = 0, delayed = 0, completed = 0, failed = 0 } = counts;
        return [name, { waiting, active, delayed, completed, failed }] as const;
      });
      return Object.fromEntries(await Promise.all(entries)) as Record<QueueName, QueueCounts>;
    });
  }

  /** The latest completed or failed jobs of a queue, newest first. */
  endedJobs(name: QueueName, state: EndedJob['state'], limit: number): Promise<EndedJob[]> {
    return this.#connection.use(async ({ [name]: queue }) => {
      const jobs = await queue.getJobs([state], 0, limit - 1, false);
      return jobs.map((job) => {
        const payload = readPayload(name, job.data);
        return {
          queue: name,
          jobId: job.id ?? '',
          kind: job.name,
          seller: 'task' in payload && 'seller' in payload.task ? payload.task.seller : null,
          state,
          attempts: job.attemptsMade,
          problem: state === 'failed' ? errorText(job.failedReason) : null,
          endedAt: new Date(job.finishedOn ?? job.timestamp),
          result: job.returnvalue,
        };
      });
    });
  }

  /**
   * Runs a failed job again, with all its attempts.
   * @returns false if the queue has no failed job with this id (any more)
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

  /** Deletes the jobs of a seller that no worker is working on. */
  forgetSeller(seller: string): Promise<void> {
    return this.#connection.use(async (queues) => {
      for (const name of QUEUE_NAMES) {
        for (const job of await queues[name].getJobs([...ENDED_OR_WAITING])) {
          const payload = readPayload(name, job.data);
          const isOwn =
            'task' in payload && 'seller' in payload.task && payload.task.seller === seller;
          // A worker may have taken it in the meantime.
          if (isOwn) await job.remove().catch(() => undefined);
        }
      }
    });
  }

  /** Resolves if the queue accepts writes. */
  ping(): Promise<void> {
    return this.#connection.ping();
  }

  /** Starts a worker, which begins as soon as the server can be reached. Don't call this after `close`. */
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

  /** Stops all workers and closes the connections. Takes a limited time, even without a server. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.stop(0)));
    await this.#connection.close();
  }
}
