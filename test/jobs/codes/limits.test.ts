import { describe, expect, it } from 'vitest';
import { callsAtOnce, paceOf } from '../../../src/jobs/codes/pace.js';
import { enqueueNext, performAuditChunk } from '../../../src/jobs/codes/perform-chunk.js';
import { never, useMirror } from '../../support/mirror.js';
import { ChunkQueue, auditDeps, auditVerdicts, enter, progress } from './audit.js';
import { Metered } from './metered.js';
import { ask, listOf, openShop, truthOf } from './support.js';

const MINUTE = { windowMs: 60_000, patienceMs: 120_000 };
const HOUR = { ...MINUTE, windowMs: 3_600_000 };
const UNLIMITED = { concurrency: 16, spacingMs: 0 };
const SIXTY = { concurrency: 3, spacingMs: 1_000 };

/** A list of which every `nth` code is invalid, and what its verdicts should be. */
function meteredList(nth: number): { codes: string[]; truth: Record<string, string> } {
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
      const { codes, truth } = meteredList(nth);
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
      const { codes, truth } = meteredList(2);
      const market = new Metered({ ...HOUR, ...pace, perWindow: allowances[0] ?? 0 });
      market.allowInTurn(allowances);
      expect((await market.settle(codes, 100)).verdicts).toEqual(truth);
      expect(market.answered).toBeLessThan(most * codes.length);
    }
  });

  it('that is gone is not kept to: calls are under way side by side again', async () => {
    const { codes, truth } = meteredList(2);
    const market = new Metered({ ...MINUTE, ...UNLIMITED, perWindow: 40 });
    market.afterRequests(60, () => market.allow(Infinity));
    const { verdicts } = await market.settle(codes, 2);
    expect(verdicts).toEqual(truth);
    expect(market.requests).toBeLessThan(1.3 * codes.length);
    expect(market.mostUnderWay(150)).toBeGreaterThanOrEqual(8);
  });
});

const mirror = useMirror();

/** A hundred requests a second, so that the test ends soon. */
const PER_MINUTE = 6_000;

describe('the budget', () => {
  it('is shared by chunks at the same time, never overdrawn, and spent on hardly anything but codes', async () => {
    // Room for a machine that stops for a third of a second and then sends what had its turn.
    const shop = await openShop({ requestsPerMinute: 330, limit: { windowMs: 3_000 } });
    const codes = listOf(shop, 450);
    const auditId = await enter(mirror(), shop.marketplace.host, codes, { chunkSize: 225 });
    const queue = new ChunkQueue();
    await enqueueNext(mirror().store, auditId, queue.add);
    const worker = async (): Promise<void> => {
      const budget = mirror().store.budget(shop.marketplace.host, PER_MINUTE);
      const deps = auditDeps(mirror(), shop.client({ budget }), {
        ...paceOf(PER_MINUTE),
        enqueueChunk: queue.add,
      });
      for (let next = queue.take(); next !== undefined; next = queue.take()) {
        // The one who is done first may find the other's chunk still at work, and leaves it.
        await performAuditChunk(deps, { ...next, isLastAttempt: false }, never);
      }
    };
    await Promise.all([worker(), worker()]);
    expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
    const denied = codes.filter((code) => shop.truth(code) === 'invalid');
    // Each of these few is asked for a second time.
    expect(shop.sim.requestCount).toBeLessThanOrEqual(1.03 * codes.length + denied.length);
    expect(shop.sim.log.filter(({ status }) => status === 429)).toEqual([]);
    expect((await progress(mirror(), auditId)).state).toBe('finished');
  });

  it('is left to mirror requests first: calls of an audit wait as such', async () => {
    const shop = await openShop();
    const priorities: (string | undefined)[] = [];
    const budget = {
      acquire: (priority: string) => {
        priorities.push(priority);
        return Promise.resolve();
      },
      pauseUntil: () => Promise.resolve(),
    };
    await ask({ ...shop, marketplace: shop.client({ budget }) }, { codes: listOf(shop, 30, 3) });
    expect(priorities.length).toBeGreaterThan(30);
    expect(new Set(priorities)).toEqual(new Set(['audit']));
  });

  it.each([
    [1, 2],
    [60, 3],
    [240, 9],
    [600, 16],
    [6_000, 16],
    [0, 48],
  ])('of %i requests a minute is used up by %i calls at a time', (perMinute, calls) => {
    expect(callsAtOnce(perMinute)).toBe(calls);
  });
});
