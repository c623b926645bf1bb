import { describe, expect, it } from 'vitest';
import { performAuditPiece } from '../../src/codes/audit-job.js';
import type { Fault, Simulator } from '../../src/simulator/index.js';
import { diceOf } from './dice.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import {
  checkAll,
  auditDeps,
  auditVerdicts,
  enter,
  listOf,
  openShop,
  progress,
  truthOf,
  workThrough,
} from './support.js';

const mirror = useMirror();

describe('each kind of fault, at every validation', () => {
  /** Faults that leave the reply readable. */
  const HARMLESS = new Set<Fault['kind']>(['translated', 'prefix', 'slow', 'encoding']);

  it.each(EVERY_FAULT.map((fault) => [JSON.stringify(fault), fault] as const))(
    'never makes a valid code invalid: %s',
    async (_name, fault) => {
      const shop = await openShop();
      const codes = listOf(shop, 12, 3);
      shop.sim.faults.always('validate', fault);
      const verdicts = await checkAll(shop, codes);
      if (HARMLESS.has(fault.kind)) expect(verdicts).toEqual(truthOf(shop, codes));
      else expect(Object.values(verdicts)).not.toContain('invalid');
      for (const [code, verdict] of Object.entries(verdicts)) {
        if (verdict !== 'unproven') expect(verdict).toBe(shop.truth(code));
      }
    },
  );
});

describe('an audit of 2,000 codes', () => {
  it('ends with the truth although one request in twenty meets a fault', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 2_000, 7);
    const auditId = await enter(mirror(), shop.marketplace.host, codes);
    plague(shop.sim, 0.05, 1);
    await workThrough(auditDeps(mirror(), shop.marketplace), [auditId]);
    expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
    expect(await progress(mirror(), auditId)).toMatchObject({ state: 'finished', unproven: 0 });
    expect(shop.sim.defects).toEqual([]);
  });

  it('calls no code of another seller valid once it knows that the key opened their account', async () => {
    const shop = await openShop();
    const codes = listOf(shop, 800, 4);
    const auditId = await enter(mirror(), shop.marketplace.host, codes);
    const owner = shop.sim.seller(KEY);
    const { catalogue } = owner;
    const theirs = codes.filter((code) => shop.truth(code) === 'invalid');
    const purchases = theirs.map((code) => ({ code, itemId: 1001 }));
    shop.sim.afterRequests(250, () => {
      shop.sim.addSeller({ key: KEY, username: 'eve', catalogue, purchases });
    });
    const job = { auditId, isLastAttempt: false };
    await performAuditPiece(auditDeps(mirror(), shop.marketplace), job, never);
    const problems: (string | null)[] = [];
    await workThrough(auditDeps(mirror(), shop.marketplace), [auditId], async () => {
      problems.push((await progress(mirror(), auditId)).problem);
      if (problems.length === 3) shop.sim.addSeller(owner);
    });
    expect(problems.slice(0, 3).join()).toMatch(/(?:opened the account "eve".*){3}/);
    const verdicts = await auditVerdicts(mirror(), auditId);
    const wrong = codes.filter((code) => verdicts[code] !== shop.truth(code));
    expect(wrong).toEqual([]);
  });
});

/**
 * Every kind of fault, in several notations. It excludes a key that is refused for a single validation,
 * since that reply equals the denial of an invalid code.
 */
export const EVERY_FAULT: readonly Fault[] = [
  { kind: 'rate-limited', retryAfter: 0 },
  { kind: 'rate-limited', body: 'html', retryAfter: 0, form: 'date' },
  { kind: 'rate-limited', retryAfter: null },
  { kind: 'server-error', status: 500, echo: true },
  { kind: 'server-error', status: 502, body: 'html' },
  { kind: 'maintenance' },
  { kind: 'maintenance', body: 'html', retryAfter: 0 },
  { kind: 'maintenance-redirect' },
  { kind: 'switched-off', body: 'json' },
  { kind: 'switched-off', body: 'html' },
  { kind: 'challenge', status: 403 },
  { kind: 'challenge', status: 429 },
  { kind: 'challenge', status: 503 },
  { kind: 'html' },
  { kind: 'html', status: 404 },
  { kind: 'empty' },
  { kind: 'empty', status: 404 },
  { kind: 'wrong-type', json: 'array' },
  { kind: 'wrong-type', json: 'null' },
  { kind: 'reply', status: 404, body: '{"message":"Not Found"}' },
  { kind: 'reply', status: 400, body: '{"status":"error","msg":"Something went wrong"}' },
  { kind: 'reply', status: 200, body: '{"status":"success"}' },
  { kind: 'redirect', to: 'origin', origin: 'http://127.0.0.1:9' },
  { kind: 'redirect', to: 'home' },
  { kind: 'translated', language: 'de' },
  { kind: 'translated', language: 'ja' },
  { kind: 'translated', language: 'EN' },
  { kind: 'prefix', text: 'bom' },
  { kind: 'prefix', text: 'whitespace' },
  { kind: 'prefix', text: 'php-warnings' },
  { kind: 'truncate', how: 'destroy', fraction: 0.5 },
  { kind: 'truncate', how: 'clean', fraction: 0.5 },
  { kind: 'truncate', how: 'short', fraction: 0.9 },
  { kind: 'slow', chunkBytes: 200, pauseMs: 1 },
  { kind: 'reset' },
  { kind: 'reset', afterBytes: 20 },
  { kind: 'encoding', encoding: 'gzip' },
  { kind: 'encoding', encoding: 'br' },
  { kind: 'encoding', encoding: 'deflate' },
];

/** Makes a share of all further requests fail, with each kind of fault equally often. */
export function plague(sim: Simulator, share: number, seed: number): void {
  const dice = diceOf(seed);
  const onRequest = (): void => {
    sim.afterRequests(0, onRequest);
    if (dice() >= share) return;
    const fault = EVERY_FAULT[Math.floor(dice() * EVERY_FAULT.length)];
    if (fault !== undefined) sim.faults.next('any', fault);
  };
  sim.afterRequests(0, onRequest);
}
