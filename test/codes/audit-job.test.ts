import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { KEY, never, useMirror } from '../support/mirror.js';
import { describeAlert } from '../../src/service/alerts/alerts.js';
import { performAuditPiece } from '../../src/codes/audit-job.js';
import type { NewAudit } from '../../src/codes/types.js';
import { readBinding } from '../../src/catalogue/sellers-store.js';
import { failAudit, resumeAudit, cancelAudit } from '../../src/codes/audits-store.js';
import { tryLock } from '../../src/db/locks.js';
import {
  auditDeps,
  auditVerdicts,
  enter,
  failingOn,
  intercepted,
  invalidCodes,
  listOf,
  openShop,
  progress,
  truthOf,
  workThrough,
} from './support.js';

const mirror = useMirror();

/** An audit of a list made by `listOf`, and the dependencies to perform its chunks. */
async function entered(
  [count, nth = 10]: readonly [number, number?],
  options: Partial<NewAudit> = {},
) {
  const shop = await openShop();
  const codes = listOf(shop, count, nth);
  const auditId = await enter(mirror(), shop.marketplace.host, codes, options);
  const deps = auditDeps(mirror(), shop.marketplace);
  return { shop, codes, auditId, deps, job: { auditId, isLastAttempt: false } };
}

it('settles every code of an audit, at one call for each and few proofs', async () => {
  const { shop, codes, auditId } = await entered([1_000]);
  const callCount = (): number => shop.sim.requestCount;
  await workThrough(auditDeps(mirror(), shop.marketplace, { callCount }), [auditId]);
  expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
  expect(await progress(mirror(), auditId)).toMatchObject({
    state: 'finished',
    codes: 1_000,
    valid: 900,
    invalid: 100,
    unproven: 0,
    pending: 0,
    problem: null,
    apiCalls: shop.sim.requestCount,
  });
  // One call for each code, one more for each denied one, and proofs.
  const proofs = 0.12 * 100 + 0.02 * codes.length + 4;
  expect(shop.sim.requestCount).toBeLessThanOrEqual(codes.length + 100 + proofs);
  const [row] = await mirror().rows(
    `SELECT license_type, price, currency, item_id, item_name, purchased_at IS NOT NULL AS dated
       FROM mirror.purchase_codes WHERE code = $1`,
    [codes[0]],
  );
  expect(row).toMatchObject({ currency: 'USD', dated: true });
  const ledger = await mirror().rows<{ verdict: string; proof: string; n: string }>(
    'SELECT verdict, proof, count(*) AS n FROM mirror.code_checks GROUP BY 1, 2 ORDER BY 1, 2',
  );
  expect(ledger).toEqual([
    { verdict: 'valid', proof: 'purchase', n: '900' },
    // Two denials each, one of which counts; the verdict is stored with the code.
    { verdict: 'unproven', proof: 'known-valid', n: '100' },
    { verdict: 'unproven', proof: 'none', n: '100' },
  ]);
});

it('stores the hash of each raw reply', async () => {
  const shop = await openShop();
  const [code = ''] = listOf(shop, 1);
  const auditId = await enter(mirror(), shop.marketplace.host, [code]);
  await workThrough(auditDeps(mirror(), shop.marketplace), [auditId]);
  const answer = await fetch(`${shop.sim.url}/api/purchases/validation`, {
    method: 'POST',
    body: new URLSearchParams({ api_key: KEY, purchase_code: code }),
  });
  const [check] = await mirror().rows<{ raw_hash: Buffer }>(
    'SELECT raw_hash FROM mirror.code_checks',
  );
  const expected = createHash('sha256').update(await answer.text());
  expect(check?.raw_hash.toString('hex')).toBe(expected.digest('hex'));
});

it('binds the seller to the account of its first account details', async () => {
  const { auditId, deps } = await entered([5, 3]);
  await workThrough(deps, [auditId]);
  expect(await readBinding(mirror().db, 'main')).toMatchObject({ username: 'ada' });
});

it('alerts when an audit is finished, also if the worker that finished it was killed', async () => {
  const { shop, auditId, deps, job } = await entered([20]);
  const alert = { kind: 'audit-finished', auditId: String(auditId) };
  expect(await performAuditPiece(deps, job, never)).toMatchObject({ kind: 'later' });
  await workThrough(deps, [auditId]);
  expect(await performAuditPiece(deps, job, never)).toMatchObject({ kind: 'done', alert });
  expect(shop.sim.requestCount).toBeLessThan(30);
});

