import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkCost, paceOf, phaseOf } from '../../src/codes/progress.js';

const NOW = Date.parse('2026-05-01T00:00:00Z');
const KNOWN = { foundEver: 1_000, requestsPerMinute: 60 };

describe('the cost of a check', () => {
  it.each([
    ['a code: it, the control and the account', { toCheck: 1 }, 3],
    ['three codes', { toCheck: 3 }, 5],
    ['a list of 150: looks at the account at 10 purchases, and for each 75', { toCheck: 150 }, 154],
    ['a list of 10,000: looks, a look at the beginning, and controls', { toCheck: 10_000 }, 10_152],
    ['250 denied codes: ten windows, and eleven proofs', { toCheck: 0, denied: 250 }, 272],
    ['nothing', { toCheck: 0 }, 0],
  ])('counts what is asked for the key, too: %s', (_what, work, calls) => {
    expect(checkCost({ ...KNOWN, ...work }, NOW).calls).toBe(calls);
  });

  it('says what each denied code takes: one question and its share of the proofs, or three, with a proof in between, while few purchases are known', () => {
    expect(checkCost({ ...KNOWN, toCheck: 3 }, NOW).callsPerDenied).toBe(1.08);
    expect(checkCost({ ...KNOWN, toCheck: 3, foundEver: 3 }, NOW).callsPerDenied).toBeCloseTo(3.12);
  });

  it('has the time that the budget needs, and none without one', () => {
    expect(checkCost({ ...KNOWN, toCheck: 3 }, NOW)).toMatchObject({
      leastMs: 4_000,
      finishAt: NOW + 4_000,
    });
    const unlimited = { ...KNOWN, toCheck: 3, requestsPerMinute: 0 };
    expect(checkCost(unlimited, NOW)).toMatchObject({ leastMs: null, finishAt: null });
  });

  it('never grows with a larger budget or fewer codes, and the key costs at most 2 % of the list and a few calls', () => {
    const size = fc.record({
      toCheck: fc.nat(100_000),
      requestsPerMinute: fc.integer({ min: 60, max: 6_000 }),
      foundEver: fc.nat(400),
    });
    fc.assert(
      fc.property(size, (one) => {
        const cost = checkCost(one, NOW);
        expect(cost.calls).toBe(one.toCheck + cost.proofCalls);
        expect(cost.proofCalls).toBeLessThanOrEqual(0.02 * one.toCheck + 6);
        const more = { ...one, requestsPerMinute: one.requestsPerMinute * 2 };
        expect(checkCost(more, NOW).leastMs).toBeLessThanOrEqual(cost.leastMs ?? 0);
        const fewer = { ...one, toCheck: Math.floor(one.toCheck / 2) };
        expect(checkCost(fewer, NOW).calls).toBeLessThanOrEqual(cost.calls);
      }),
    );
  });
});

describe('what a running check does', () => {
  const counts = { codes: 1_100, reused: 100, resumeAt: null, asked: null };
  const asked = {
    phase: 'second check',
    asked: 25,
    total: 40,
    rounds: 12,
    leftMs: 15_000,
  } as const;

  it('the first pass counts denied codes as done, so that a list of bad codes does not look stuck', () => {
    const phase = phaseOf({ ...counts, pending: 1_000, denied: 400 }, NOW);
    expect(phase).toMatchObject({ done: 400, total: 1_000 });
    expect(phase.text).toBe('first pass 400 of 1,000 · 400 denied');
  });

  it('is told from what was asked, which is recorded later', () => {
    const now = { ...asked, phase: 'first pass', asked: 450, total: 1_000 } as const;
    const phase = phaseOf({ ...counts, pending: 1_000, denied: 400, asked: now }, NOW);
    expect(phase).toMatchObject({ done: 450, leftMs: 15_000 });
  });

  it('the second check says when its next window begins, and how many rounds may follow', () => {
    const running = { ...counts, pending: 40, denied: 40, asked };
    expect(phaseOf(running, NOW).text).toBe('second check 25 of 40');
    const waiting = { ...running, asked: { ...asked, rounds: 11 }, resumeAt: NOW + 12_000 };
    expect(phaseOf(waiting, NOW)).toMatchObject({
      text: 'second check 0 of 40, next window in 12 s · at most 11 more rounds',
      leftMs: 27_000,
    });
  });
});

it.each([
  [1, 2],
  [60, 3],
  [240, 9],
  [600, 16],
  [6_000, 16],
  [0, 48],
])('a budget of %i requests a minute is used up by %i calls in flight', (perMinute, calls) => {
  expect(paceOf(perMinute).concurrency).toBe(calls);
});
