import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { Mirror, useMirror } from '../support/mirror.js';
import { hasRedis, startRedis } from '../support/redis.js';
import { startJobs, useServices } from './support.js';

const mirror = useMirror();
useServices();
const stores: Mirror[] = [];
afterAll(async () => {
  for (const store of stores) await store.close();
});

/** PostgreSQL's sessions report their statistics after ten idle seconds. */
const SETTLE_MS = 15_000;

/** What an idle worker of four queues adds to a count in a minute, with the times of production. */
async function perMinute(
  store: Mirror,
  env: Readonly<Record<string, string>>,
  count: () => Promise<number>,
): Promise<number> {
  const own = { SYNC_CRON: 'off', ALERT_WEBHOOK_URL: 'http://127.0.0.1:1', ALERT_FORMAT: 'slack' };
  const settings = { ...own, ALLOW_PLAIN_HTTP: 'true', ...env };
  await startJobs(store, 'http://127.0.0.1:1', settings, { scheduler: false }, {});
  await sleep(SETTLE_MS);
  const before = await count();
  await sleep(60_000);
  return (await count()) - before;
}

it('an idle worker sends a queue in PostgreSQL few statements, which may cost money, and one in Redis few scripts', async () => {
  const transactions = async (): Promise<number> => {
    const [row] = await mirror().rows<{ n: string }>(
      'SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()',
    );
    return Number(row?.n);
  };
  const toRedis = async (): Promise<number> => {
    if (!hasRedis) return 1;
    const redis = await startRedis();
    onTestFinished(() => redis.dispose());
    const scripts = async (): Promise<number> => {
      const stats = await redis.command('INFO', 'commandstats');
      return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1]);
    };
    // With a store of its own, whose statements are not counted.
    const store = await Mirror.open();
    stores.push(store);
    return perMinute(store, { REDIS_URL: `redis://127.0.0.1:${redis.port}` }, scripts);
  };
  const [statements, scripts] = await Promise.all([
    perMinute(mirror(), {}, transactions),
    toRedis(),
  ]);
  expect(statements).toBeGreaterThan(0);
  expect(statements).toBeLessThanOrEqual(150);
  expect(scripts).toBeGreaterThan(0);
  expect(scripts).toBeLessThanOrEqual(20);
});