it('alerts why an audit failed, until it is resumed', async () => {
  const { auditId } = await entered([5]);
  const { db } = mirror();
  const alert = { kind: 'audit-finished', auditId: String(auditId) } as const;
  await failAudit(db, auditId, 'the marketplace refused the API key');
  const now = new Date();
  expect(await describeAlert({ db, staleAfterHours: 26 }, alert, now)).toMatchObject({
    data: {
      seller: 'main',
      auditId: String(auditId),
      state: 'failed',
      counts: { codes: 5, pending: 5 },
      problem: { code: 'failed', message: 'the marketplace refused the API key' },
    },
  });
  await resumeAudit(db, auditId);
  expect(await describeAlert({ db, staleAfterHours: 26 }, alert, now)).toEqual({
    dropped: `audit ${auditId} is running again`,
  });
});

it('continues after the key was revoked and restored, without a wrong verdict', async () => {
  const { shop, codes, auditId, deps } = await entered([600, 5]);
  const owner = shop.sim.seller(KEY);
  shop.sim.afterRequests(250, () => shop.sim.revoke(KEY));
  const seen: string[] = [];
  await workThrough(deps, [auditId], async (outcome) => {
    seen.push(outcome.kind);
    const { state, problem } = await progress(mirror(), auditId);
    expect(state).toBe('running');
    expect(problem).toContain('refused');
    if (seen.length === 3) shop.sim.addSeller(owner);
  });
  expect(seen.slice(0, 3)).toEqual(['retry', 'retry', 'retry']);
  expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
  expect(await progress(mirror(), auditId)).toMatchObject({ state: 'finished', problem: null });
});

it('fails at once with a key that never worked, and continues when it is resumed with a good one', async () => {
  const { shop, codes, auditId, deps, job } = await entered([300]);
  const owner = shop.sim.seller(KEY);
  shop.sim.revoke(KEY);
  const alert = { kind: 'audit-finished', auditId: String(auditId) };
  expect(await performAuditPiece(deps, job, never)).toMatchObject({ kind: 'give-up', alert });
  const { state, problem } = await progress(mirror(), auditId);
  expect({ state, problem }).toEqual({
    state: 'failed',
    problem: 'the marketplace refused the API key: Invalid request',
  });
  expect(shop.sim.requestCount).toBe(2);
  shop.sim.addSeller(owner);
  await resumeAudit(mirror().db, auditId);
  await workThrough(deps, [auditId]);
  expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
});

it('fails when the key is still bad at the last attempt', async () => {
  const { shop, auditId, deps, job } = await entered([300]);
  shop.sim.afterRequests(50, () => shop.sim.revoke(KEY));
  const first = await performAuditPiece(deps, job, never);
  expect(first).toMatchObject({ kind: 'retry', alert: null });
  const last = await performAuditPiece(deps, { ...job, isLastAttempt: true }, never);
  expect(last).toMatchObject({ kind: 'give-up' });
  expect(await progress(mirror(), auditId)).toMatchObject({ state: 'failed' });
});

it('stops when the audit is cancelled, and repeats little when it is resumed', async () => {
  const { shop, codes, auditId, job } = await entered([400, 100]);
  shop.sim.afterRequests(150, () => void cancelAudit(mirror().db, auditId));
  // The next write notices it, within a second.
  shop.sim.faults.always('any', { kind: 'stall', ms: 20 });
  const deps = auditDeps(mirror(), shop.marketplace, { concurrency: 2 });
  const outcome = await performAuditPiece(deps, job, never);
  expect(outcome).toMatchObject({ kind: 'done', result: { state: 'cancelled' } });
  expect(shop.sim.requestCount).toBeLessThan(400);
  shop.sim.faults.clear();
  await resumeAudit(mirror().db, auditId);
  await workThrough(deps, [auditId]);
  expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
  const twice = codes.filter((code) => shop.timesValidated(code) > 1);
  // Purchases that no look at the account had confirmed yet, and calls in flight.
  expect(twice.length).toBeLessThanOrEqual(100 + 8 + 2);
});

it('hands an audit back when the worker stops, with all confirmed answers recorded', async () => {
  const { shop, codes, auditId, deps, job } = await entered([400, 100]);
  const stopping = new AbortController();
  shop.sim.afterRequests(150, () => stopping.abort());
  expect(await performAuditPiece(deps, job, stopping.signal)).toEqual({ kind: 'hand-back' });
  const { valid } = await progress(mirror(), auditId);
  expect(valid).toBeGreaterThanOrEqual(85);
  await workThrough(deps, [auditId]);
  // Purchases that no look at the account had confirmed yet, calls under way, and the four denied codes.
  const twice = codes.filter((code) => shop.timesValidated(code) > 1);
  expect(twice.length).toBeLessThanOrEqual(100 + 8 + 4);
});

