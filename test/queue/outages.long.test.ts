import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { hold, release } from '../../src/store/embedded/index.js';
import { findPostmaster, waitUntilGone } from '../../src/store/embedded/postmaster.js';
import {
  hasRedis,
  redisTarget,
  redisTitle,
  startRedis,
  type RedisProcess,
} from '../support/redis.js';
import { describeOutages, type Breakable } from './outage-suite.js';
import { postgresTrialAt, redisTrial, withClient } from './trial.js';

describe('PostgreSQL', () => {
  let folder: string;
  let server: Breakable;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-`));
    await chmod(folder, 0o755); // root lends it to another account
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
  // Held, not leased: a lease would start it again by itself.
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
    trial: async (proxyPort) => {
      await withClient(url, (client) => client.query('DROP SCHEMA IF EXISTS bullmq CASCADE'));
      const address = new URL(url);
      address.port = String(proxyPort);
      return postgresTrialAt(address.href, url);
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
    trial: (port) => {
      const target = redisTarget({ host: redis.host, port }, { password: new Secret(password) });
      return Promise.resolve(redisTrial(target, redisTarget(redis).nodes));
    },
  }));
});
