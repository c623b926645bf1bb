import { randomBytes } from 'node:crypto';
import { createPostgresBackend, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, onTestFinished } from 'vitest';
import type { JobOutcome } from '../../../src/catalogue/types.js';
import type { Log, LogFields } from '../../../src/domain/log.js';
import type { RedisTarget } from '../../../src/domain/redis-target.js';
import {
  openQueues,
  type QueueCounts,
  type QueueOptions,
  type Queues,
} from '../../../src/service/queue/queues.js';
import type { Times } from '../../../src/service/queue/server.js';
import type { MirrorTask } from '../../../src/service/queue/tasks.js';
import type { JobContext, WorkOptions } from '../../../src/service/queue/worker.js';
import {
  createTestDatabase,
  emptyTables,
  query,
  type TestDatabase,
} from '../../support/postgres.js';
import {
  hasRedis,
  type RedisProcess,
  redisTarget,
  redisTitle,
  startRedis,
} from '../../support/redis.js';
import { until } from '../../support/until.js';

export type { JobOutcome, QueueCounts, Queues };

/** Short times for fast tests. No test asserts them. */
export const SHORT: Partial<Times> = {
  lockMs: 1_500,
  stalledMs: 400,
  blockMs: 500,
  connectMs: 1_000,
  commandMs: 1_000,
  answerMs: 4_000,
  retryMs: 300,
  graceMs: 1_000,
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

/** A scheduled sync. Its time is that many minutes after 2 o’clock. */
export function sync(seller: string, minute = 0): MirrorTask {
  const dueAt = new Date(Date.UTC(2026, 10, 21, 2, minute)).toISOString();
  return { kind: 'sync', seller, dueAt, byHand: false };
}

/** True if the promise resolves, false if it rejects. */
export function succeeds(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  );
}

export const DONE: JobOutcome = { kind: 'done', result: {} };

/** Starts a worker on queue `mirror` that records its calls. @param end the outcome of each job; default: done */
export function work(
  queues: Queues,
  end: (context: JobContext) => JobOutcome | Promise<JobOutcome> = () => DONE,
  options: Partial<WorkOptions> = {},
) {
  const seen: { readonly task: MirrorTask; readonly context: JobContext }[] = [];
  const handler = async (task: MirrorTask, context: JobContext): Promise<JobOutcome> => {
    seen.push({ task, context });
    return end(context);
  };
  return { seen, worker: queues.work('mirror', handler, { concurrency: 1, ...options }) };
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

/** A queue for one test. */
export interface TestQueue {
  readonly options: QueueOptions;
  /** The log lines of everything opened with `open`. */
  readonly lines: readonly LogLine[];
  /** Opens the queue like another process would. Closed after the test. */
  open(more?: Partial<QueueOptions>): Promise<Queues>;
  /** BullMQ's own queue `mirror`, as dashboards for BullMQ open it. */
  bull(): Promise<Queue>;
}

/** @param target null: in the database @param direct the server's address without a proxy */
export function testQueue(
  target: RedisTarget | null,
  databaseUrl: string,
  direct: RedisTarget | string = target ?? databaseUrl,
): TestQueue {
  const { log, lines } = recordingLog();
  const options: QueueOptions = {
    target,
    databaseUrl,
    prefix: `test-${randomBytes(6).toString('hex')}`,
    keepJobsDays: 7,
    applicationName: 'queue tests',
    log,
    times: SHORT,
  };
  return {
    options,
    lines,
    open: async (more = {}) => {
      const queues = await openQueues({ ...options, ...more, times: { ...SHORT, ...more.times } });
      onTestFinished(() => queues.close());
      return queues;
    },
    bull: async () => {
      let queue: Queue;
      if (typeof direct === 'string') {
        const pool = new Pool({ connectionString: direct, options: '-c search_path=bullmq' });
        onTestFinished(() => pool.end());
        // The types want the connection of Redis, whichever backend is given.
        const options = { connection: pool as never };
        queue = new Queue('mirror', options, createPostgresBackend as never);
      } else {
        const client = new Redis(direct.port, direct.host);
        onTestFinished(() => client.disconnect());
        queue = new Queue('mirror', { connection: client, prefix: `{${options.prefix}}` });
      }
      await queue.waitUntilReady();
      onTestFinished(() => queue.close());
      return queue;
    },
  };
}

/** The place of an empty queue, as `testQueue` takes it. */
type Address = () => Promise<readonly [RedisTarget | null, string]>;

/** Describes what holds for each server that can store the queue. */
export function describeBackends(title: string, describeOne: (address: Address) => void): void {
  describe(`${title} on PostgreSQL`, () => {
    let database: TestDatabase;
    beforeAll(async () => {
      database = await createTestDatabase();
    });
    afterAll(() => database.drop());
    describeOne(async () => {
      await emptyTables({ query: (sql) => query(database.url, sql) }, 'bullmq');
      return [null, database.url];
    });
  });

  describe.skipIf(!hasRedis)(redisTitle(`${title} on Redis`), () => {
    let redis: RedisProcess;
    beforeAll(async () => {
      redis = await startRedis();
    });
    afterAll(() => redis.dispose());
    describeOne(() => Promise.resolve([redisTarget(redis), '']));
  });
}
