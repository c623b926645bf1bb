import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { Secret } from '../../../src/domain/secret.js';
import { hold, release } from '../../../src/db/embedded/index.js';
import { DbClient } from '../../../src/db/connection.js';
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
  type LogLine,
  succeeds,
  sync,
  testQueue,
  type TestQueue,
  untilCounts,
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
      const client = new DbClient(url);
      await client.connect();
      await client.query('DROP SCHEMA IF EXISTS bullmq CASCADE');
      await client.end();
      const address = new URL(url);
      address.port = String(proxyPort);
      return testQueue(null, address.href, url);
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
      return Promise.resolve(testQueue(target, '', redisTarget(redis)));
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
    let test: TestQueue;
    beforeEach(async () => {
      await server().start();
      proxy = await startProxy(server());
      onTestFinished(() => proxy.close());
      test = await server().testQueue(proxy.port);
    });

    const wasLost = (): Promise<void> => until(() => test.lines.some(lost));

    it.each(['cut', 'forget'] as const)(
      'finds jobs after its connections were broken: %s',
      async (how) => {
        const queues = await test.open();
        const { seen } = work(queues);
        await queues.add('mirror', sync('acme'));
        await until(() => seen.length === 1);
        proxy[how]();
        await until(() => succeeds(queues.add('mirror', sync('acme', 1))));
        await until(() => seen.length >= 2);
      },
    );

    it.each(['refuse', 'swallow'] as const)(
      'logs once that the server is down (%s), and continues when it is back',
      async (mode) => {
        const queues = await test.open();
        const { seen } = work(queues);
        queues.work('alerts', () => Promise.resolve(DONE), { concurrency: 1 });
        await queues.add('mirror', sync('acme'));
        await until(() => seen.length === 1);
        await proxy.set(mode);
        await expect(queues.add('mirror', sync('acme', 1))).rejects.toMatchObject({
          name: 'UserError',
          code: 'QUEUE',
          remedy: expect.any(String),
        });
        await wasLost();
        await expect(queues.ping()).rejects.toMatchObject({ code: 'QUEUE' });
        await sleep(1_000);
        await proxy.set('pass');
        await until(() => succeeds(queues.add('mirror', sync('acme', 2))));
        await until(() => seen.some(({ context }) => context.subject.includes('T0202')));
        await until(() => test.lines.some(back));
        expect(test.lines.filter(lost)).toHaveLength(1);
        expect(test.lines.filter(back)).toHaveLength(1);
      },
    );

    it('opens without a server, connects when there is one, and never shows a password', async () => {
      await proxy.set('refuse');
      const queues = await test.open();
      const error: unknown = await queues.counts().catch((error: unknown) => error);
      expect(error).toMatchObject({ code: 'QUEUE' });
      const { databaseUrl, target } = test.options;
      const password = target?.password?.reveal() ?? new URL(databaseUrl).password;
      expect(password.length).toBeGreaterThan(3);
      const shown = JSON.stringify([String(error), (error as Error).stack, error, test.lines]);
      expect(shown).not.toContain(password);
      const { seen } = work(queues);
      await proxy.set('pass');
      await until(() => succeeds(queues.add('mirror', sync('acme'))));
      await until(() => seen.length === 1);
    });

    it.each(['refuse', 'swallow'] as const)(
      'ends a job whose server was away at its end (%s)',
      async (mode) => {
        const queues = await test.open();
        const { seen } = work(queues, async () => {
          if (seen.length === 1) {
            await proxy.set(mode);
            setTimeout(() => void proxy.set('pass'), 2_500);
          }
          return DONE;
        });
        // The job may run, and cut the server off, before the call that added it has ended.
        await queues.add('mirror', sync('acme')).catch(() => undefined);
        await untilCounts(queues, { completed: 1, active: 0, waiting: 0 });
        // It may run twice; what is due is done once, since the store says so.
        expect(seen.length).toBeLessThanOrEqual(2);
      },
    );

    it.each(['stop', 'kill'] as const)(
      'runs every job when the server ends (%s) during work and comes back',
      async (end) => {
        const queues = await test.open();
        const minutes = Array.from({ length: 40 }, (_, minute) => minute);
        for (const minute of minutes) await queues.add('mirror', sync('acme', minute));
        const { seen } = work(queues, () => sleep(30).then(() => DONE), { concurrency: 2 });
        await until(() => seen.length > 5);
        await server()[end]();
        await server().start();
        await untilCounts(queues, { waiting: 0, active: 0 });
        expect(new Set(seen.map(({ context }) => context.subject)).size).toBe(40);
      },
    );

    it('closes even if the server does not answer', async () => {
      const queues = await test.open();
      const { seen } = work(queues, ({ signal }) => aborted(signal).then(() => DONE));
      await queues.add('mirror', sync('acme'));
      await until(() => seen.length === 1);
      await proxy.set('swallow');
      await queues.close();
    });
  });
}
