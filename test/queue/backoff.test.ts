import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ATTEMPTS, backoffMs } from '../../src/queue/tuning.js';

const HOUR = 3_600_000;
const attempts = fc.integer({ min: 1, max: 100 });
const dice = fc.double({ min: 0, max: 1, noNaN: true });
const NOW = Date.parse('2026-11-21T02:00:00Z');

describe('the pause before a job is tried again', () => {
  it('is half a minute at first and doubles, up to four hours', () => {
    const pauses = [1, 2, 3, 9, 10, 11].map((attempt) => backoffMs(attempt, null, NOW, 1));
    expect(pauses).toEqual([30_000, 60_000, 120_000, 7_680_000, 4 * HOUR, 4 * HOUR]);
  });

  it('is at least half of that, so that chance spreads it without making it short', () => {
    fc.assert(
      fc.property(attempts, dice, (attempt, random) => {
        const most = backoffMs(attempt, null, NOW, 1);
        const pause = backoffMs(attempt, null, NOW, random);
        expect(pause).toBeGreaterThanOrEqual(most / 2);
        expect(pause).toBeLessThanOrEqual(most);
      }),
    );
  });

  it('never ends before the time a server gave, but does within a day and a minute', () => {
    const times = fc.integer({ min: -HOUR, max: 1_000 * HOUR });
    fc.assert(
      fc.property(attempts, times, dice, (attempt, ahead, random) => {
        const pause = backoffMs(attempt, NOW + ahead, NOW, random);
        expect(pause).toBeGreaterThanOrEqual(Math.min(ahead, 24 * HOUR));
        expect(pause).toBeLessThanOrEqual(24 * HOUR + 60_000);
        expect(Number.isInteger(pause)).toBe(true);
      }),
    );
  });

  it('comes after the time a server gave by chance, so that not all come in one moment', () => {
    expect(backoffMs(1, NOW + HOUR, NOW, 0)).toBe(HOUR);
    expect(backoffMs(1, NOW + HOUR, NOW, 0.5)).toBe(HOUR + 15_000);
    expect(backoffMs(8, NOW + HOUR, NOW, 1)).toBe(Math.max(HOUR + 60_000, 3_840_000));
  });

  it('adds up to half a day at most over all attempts', () => {
    const pauses = Array.from({ length: ATTEMPTS - 1 }, (_, i) => backoffMs(i + 1, null, NOW, 1));
    const total = pauses.reduce((sum, pause) => sum + pause, 0);
    expect(total).toBeGreaterThan(8 * HOUR);
    expect(total).toBeLessThan(13 * HOUR);
  });
});
