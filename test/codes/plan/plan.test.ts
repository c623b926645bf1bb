import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkCost } from '../../../src/codes/progress.js';
import { diceOf } from '../dice.js';
import { check, named, type CheckOptions } from './check.js';
import { BEGAN_AT } from './simulation.js';
import { FRESH_MEMORY, pastOf } from '../../../src/codes/situation.js';
import { controlCode } from '../../../src/codes/first-pass.js';

const MINUTE_MS = 60_000;

describe('a check', () => {
  it('settles each code, in about two minutes for a short list: bad codes wait a minute for their second check', async () => {
    const { verdicts, simulation } = await check({
      codes: ['sold-1', 'no-1', 'sold-2', 'no-2'],
      known: ['known-1'],
    });
    expect([...verdicts.values()]).toEqual(['valid', 'invalid', 'valid', 'invalid']);
    expect((simulation.now - BEGAN_AT) / MINUTE_MS).toBeLessThan(2);
  });

  it('asks no code again within a minute but in its window, by the clock of the database', async () => {
    const codes = [...named('sold', 30), ...named('no', 60)];
    const { simulation } = await check({ codes, known: named('known', 4), deniedShare: 1 / 3 });
    for (const code of codes) {
      const asked = simulation.sent.filter(({ what }) => what === code);
      const first = asked.find(({ phase }) => phase === 'firstPass');
      const second = asked.find(({ phase }) => phase === 'secondCheck');
      if (first === undefined || second === undefined || !code.startsWith('no')) continue;
      expect(second.at - first.at).toBeGreaterThanOrEqual(MINUTE_MS);
    }
  });

  it('asks a bad code once more where 200 purchases were found, and three times where fewer were', async () => {
    const sentFor = async (foundEver: number): Promise<number> => {
      const { simulation } = await check({ codes: ['no-1'], known: ['known-1'], foundEver });
      return simulation.sent.filter(({ what }) => what === 'no-1').length;
    };
    expect([await sentFor(199), await sentFor(200)]).toEqual([4, 2]);
  });

  it('asks in a window only the form that was denied last, and a known-valid code as it was found', async () => {
    const forms = [['Code: SOLD', 'SOLD', 'SO LD']];
    const { simulation } = await check({ codes: ['Code: SOLD'], forms, known: ['known FORM'] });
    const sent = simulation.sent.map(({ what }) => what).filter((what) => what !== 'account');
    expect(sent.slice(1, 4)).toEqual(['Code: SOLD', 'SOLD', 'SO LD']);
    expect(sent.slice(4)).toEqual(['known FORM', 'SO LD', 'SO LD', 'SO LD', 'known FORM']);
  });

  it('finds a code by any of its forms, and remembers which', async () => {
    const found = await check({ codes: ['sold-x'], forms: [['Code: sold-x', 'sold-x']] });
    expect(found.verdicts.get('Code: sold-x')).toBe('valid');
    expect(found.ledger.known.map(({ code }) => code)).toEqual(['sold-x']);
  });

  it('gives no verdict where random codes are found, and asks no code of the list', async () => {
    const { verdicts, simulation } = await check({
      codes: ['sold-1', 'no-1'],
      known: ['known-1'],
      findsEverything: true,
    });
    expect([...verdicts.values()]).toEqual(['unproven', 'unproven']);
    expect(simulation.sent).toHaveLength(3);
  });

  it('gives up a code whose answer can never be read, and says so', async () => {
    const { ledger, verdicts } = await check({
      codes: ['sold-1', 'odd', 'no-1'],
      unreadable: ['odd'],
      known: ['known-1'],
    });
    expect([...verdicts.values()]).toEqual(['valid', 'unproven', 'invalid']);
    expect(ledger.rows.find(({ code }) => code === 'odd')?.reason).toBe('unreadable');
  });

  it('keeps what was found while the marketplace asks for a pause: no code is asked for twice because of it', async () => {
    const codes = named('sold', 120);
    const { verdicts, simulation } = await check({ codes, callsPerPause: 30 });
    expect(new Set(verdicts.values())).toEqual(new Set(['valid']));
    // A limit is an answer, too: those codes are asked again.
    expect(simulation.sent.length).toBeLessThan(1.3 * codes.length);
  });

  it('makes windows smaller where calls take so long that a full one takes more than two minutes', async () => {
    const { verdicts } = await check({
      codes: named('no', 30),
      known: ['known-1'],
      pace: { callMs: 9_000, spacingMs: 0 },
    });
    expect(new Set(verdicts.values())).toEqual(new Set(['invalid']));
  });

  it('ends as unproven, after 20 counted denials, where chance denies so many valid codes that more were needed', async () => {
    const { ledger, verdicts } = await check({
      codes: [...named('sold', 600), 'no-1'],
      known: named('known', 40),
      deniedShare: 0.5,
    });
    expect(verdicts.get('no-1')).toBe('unproven');
    expect(ledger.rows.find(({ code }) => code === 'no-1')).toMatchObject({
      reason: 'contradicted',
    });
  });

  it('calls no purchase of another seller valid, whose key was swapped in for a moment', async () => {
    for (const at of [1, 2, 3, 4, 5]) {
      const { verdicts } = await check({
        codes: ['no-1', 'theirs-1', 'no-2'],
        others: new Set(['theirs-1']),
        known: ['known-1'],
        pace: { concurrency: 1 },
        stretches: [
          { calls: at, condition: 'good' },
          { calls: 2, condition: 'other-seller' },
        ],
      });
      expect(verdicts.get('theirs-1')).not.toBe('valid');
    }
  });

  it('calls no purchase valid before the look after it, although the clock was set back since the look before', async () => {
    const theirs = named('theirs', 40);
    const { verdicts } = await check({
      codes: [...named('sold', 10), ...theirs],
      others: new Set(theirs),
      items: [],
      // The control, ten purchases and the early look.
      stretches: [{ calls: 12, condition: 'good' }],
      last: 'other-seller',
      pace: { concurrency: 1, setBackAt: 13 },
    });
    expect(verdicts.get('sold-9')).toBe('valid');
    expect(new Set(theirs.map((code) => verdicts.get(code)))).toEqual(new Set([null]));
  });

  it('counts no denial of a window whose second proof is bad: valid codes that were denied twice are found later', async () => {
    const { verdicts } = await check({
      codes: named('sold', 5),
      foundEver: 500,
      pace: { concurrency: 1 },
      // The first pass; then the first proof is good, and all after it is denied.
      stretches: [
        { calls: 7, condition: 'sells-nothing' },
        { calls: 2, condition: 'good' },
        { calls: 9, condition: 'sells-nothing' },
      ],
    });
    expect([...new Set(verdicts.values())]).toEqual(['valid']);
  });

  it('looks at the account at ten purchases, so that the first verdicts of a list show early, and then for each 75', async () => {
    const looksOf = async (codes: number): Promise<number[]> => {
      const { simulation } = await check({ codes: named('sold', codes) });
      return simulation.sent.flatMap(({ what }, at) => (what === 'account' ? [at] : []));
    };
    // Before a long list, at ten purchases, at 85 and so on; a call or two are under way meanwhile.
    const [before, early, next] = await looksOf(240);
    expect(before).toBe(1);
    expect(early).toBeLessThan(18);
    expect(next).toBeLessThan(100);
    expect(await looksOf(150)).toHaveLength(3);
    expect(await looksOf(49)).toHaveLength(1);
  });
});

