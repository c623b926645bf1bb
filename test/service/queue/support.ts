import { randomBytes } from 'node:crypto';
import { createPostgresBackend, Queue } from 'bullmq';
import { Cluster, Redis } from 'ioredis';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, onTestFinished } from 'vitest';
import type { Log, LogFields } from '../../../src/domain/log.js';
import type { RedisTarget } from '../../../src/domain/redis-target.js';
import {
  openQueues,
  type QueueCounts,
  type QueueOptions,
  type Queues,
} from '../../../src/service/queue/queues.js';
import type { MirrorTask } from '../../../src/service/queue/tasks.js';
import type { Tuning } from '../../../src/service/queue/tuning.js';
import type { JobOutcome } from '../../../src/catalogue/types.js';
import type {
  JobContext,
  JobHandler,
  QueueWorker,
  WorkOptions,
} from '../../../src/service/queue/worker.js';
import { createTestDatabase } from '../../support/postgres.js';
import { hasRedis, type RedisProcess, redisTitle, startRedis } from '../../support/redis.js';
import { DbClient } from '../../../src/db/connection.js';
import { until } from '../../support/until.js';

/** Short times for fast tests. No test asserts them. */
export const SHORT: Partial<Tuning> = {
  lockMs: 1_500,
  stalledMs: 400,
  blockMs: 500,
  connectMs: 1_000,
  commandMs: 1_000,
  answerMs: 4_000,
  retryMs: 300,
  graceMs: 1_000,
  backoff: () => 20,
};

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields: LogFields;
}

/** A log that records its lines. */
export function recordingLog(): { readonly log: Log; readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const make = (facts: LogFields): Log => {
    const at =
      (level: LogLine['level']) =>
      (message: string, fields: LogFields = {}): void => {
        lines.push({ level, message, fields: { ...facts, ...fields } });
      };
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (more) => make({ ...facts, ...more }),
    };
  };
  return { log: make({}), lines };
}

export function sync(seller: string, tick: string | null = null): MirrorTask {
  return { kind: 'sync', seller, tick, askedAt: '2026-11-21T02:00:00.000Z' };
}

/** True if the promise resolves, false if it rejects. */
export function succeeds(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  );
}

export const DONE: JobOutcome = { kind: 'done', result: {} };

/** One call of a handler. */
export interface Recorded {
  readonly task: MirrorTask;
  readonly context: JobContext;
}

/** Starts a worker on queue `mirror` that records its calls. @param end the outcome of each job; default: done */
export function work(
  queues: Queues,
  end: (context: JobContext, task: MirrorTask) => JobOutcome | Promise<JobOutcome> = () => DONE,
  options: Partial<WorkOptions> = {},
): { readonly seen: readonly Recorded[]; readonly worker: Pick<QueueWorker, 'stop'> } {
  const seen: Recorded[] = [];
  const handler: JobHandler<MirrorTask> = async (task, context) => {
    seen.push({ task, context });
    return end(context, task);
  };
  return { seen, worker: queues.work('mirror', handler, { concurrency: 1, ...options }) };
}

/** The ids of all jobs in a handler's calls, sorted, without duplicates. */
export function jobIds(seen: readonly Recorded[]): string[] {
  return [...new Set(seen.map(({ context }) => context.jobId))].toSorted();
}

/** Waits until queue `mirror` has exactly these numbers of jobs. Ignores failed queries. */
export async function untilCounts(queues: Queues, counts: Partial<QueueCounts>): Promise<void> {
  await until(async () => {
    const now = (await queues.counts().catch(() => null))?.mirror;
    return Object.entries(counts).every(([state, n]) => now?.[state as keyof QueueCounts] === n);
  });
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** A queue for one test, with ways to inspect and change it without the product. */
export interface TestQueue {
  readonly options: QueueOptions;
  /** The log lines of everything opened with `open`. */
  readonly lines: readonly LogLine[];
  /** Opens the queue like another process would. Closed after the test. */
  open(more?: Partial<QueueOptions>): Promise<Queues>;
  /** BullMQ's own object for queue `mirror`. */
  bull(): Promise<Pick<Queue, 'add' | 'getJob' | 'getJobState' | 'getWorkers' | 'getWorkersCount'>>;
  /** Gives the lock of a job of `mirror` to another worker. */
  readonly steal: (jobId: string) => Promise<void>;
  /** Number of events that the queue keeps. */
  readonly events: () => Promise<number>;
}

/** A queue in its own database. */
export async function postgresQueue(): Promise<TestQueue> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  return postgresQueueAt(database.url);
}

