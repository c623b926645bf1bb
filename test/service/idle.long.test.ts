import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { hasRedis, redisTitle, startRedis } from '../support/redis.js';
import { startJobs, useServices } from './support.js';

const mirror = useMirror();
useServices();

/** PostgreSQL's sessions report their statistics after ten idle seconds. */
const SETTLE_MS = 15_000;

/** What an idle worker of four queues adds to a count in a minute, with the times of production. */
async function perMinute(
  env: Readonly<Record<string, string>>,
  count: () => Promise<number>,
): Promise<number> {
  const own = { SYNC_CRON: 'off', ALERT_WEBHOOK_URL: 'http://127.0.0.1:1', ALERT_FORMAT: 'slack' };
  const settings = { ...own, ALLOW_PLAIN_HTTP: 'true', ...env };
  await startJobs(mirror(), 'http://127.0.0.1:1', settings, { scheduler: false }, {});
  await sleep(SETTLE_MS);
  const before = await count();
  await sleep(60_000);
  return (await count()) - before;
}

it('an idle worker sends PostgreSQL few statements, which may cost money or keep the server awake', async () => {
  const transactions = async (): Promise<number> => {
    const [row] = await mirror().rows<{ n: string }>(
      'SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()',
    );
    return Number(row?.n);
  };
  const sent = await perMinute({}, transactions);
  expect(sent).toBeGreaterThan(0);
  expect(sent).toBeLessThanOrEqual(150);
});

it.skipIf(!hasRedis)(
  redisTitle(
    'an idle worker sends Redis at most twenty scripts a minute, besides the wait for a job',
  ),
  async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.dispose());
    const scripts = async (): Promise<number> => {
      const stats = await redis.command('INFO', 'commandstats');
      return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1]);
    };
    const sent = await perMinute({ REDIS_URL: `redis://127.0.0.1:${redis.port}` }, scripts);
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThanOrEqual(20);
  },
);
