import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  CONFIRM_AFTER_MS,
  countedDenialsNeeded,
  type DenialCounts,
  pauseBeforeConfirm,
} from '../../src/codes/rules.js';
import type { DeniedCode } from '../../src/codes/ledger.js';
import { WorkMemory } from '../../src/codes/piece.js';

describe('counted denials that make a code invalid', () => {
  it.each<[DenialCounts, number | null, string]>([
    [{ valid: 0, overturned: 0 }, 1, 'no valid code is known to have been denied'],
    [{ valid: 5_000, overturned: 0 }, 1, 'all valid codes were found at once'],
    [{ valid: 9_000, overturned: 1 }, 3, 'one valid code in 9,000 was denied'],
    [{ valid: 900, overturned: 100 }, 8, 'one in nine is denied'],
    [{ valid: 1, overturned: 1 }, 14, 'the only valid code was denied: the true share is unknown'],
    [{ valid: 50, overturned: 50 }, 19, 'all were denied: the true share is unknown'],
    [
      { valid: 100_000, overturned: 60_000 },
      null,
      'of so many, some are denied 20 times by chance',
    ],
  ])('of %j are %s: %s', (counts, needed) => {
    expect(countedDenialsNeeded(counts)).toBe(needed);
  });

  it('leave a risk below one in 10,000 that any valid code of the audit is called invalid', () => {
    const counts = fc
      .record({
        valid: fc.integer({ min: 1, max: 1_000_000 }),
        share: fc.double({ min: 0, max: 0.5 }),
      })
      .filter(({ share }) => !Number.isNaN(share))
      .map(({ valid, share }) => ({ valid, overturned: Math.ceil(valid * share) }));
    fc.assert(
      fc.property(counts, ({ valid, overturned }) => {
        const needed = countedDenialsNeeded({ valid, overturned });
        if (overturned === 0 || needed === null) return;
        const risk = valid * Math.min(overturned / valid, 0.5) ** needed;
        expect(risk).toBeLessThanOrEqual(1.000001 / 10_000);
      }),
    );
  });
});

describe('the wait of a denied code', () => {
  afterEach(() => void vi.useRealTimers());

  it('is a minute from its own denial, however long others have waited: look-ups add denials all the time', () => {
    vi.useFakeTimers({ toFake: ['performance', 'Date'] });
    const memory = new WorkMemory();
    vi.advanceTimersByTime(300_000);
    const denied: DeniedCode = {
      position: 7,
      code: 'A',
      known: null,
      attempts: 0,
      counted: 0,
      deniedAt: Date.now(),
    };
    expect(memory.waitFor(denied, CONFIRM_AFTER_MS)).toBe(60_000);
    vi.advanceTimersByTime(60_000);
    expect(memory.waitFor(denied, CONFIRM_AFTER_MS)).toBe(0);
  });
});

describe('the pause before a denied code is checked again', () => {
  it('is the whole minute before the first counted denial, and shorter between later ones', () => {
    expect(pauseBeforeConfirm(CONFIRM_AFTER_MS, 0)).toBe(60_000);
    expect(pauseBeforeConfirm(CONFIRM_AFTER_MS, 1)).toBe(20_000);
    expect(pauseBeforeConfirm(5_000, 1)).toBe(5_000);
  });
});