/** A queue in a database. @param direct the database's address without a proxy */
export function postgresQueueAt(url: string, direct = url): TestQueue {
  return testQueue(null, url, {
    bull: () => new Queue('mirror', { connection: direct }, createPostgresBackend),
    steal: async (jobId) => {
      const sql = "UPDATE bullmq.job SET lock_token = 'another' WHERE id = $1";
      await withClient(direct, (client) => client.query(sql, [jobId]));
    },
    events: async () => {
      const { rows } = await withClient(direct, (client) =>
        client.query<{ n: number }>(
          "SELECT count(*)::int AS n FROM bullmq.event WHERE queue = 'mirror'",
        ),
      );
      return rows[0]?.n ?? 0;
    },
  });
}

export async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new DbClient(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** A queue with its own key prefix. @param nodes addresses without a proxy */
export function redisQueue(target: RedisTarget, nodes = target.nodes): TestQueue {
  const queue = testQueue(target, '', {
    bull: () => new Queue('mirror', { connection: client(), prefix: `{${queue.options.prefix}}` }),
    steal: async (jobId) => {
      await client().set(`{${queue.options.prefix}}:mirror:${jobId}:lock`, 'another', 'PX', 60_000);
    },
    events: () => client().xlen(`{${queue.options.prefix}}:mirror:events`),
  });
  let opened: Redis | Cluster | null = null;
  const client = (): Redis | Cluster => {
    if (opened !== null) return opened;
    const [first] = nodes;
    if (first === undefined) throw new Error('the queue needs a node');
    const made =
      target.mode === 'cluster' ? new Cluster([...nodes]) : new Redis(first.port, first.host);
    made.on('error', () => undefined);
    onTestFinished(() => made.disconnect());
    opened = made;
    return made;
  };
  return queue;
}

/** Describes tests that need their own Redis server. Skipped without `redis-server`, and the title says so. */
export function describeOnRedis(
  title: string,
  tests: (redis: () => RedisProcess) => void,
  settings: Readonly<Record<string, string>> = {},
): void {
  describe.skipIf(!hasRedis)(redisTitle(title), () => {
    let redis: RedisProcess;
    beforeAll(async () => {
      redis = await startRedis(settings);
    });
    afterAll(() => redis.dispose());
    tests(() => redis);
  });
}

interface DirectAccess extends Pick<TestQueue, 'steal' | 'events'> {
  readonly bull: () => Pick<
    Queue,
    'add' | 'getJob' | 'getJobState' | 'getWorkers' | 'getWorkersCount' | 'close'
  > & {
    waitUntilReady(): Promise<unknown>;
  };
}

function testQueue(
  target: RedisTarget | null,
  databaseUrl: string,
  { bull, steal, events }: DirectAccess,
): TestQueue {
  const { log, lines } = recordingLog();
  const options: QueueOptions = {
    target,
    databaseUrl,
    prefix: `test-${randomBytes(6).toString('hex')}`,
    keepJobsDays: 7,
    applicationName: 'queue tests',
    log,
    tuning: SHORT,
  };
  return {
    options,
    lines,
    open: async (more = {}) => {
      const tuning = { ...SHORT, ...more.tuning };
      const queues = await openQueues({ ...options, ...more, tuning });
      onTestFinished(() => queues.close());
      return queues;
    },
    bull: async () => {
      const queue = bull();
      await queue.waitUntilReady();
      onTestFinished(() => queue.close());
      return queue;
    },
    steal,
    events,
  };
}
