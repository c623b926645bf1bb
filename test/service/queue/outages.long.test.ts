import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { Secret } from '../../../src/domain/secret.js';
import { hold, release } from '../../../src/db/embedded/index.js';
import { findPostmaster, waitUntilGone } from '../../../src/db/embedded/server.js';
import {
  hasRedis,
  type RedisProcess,
  redisTarget,
  redisTitle,
  startRedis,
} from '../../support/redis.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';
import {
  aborted,
  DONE,
  jobIds,
  type LogLine,
  postgresQueueAt,
  redisQueue,
  succeeds,
  sync,
  type TestQueue,
  untilCounts,
  withClient,
  work,
} from './support.js';

describe('PostgreSQL', () => {
  let folder: string;
  let server: Breakable;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-`));
    await chmod(folder, 0o755); // the server may run as another user
    server = await breakablePostgres(folder);
  });
  afterAll(async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });
  describeOutages('through an outage', () => server);
});

async function breakablePostgres(folder: string): Promise<Breakable> {
  const dataDir = join(folder, 'data');
  // Not a lease, which would restart the server by itself.
  const start = (): ReturnType<typeof hold> => hold({ dataDir, applicationName: 'tests' });
  const { url, location, port } = await start();
  return {
    host: '127.0.0.1',
    port,
    start: async () => {
      await start();
    },
    stop: async () => {
      await release(dataDir, { now: true });
    },
    kill: async () => {
      const pid = (await findPostmaster(location))?.pid ?? 0;
      process.kill(pid, 'SIGKILL');
      await waitUntilGone(pid, 30_000);
    },
    testQueue: async (proxyPort) => {
      await withClient(url, (client) => client.query('DROP SCHEMA IF EXISTS bullmq CASCADE'));
      const address = new URL(url);
      address.port = String(proxyPort);
      return postgresQueueAt(address.href, url);
    },
  };
}

describe.skipIf(!hasRedis)(redisTitle('Redis'), () => {
  const password = 'quite secret';
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis({ requirepass: `"${password}"` });
  });
  afterAll(() => redis.dispose());
  describeOutages('through an outage', () => ({
    host: redis.host,
    port: redis.port,
    start: () => redis.start(),
    stop: () => redis.stop(),
    kill: () => redis.stop('SIGKILL'),
    testQueue: (port) => {
      const target = redisTarget({ host: redis.host, port }, { password: new Secret(password) });
      return Promise.resolve(redisQueue(target, redisTarget(redis).nodes));
    },
  }));
});

/** A server that tests may stop, kill and start. */
interface Breakable {
  readonly host: string;
  readonly port: number;
  /** Shuts it down in order. */
  stop(): Promise<void>;
  /** Ends it like a power cut. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** A new queue that is reached through `port`. */
  testQueue(port: number): Promise<TestQueue>;
}

const lost = ({ level, message }: LogLine): boolean =>
  level === 'warn' && message === 'the queue is unavailable';
const back = ({ level, message }: LogLine): boolean =>
  level === 'info' && message === 'the queue is available again';

/** What the queue must survive, whichever server stores it. */
function describeOutages(title: string, server: () => Breakable): void {
  describe(title, () => {
    let proxy: TcpProxy;
    let testQueue: TestQueue;
    beforeEach(async () => {
      await server().start();
      proxy = await startProxy(server());
      onTestFinished(() => proxy.close());
      testQueue = await server().testQueue(proxy.port);
    });

    const wasLost = (): Promise<void> => until(() => testQueue.lines.some(lost));

    it('reconnects after its connections were cut', async () => {
      const queues = await testQueue.open();
      const { seen } = work(queues);
      await queues.ping();
      proxy.cut();
      await until(() => succeeds(queues.add('mirror', sync('acme'))));
      await until(() => seen.length >= 1);
    });

    it('finds jobs even if a firewall dropped the connection on which it waits for them', async () => {
      const queues = await testQueue.open();
      const { seen } = work(queues);
      await queues.add('mirror', sync('acme'), 'before');
      await until(() => seen.length === 1);
      proxy.forget();
      await until(() => succeeds(queues.add('mirror', sync('acme'), 'after')));
      await until(() => seen.length === 2);
    });

    it.each(['refuse', 'swallow'] as const)(
      'logs once that the server is down (%s), and continues when it is back',
      async (mode) => {
        const queues = await testQueue.open();
        const { seen } = work(queues);
        queues.work('alerts', () => Promise.resolve(DONE), { concurrency: 1 });
        await queues.add('mirror', sync('acme'), 'before');
        await until(() => seen.length === 1);
        await proxy.set(mode);
        await wasLost();
        await expect(queues.add('mirror', sync('acme'), 'during')).rejects.toMatchObject({
          name: 'QueueError',
          code: 'QUEUE',
          remedy: expect.any(String),
        });
        await expect(queues.ping()).rejects.toMatchObject({ code: 'QUEUE' });
        await sleep(1_000);
        await proxy.set('pass');
        await until(() => succeeds(queues.add('mirror', sync('acme'), 'after')));
        await until(() => seen.some(({ context }) => context.jobId === 'after'));
        await until(() => testQueue.lines.some(back));
        expect(testQueue.lines.filter(lost)).toHaveLength(1);
        expect(testQueue.lines.filter(back)).toHaveLength(1);
        expect(testQueue.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
      },
    );

    it('opens without a server, and connects when there is one', async () => {
      await proxy.set('refuse');
      const queues = await testQueue.open();
      await expect(queues.counts()).rejects.toMatchObject({ code: 'QUEUE' });
      const { seen } = work(queues);
      await proxy.set('pass');
      await until(() => succeeds(queues.add('mirror', sync('acme'))));
      await until(() => seen.length === 1);
    });

    it('never shows a password', async () => {
      await proxy.set('refuse');
      const queues = await testQueue.open();
      const error: unknown = await queues.ping().catch((error: unknown) => error);
      const { databaseUrl, target } = testQueue.options;
      const password = target?.password?.reveal() ?? new URL(databaseUrl).password;
      expect(password.length).toBeGreaterThan(3);
      const shown = JSON.stringify([String(error), (error as Error).stack, error, testQueue.lines]);
      expect(shown).not.toContain(password);
    });

    it.each(['refuse', 'swallow'] as const)(
      'records a job’s outcome when the server is back (%s), and runs it only once',
      async (mode) => {
        const queues = await testQueue.open({ tuning: { lockMs: 30_000 } });
        const { seen } = work(queues, async () => {
          await proxy.set(mode);
          return DONE;
        });
        await queues.add('mirror', sync('acme'));
        await wasLost();
        await proxy.set('pass');
        await untilCounts(queues, { completed: 1 });
        expect(seen).toHaveLength(1);
      },
    );

    it('interrupts a job whose lock can’t be renewed in time, and runs it again', async () => {
      const queues = await testQueue.open();
      const { seen } = work(queues, async ({ signal }) => {
        if (seen.length > 1) return DONE;
        await proxy.set('swallow');
        await aborted(signal);
        expect(String(signal.reason)).toContain('another worker');
        await proxy.set('pass');
        throw new Error('interrupted');
      });
      await queues.add('mirror', sync('acme'));
      await untilCounts(queues, { completed: 1 });
      expect(seen).toHaveLength(2);
      expect(seen[1]?.context.attempt).toBe(1);
    });

    it.each(['stop', 'kill'] as const)(
      'loses no job when the server ends (%s) during work and comes back',
      async (end) => {
        const queues = await testQueue.open();
        const ids = Array.from({ length: 40 }, (_, i) => `items.acme.${i}`);
        for (const id of ids) await queues.add('mirror', sync('acme'), id);
        const { seen } = work(queues, () => sleep(30).then(() => DONE), { concurrency: 2 });
        await until(() => seen.length > 5);
        await server()[end]();
        await wasLost();
        await server().start();
        await untilCounts(queues, { completed: ids.length });
        expect(jobIds(seen)).toEqual(ids.toSorted());
      },
    );

    it('closes even if the server does not answer', async () => {
      const queues = await testQueue.open();
      const { seen } = work(queues, ({ signal }) => aborted(signal).then(() => DONE));
      await queues.add('mirror', sync('acme'));
      await until(() => seen.length === 1);
      await proxy.set('swallow');
      await queues.close();
    });
  });
}
