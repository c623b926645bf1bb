import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { auditCost } from '../../../src/domain/codes/cost.js';
import {
  SOON_MS,
  byUsefulness,
  callsWithin,
  parseDuration,
  planRecheck,
  type RecheckCandidate,
} from '../../../src/domain/codes/recheck.js';

const NOW = Date.parse('2026-05-01T00:00:00Z');
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe('a length of time', () => {
  it.each([
    ['7d', 7 * DAY],
    ['12h', 12 * HOUR],
    ['30m', 30 * 60_000],
    ['45s', 45_000],
    ['2w', 14 * DAY],
    ['1d12h', 36 * HOUR],
    [' 7D ', 7 * DAY],
    ['0', 0],
    ['0d', 0],
    ['36500d', 36_500 * DAY],
  ])('%j is %i ms', (text, ms) => {
    expect(parseDuration(text)).toEqual({ ms });
  });

  it.each([
    ['', /empty/],
    ['7', /no unit/],
    ['d', /no length/],
    ['7 d', /no length/],
    ['7x', /no length/],
    ['-7d', /no length/],
    ['1.5d', /no length/],
    ['1h7d', /no length/],
    ['7d7d', /no length/],
    ['P7D', /no length/],
    ['٧d', /no length/],
    ['36526d', /hundred years/],
    ['9'.repeat(400) + 'd', /hundred years/],
  ])('is not %j, and it says why', (text, fault) => {
    expect(parseDuration(text)).toEqual({ fault: expect.stringMatching(fault) as string });
  });

  it('is read from any units in order', () => {
    const part = fc.option(fc.nat(99), { nil: null });
    fc.assert(
      fc.property(part, part, part, part, part, (...parts) => {
        const units = ['w', 'd', 'h', 'm', 's'];
        const text = parts.map((n, i) => (n === null ? '' : `${n}${units[i]}`)).join('');
        fc.pre(text !== '');
        const factors = [7 * DAY, DAY, HOUR, 60_000, 1000];
        const ms = parts.reduce<number>((sum, n, i) => sum + (n ?? 0) * (factors[i] as number), 0);
        expect(parseDuration(text)).toEqual({ ms });
      }),
    );
  });
});

describe('the cost of an audit', () => {
  it('is a call for each code, two proofs for each chunk and account details each minute, in the time the budget takes', () => {
    const size = { toAsk: 10_000, requestsPerMinute: 60, chunkSize: 100 };
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

  it('is nothing when there is nothing to ask', () => {
    const size = { toAsk: 0, requestsPerMinute: 60, chunkSize: 100 };
    expect(auditCost(size, NOW)).toMatchObject({ calls: 0, leastMs: 0, finishAt: NOW });
  });

  it('of time is unknown without a budget: 50,000 codes were said to take 4 min 21 s, and took 24 s', () => {
    const size = { toAsk: 50_000, chunkSize: 20_000, requestsPerMinute: 0 };
    expect(auditCost(size, NOW)).toMatchObject({ leastMs: null, finishAt: null });
  });

  it('never grows by a larger budget, larger chunks or fewer codes', () => {
    const size = fc.record({
      toAsk: fc.nat(100_000),
      requestsPerMinute: fc.integer({ min: 1, max: 6_000 }),
      chunkSize: fc.integer({ min: 1, max: 1_000 }),
    });
    fc.assert(
      fc.property(size, (one) => {
        const cost = auditCost(one, NOW);
        expect(cost.calls).toBe(cost.codeCalls + cost.proofCalls);
        expect(cost.calls).toBeGreaterThanOrEqual(one.toAsk);
        const more = { ...one, requestsPerMinute: one.requestsPerMinute * 2 };
        expect(auditCost(more, NOW).leastMs).toBeLessThanOrEqual(cost.leastMs ?? 0);
        const larger = { ...one, chunkSize: one.chunkSize * 2 };
        expect(auditCost(larger, NOW).calls).toBeLessThanOrEqual(cost.calls);
        const fewer = { ...one, toAsk: Math.floor(one.toAsk / 2) };
        expect(auditCost(fewer, NOW).calls).toBeLessThanOrEqual(cost.calls);
      }),
    );
  });
});

describe('asking known codes again', () => {
  const candidate = (code: string, fields: Partial<RecheckCandidate> = {}): RecheckCandidate => ({
    code,
    verdict: 'valid',
    checkedAt: NOW - 60 * DAY,
    supportedUntil: null,
    ...fields,
  });
  const all = { olderThan: 30 * DAY, validOnly: false };

  it('begins with support that is about to end or ended unseen, then with the oldest check', () => {
    const codes = [
      candidate('recent', { checkedAt: NOW - 31 * DAY }),
      candidate('oldest', { checkedAt: NOW - 90 * DAY }),
      candidate('ends later', { supportedUntil: NOW + SOON_MS + 1 }),
      candidate('ends soon', { supportedUntil: NOW + DAY }),
      candidate('ended', { supportedUntil: NOW - DAY }),
      candidate('ended long ago, and seen', { supportedUntil: NOW - 70 * DAY }),
      candidate('invalid', { verdict: 'invalid', supportedUntil: NOW + DAY }),
    ];
    expect(planRecheck(codes, all, Infinity, NOW).map(({ code }) => code)).toEqual([
      'ended',
      'ends soon',
      'oldest',
      'ended long ago, and seen',
      'ends later',
      'invalid',
      'recent',
    ]);
  });

  it('leaves out what was checked lately, and what is invalid when only valid codes are wanted', () => {
    const codes = [
      candidate('young', { checkedAt: NOW - 30 * DAY + 1, supportedUntil: NOW + 1 }),
      candidate('due', { checkedAt: NOW - 30 * DAY }),
      candidate('invalid', { verdict: 'invalid' }),
    ];
    const plan = planRecheck(codes, { ...all, validOnly: true }, Infinity, NOW);
    expect(plan.map(({ code }) => code)).toEqual(['due']);
  });

  it('stays within its share of the budget', () => {
    expect(callsWithin(60, 0.25, DAY)).toBe(21_600);
    expect(callsWithin(60, 0.01, 60_000)).toBe(0);
    expect(callsWithin(0, 0.25, DAY)).toBe(Infinity);
    expect(planRecheck([candidate('a'), candidate('b')], all, 1, NOW)).toHaveLength(1);
  });

  it('has one order, whatever order the codes come in', () => {
    const some = fc.record({
      code: fc.string({ minLength: 1, maxLength: 2 }),
      verdict: fc.constantFrom('valid' as const, 'invalid' as const),
      checkedAt: fc.integer({ min: NOW - 3, max: NOW }),
      supportedUntil: fc.option(fc.integer({ min: NOW - 3, max: NOW + 3 })),
    });
    const list = fc.uniqueArray(some, { selector: ({ code }) => code, maxLength: 12 });
    fc.assert(
      fc.property(list, (codes) => {
        const order = byUsefulness(NOW);
        const sorted = [...codes].sort(order);
        expect([...codes].reverse().sort(order)).toEqual(sorted);
        sorted.slice(1).forEach((code, i) => {
          expect(order(sorted[i] as RecheckCandidate, code)).toBeLessThan(0);
        });
      }),
    );
  });
});
