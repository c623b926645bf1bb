import { expect, it } from 'vitest';
import { phaseOf } from '../../src/codes/progress.js';

const COUNTS = { codes: 1_100, reused: 100, valid: 0, overturned: 0, confirmed: 0, resumeAt: null };

it('the sweep counts denied codes as done, so that a list of bad codes does not look stuck', () => {
  const { done, total, text } = phaseOf({ ...COUNTS, pending: 1_000, denied: 400 }, 0);
  expect([done, total]).toEqual([400, 1_000]);
  expect(text).toBe('sweep 400 of 1,000 · 400 denied');
});

it('after the sweep, each counted denial is progress', () => {
  const counts = { ...COUNTS, pending: 40, denied: 40, confirmed: 25 };
  expect(phaseOf(counts, 0)).toMatchObject({ done: 25, total: 40, text: 'confirm 25 of 40' });
  // In a marketplace that denied one of 400 valid codes, two denials of each code count.
  const doubtful = { ...counts, valid: 400, overturned: 1 };
  expect(phaseOf(doubtful, 0).total).toBeGreaterThan(40);
});