it('puts off an audit that another worker works on', async () => {
  const { shop, auditId, deps, job } = await entered([10]);
  const busy = (): Error => new Error('busy');
  const lock = await tryLock(mirror().db, `seller-mirror/audit/${auditId}`, busy);
  const outcome = await performAuditPiece(deps, job, never);
  await lock.release();
  expect(outcome).toMatchObject({ kind: 'later' });
  expect(shop.sim.requestCount).toBe(0);
});

it('waits as long as the server asks, and counts it against no code', async () => {
  const { shop, auditId, job } = await entered([50]);
  const marketplace = shop.client({ retry: { attempts: 1, baseMs: 1, maxMs: 20 } });
  shop.sim.afterRequests(20, () =>
    shop.sim.faults.always('any', { kind: 'rate-limited', retryAfter: 3_600 }),
  );
  const outcome = await performAuditPiece(auditDeps(mirror(), marketplace), job, never);
  expect(outcome).toMatchObject({ kind: 'later', reason: 'limited' });
  if (outcome.kind === 'later') expect(outcome.delayMs).toBeGreaterThan(3_500_000);
  // Calls in flight.
  expect(shop.sim.requestCount).toBeLessThanOrEqual(30);
  const attempts = await mirror().rows(
    'SELECT DISTINCT attempts FROM mirror.audit_codes WHERE audit_id = $1',
    [auditId],
  );
  expect(attempts).toEqual([{ attempts: 0 }]);
});

it('gives up a code with unreadable answers after five tries, and no other', async () => {
  const shop = await openShop();
  const codes = listOf(shop, 60);
  const [broken = ''] = codes;
  const auditId = await enter(mirror(), shop.marketplace.host, codes);
  let validated = 0;
  const { marketplace } = intercepted(shop, {
    validate: (code, options) => {
      if (code === broken) {
        validated++;
        shop.sim.faults.next('validate', { kind: 'wrong-type', json: 'array' });
      }
      return shop.marketplace.validate(code, options);
    },
  });
  const deps = auditDeps(mirror(), marketplace, { concurrency: 1 });
  await workThrough(deps, [auditId]);
  expect(validated).toBe(5);
  expect(await auditVerdicts(mirror(), auditId)).toEqual({
    ...truthOf(shop, codes),
    [broken]: 'unproven',
  });
  const audit = await progress(mirror(), auditId);
  expect(audit).toMatchObject({ state: 'finished', unproven: 1 });
});

it('says why it waits when no answer counts, as where a server gives each call the answer to another', async () => {
  const shop = await openShop();
  const { marketplace } = intercepted(shop, {
    validate: () =>
      Promise.resolve({
        kind: 'unreadable',
        httpStatus: 200,
        detail: 'the answer is about a different purchase code',
        excerpt: '',
        isAboutAnother: true,
      }),
  });
  const auditId = await enter(mirror(), marketplace.host, listOf(shop, 20));
  const problems: (string | null)[] = [];
  await workThrough(auditDeps(mirror(), marketplace), [auditId], async () => {
    problems.push((await progress(mirror(), auditId)).problem);
  });
  expect(problems[0]).toMatch(/20 codes .* the marketplace answered about another code/);
  expect(await progress(mirror(), auditId)).toMatchObject({ state: 'finished', unproven: 20 });
});

it('calls nothing invalid for a user who sells nothing, since the canary is denied too', async () => {
  const shop = await openShop();
  const codes = listOf(shop, 90, 3);
  shop.sim.seller(KEY).sells = false;
  const auditId = await enter(mirror(), shop.marketplace.host, codes, { knownValid: shop.canary });
  const problems = new Set<string | null>();
  await workThrough(auditDeps(mirror(), shop.marketplace), [auditId], async (outcome) => {
    expect(outcome.kind).toBe('later');
    problems.add((await progress(mirror(), auditId)).problem);
  });
  const audit = await progress(mirror(), auditId);
  expect(audit).toMatchObject({ state: 'finished', valid: 0, invalid: 0, unproven: 90 });
  expect([...problems].join()).toContain('known to be valid is denied');
});

it('finds a canary that still works, however many of the newest were refunded', async () => {
  const shop = await openShop();
  const sold = Array.from({ length: 30 }, (_, i) => shop.purchases.codeAt(i));
  const deps = auditDeps(mirror(), shop.marketplace, { concurrency: 1 });
  await workThrough(deps, [await enter(mirror(), shop.marketplace.host, sold)]);
  for (const code of sold.slice(10)) shop.purchases.setState(code, 'refunded');
  const codes = invalidCodes(40);
  const auditId = await enter(mirror(), shop.marketplace.host, codes);
  await workThrough({ ...deps, memories: new Map() }, [auditId]);
  expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
});

