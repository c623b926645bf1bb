import { expect, it } from 'vitest';
import { createClock } from '../../src/db/clock.js';

const NOW = Date.UTC(2026, 10, 28);

/** A database, and a machine whose own time is wrong by so many milliseconds. All clocks stand still. */
function machine(errorMs: number) {
  const clocks = { errorMs, passedMs: 0, isDown: false, waysMs: [] as number[] };
  const ask = (): Promise<number> => {
    if (clocks.isDown) return Promise.reject(new Error('down'));
    const wayMs = clocks.waysMs.shift() ?? 0;
    const time = NOW + clocks.passedMs;
    clocks.passedMs += wayMs;
    return Promise.resolve(time);
  };
  const own = {
    wall: () => NOW + clocks.errorMs + clocks.passedMs,
    monotonic: () => 5_000 + clocks.passedMs,
  };
  return { clocks, clock: createClock(ask, own) };
}

it.each([-90_000, 90_000])(
  'a machine whose clock is %i ms off has the time of the database, so two machines agree on what is a minute apart',
  async (errorMs) => {
    const { clock } = machine(errorMs);
    expect(clock.now()).toBe(NOW + errorMs);
    await clock.measure();
    expect(clock.now()).toBe(NOW);
  },
);

it('a question that waits for a connection does not count, since nobody knows when it was answered', async () => {
  const { clock, clocks } = machine(0);
  clocks.waysMs = [20_000, 2];
  await clock.measure();
  expect(Math.abs(clock.now() - (NOW + clocks.passedMs))).toBeLessThan(3);
});

it('a measurement that took long changes no time that is known, since it may be wrong by half of that', async () => {
  const { clock, clocks } = machine(0);
  await clock.measure();
  clocks.waysMs = [4_000, 4_000];
  await clock.measure();
  expect(clock.now()).toBe(NOW + clocks.passedMs);
});

it('a clock that somebody sets meanwhile changes nothing, since time goes on by the monotonic clock', async () => {
  const { clocks, clock } = machine(0);
  await clock.measure();
  clocks.errorMs = -3_600_000;
  expect(clock.now()).toBe(NOW);
  clocks.passedMs += 30_000;
  expect(clock.now()).toBe(NOW + 30_000);
});

it('warns of a clock that is more than 5 s off, once until it is right again', async () => {
  const { clocks, clock } = machine(90_000);
  const warnings: string[] = [];
  await clock.start((warning) => warnings.push(warning));
  clock.stop();
  await clock.measure();
  expect(warnings).toEqual([
    expect.stringContaining('clock is 1 min 30 s ahead of the database’s'),
  ]);
  for (const errorMs of [1_000, -90_000]) {
    clocks.errorMs = errorMs;
    await clock.measure();
  }
  expect(warnings).toHaveLength(2);
  expect(warnings[1]).toContain('behind the database’s');
});

it('keeps its time while the database can’t be reached', async () => {
  const { clocks, clock } = machine(90_000);
  await clock.measure();
  clocks.isDown = true;
  await expect(clock.measure()).rejects.toThrow('down');
  expect(clock.now()).toBe(NOW);
});
