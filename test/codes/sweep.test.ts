import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { MemoryLedger } from '../../src/codes/memory-ledger.js';
import { WorkMemory } from '../../src/codes/piece.js';
import { workPiece } from '../../src/codes/work.js';
import { intercepted, listOf, openShop } from './support.js';
import { never } from '../support/mirror.js';

/** Sweeps 60 valid codes one after the other; the calls with these numbers meet the bot protection. @returns how it ended */
async function sweepWith(blocked: readonly number[]) {
  const shop = await openShop();
  let calls = 0;
  /** At which code account details were asked, after which its purchases are recorded. */
  const looks: number[] = [];
  const { marketplace } = intercepted(shop, {
    account: (options) => {
      looks.push(calls);
      return shop.marketplace.account(options);
    },
    validate: (code, options) => {
      if (blocked.includes(++calls)) {
        shop.sim.faults.next('validate', { kind: 'challenge', status: 403 });
      }
      return shop.marketplace.validate(code, options);
    },
  });
  const codes = listOf(shop, 80).filter((code) => shop.truth(code) === 'valid');
  const source = Readable.from(codes.slice(0, 60))[Symbol.asyncIterator]();
  const ledger = new MemoryLedger(source, [], () => Promise.resolve());
  const memory = new WorkMemory();
  const quick = { confirmAfterMs: 0, proveAgainAfterMs: 0, spacingMs: 0, concurrency: 1 };
  const end = await workPiece({
    ...{ market: marketplace, ledger, memory, account: 'ada', signal: never },
    ...quick,
  });
  return { end, valid: (await ledger.counts()).valid, looks };
}

it('records its first purchases early, so that somebody who watches sees that the check moves', async () => {
  const { looks } = await sweepWith([]);
  expect(looks[0]).toBeGreaterThanOrEqual(10);
  expect(looks[0]).toBeLessThan(20);
  expect(looks).toHaveLength(2);
});

describe('bot protection', () => {
  it('met now and then does not stop the sweep, since answers came in between', async () => {
    const { end, valid } = await sweepWith([5, 40]);
    expect(end.kind).toBe('more');
    expect(valid).toBe(58);
  });

  it('met twice in a row pauses the sweep, so that the address is not blocked for longer', async () => {
    const { end } = await sweepWith([5, 6]);
    expect(end).toMatchObject({ kind: 'pause', stop: { reason: 'challenge' } });
  });
});

describe('a proof of the key', () => {
  it('with an answer that can’t be read is made again at once: one odd answer must not pause a check for minutes', async () => {
    const shop = await openShop();
    let looks = 0;
    const { marketplace } = intercepted(shop, {
      account: (options) => {
        // The first is before the window of the denied codes.
        if (++looks === 1) shop.sim.faults.next('account', { kind: 'wrong-type', json: 'array' });
        return shop.marketplace.account(options);
      },
    });
    const codes = ['bad-1', 'bad-2'];
    const source = Readable.from(codes)[Symbol.asyncIterator]();
    const ledger = new MemoryLedger(source, [], () => Promise.resolve());
    const memory = new WorkMemory();
    const quick = { confirmAfterMs: 0, proveAgainAfterMs: 0, spacingMs: 0, concurrency: 1 };
    const ends: string[] = [];
    for (let pieces = 0; pieces < 10 && ends.at(-1) !== 'done'; pieces++) {
      const work = { market: marketplace, ledger, memory, account: 'ada', signal: never, ...quick };
      ends.push((await workPiece(work)).kind);
    }
    expect(ends).not.toContain('pause');
    expect(ends.at(-1)).toBe('done');
  });
});
