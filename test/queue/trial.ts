import { randomBytes } from 'node:crypto';
import { createPostgresBackend, Queue } from 'bullmq';
import { Cluster, Redis } from 'ioredis';
import { Client } from 'pg';
import { onTestFinished } from 'vitest';
import type { RedisTarget } from '../../src/domain/redis-target.js';
import { openQueues, type QueueOptions, type Queues } from '../../src/queue/queues.js';
import { createTestDatabase } from '../support/postgres.js';
import { listeningLog, SHORT, type Line } from './support.js';

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
