import type { Log } from '../domain/log.js';
import type { RedisTarget } from '../domain/redis-target.js';
import { Connection, type BullQueue, type SessionOptions } from './connection.js';
import { Outage } from './outage.js';
import { postgresServer } from './postgres.js';
import { redisServer } from './redis.js';
import {
  afreshId,
  askedId,
  checkJobId,
  chunkId,
  payloadOf,
  QUEUE_NAMES,
  type AlertTask,
  type AuditTask,
  type MirrorTask,
  type QueueName,
  type TaskOf,
} from './tasks.js';
import { TUNING, type Tuning } from './tuning.js';
import { HandlerWorker, type JobHandler, type QueueWorker, type WorkOptions } from './worker.js';

export interface QueueOptions {
  /** Redis or Valkey; null keeps the queue in PostgreSQL, in schema `bullmq` of `databaseUrl`. */
  readonly target: RedisTarget | null;
  readonly databaseUrl: string;
  /** Prefix of all keys in Redis, so that several installations can share a server. */
  readonly prefix: string;
  /** Days that finished jobs are kept. */
  readonly keepJobsDays: number;
  /** Name of the connections, as the server lists them. */
  readonly applicationName: string;
  readonly log: Log;
  readonly tuning?: Partial<Tuning>;
}

/** The job of an id; `added` is false when the queue had it already. */
export interface Added {
  readonly jobId: string;
  readonly added: boolean;
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

/** The three queues on one server. */
export class Queues {
  readonly #connection: Connection;
  readonly #log: Log;
  readonly #tuning: Tuning;
  readonly #workers: QueueWorker[] = [];
  #closing: Promise<void> | null = null;

  constructor(options: QueueOptions) {
    const { target, databaseUrl, prefix, keepJobsDays, applicationName, log } = options;
    this.#log = log;
    this.#tuning = { ...TUNING, ...options.tuning };
    const session: SessionOptions = {
      prefix,
      keepDays: keepJobsDays,
      tuning: this.#tuning,
    };
    const outage = new Outage(log);
    const server =
      target === null
        ? postgresServer(databaseUrl, applicationName, session)
        : redisServer(target, applicationName, session, log, outage);
    this.#connection = new Connection(server, outage, this.#tuning.answerMs);
  }

  get backend(): 'redis' | 'postgres' {
    return this.#connection.backend;
  }

  /**
   * Adds a job to the mirror's queue.
   * @param jobId a second job of this id is not added while the first is kept; without one it is unique
   * @throws {QueueError} within seconds, when the queue can't be reached
   */
  addMirror(task: MirrorTask, jobId: string = askedId(task, new Date())): Promise<Added> {
    return this.#add('mirror', task, jobId);
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
    const unkept = { removeOnComplete: true, removeOnFail: true };
    const jobId = chunkId(auditId, chunk);
    const added = await this.#add('audits', task, jobId, unkept);
    if (!afresh || added.added || (await this.#canBegin('audits', jobId))) return added;
    return this.#add('audits', task, afreshId(auditId, chunk), unkept);
  }

  /** False for a job that a worker holds, or that is put off. */
  async #canBegin(name: QueueName, jobId: string): Promise<boolean> {
    return this.#connection.use(async ({ queues }) => {
      const job = await queues[name].getJob(jobId);
      const state = await job?.getState();
      return state !== 'active' && state !== 'delayed';
    });
  }

  /**
   * Adds a re-audit of known codes.
   * @param jobId a second job of this id is not added while the first is kept
   * @throws {QueueError} within seconds, when the queue can't be reached
   */
  addRecheck(task: Extract<AuditTask, { kind: 'recheck' }>, jobId: string): Promise<Added> {
    return this.#add('audits', task, jobId);
  }

  /** Adds an alert. @throws {QueueError} within seconds, when the queue can't be reached */
  addAlert(task: AlertTask, jobId: string): Promise<Added> {
    return this.#add('alerts', task, jobId);
  }

  async #add<N extends QueueName>(
    name: N,
    task: TaskOf<N>,
    jobId: string,
    options: { readonly removeOnComplete?: boolean; readonly removeOnFail?: boolean } = {},
  ): Promise<Added> {
    checkJobId(jobId);
    const payload = payloadOf(name, task);
    const added = await this.#connection.use(async ({ queues }) => {
      await queues[name].add(task.kind, payload, { ...options, jobId });
      return wasAdded(queues[name], jobId, payload.mark);
    });
    return { jobId, added };
  }

  /** How many jobs are in which state. @throws {QueueError} within seconds */
  counts(): Promise<Record<QueueName, QueueCounts>> {
    return this.#connection.use(async ({ queues }) => {
      const entries = await Promise.all(
        QUEUE_NAMES.map(async (name) => [name, await countsOf(queues[name])] as const),
      );
      return Object.fromEntries(entries) as Record<QueueName, QueueCounts>;
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
  ): QueueWorker {
    const worker = new HandlerWorker({
      ...options,
      connection: this.#connection,
      queue,
      handler,
      tuning: this.#tuning,
      log: this.#log,
    });
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

/** BullMQ answers the same for a job it added and one it had: the stored mark shows which. */
async function wasAdded(queue: BullQueue, jobId: string, mark: string): Promise<boolean> {
  // A job that is gone was added, done and removed meanwhile. When the server can't be asked, the job
  // is in the queue all the same.
  const job = await queue.getJob(jobId).catch(() => undefined);
  return job === undefined || job.data.mark === mark;
}

async function countsOf(queue: BullQueue): Promise<QueueCounts> {
  const counts = await queue.getJobCounts(
    'waiting',
    'prioritized',
    'active',
    'delayed',
    'completed',
    'failed',
  );
  const of = (state: string): number => counts[state] ?? 0;
  return {
    waiting: of('waiting') + of('prioritized'),
    active: of('active'),
    delayed: of('delayed'),
    completed: of('completed'),
    failed: of('failed'),
  };
}
