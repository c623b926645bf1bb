import { describe, expect, it } from 'vitest';
import type { Fault, ProfileName } from '../../../src/simulator/index.js';
import { KEY, never, useMirror } from '../../support/mirror.js';
import { performAuditChunk } from '../../../src/jobs/codes/perform-chunk.js';
import { auditDeps, auditVerdicts, enter, progress, workThrough } from './audit.js';
import { EVERY_FAULT, plague } from './faults.js';
import { ask, listOf, openShop, truthOf, verdictsOf } from './support.js';

const mirror = useMirror();

describe('each kind of fault, met by every validation', () => {
  /** What a fault leaves of a reply: the reply itself, or less. */
  const HARMLESS = new Set<Fault['kind']>(['translated', 'prefix', 'slow', 'encoding']);

  it.each(EVERY_FAULT.map((fault) => [JSON.stringify(fault), fault] as const))(
    'never makes a valid code invalid: %s',
    async (_name, fault) => {
      const shop = await openShop();
      const codes = listOf(shop, 12, 3);
      shop.sim.faults.always('validate', fault);
      const report = await ask(shop, { codes });
      const verdicts = verdictsOf(report);
      const isReadable = !('encoding' in fault && fault.encoding === 'deflate');
      if (HARMLESS.has(fault.kind) && isReadable) expect(verdicts).toEqual(truthOf(shop, codes));
      else expect(Object.values(verdicts)).not.toContain('invalid');
      for (const [code, verdict] of Object.entries(verdicts)) {
        if (verdict !== 'unproven') expect(verdict).toBe(shop.truth(code));
      }
    },
  );

  it.each(['documented', 'field-1', 'field-2'] satisfies ProfileName[])(
    'has true verdicts in the notation of %s, in any language',
    async (profile) => {
      for (const language of ['en', 'EN', 'de', 'ja'] as const) {
        const shop = await openShop({ profile, language });
        const codes = listOf(shop, 40, 4);
        expect(verdictsOf(await ask(shop, { codes }))).toEqual(truthOf(shop, codes));
      }
    },
  );
});

describe('an audit of 2,000 codes', () => {
  it('ends with the truth although one request in twenty meets a fault', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 2_000, 7);
    const auditId = await enter(mirror(), shop.marketplace.host, codes, { chunkSize: 250 });
    plague(shop.sim, 0.05, 1);
    await workThrough(auditDeps(mirror(), shop.marketplace), [auditId]);
    expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
    expect(await progress(mirror(), auditId)).toMatchObject({ state: 'finished', unproven: 0 });
    expect(shop.sim.defects).toEqual([]);
  });

  it('ends with the truth in weather in which every third request fails', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 600, 3);
    const canary = shop.canary;
    const options = { chunkSize: 100, canary };
    const auditId = await enter(mirror(), shop.marketplace.host, codes, options);
    plague(shop.sim, 0.33, 2);
    await workThrough(auditDeps(mirror(), shop.marketplace), [auditId]);
    const verdicts = await auditVerdicts(mirror(), auditId);
    for (const code of codes) {
      if (verdicts[code] !== 'unproven')
        expect([code, verdicts[code]]).toEqual([code, shop.truth(code)]);
    }
    const { state, unproven } = await progress(mirror(), auditId);
    expect(state).toBe('finished');
    // Five rounds in which a code met nothing that can be read are possible, but few.
    expect(unproven).toBeLessThan(10);
  });

  it('ends with the truth although the key is revoked and restored again and again', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 2_000, 7);
    const auditId = await enter(mirror(), shop.marketplace.host, codes, { chunkSize: 250 });
    const owner = shop.sim.seller(KEY);
    const revoke = (): void => {
      shop.sim.revoke(KEY);
      shop.sim.afterRequests(60, () => {
        shop.sim.addSeller(owner);
        shop.sim.afterRequests(400, revoke);
      });
    };
    shop.sim.afterRequests(300, revoke);
    await workThrough(auditDeps(mirror(), shop.marketplace), [auditId]);
    expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
  });

  it('has no code found valid that is another seller’s, though the key was theirs for a while', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 800, 4);
    const auditId = await enter(mirror(), shop.marketplace.host, codes, { chunkSize: 200 });
    const owner = shop.sim.seller(KEY);
    const { catalogue } = owner;
    const theirs = codes.filter((code) => shop.truth(code) === 'invalid');
    const purchases = theirs.map((code) => ({ code, itemId: 1001 }));
    shop.sim.afterRequests(250, () => {
      shop.sim.addSeller({ key: KEY, username: 'eve', catalogue, purchases });
    });
    const job = { auditId, chunk: 0, isLastAttempt: false };
    await performAuditChunk(auditDeps(mirror(), shop.marketplace), job, never);
    let outcomes = 0;
    await workThrough(auditDeps(mirror(), shop.marketplace), [auditId], () => {
      if (++outcomes === 3) shop.sim.addSeller(owner);
    });
    expect(outcomes).toBeGreaterThanOrEqual(3);
    const verdicts = await auditVerdicts(mirror(), auditId);
    const wrong = codes.filter((code) => verdicts[code] !== shop.truth(code));
    // The few that were found while nobody could know that the account had changed.
    expect(wrong.length).toBeLessThan(50);
    expect(wrong.filter((code) => verdicts[code] === 'invalid')).toEqual([]);
  });
});
