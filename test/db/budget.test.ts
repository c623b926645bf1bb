import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { BudgetPaused, type Budget } from '../../src/domain/budget.js';
import { storedBudget } from '../../src/db/budget.js';
import { createClock } from '../../src/db/clock.js';
import { DbClient } from '../../src/db/connection.js';
import { createTestDatabase } from '../support/postgres.js';

const never = new AbortController().signal;
/** Two pools act as two processes: they share nothing but the database. */
let pools: readonly [pg.Pool, pg.Pool];
let drop: () => Promise<void>;

beforeAll(async () => {
  const database = await createTestDatabase();
  drop = () => database.drop();
  const open = (): pg.Pool =>
    new pg.Pool({ Client: DbClient, connectionString: database.url, max: 4 });
  pools = [open(), open()];
});
beforeEach(() => pools[0].query('TRUNCATE mirror.request_budgets'));
afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await drop();
});

function budgets(requestsPerMinute: number): [Budget, Budget] {
  const open = (pool: pg.Pool): Budget =>
    storedBudget({ pool, clock: createClock(pool) }, 'market.example', requestsPerMinute);
  return [open(pools[0]), open(pools[1])];
}

describe('the stored budget', () => {
  it('is shared: two processes together never exceed it in any window', async () => {
    const perMinute = 1200; // one per 50 ms
    const both = budgets(perMinute);
    const times: number[] = [];
    const acquire = async (n: number): Promise<void> => {
      await both[n % 2]?.acquire('mirror', never);
      times.push(performance.now());
    };
    await Promise.all(Array.from({ length: 21 }, (_, n) => acquire(n)));
    for (const [index, from] of times.entries()) {
      const within = times.slice(index).filter((time) => time - from < 500);
      // Exactly 10 fit into half a second; one more allows for jitter of the measurement.
      expect(within.length).toBeLessThanOrEqual(11);
    }
  });

  it.each([
    ['a slot', 60, `next_at = now() + interval '5 hours'`],
    ['a waiting run', 60, `urgent_until = now() + interval '5 hours'`],
    [
      'a pause',
      60,
      `paused_until = now() + interval '6 hours', paused_at = now() + interval '5 hours'`,
    ],
    [
      'a pause',
      0,
      `paused_until = now() + interval '6 hours', paused_at = now() + interval '5 hours'`,
    ],
    ['a pause of 30 days', 60, `paused_until = now() + interval '30 days'`],
  ])(
    'goes on at once after a clock was ahead during one request, which recorded %s (%i a minute)',
    async (_what, limit, recorded) => {
      const [one, two] = budgets(limit);
      await one.pauseUntil(Date.now());
      await pools[0].query(`UPDATE mirror.request_budgets SET ${recorded}`);
      await two.acquire('audit', AbortSignal.timeout(5_000));
      await one.acquire('mirror', AbortSignal.timeout(5_000));
    },
  );

  it('is separate for each host', async () => {
    await budgets(1)[0].acquire('mirror', never);
    await storedBudget(
      { pool: pools[0], clock: createClock(pools[0]) },
      'other.example',
      1,
    ).acquire('mirror', never);
  });

  it.each([60_000, 0])('pauses all processes when one is paused (limit %i)', async (limit) => {
    const [one, two] = budgets(limit);
    const until = Date.now() + 400;
    await one.pauseUntil(until);
    await two.acquire('mirror', never);
    expect(Date.now()).toBeGreaterThanOrEqual(until - 5);
  });

  it.each([0, 60])('fails a caller who can’t wait out the pause (limit %i)', async (limit) => {
    const [one, two] = budgets(limit);
    const until = Date.now() + 3_600_000;
    await one.pauseUntil(until);
    const error = await two.acquire('mirror', never, 1_000).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BudgetPaused);
    expect(Math.abs((error as BudgetPaused).until - until)).toBeLessThan(2_000);
  });

  it.each([0, 60])(
    'keeps the longer pause when another process is asked for a shorter one (limit %i)',
    async (limit) => {
      const [one, two] = budgets(limit);
      await one.pauseUntil(Date.now() + 3_600_000);
      await two.pauseUntil(Date.now() + 1_000);
      await expect(two.acquire('mirror', never, 60_000)).rejects.toThrow(BudgetPaused);
    },
  );

  it('serves mirror requests before audit requests that have waited longer', async () => {
    const [one, two] = budgets(120); // one per 500 ms
    await one.acquire('audit', never);
    const order: string[] = [];
    const audits = [1, 2].map(() => two.acquire('audit', never).then(() => order.push('audit')));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await one.acquire('mirror', never).then(() => order.push('mirror'));
    await Promise.all(audits);
    expect(order).toEqual(['mirror', 'audit', 'audit']);
  });

  it('stops waiting when the signal aborts', async () => {
    const [one] = budgets(1);
    await one.acquire('mirror', never);
    const abort = new AbortController();
    const waiting = one.acquire('mirror', abort.signal);
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});
