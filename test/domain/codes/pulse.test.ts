import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Pulse } from '../../../src/domain/codes/pulse.js';
import { LONGEST_RUN } from '../../../src/domain/codes/verdict.js';

/** Which of the replies that come after these gaps, milliseconds, end a lull. */
function lullsOf(gaps: readonly number[]): number[] {
  const pulse = new Pulse();
  let at = Date.UTC(2026, 0, 1);
  pulse.hear(at);
  return gaps.flatMap((gap, i) => (pulse.hear((at += gap)) ? [i] : []));
}

const steady = (gap: number, count: number): number[] => Array<number>(count).fill(gap);

describe('a lull', () => {
  it('is a pause of everybody between replies that come one after another', () => {
    expect(lullsOf([...steady(20, 100), 20_000, ...steady(20, 100)])).toEqual([100]);
    expect(lullsOf([...steady(1_000, 100), 60_000, ...steady(1_000, 100)])).toEqual([100]);
  });

  it('is each pause of several, when there is time between them', () => {
    const burst = [...steady(20, 59), 30_000];
    expect(lullsOf([...burst, ...burst, ...burst])).toEqual([59, 119, 179]);
  });

  it('is none when it is short, nor at the very beginning', () => {
    expect(lullsOf([...steady(1, 100), 4_000])).toEqual([]);
    expect(new Pulse().hear(Date.now())).toBe(false);
  });

  it('is not to be told from what is usual after a single reply, and so is taken for one', () => {
    expect(lullsOf([60_000, 60_000, 60_000])).toEqual([0]);
  });

  it('is none where the clock was set back', () => {
    expect(lullsOf([...steady(10, 20), -3_600_000, 10])).toEqual([]);
  });

  it('is told of before it ends, and only as long as nothing is heard', () => {
    const pulse = new Pulse();
    pulse.hear(1_000_000);
    expect(pulse.isLull(1_004_000)).toBe(false);
    expect(pulse.isLull(1_060_000)).toBe(true);
    pulse.hear(1_060_000);
    expect(pulse.isLull(1_060_100)).toBe(false);
  });
});

describe('however slowly replies come', () => {
  it('the usual gap is no lull but for the first, be it a second or an hour', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3_600_000 }), (gap) => {
        expect(lullsOf(steady(gap, 300)).filter((i) => i > 0)).toEqual([]);
      }),
    );
  });

  it('nor are the gaps between bursts, such as of calls under way at once at a slow server', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: LONGEST_RUN }),
        fc.integer({ min: 1, max: 600_000 }),
        (calls, gap) => {
          const burst = [...steady(1, calls - 1), gap];
          const lulls = lullsOf(Array.from({ length: 100 }, () => burst).flat());
          expect(lulls.filter((i) => i > 2 * calls * 5)).toEqual([]);
        },
      ),
    );
  });

  it('between lulls that come again and again there is time for a run of denials and its proofs', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 5_001, max: 600_000 }),
        (calls, pause) => {
          const burst = [...steady(0, calls - 1), pause];
          const lulls = lullsOf(Array.from({ length: 60 }, () => burst).flat());
          const settledDown = lulls.filter((i) => i >= 200);
          const apart = settledDown.slice(1).map((i, n) => i - (settledDown[n] as number));
          expect(Math.min(Infinity, ...apart)).toBeGreaterThan(LONGEST_RUN + 2);
        },
      ),
    );
  });
});
