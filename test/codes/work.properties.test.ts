import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MemoryLedger, type SettledCode } from '../../src/codes/memory-ledger.js';
import { WorkMemory } from '../../src/codes/piece.js';
import { workPiece } from '../../src/codes/work.js';
import { never } from '../support/mirror.js';
import { diceOf } from './dice.js';
import { RandomMarket, type Condition, type Stretch } from './random-market.js';

interface Case {
  /** Whether each code is valid. */
  readonly codes: readonly boolean[];
  /** Codes known to be valid, which are in no list. */
  readonly known: number;
  readonly stretches: readonly Stretch[];
  readonly concurrency: number;
  readonly seed: number;
  /** The share of calls that are denied, whatever the code; default 0. */
  readonly badShare?: number;
}

/** More pieces mean that the work does not end. */
const MOST_PIECES = 3_000;

function caseOf(
  condition: fc.Arbitrary<Condition>,
  known: { readonly min: number; readonly max: number },
): fc.Arbitrary<Case> {
  const calls = fc.integer({ min: 1, max: 60 });
  const good: Stretch = { calls: 8, condition: 'good' };
  return fc.record({
    codes: fc.array(fc.boolean(), { minLength: 1, maxLength: 60 }),
    known: fc.integer(known),
    stretches: fc
      .array(fc.record({ calls, condition: fc.oneof(fc.constant<Condition>('good'), condition) }), {
        maxLength: 5,
      })
      .map((stretches) => [good, ...stretches]),
    concurrency: fc.constantFrom(1, 3, 8, 25),
    seed: fc.nat(),
  });
}

/** Checks the codes of a case to the end. @returns the codes, their verdicts, the calls, and the denied codes found */
async function check({ codes: are, known, stretches, concurrency, seed, badShare }: Case) {
  const codes = are.map((isValid, n) => `${isValid ? 'sold' : 'no'}-${n}`);
  const canaries = Array.from({ length: known }, (_, n) => `known-${n}`);
  const valid = new Set([...codes.filter((code) => code.startsWith('sold')), ...canaries]);
  const market = new RandomMarket(valid, stretches, diceOf(seed), badShare);
  const settled: SettledCode[] = [];
  const source = (async function* () {
    yield* codes;
    await Promise.resolve();
  })();
  const ledger = new MemoryLedger(source, canaries, (some) => {
    settled.push(...some);
    return Promise.resolve();
  });
  const memory = new WorkMemory();
  const work = { market, ledger, memory, account: 'ada', concurrency, spacingMs: 0 };
  const quick = { confirmAfterMs: 0, proveAgainAfterMs: 0, signal: never };
  for (let pieces = 0; pieces < MOST_PIECES; pieces++) {
    const end = await workPiece({ ...work, ...quick });
    if (end.kind === 'done') {
      const { overturned } = await ledger.counts();
      return { codes, settled, calls: market.calls, overturned };
    }
    if (end.kind === 'more') continue;
    // Every wait takes a minute or more.
    market.pass();
    memory.retryAt = 0;
  }
  throw new Error('the work does not end');
}

/** The key is dead for two denials of each code, between the proof after one window and that after the next. */
const BETWEEN_TWO_PROOFS: Case = {
  codes: [true, true, false, true, true, false, true, false],
  known: 1,
  stretches: [
    { calls: 8, condition: 'good' },
    { calls: 3, condition: 'revoked' },
    { calls: 8, condition: 'swapped' },
    { calls: 10, condition: 'revoked' },
  ],
  concurrency: 1,
  seed: 0,
};

function wrongOf(settled: readonly SettledCode[]): readonly SettledCode[] {
  return settled.filter(
    ({ code, verdict }) => verdict === (code.startsWith('sold') ? 'invalid' : 'valid'),
  );
}

describe('on random markets with random faults', () => {
  it('no valid code is called invalid, no invalid one valid, and every code is settled once', async () => {
    const faults = fc.constantFrom<Condition>(
      ...(['revoked', 'other-seller', 'sells-nothing', 'page', 'down', 'swapped'] as const),
    );
    await fc.assert(
      fc.asyncProperty(caseOf(faults, { min: 1, max: 4 }), async (one) => {
        const { codes, settled } = await check(one);
        expect(wrongOf(settled)).toEqual([]);
        expect(settled.map(({ code }) => code).sort()).toEqual([...codes].sort());
      }),
      { numRuns: 300, examples: [[BETWEEN_TWO_PROOFS]] },
    );
  });

  it('every answerable code gets its verdict once a key that was revoked is good again', async () => {
    const faults = fc.constant<Condition>('revoked');
    await fc.assert(
      fc.asyncProperty(caseOf(faults, { min: 1, max: 4 }), async (one) => {
        const { settled } = await check(one);
        expect(settled.filter(({ verdict }) => verdict === 'unproven')).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it('no valid code is called invalid while a cache repeats every answer of this audit and the key is dead', async () => {
    const faults = fc.constant<Condition>('revoked-behind-cache');
    await fc.assert(
      fc.asyncProperty(caseOf(faults, { min: 20, max: 20 }), async (one) => {
        expect(wrongOf((await check(one)).settled)).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it('one call in nine that is denied makes no valid code invalid once a denied code was found', async () => {
    await fc.assert(
      fc.asyncProperty(caseOf(fc.constant('good'), { min: 1, max: 4 }), async (one) => {
        const { settled, overturned } = await check({ ...one, badShare: 1 / 9 });
        // Two denials by chance, while every other denial was right, are not told apart from a bad code.
        fc.pre(overturned > 0);
        expect(wrongOf(settled)).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  it('without faults it costs a call for each code, one more for each denied one, and few proofs', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.boolean(), { minLength: 1, maxLength: 400 }),
        fc.nat(3),
        async (codes, known) => {
          const stretches: Stretch[] = [];
          const { calls } = await check({ codes, known, stretches, concurrency: 8, seed: 1 });
          const denied = codes.filter((isValid) => !isValid).length;
          const proofs = calls - codes.length - denied;
          expect(proofs).toBeLessThanOrEqual(0.12 * denied + 0.02 * codes.length + 5);
        },
      ),
      { numRuns: 100 },
    );
  });
});
