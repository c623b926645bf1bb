import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  asksInWindow,
  codesInWindow,
  denialsNeeded,
  faded,
  longestWindowMs,
  verdictOf,
  type DenialFigures,
  type Chance,
} from '../../../src/codes/rules.js';
import type { DeniedCode } from '../../../src/codes/ledger.js';
import { endOf } from '../../../src/codes/window.js';

const NOTHING: Chance = { calls: 0, denied: 0 };

describe('counted denials that make a code invalid', () => {
  it.each<[string, Chance, Chance, number]>([
    ['no valid code was denied', { calls: 5_000, denied: 0 }, { calls: 9_000, denied: 0 }, 1],
    ['one call in 9,001 was denied', { calls: 9_001, denied: 1 }, NOTHING, 3],
    ['one call in nine was denied', { calls: 900, denied: 100 }, NOTHING, 8],
    ['only the seller’s past denied one in nine', NOTHING, { calls: 900, denied: 100 }, 5],
    ['a long good past hides nothing', { calls: 9, denied: 1 }, { calls: 90_009, denied: 1 }, 6],
    [
      'the only valid code was denied: the true share is unknown',
      { calls: 2, denied: 1 },
      NOTHING,
      14,
    ],
    ['most were denied: the true share is unknown', { calls: 100, denied: 90 }, NOTHING, 17],
    [
      'a denial of a month ago is forgotten',
      NOTHING,
      faded({ calls: 40, denied: 1 }, 30 * 86_400_000),
      1,
    ],
    [
      'a hundred of a month ago are not',
      NOTHING,
      faded({ calls: 900, denied: 100 }, 30 * 86_400_000),
      5,
    ],
  ])('where %s', (_, check, seller, needed) => {
    expect(denialsNeeded(check, seller)).toBe(needed);
  });

  it('keep the risk below one in 10,000 that any valid code of the check is called invalid', () => {
    const seen = fc
      .record({
        valid: fc.integer({ min: 1, max: 1_000_000 }),
        share: fc.double({ min: 0, max: 0.5, noNaN: true }),
      })
      .map(({ valid, share }) => ({ valid, denied: Math.ceil((valid * share) / (1 - share)) }));
    fc.assert(
      fc.property(seen, ({ valid, denied }) => {
        const calls = valid + denied;
        const needed = denialsNeeded({ calls, denied }, NOTHING);
        if (denied > 0)
          expect(valid * Math.min(denied / calls, 0.5) ** needed).toBeLessThan(1.001e-4);
      }),
    );
  });

  it('fade by half each week', () => {
    expect(faded({ calls: 80, denied: 8 }, 21 * 86_400_000)).toEqual({ calls: 10, denied: 1 });
    expect(faded({ calls: 80, denied: 8 }, -1_000)).toEqual({ calls: 80, denied: 8 });
  });
});

it('no listed code is invalid while a known-valid one is in doubt: the key, or the marketplace, may be to blame', () => {
  const denied = { form: 'x', firstDeniedAt: 0, askedAt: 0, counted: 1, rounds: 1, uncounted: 0 };
  const [listed, known] = [0, -1].map((position) => ({ ...denied, position })) as [
    DeniedCode,
    DeniedCode,
  ];
  expect(endOf(listed, denied, 1, true, 'denied')).toBeNull();
  expect(endOf(listed, denied, 1, false, 'denied')).toEqual({ verdict: 'invalid', reason: null });
  expect(endOf(known, denied, 1, true, 'denied')).toEqual({ verdict: 'invalid', reason: null });
});

describe('a window', () => {
  it.each<[string, Parameters<typeof asksInWindow>, number]>([
    ['few purchases are known', [1, 0, 199], 3],
    ['200 were found', [1, 0, 200], 1],
    ['200 were found, and valid codes denied', [5, 0, 200], 3],
    ['200 were found, and the key came into doubt', [1, 0, 200, true], 3],
    ['18 denials count already: more than 20 are none', [30, 18, 0], 2],
  ])('asks a denied code where %s', (_, facts, asks) => {
    expect(asksInWindow(...facts)).toBe(asks);
  });

  it.each([
    [0, 1, 25, 120],
    [0, 3, 25, 120],
    [1_000, 1, 25, 120],
    [1_000, 3, 25, 120],
    [2_000, 3, 18, 120],
    [5_000, 1, 20, 120],
    [10_000, 1, 8, 120],
    [10_000, 3, 2, 120],
    [60_000, 3, 2, 720],
    [60_000, 1, 8, 720],
  ])(
    'with a call every %i ms, and %i asks for each code, holds %i codes and lasts at most %i s',
    (spacingMs, asks, codes, seconds) => {
      expect(codesInWindow(spacingMs, asks)).toBe(codes);
      expect(longestWindowMs(spacingMs)).toBe(seconds * 1_000);
    },
  );
});

describe('a denied code', () => {
  it.each<[string, DenialFigures, number, ReturnType<typeof verdictOf>]>([
    ['is asked again, if no denial counts', { counted: 0, rounds: 1, uncounted: 1 }, 1, null],
    ['is invalid with one counted denial', { counted: 1, rounds: 1, uncounted: 0 }, 1, 'invalid'],
    [
      'is invalid after a window that did not count',
      { counted: 1, rounds: 2, uncounted: 1 },
      1,
      'invalid',
    ],
    ['needs as many as chance requires', { counted: 3, rounds: 2, uncounted: 0 }, 4, null],
    ['needs two windows where chance denies', { counted: 3, rounds: 1, uncounted: 0 }, 3, null],
    ['is invalid after two windows', { counted: 6, rounds: 2, uncounted: 0 }, 6, 'invalid'],
    [
      'is given up after five windows that did not count',
      { counted: 1, rounds: 6, uncounted: 5 },
      4,
      'not-counted',
    ],
    [
      'is given up after 20 counted denials',
      { counted: 20, rounds: 7, uncounted: 0 },
      21,
      'contradicted',
    ],
    [
      'is given up after twelve rounds',
      { counted: 12, rounds: 12, uncounted: 0 },
      13,
      'contradicted',
    ],
    [
      'is invalid at the last round, if that suffices',
      { counted: 12, rounds: 12, uncounted: 0 },
      12,
      'invalid',
    ],
  ])('%s', (_, figures, needed, verdict) => {
    expect(verdictOf(figures, needed)).toBe(verdict);
  });
});
