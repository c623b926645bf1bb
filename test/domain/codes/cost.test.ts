import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { auditCost } from '../../../src/domain/codes/cost.js';

const NOW = Date.parse('2026-05-01T00:00:00Z');

describe('auditCost', () => {
  it('counts a call for each code, proofs for each chunk and minute, and the time that the budget needs', () => {
    const size = { toCheck: 10_000, requestsPerMinute: 60, chunkSize: 100 };
    const cost = auditCost(size, NOW);
    expect(cost).toEqual({
      chunks: 100,
      codeCalls: 10_000,
      proofCalls: 268,
      calls: 10_268,
      leastMs: 10_267_000,
      finishAt: NOW + 10_267_000,
    });
  });

  it('is zero without codes', () => {
    const size = { toCheck: 0, requestsPerMinute: 60, chunkSize: 100 };
    expect(auditCost(size, NOW)).toMatchObject({ calls: 0, leastMs: 0, finishAt: NOW });
  });

  it('has no time without a budget: an estimate of 4 min 21 s for 50,000 codes turned out to be 24 s', () => {
    const size = { toCheck: 50_000, chunkSize: 20_000, requestsPerMinute: 0 };
    expect(auditCost(size, NOW)).toMatchObject({ leastMs: null, finishAt: null });
  });

  it('never grows with a larger budget, larger chunks or fewer codes', () => {
    const size = fc.record({
      toCheck: fc.nat(100_000),
      requestsPerMinute: fc.integer({ min: 1, max: 6_000 }),
      chunkSize: fc.integer({ min: 1, max: 1_000 }),
    });
    fc.assert(
      fc.property(size, (one) => {
        const cost = auditCost(one, NOW);
        expect(cost.calls).toBe(cost.codeCalls + cost.proofCalls);
        expect(cost.calls).toBeGreaterThanOrEqual(one.toCheck);
        const more = { ...one, requestsPerMinute: one.requestsPerMinute * 2 };
        expect(auditCost(more, NOW).leastMs).toBeLessThanOrEqual(cost.leastMs ?? 0);
        const larger = { ...one, chunkSize: one.chunkSize * 2 };
        expect(auditCost(larger, NOW).calls).toBeLessThanOrEqual(cost.calls);
        const fewer = { ...one, toCheck: Math.floor(one.toCheck / 2) };
        expect(auditCost(fewer, NOW).calls).toBeLessThanOrEqual(cost.calls);
      }),
    );
  });
});
