import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { auditCost } from '../../src/codes/progress.js';

const NOW = Date.parse('2026-05-01T00:00:00Z');

describe('auditCost', () => {
  it('counts a call for each code, a proof for each 500, looks at the account before purchases are recorded, and the time that the budget needs', () => {
    expect(auditCost({ toCheck: 10_000, requestsPerMinute: 60 }, NOW)).toMatchObject({
      proofCalls: 40 + 20 + 133,
      calls: 10_193,
      leastMs: 10_192_000,
      finishAt: NOW + 10_192_000,
      callsPerDenied: 1.08,
      confirmAfterMs: 60_000,
    });
  });

  it('counts the second check of denied codes, and its proofs: 2 calls for each 25', () => {
    const cost = auditCost({ toCheck: 0, denied: 250, requestsPerMinute: 60 }, NOW);
    expect(cost).toMatchObject({ calls: 250 + 20 + 2, proofCalls: 22 });
  });

  it('is zero without codes', () => {
    const size = { toCheck: 0, requestsPerMinute: 60 };
    expect(auditCost(size, NOW)).toMatchObject({ calls: 0, leastMs: 0, finishAt: NOW });
  });

  it('has no time without a budget: an estimate of 4 min 21 s for 50,000 codes turned out to be 24 s', () => {
    const size = { toCheck: 50_000, requestsPerMinute: 0 };
    expect(auditCost(size, NOW)).toMatchObject({ leastMs: null, finishAt: null });
  });

  it('never grows with a larger budget or fewer codes, and proofs are at most 2 % of the list', () => {
    const size = fc.record({
      toCheck: fc.nat(100_000),
      requestsPerMinute: fc.integer({ min: 1, max: 6_000 }),
    });
    fc.assert(
      fc.property(size, (one) => {
        const cost = auditCost(one, NOW);
        expect(cost.calls).toBe(one.toCheck + cost.proofCalls);
        expect(cost.proofCalls).toBeLessThanOrEqual(0.02 * one.toCheck + 4);
        const more = { ...one, requestsPerMinute: one.requestsPerMinute * 2 };
        expect(auditCost(more, NOW).leastMs).toBeLessThanOrEqual(cost.leastMs ?? 0);
        const fewer = { ...one, toCheck: Math.floor(one.toCheck / 2) };
        expect(auditCost(fewer, NOW).calls).toBeLessThanOrEqual(cost.calls);
      }),
    );
  });
});