it('validates a refunded code twice before it becomes invalid, and records one transition', async () => {
  const shop = await openShop();
  const codes = listOf(shop, 30, 31);
  const deps = auditDeps(mirror(), shop.marketplace);
  await workThrough(deps, [await enter(mirror(), shop.marketplace.host, codes)]);
  const [refunded = ''] = codes;
  shop.purchases.setState(refunded, 'refunded');
  const before = shop.timesValidated(refunded);
  await workThrough(deps, [await enter(mirror(), shop.marketplace.host, codes)]);
  // It was sent as a canary too.
  expect(shop.timesValidated(refunded) - before).toBeLessThanOrEqual(4);
  const transitions = await mirror().rows(
    `SELECT p.code, t.kind FROM mirror.code_transitions t JOIN mirror.purchase_codes p USING (code_id)`,
  );
  expect(transitions).toEqual([{ code: refunded, kind: 'became-invalid' }]);
});

it('stops an audit with its problem when the key sells nothing, after little more than 100 calls', async () => {
  const shop = await openShop();
  const codes = listOf(shop, 600, 3);
  shop.sim.seller(KEY).sells = false;
  const auditId = await enter(mirror(), shop.marketplace.host, codes, { knownValid: shop.canary });
  const job = { auditId, isLastAttempt: true };
  const outcome = await performAuditPiece(auditDeps(mirror(), shop.marketplace), job, never);
  expect(outcome).toMatchObject({ kind: 'give-up' });
  const { state, problem } = await progress(mirror(), auditId);
  expect(state).toBe('failed');
  expect(problem).toContain('every code that was known to be valid is denied');
  expect(shop.sim.requestCount).toBeLessThan(150);
});

it('tries a denied code in plain form, and finds one that was pasted with look-alike characters', async () => {
  const shop = await openShop();
  const code = shop.purchases.codeAt(1);
  const pasted = code.replaceAll('-', '\u2010').replace('a', '\u0430');
  expect(pasted).not.toBe(code);
  const auditId = await enter(mirror(), shop.marketplace.host, [pasted]);
  await workThrough(auditDeps(mirror(), shop.marketplace), [auditId]);
  expect(await auditVerdicts(mirror(), auditId)).toEqual({ [pasted]: 'valid' });
  const [check] = await mirror().rows('SELECT message FROM mirror.code_checks');
  expect(check).toEqual({ message: `found as ${code}` });
});

it('says which form was valid also if the marketplace leaves the code out of its answer', async () => {
  const shop = await openShop();
  const { marketplace } = intercepted(shop, {
    async validate(code, options) {
      const reply = await shop.marketplace.validate(code, options);
      if (reply.kind !== 'answered') return reply;
      const value = { ...reply.data.value, purchaseCode: null };
      return { ...reply, data: { ...reply.data, value } };
    },
  });
  const code = shop.purchases.codeAt(1);
  const pasted = code.replace('a', '\u0430');
  const auditId = await enter(mirror(), marketplace.host, [pasted]);
  await workThrough(auditDeps(mirror(), marketplace), [auditId]);
  const [check] = await mirror().rows('SELECT verdict, message FROM mirror.code_checks');
  expect(check).toEqual({ verdict: 'valid', message: `found as ${code}` });
});

it.each([
  ['reaches the codes behind them, also without a canary', 30, 60],
  ['ends if the others are denied, since account details show that it is up', 3, 0],
])('an audit of a marketplace that fails on some codes %s', async (_, fails, sold) => {
  const shop = await openShop();
  const failing = Array.from({ length: fails }, (_, i) => `of-a-deleted-item-${i}`);
  const others = sold > 0 ? listOf(shop, sold, 4) : ['nobody-bought-1', 'nobody-bought-2'];
  const auditId = await enter(mirror(), shop.marketplace.host, [...failing, ...others]);
  const { marketplace } = failingOn(shop, failing);
  await workThrough(auditDeps(mirror(), marketplace), [auditId]);
  const unproven = Object.fromEntries(failing.map((code) => [code, 'unproven']));
  expect(await auditVerdicts(mirror(), auditId)).toEqual({ ...truthOf(shop, others), ...unproven });
  expect(await progress(mirror(), auditId)).toMatchObject({ state: 'finished', pending: 0 });
});
