import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createPostgresBackend, Queue } from 'bullmq';
import { Cluster, Redis } from 'ioredis';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, onTestFinished } from 'vitest';
import type { Log, LogFields } from '../../src/domain/log.js';
import type { RedisTarget } from '../../src/domain/redis-target.js';
import { openQueues, type QueueOptions, type Queues } from '../../src/queue/queues.js';
import type { MirrorTask } from '../../src/queue/tasks.js';
import type { Tuning } from '../../src/queue/tuning.js';
import type { JobOutcome } from '../../src/jobs/types.js';
import type { JobContext, JobHandler } from '../../src/queue/worker.js';
import { createTestDatabase } from '../support/postgres.js';
import { hasRedis, type RedisProcess, redisTitle, startRedis } from '../support/redis.js';

/** Times that make tests short; none of them is asserted. */
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

export interface Line {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields: LogFields;
}

/** A log that keeps its lines. */
export function listeningLog(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = [];
  const make = (facts: LogFields): Log => {
    const at =
      (level: Line['level']) =>
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

/** Waits until something is so; a test that waits in vain ends by the runner's time limit. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(20);
}

/** Whether something succeeds. */
export function works(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    () => false,
  );
}

export const DONE: JobOutcome = { kind: 'done', result: {} };

/** A handler that notes what it was given, and ends jobs as `end` says; well, without it. */
export function noting(
  end: (context: JobContext, task: MirrorTask) => JobOutcome | Promise<JobOutcome> = () => DONE,
): {
  readonly handler: JobHandler<MirrorTask>;
  readonly seen: { readonly task: MirrorTask; readonly context: JobContext }[];
} {
  const seen: { task: MirrorTask; context: JobContext }[] = [];
  return {
    seen,
    handler: async (task, context) => {
      seen.push({ task, context });
      return end(context, task);
    },
  };
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** A queue of a test's own, and ways to look and reach into it behind the product's back. */
export interface Trial {
  readonly options: QueueOptions;
  /** What all opened with `open` wrote to their logs. */
  readonly lines: readonly Line[];
  /** As another process would open it; closed after the test. */
  open(more?: Partial<QueueOptions>): Promise<Queues>;
  /** BullMQ's own view of the queue `mirror`. */
  bull(): Promise<Pick<Queue, 'add' | 'getJob' | 'getJobState'>>;
  /** Gives the lock of a job of `mirror` to somebody else. */
  readonly steal: (jobId: string) => Promise<void>;
  /** How many events the queue keeps. */
  readonly events: () => Promise<number>;
}

/** A trial on a database of its own. */
export async function postgresTrial(): Promise<Trial> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  return postgresTrialAt(database.url);
}

/** A trial in a database; `direct` is its address for looking behind the product's back. */
export function postgresTrialAt(url: string, direct = url): Trial {
  return trialOn(null, url, {
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
  const client = new Client(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** A trial under a key prefix of its own. */
export function redisTrial(target: RedisTarget, nodes = target.nodes): Trial {
  const trial = trialOn(target, '', {
    bull: () => new Queue('mirror', { connection: client(), prefix: `{${trial.options.prefix}}` }),
    steal: async (jobId) => {
      await client().set(`{${trial.options.prefix}}:mirror:${jobId}:lock`, 'another', 'PX', 60_000);
    },
    events: () => client().xlen(`{${trial.options.prefix}}:mirror:events`),
  });
  let opened: Redis | Cluster | null = null;
  const client = (): Redis | Cluster => {
    if (opened !== null) return opened;
    const [first] = nodes;
    if (first === undefined) throw new Error('a trial needs a node');
    const made =
      target.mode === 'cluster' ? new Cluster([...nodes]) : new Redis(first.port, first.host);
    made.on('error', () => undefined);
    onTestFinished(() => made.disconnect());
    opened = made;
    return made;
  };
  return trial;
}

/** Describes what needs a Redis server of its own; skipped, and named so, without `redis-server`. */
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

interface Reach {
  bull(): Pick<Queue, 'add' | 'getJob' | 'getJobState' | 'close'> & {
    waitUntilReady(): Promise<unknown>;
  };
  readonly steal: Trial['steal'];
  readonly events: Trial['events'];
}

function trialOn(target: RedisTarget | null, databaseUrl: string, reach: Reach): Trial {
  const { log, lines } = listeningLog();
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
      const queues = await openQueues({
        ...options,
        ...more,
        tuning: { ...SHORT, ...more.tuning },
      });
      onTestFinished(() => queues.close());
      return queues;
    },
    bull: async () => {
      const queue = reach.bull();
      await queue.waitUntilReady();
      onTestFinished(() => queue.close());
      return queue;
    },
    steal: reach.steal,
    events: reach.events,
  };
}
