import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { describeDenials, type Denial } from '../../../src/domain/codes/evidence.js';
import { MAX_DENIALS_IN_ROW } from '../../../src/domain/codes/proof.js';
import {
  planSecondLook,
  SAMPLE_INTERVAL,
  type DenialCounts,
} from '../../../src/domain/codes/second-look.js';

const COUNTS = { confirm: 'auto', checked: 1_000, denied: 50, valid: 950, overturned: 0 } as const;

describe('the plan of second looks asks', () => {
  it.each<[string, Partial<DenialCounts>, number, number]>([
    ['all of a few denied codes', { checked: 1_000, denied: 1_000 }, 2, 1],
    ['all if they are a tenth of the list', { checked: 100_000, denied: 10_000 }, 2, 1],
    ['all of little more than 1,000', { checked: 3_000, denied: 1_001 }, 2, 1],
    ['at least 1,000 of more', { checked: 5_000, denied: 3_500 }, 2, 3],
    ['one in twelve of very many', { checked: 20_000, denied: 13_000 }, 2, SAMPLE_INTERVAL],
    ['all with --confirm all', { confirm: 'all', checked: 2_000, denied: 201 }, 2, 1],
    ['none with --confirm none', { confirm: 'none' }, 1, 1],
    ['all, twice, once one was overturned', { checked: 2_000, denied: 600, overturned: 1 }, 3, 1],
    [
      'all, until seven denials, if one machine in nine denies everything',
      { checked: 120, denied: 2, valid: 118, overturned: 12 },
      7,
      1,
    ],
  ])('%s', (_, counts, denials, oneIn) => {
    expect(planSecondLook({ ...COUNTS, ...counts })).toEqual({ kind: 'look', denials, oneIn });
  });

  it('nothing if denials are false as often as true: the codes stay unproven', () => {
    expect(planSecondLook({ ...COUNTS, valid: 10, overturned: 9 })).toEqual({ kind: 'unproven' });
  });
});

it('a sample has at least one of 25 denied codes in a row', () => {
  // At either end of the row, at most 11 codes lie outside the sample.
  expect(2 * (SAMPLE_INTERVAL - 1) + 1).toBeLessThanOrEqual(MAX_DENIALS_IN_ROW);
});

it('chance makes a code invalid in less than one of 10,000 audits', () => {
  const counts = fc.record({
    valid: fc.integer({ min: 1, max: 1_000_000 }),
    overturned: fc.integer({ min: 1, max: 1_000 }),
  });
  fc.assert(
    fc.property(counts, ({ valid, overturned }) => {
      const plan = planSecondLook({ ...COUNTS, confirm: 'all', valid, overturned });
      if (plan.kind === 'unproven') return;
      const share = Math.min(0.5, overturned / Math.max(valid, overturned));
      expect(valid * share ** plan.denials).toBeLessThanOrEqual(1e-4 * 1.000001);
    }),
  );
});

const firstAt = Date.parse('2026-11-21T10:00:00.400Z');

it.each([
  [1, 0, 'denied once, at 2026-11-21 10:00:00Z'],
  [2, 5.2, 'denied twice, 5 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 10:00:05Z'],
  [2, 61, 'denied twice, 61 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 10:01:01Z'],
  [2, 119, 'denied twice, 119 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 10:01:59Z'],
  [2, 7_100, 'denied twice, 118 min apart, at 2026-11-21 10:00:00Z and 2026-11-21 11:58:20Z'],
  [2, 108_000, 'denied twice, 30 h apart, at 2026-11-21 10:00:00Z and 2026-11-22 16:00:00Z'],
  [4, 185, 'denied 4 times within 3 min, from 2026-11-21 10:00:00Z to 2026-11-21 10:03:05Z'],
  // The clock was set back.
  [2, -3, 'denied twice, 0 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 09:59:57Z'],
])('%i denials within %f s are described in one sentence', (times, seconds, sentence) => {
  // Older versions recorded no checkpoints.
  const first = { at: firstAt, checkpoints: null };
  const last = { at: firstAt + seconds * 1_000, checkpoints: null };
  expect(describeDenials({ times, first, last })).toBe(sentence);
});

it.each([
  [1, 'denied once, at 2026-11-21 23:59:30Z (between checkpoints at 23:59:20Z and 23:59:32Z)'],
  [
    2,
    'denied twice, 61 s apart, at 2026-11-21 23:58:29Z (between checkpoints at 23:58:19Z and 23:58:31Z) and 2026-11-21 23:59:30Z (between checkpoints at 23:59:20Z and 23:59:32Z)',
  ],
  [
    3,
    'denied 3 times within 61 s, from 2026-11-21 23:58:29Z (between checkpoints at 23:58:19Z and 23:58:31Z) to 2026-11-21 23:59:30Z (between checkpoints at 23:59:20Z and 23:59:32Z)',
  ],
])(
  'the sentence on %i denials has the checkpoints of the first and the last one',
  (times, sentence) => {
    const denial = (at: number): Denial => ({
      at,
      checkpoints: { before: at - 10_000, after: at + 2_000 },
    });
    const last = Date.parse('2026-11-21T23:59:30Z');
    expect(describeDenials({ times, first: denial(last - 61_000), last: denial(last) })).toBe(
      sentence,
    );
  },
);

it('a checkpoint on another day than its denial is shown with its day', () => {
  const at = Date.parse('2026-11-22T00:00:01Z');
  const denial = { at, checkpoints: { before: Date.parse('2026-11-21T23:59:50Z'), after: at } };
  expect(describeDenials({ times: 1, first: denial, last: denial })).toBe(
    'denied once, at 2026-11-22 00:00:01Z (between checkpoints at 2026-11-21 23:59:50Z and 00:00:01Z)',
  );
});
