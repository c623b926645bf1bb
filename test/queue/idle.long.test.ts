import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { TUNING } from '../../src/queue/tuning.js';
import { createTestDatabase } from '../support/postgres.js';
import { hasRedis, redisTarget, redisTitle, startRedis } from '../support/redis.js';
import { DONE, until } from './support.js';
import { postgresTrialAt, redisTrial, withClient, type Trial } from './support.js';

/** Ten times as fast as in production: two minutes take twelve seconds. */
const FAST = {
  lockMs: TUNING.lockMs / 10,
  stalledMs: TUNING.stalledMs / 10,
  blockMs: TUNING.blockMs / 10,
};
const TWO_MINUTES_MS = 12_500;

/** PostgreSQL's sessions report what they did when they have been idle for ten seconds. */
const REPORTED_MS = 11_000;

/** How much is counted while all three workers of a process have nothing to do. */
async function whileIdle(trial: Trial, count: () => Promise<number>): Promise<number> {
  const queues = await trial.open({ tuning: FAST });
  for (const queue of ['mirror', 'audits', 'alerts'] as const) {
    queues.work(queue, () => Promise.resolve(DONE), { concurrency: 2 });
  }
  await queues.add('alerts', { kind: 'run-failed', runId: '1' }, 'first');
  await until(async () => (await queues.counts()).alerts.completed === 1);
  await sleep(REPORTED_MS);
  const before = await count();
  await sleep(TWO_MINUTES_MS);
  return (await count()) - before;
}

describe('an idle worker', () => {
  it('leaves PostgreSQL alone, where each statement may cost money or keep the server awake', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const name = new URL(database.url).pathname.slice(1);
    const sql = 'SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = $1';
    const transactions = (): Promise<number> =>
      withClient(database.url, async (client) => {
        const { rows } = await client.query<{ n: string }>(sql, [name]);
        return Number(rows[0]?.n);
      });
    // About 24, and what the server does by itself. A poll each second would be 72.
    const asked = await whileIdle(postgresTrialAt(database.url), transactions);
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThan(48);
  });

  it.skipIf(!hasRedis)(
    redisTitle('asks Redis at most ten times a minute, beside the wait for a job'),
    async () => {
      const redis = await startRedis();
      onTestFinished(() => redis.dispose());
      const scripts = async (): Promise<number> => {
        const stats = await redis.command('INFO', 'commandstats');
        return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1]);
      };
      const asked = await whileIdle(redisTrial(redisTarget(redis)), scripts);
      expect(asked).toBeGreaterThan(0);
      expect(asked).toBeLessThanOrEqual(20);
    },
  );
});
