import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createClock } from '../../src/db/clock.js';
import { DbClient } from '../../src/db/connection.js';
import { createTestDatabase } from '../support/postgres.js';

let pool: pg.Pool;
let drop: () => Promise<void>;

beforeAll(async () => {
  const database = await createTestDatabase();
  pool = new pg.Pool({ Client: DbClient, connectionString: database.url, max: 3 });
  drop = () => database.drop();
});
afterAll(async () => {
  await pool.end();
  await drop();
});

/** The clocks of a machine whose own time is wrong by so many milliseconds. */
function machine(errorMs: number) {
  const clocks = { errorMs, passedMs: 0 };
  return {
    clocks,
    own: {
      wall: () => Date.now() + clocks.errorMs + clocks.passedMs,
      monotonic: () => performance.now() + clocks.passedMs,
    },
  };
}

async function databaseTime(): Promise<number> {
  const { rows } = await pool.query<{ time: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS time',
  );
  return rows[0]?.time ?? 0;
}

it.each([-90_000, 90_000])(
  'a machine whose clock is %i ms off has the time of the database, so two machines agree on what is a minute apart',
  async (errorMs) => {
    const clock = createClock(pool, machine(errorMs).own);
    await clock.measure();
    const [before, now, after] = [await databaseTime(), clock.now(), await databaseTime()];
    // Half of the measurement's way is uncertain.
    expect(now).toBeGreaterThan(before - 2_000);
    expect(now).toBeLessThan(after + 2_000);
  },
);

it('a clock that somebody sets meanwhile changes nothing, since time goes on by the monotonic clock', async () => {
  const { own, clocks } = machine(0);
  const clock = createClock(pool, own);
  await clock.measure();
  const before = clock.now();
  clocks.errorMs = -3_600_000;
  expect(clock.now()).toBeGreaterThanOrEqual(before);
  clocks.passedMs = 30_000;
  expect(clock.now() - before).toBeGreaterThanOrEqual(30_000);
});

it('warns of a clock that is more than 5 s off, once until it is right again', async () => {
  const { own, clocks } = machine(90_000);
  const clock = createClock(pool, own);
  const warnings: string[] = [];
  await clock.start((warning) => warnings.push(warning));
  clock.stop();
  expect(warnings).toEqual([expect.stringMatching(/clock is 1 min \d+ s ahead of the database’s/)]);
  await clock.measure();
  expect(warnings).toHaveLength(1);
  clocks.errorMs = 0;
  await clock.measure();
  clocks.errorMs = -90_000;
  await clock.measure();
  expect(warnings[1]).toContain('behind the database’s');
});

it('says nothing about a clock that is a second off', async () => {
  const warnings: string[] = [];
  const clock = createClock(pool, machine(1_000).own);
  await clock.start((warning) => warnings.push(warning));
  clock.stop();
  expect(warnings).toEqual([]);
});

it('keeps its time while the database can’t be reached', async () => {
  let isDown = false;
  const connect = pool.connect.bind(pool) as () => Promise<pg.PoolClient>;
  const down = () => Promise.reject(new Error('down'));
  const { own } = machine(90_000);
  const clock = createClock({ connect: () => (isDown ? down() : connect()) }, own);
  await clock.measure();
  isDown = true;
  await expect(clock.measure()).rejects.toThrow('down');
  expect(Math.abs(clock.now() - (await databaseTime()))).toBeLessThan(5_000);
});
