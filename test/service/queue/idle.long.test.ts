import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DbClient } from '../../../src/db/connection.js';
import { createTestDatabase } from '../../support/postgres.js';
import { hasRedis, redisTarget, redisTitle, startRedis } from '../../support/redis.js';
import { until } from '../../support/until.js';
import { DONE, testQueue, type TestQueue } from './support.js';

/** Ten times as fast as in production: these twelve seconds stand for two minutes. */
const FAST = { lockMs: 3_000, stalledMs: 3_000, blockMs: 1_500 };
const TWO_MINUTES_MS = 12_500;

/** PostgreSQL's sessions report their statistics after ten idle seconds. */
const STATISTICS_DELAY_MS = 11_000;

/**
 * The increase of a count while three workers are idle. It is taken again when it is too high: on a busy machine the
 * statistics of their start may arrive late, while a worker that polls is never below.
 */
async function whileIdle(
  test: TestQueue,
  most: number,
  count: () => Promise<number>,
): Promise<number> {
  const queues = await test.open({ times: FAST });
  for (const queue of ['mirror', 'audits', 'alerts'] as const) {
    queues.work(queue, () => Promise.resolve(DONE), { concurrency: 2 });
  }
  await queues.add('alerts', { kind: 'send', alertId: 'first', channel: 'mail' });
  await until(async () => (await queues.counts()).alerts.completed === 1);
  await sleep(STATISTICS_DELAY_MS);
  let increase = Infinity;
  for (let window = 0; window < 3 && increase > most; window++) {
    const before = await count();
    await sleep(TWO_MINUTES_MS);
    increase = (await count()) - before;
  }
  return increase;
}

describe('an idle worker', () => {
  it('sends PostgreSQL few statements, which may cost money or keep the server awake', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const client = new DbClient(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    const name = new URL(database.url).pathname.slice(1);
    const sql = 'SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = $1';
    const transactions = (): Promise<number> =>
      client.query<{ n: string }>(sql, [name]).then(({ rows }) => Number(rows[0]?.n));
    // About 110: BullMQ asks a few times at each end of a wait.
    const statements = await whileIdle(testQueue(null, database.url), 150, transactions);
    expect(statements).toBeGreaterThan(0);
    expect(statements).toBeLessThanOrEqual(150);
  });

  it.skipIf(!hasRedis)(
    redisTitle('sends Redis at most twenty commands a minute, besides the wait for a job'),
    async () => {
      const redis = await startRedis();
      onTestFinished(() => redis.dispose());
      const scripts = async (): Promise<number> => {
        const stats = await redis.command('INFO', 'commandstats');
        return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1]);
      };
      const commands = await whileIdle(testQueue(redisTarget(redis), ''), 40, scripts);
      expect(commands).toBeGreaterThan(0);
      expect(commands).toBeLessThanOrEqual(40);
    },
  );
});
