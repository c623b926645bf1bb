import { describe, expect, it } from 'vitest';
import { paceOf } from '../../src/codes/progress.js';
import { storedBudget } from '../../src/db/budget.js';
import { useMirror } from '../support/mirror.js';
import {
  auditDeps,
  auditVerdicts,
  enter,
  listOf,
  openShop,
  truthOf,
  workThrough,
} from './support.js';

const mirror = useMirror();

/** A hundred requests a second, so that the test ends soon. */
const PER_MINUTE = 6_000;

describe('the budget', () => {
  it('is shared by parallel audits, never exceeded, and spent almost only on codes', async () => {
    // Leaves room for a machine that pauses for a third of a second and then sends what was due.
    const shop = await openShop({ requestsPerMinute: 330, limit: { windowMs: 3_000 } });
    const codes = listOf(shop, 450);
    const halves = [codes.slice(0, 225), codes.slice(225)];
    const audits = await Promise.all(
      halves.map((half) => enter(mirror(), shop.marketplace.host, half)),
    );
    const work = async (auditId: bigint): Promise<void> => {
      const budget = storedBudget(mirror().db, shop.marketplace.host, PER_MINUTE);
      const pace = paceOf(PER_MINUTE);
      await workThrough(auditDeps(mirror(), shop.client({ budget }), pace), [auditId]);
    };
    await Promise.all(audits.map(work));
    const verdicts = await Promise.all(audits.map((auditId) => auditVerdicts(mirror(), auditId)));
    expect({ ...verdicts[0], ...verdicts[1] }).toEqual(truthOf(shop, codes));
    const denied = codes.filter((code) => shop.truth(code) === 'invalid');
    // Each denied code is checked twice; proofs are 12 % of the asks in windows, 2 % of the list, and a few.
    const proofs = 0.12 * denied.length + 0.02 * codes.length + 2 * 6;
    expect(shop.sim.requestCount).toBeLessThanOrEqual(codes.length + denied.length + proofs);
    expect(shop.sim.log.filter(({ status }) => status === 429)).toEqual([]);
  });

  it.each([
    [1, 2],
    [60, 3],
    [240, 9],
    [600, 16],
    [6_000, 16],
    [0, 48],
  ])('of %i requests a minute allows %i calls in flight', (perMinute, calls) => {
    expect(paceOf(perMinute).concurrency).toBe(calls);
  });
});
