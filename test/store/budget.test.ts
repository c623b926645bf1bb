import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { BudgetPaused, type Budget } from '../../src/domain/budget.js';
import { storedBudget } from '../../src/store/budget.js';
import { createTestDatabase } from '../support/postgres.js';

const never = new AbortController().signal;
/** Two pools stand for two processes: they share nothing but the database. */
let pools: pg.Pool[] = [];
let drop: () => Promise<void>;

beforeAll(async () => {
  const database = await createTestDatabase();
  drop = () => database.drop();
  pools = [1, 2].map(() => new pg.Pool({ connectionString: database.url, max: 4 }));
});
beforeEach(async () => {
  await pools[0]?.query('TRUNCATE mirror.request_budgets');
});
afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await drop();
});

function budgets(requestsPerMinute: number): [Budget, Budget] {
  const [one, two] = pools;
  if (one === undefined || two === undefined) throw new Error('no pools');
  const host = 'market.example';
  return [storedBudget(one, host, requestsPerMinute), storedBudget(two, host, requestsPerMinute)];
}

describe('the budget in the store', () => {
  it('is one for all processes: together they never pass it in any window', async () => {
    const perMinute = 1200; // one each 50 ms
    const both = budgets(perMinute);
    const times: number[] = [];
    const acquire = async (n: number): Promise<void> => {
      await both[n % 2]?.acquire('mirror', never);
      times.push(performance.now());
    };
    await Promise.all(Array.from({ length: 21 }, (_, n) => acquire(n)));
    for (const [index, from] of times.entries()) {
      const within = times.slice(index).filter((time) => time - from < 500);
      // 10 would be exact in half a second; one more for the jitter of the measurement itself.
      expect(within.length).toBeLessThanOrEqual(11);
    }
  });

  it('keeps hosts apart', async () => {
    const [one] = budgets(1);
    const [pool] = pools;
    if (pool === undefined) throw new Error('no pool');
    await one.acquire('mirror', never);
    await storedBudget(pool, 'other.example', 1).acquire('mirror', never);
  });

  it.each([60_000, 0])(
    'stops every process until the time that one of them was given (limit %i)',
    async (limit) => {
      const [one, two] = budgets(limit);
      const until = Date.now() + 400;
      await one.pauseUntil(until);
      await two.acquire('mirror', never);
      expect(Date.now()).toBeGreaterThanOrEqual(until - 5);
    },
  );

  it.each([0, 60])('refuses who can’t wait out the pause (limit %i)', async (limit) => {
    const [one, two] = budgets(limit);
    const until = Date.now() + 3_600_000;
    await one.pauseUntil(until);
    const refusal = await two.acquire('mirror', never, 1_000).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(BudgetPaused);
    expect(Math.abs((refusal as BudgetPaused).until - until)).toBeLessThan(2_000);
  });

  it('serves a mirror request before audits that wait longer', async () => {
    const [one, two] = budgets(120); // one each 500 ms
    await one.acquire('audit', never);
    const order: string[] = [];
    const audits = [1, 2].map(() => two.acquire('audit', never).then(() => order.push('audit')));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await one.acquire('mirror', never).then(() => order.push('mirror'));
    await Promise.all(audits);
    expect(order).toEqual(['mirror', 'audit', 'audit']);
  });

  it('ends waiting when it is told to', async () => {
    const [one] = budgets(1);
    await one.acquire('mirror', never);
    const abort = new AbortController();
    const waiting = one.acquire('mirror', abort.signal);
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});
