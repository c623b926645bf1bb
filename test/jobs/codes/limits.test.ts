import { describe, expect, it } from 'vitest';
import { Metered } from './metered.js';

const MINUTE = { windowMs: 60_000, patienceMs: 120_000 };
const HOUR = { ...MINUTE, windowMs: 3_600_000 };
const UNLIMITED = { concurrency: 16, spacingMs: 0 };
const SIXTY = { concurrency: 3, spacingMs: 1_000 };

/** A list of which every `nth` code is invalid, and what its verdicts should be. */
function listOf(nth: number): { codes: string[]; truth: Record<string, string> } {
  const codes = Array.from({ length: 600 }, (_, i) => `${i % nth === 0 ? 'no' : 'sold'}-${i}`);
  const truth = codes.map((code) => [code, code.startsWith('no') ? 'invalid' : 'valid']);
  return { codes, truth: Object.fromEntries(truth) };
}

describe('a limit below the budget', () => {
  it.each([
    ['20 a minute, asked without a limit', { ...MINUTE, ...UNLIMITED, perWindow: 20 }, 1.75],
    ['20 a minute, asked for 60', { ...MINUTE, ...SIXTY, perWindow: 20 }, 1.5],
    ['55 an hour, asked without a limit', { ...HOUR, ...UNLIMITED, perWindow: 55 }, 1.5],
    ['100 an hour, asked for 60 a minute', { ...HOUR, ...SIXTY, perWindow: 100 }, 1.5],
    ['55 an hour, asked for 60 a minute', { ...HOUR, ...SIXTY, perWindow: 55 }, 1.5],
    ['20 an hour, asked for 60 a minute', { ...HOUR, ...SIXTY, perWindow: 20 }, 2.5],
    ['10 an hour, asked without a limit', { ...HOUR, ...UNLIMITED, perWindow: 10 }, 4],
  ])('costs few calls more: %s', async (_, meter, callsACode) => {
    for (const nth of [1, 2, 10]) {
      const { codes, truth } = listOf(nth);
      const market = new Metered(meter);
      const { verdicts } = await market.settle(codes, 400);
      expect(verdicts).toEqual(truth);
      expect(market.answered / codes.length).toBeLessThan(callsACode);
    }
  });

  it.each([
    ['a little', [30, 29], 2],
    ['much', [20, 50], 2],
    ['less and less', [60, 55, 50, 45, 40, 35, 30, 25, 20, 15], 3],
  ])('that others use up too costs few codes their verdict: %s', async (_, allowances, most) => {
    for (const pace of [UNLIMITED, SIXTY]) {
      const { codes, truth } = listOf(2);
      const market = new Metered({ ...HOUR, ...pace, perWindow: allowances[0] ?? 0 });
      market.allowInTurn(allowances);
      expect((await market.settle(codes, 100)).verdicts).toEqual(truth);
      expect(market.answered).toBeLessThan(most * codes.length);
    }
  });

  it('that is gone is not kept to: calls are under way side by side again', async () => {
    const { codes, truth } = listOf(2);
    const market = new Metered({ ...MINUTE, ...UNLIMITED, perWindow: 40 });
    market.afterRequests(60, () => market.allow(Infinity));
    const { verdicts } = await market.settle(codes, 2);
    expect(verdicts).toEqual(truth);
    expect(market.requests).toBeLessThan(1.3 * codes.length);
    expect(market.mostUnderWay(150)).toBeGreaterThanOrEqual(8);
  });
});
