import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Pulse, type Pace } from '../../../src/domain/codes/pulse.js';
import { LONGEST_RUN } from '../../../src/domain/codes/verdict.js';

const UNLIMITED: Pace = { concurrency: 3, spacingMs: 0 };

/** Which of the replies that come after these gaps, milliseconds, end a lull. */
function lullsOf(gaps: readonly number[], pace: Pace = UNLIMITED): number[] {
  const pulse = new Pulse(pace);
  let at = Date.UTC(2026, 0, 1);
  pulse.hear(at);
  return gaps.flatMap((gap, i) => (pulse.hear((at += gap)) ? [i] : []));
}

const steady = (gap: number, count: number): number[] => Array<number>(count).fill(gap);

describe('a lull', () => {
  it.each([
    ['without a limit', { concurrency: 16, spacingMs: 0 }, 1],
    ['600 a minute', { concurrency: 16, spacingMs: 100 }, 100],
    ['60 a minute', { concurrency: 3, spacingMs: 1_000 }, 1_000],
    ['60 a minute shared by three', { concurrency: 3, spacingMs: 1_000 }, 3_000],
    ['12 a minute', { concurrency: 2, spacingMs: 5_000 }, 5_000],
  ])('is a pause of everybody for a minute: %s', (_what, pace, gap) => {
    const gaps = [...steady(gap, 100), 60_000, ...steady(gap, 100)];
    expect(lullsOf(gaps, pace)).toEqual([100]);
  });

  it('is each of two pauses, however soon one follows the other, and of more with time between', () => {
    expect(lullsOf([...steady(20, 9), 30_000, 20, 30_000, 20, 30_000])).toEqual([9, 11]);
    const burst = [...steady(20, 59), 30_000];
    expect(lullsOf([...burst, ...burst, ...burst, ...burst])).toEqual([59, 119, 179, 239]);
  });

  it('is none when it is short, nor at the very beginning', () => {
    expect(lullsOf([...steady(1, 100), 4_000])).toEqual([]);
    expect(new Pulse(UNLIMITED).hear(Date.now())).toBe(false);
  });

  it('is not to be told from what is usual after a reply or two, unless the budget is known', () => {
    const minutes = steady(60_000, 10);
    expect(lullsOf(minutes, { concurrency: 2, spacingMs: 0 })).toEqual([0, 1]);
    expect(lullsOf(minutes, { concurrency: 2, spacingMs: 60_000 })).toEqual([]);
  });

  it('is none where the clock was set back, and what is usual stays', () => {
    expect(lullsOf([...steady(3_000, 60), -3_600_000, 20_000])).toEqual([]);
  });

  it('is looked for from the beginning on, and what was heard long before is stale', () => {
    const pulse = new Pulse(UNLIMITED);
    pulse.begin(1_000_000);
    expect([pulse.isStale(1_004_000), pulse.isStale(1_060_000)]).toEqual([false, true]);
    expect(pulse.hear(1_060_000)).toBe(true);
    pulse.begin(9_000_000);
    expect(pulse.hear(9_000_100)).toBe(false);
  });

  it('is the same for a copy, which then goes its own way', () => {
    const pulse = new Pulse(UNLIMITED);
    for (let at = 0; at <= 600_000; at += 6_000) pulse.hear(at);
    const copy = pulse.copy();
    copy.hear(650_000);
    expect(pulse.copy().hear(650_000)).toBe(false);
    expect(pulse.hear(670_000)).toBe(true);
  });
});

describe('how many replies are left before the next silence', () => {
  it('is as many as came between the last two, so that proofs can be asked for in time', () => {
    const pulse = new Pulse(UNLIMITED);
    const hear = (at: number): number => {
      pulse.hear(at);
      return pulse.repliesLeft;
    };
    expect([0, 10, 20, 30].map(hear)).toEqual([Infinity, Infinity, Infinity, Infinity]);
    expect([60_000, 60_010, 60_020].map(hear)).toEqual([3, 2, 1]);
    expect(pulse.copy().repliesLeft).toBe(1);
    expect([120_000, 120_010].map(hear)).toEqual([2, 1]);
  });

  it('is what comes first of the last four, since others may use up a limit too', () => {
    const pulse = new Pulse(UNLIMITED);
    let at = 0;
    const burst = (replies: number): void => {
      at += 60_000;
      for (let i = 0; i < replies; i++) pulse.hear((at += 10));
    };
    for (const replies of [9, 2, 5, 3, 4]) burst(replies);
    burst(1);
    expect(pulse.repliesLeft).toBe(1);
    burst(4);
    expect(pulse.repliesLeft).toBe(0);
    expect(pulse.isInterrupted).toBe(true);
    for (let i = 0; i < 500; i++) pulse.hear((at += 10));
    expect([pulse.repliesLeft, pulse.isInterrupted]).toEqual([Infinity, false]);
  });

  it('is not known once more came than that, or when nothing was silent yet', () => {
    const pulse = new Pulse(UNLIMITED);
    pulse.begin(0);
    expect(pulse.repliesLeft).toBe(Infinity);
    pulse.hear(10);
    pulse.hear(60_000);
    expect(pulse.repliesLeft).toBe(0);
    pulse.hear(60_010);
    expect(pulse.repliesLeft).toBe(Infinity);
  });

  it('counts from where listening began anew, after what was heard up to then', () => {
    const pulse = new Pulse(UNLIMITED);
    for (const at of [0, 10, 20]) pulse.hear(at);
    pulse.begin(3_600_000);
    expect(pulse.repliesLeft).toBe(3);
  });
});

describe('however slowly replies come', () => {
  it('the usual gap is no lull but for the first ones, be it a second or an hour', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3_600_000 }), (gap) => {
        expect(lullsOf(steady(gap, 300)).filter((i) => i > 6)).toEqual([]);
      }),
    );
  });

  it('nor are the gaps between bursts, such as of calls under way at once at a slow server', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: LONGEST_RUN }),
        fc.integer({ min: 1, max: 60_000 }),
        (calls, gap) => {
          const burst = [...steady(1, calls - 1), gap];
          const lulls = lullsOf(
            Array.from({ length: Math.ceil(2_000 / calls) }, () => burst).flat(),
            {
              concurrency: calls,
              spacingMs: 0,
            },
          );
          // Until it is known what is usual.
          expect(lulls.filter((i) => i > 1_000)).toEqual([]);
        },
      ),
    );
  });

  it('between lulls that come again and again there is time for a run of denials and its proofs', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100 }),
        fc.integer({ min: 0, max: 3_000 }),
        fc.integer({ min: 5_001, max: 600_000 }),
        (calls, gap, pause) => {
          const burst = [...steady(gap, calls - 1), pause];
          const replies = Array.from({ length: Math.ceil(2_000 / calls) }, () => burst).flat();
          const lulls = lullsOf(replies);
          const apart = lulls.map((i, n) => i - (lulls[n - 1] ?? 0));
          const rests = apart.filter((many) => many >= LONGEST_RUN + 2);
          expect(rests.length).toBeGreaterThanOrEqual((apart.length - 3) / 2);
          expect(lulls.length).toBeLessThanOrEqual(2 + replies.length / (LONGEST_RUN + 15));
        },
      ),
    );
  });
});
