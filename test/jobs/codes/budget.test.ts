import { describe, expect, it } from 'vitest';
import { callsAtOnce, paceOf } from '../../../src/jobs/codes/pace.js';
import { enqueueNext, performAuditChunk } from '../../../src/jobs/codes/perform-chunk.js';
import { never, useMirror } from '../../support/mirror.js';
import { auditDeps, auditVerdicts, ChunkQueue, enter, progress } from './audit.js';
import { ask, listOf, openShop, truthOf } from './support.js';

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