it('a look that lies ahead is forgotten: the clock was wrong', () => {
  const memory = { ...FRESH_MEMORY, lookedAt: BEGAN_AT };
  expect(pastOf(memory, BEGAN_AT - 30_000)).toBe(memory);
  expect(pastOf(memory, BEGAN_AT - 90_000).lookedAt).toBeNull();
});

describe('proofs of the key', () => {
  it.each([1, 2, 3, 12, 100])(
    'with one refunded code among %i known ones, every bad code gets its verdict, and so does the refunded one',
    async (count) => {
      const known = ['gone-1', ...named('known', count - 1)];
      const { verdicts, ledger } = await check({ codes: named('no', 60), known });
      expect(new Set(verdicts.values())).toEqual(new Set(['invalid']));
      expect(ledger.known.find(({ code }) => code === 'gone-1')?.isValid).toBe(false);
    },
  );

  it('use another known-valid code each time, the one found longest ago first, and never run out', async () => {
    const { simulation } = await check({
      codes: named('no', 90),
      known: named('known', 3),
      foundEver: 500,
    });
    const used = simulation.sent.map(({ what }) => what).filter((what) => what.startsWith('known'));
    expect(used.slice(0, 6)).toEqual([
      'known-0',
      'known-1',
      'known-2',
      'known-0',
      'known-1',
      'known-2',
    ]);
  });

  it('ask three others a minute later when three were denied, and after five bad ones the check pauses', async () => {
    const known = named('known', 12);
    const { simulation, verdicts } = await check({
      codes: named('sold', 5),
      known,
      stretches: [],
      last: 'sells-nothing',
    });
    const firstPause = simulation.sent.filter(({ what }) => what.startsWith('known')).slice(0, 12);
    expect(new Set(firstPause.map(({ what }) => what)).size).toBe(12);
    const [, , third, fourth] = firstPause.map(({ at }) => at);
    expect(Number(fourth) - Number(third)).toBeGreaterThanOrEqual(MINUTE_MS);
    expect(simulation.pauses[0]).toBe('known-valid-denied');
    expect([...verdicts.values()]).toEqual([null, null, null, null, null]);
  });

  it('are bad where the answer about a known-valid code can’t be read: no denial counts between them', async () => {
    const { verdicts } = await check({
      codes: ['no-1'],
      unreadable: ['known-1'],
      known: ['known-1'],
    });
    expect(verdicts.get('no-1')).not.toBe('invalid');
  });

  it('ask for a live item where fewer than three codes are known, so that a key that sells nothing proves nothing', async () => {
    const bad = await check({ codes: named('sold', 5), stretches: [], last: 'sells-nothing' });
    expect(bad.simulation.sent.map(({ what }) => what)).toContain('item 5');
    expect(new Set(bad.verdicts.values())).toEqual(new Set([null]));
    const good = await check({ codes: named('no', 5) });
    expect(new Set(good.verdicts.values())).toEqual(new Set(['invalid']));
  });

  it.each(['revoked', 'other-seller'] as const)(
    'tell of a key that is %s within the first calls, before anybody waits a minute',
    async (last) => {
      const { simulation } = await check({ codes: named('sold', 5), stretches: [], last });
      expect(simulation.pauses[0]).toBe(last === 'revoked' ? 'refused' : 'another-account');
      expect((simulation.sent[7]?.at ?? Infinity) - BEGAN_AT).toBeLessThan(MINUTE_MS / 2);
    },
  );

  it('cost at most 12 % of the asks in windows, 2 % of the list, and 6 calls, from 60 requests a minute on', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.boolean(), { minLength: 1, maxLength: 1_500 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat(4),
        fc.constantFrom(100, 300),
        fc.constantFrom(0, 100, 1_000),
        async (list, share, known, foundEver, spacingMs) => {
          const dice = diceOf(list.length);
          const codes = list.map((_, n) => `${dice() < share ? 'sold' : 'no'}-${n}`);
          const { proofs, asks } = await check({
            codes,
            known: named('known', known),
            foundEver,
            pace: { spacingMs },
          });
          expect(proofs).toBeLessThanOrEqual(0.12 * asks + 0.02 * codes.length + 6);
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('the estimate', () => {
  it.each<[string, CheckOptions]>([
    ['one good code', { codes: ['sold-1'], known: ['known-1'] }],
    ['one bad code of a new seller', { codes: ['no-1'], known: ['known-1'] }],
    ['three codes', { codes: ['sold-1', 'no-1', 'no-2'], known: ['known-1'] }],
    ['three bad codes', { codes: named('no', 3), known: ['known-1'] }],
    ['a good list', { codes: named('sold', 400), known: ['known-1'] }],
    ['a bad list', { codes: named('no', 60), known: ['known-1'], foundEver: 500 }],
    [
      'a long list',
      {
        codes: named('sold', 1_300).map((code, n) => (n % 20 === 7 ? `no-${n}` : code)),
        known: ['known-1'],
      },
    ],
  ])('counts account, control, proofs and repeats: %s', async (_, options) => {
    const { codes, known = [], foundEver = known.length } = options;
    const { market, simulation } = await check(options);
    const denied = codes.filter((code) => code.startsWith('no')).length;
    const { calls } = checkCost(
      {
        toCheck: codes.length,
        denied,
        requestsPerMinute: 60,
        foundEver: foundEver + codes.length - denied,
      },
      0,
    );
    // Many denials in a row are a reason to prove the key once more.
    expect(market.calls - calls).toBeGreaterThanOrEqual(0);
    expect(market.calls - calls).toBeLessThanOrEqual(1);
    // A call a second, and the minute before the second check.
    const tookMs = simulation.now - BEGAN_AT;
    expect(tookMs).toBeGreaterThanOrEqual(0.5 * 1_000 * calls);
    expect(tookMs).toBeLessThanOrEqual(1_000 * calls + 2 * MINUTE_MS);
  });
});

describe('the negative control', () => {
  it.each([
    [
      '0B5A2F6E-8C9D-4E7F-A1B2-C3D4E5F60718',
      /^[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}$/,
    ],
    ['0b5a2f6e8c9d4e7fa1b2c3d4e5f607180b5a2', /^[0-9a-f]{37}$/],
    ['whatever', /^[0-9a-f]{8}-/],
  ])('has the shape of %s, in its letter case', (like, shape) => {
    expect(controlCode(like, diceOf(7))).toMatch(shape);
    expect(controlCode(like, diceOf(7))).not.toBe(controlCode(like, diceOf(8)));
  });
});
