import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Marketplace } from '../../src/marketplace/types.js';
import { diceOf } from './dice.js';
import { useMirror } from '../support/mirror.js';
import {
  auditDeps,
  auditVerdicts,
  enter,
  intercepted,
  listOf,
  openShop,
  type Shop,
  shuffled,
  truthOf,
  workThrough,
} from './support.js';

const mirror = useMirror();
const CODES = 150;
/** Audits of each kind; more with `TRIALS`. */
const TRIALS = Number(process.env['TRIALS'] ?? 10);

/** Whether the marketplace denies this call, whatever its code. */
type Denies = () => boolean;

/** The marketplace of a shop, which denies some validations whatever their code. */
function denying(shop: Shop, denies: Denies, isAccountAffected = false): Marketplace {
  return intercepted(shop, {
    account: async (options) =>
      isAccountAffected && denies()
        ? { kind: 'refused', httpStatus: 403, message: 'API key is invalid' }
        : shop.marketplace.account(options),
    validate: (code, options) =>
      shop.marketplace.validate(denies() ? 'nobody-has-this' : code, options),
  }).marketplace;
}

/** One of nine machines behind the same address denies everything. */
function oneInNine(seed: number): Denies {
  const dice = diceOf(seed);
  return () => dice() < 1 / 9;
}

/** Denies every code for 26 to 48 calls in the middle of the list. */
function staleFor(seed: number): Denies {
  const dice = diceOf(seed);
  const from = 20 + Math.floor(dice() * CODES * 0.6);
  const until = from + 26 + Math.floor(dice() * 23);
  let call = 0;
  return () => {
    call++;
    return call > from && call <= until;
  };
}

describe('a marketplace that denies valid codes', () => {
  it.each([
    ['on one machine in nine', oneInNine, false],
    ['on one machine in nine, which refuses account details too', oneInNine, true],
    ['for a moment, from a stale cache', staleFor, false],
  ] as const)(
    'makes none of them invalid: %s',
    async (_, kind, isAccountAffected) => {
      const seeds = fc.sample(fc.nat(), { numRuns: TRIALS, seed: 7 });
      const wrong: string[] = [];
      for (const seed of seeds) {
        const shop = await openShop();
        const codes = shuffled(listOf(shop, CODES, 5));
        const concurrency = seed % 2 === 0 ? 48 : 8;
        const auditId = await enter(mirror(), shop.marketplace.host, codes, {
          knownValid: shop.canary,
        });
        const marketplace = denying(shop, kind(seed), isAccountAffected);
        await workThrough(auditDeps(mirror(), marketplace, { concurrency }), [auditId], () =>
          sleep(1),
        );
        const [verdicts, truth] = [await auditVerdicts(mirror(), auditId), truthOf(shop, codes)];
        for (const code of codes) {
          const verdict = verdicts[code] ?? 'unproven';
          // An audit without good account details from the start ends without verdicts.
          if (verdict !== 'unproven' && verdict !== truth[code]) wrong.push(`${seed}: ${code}`);
        }
        // One audit's results must not help the next.
        await mirror().rows('TRUNCATE mirror.audits, mirror.purchase_codes CASCADE');
        await shop.sim.close();
      }
      expect(wrong).toEqual([]);
    },
    TRIALS * 20_000,
  );
});
