import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readAccountReply, readCodeReply } from '../../../src/domain/codes/outcome.js';
import {
  MAX_DENIALS_IN_ROW,
  Proofs,
  type Call,
  type CodeCall,
} from '../../../src/domain/codes/proof.js';
import type { Purchase } from '../../../src/domain/item.js';
import type { Reply } from '../../../src/domain/reply.js';
import { BatchValidator } from '../../../src/jobs/codes/batch-validator.js';
import type { BatchReport, CodeMarketplace, CountedCode } from '../../../src/jobs/codes/types.js';
import type { Sourced } from '../../../src/marketplace/types.js';
import * as replies from '../../domain/codes/support.js';
import { diceOf } from '../../domain/codes/support.js';
import { never } from '../../support/mirror.js';

type Condition = 'good' | 'revoked' | 'other-seller' | 'sells-nothing' | 'down' | 'limited' | 'off';

/** The condition of a marketplace for a number of replies. */
interface Stretch {
  readonly calls: number;
  readonly condition: Condition;
  /** Three minutes pass before its first reply. */
  readonly isAfterPause?: boolean;
}

/** A marketplace whose calls end in any order, and whose condition changes with the calls. */
class Market implements CodeMarketplace {
  readonly #valid: ReadonlySet<string>;
  readonly #conditions: readonly Condition[];
  readonly #dice: () => number;
  readonly #calls: Call[] = [];
  readonly #faultShare: number;
  readonly #pace: number;
  readonly #pauses = new Set<number>();
  /** Milliseconds since 1970. */
  now = 1_000_000;
  #number = 0;
  #answered = 0;

  constructor(
    valid: ReadonlySet<string>,
    { stretches, faultShare, pace }: Pick<Case, 'stretches' | 'faultShare' | 'pace'>,
    dice: () => number,
  ) {
    this.#pace = pace;
    this.#valid = valid;
    this.#faultShare = faultShare;
    this.#conditions = stretches.flatMap(({ calls, condition }) =>
      Array<Condition>(calls).fill(condition),
    );
    let begun = 0;
    for (const { calls, isAfterPause = false } of stretches) {
      if (isAfterPause) this.#pauses.add(begun);
      begun += calls;
    }
    this.#dice = dice;
  }

  /** Every call, with the sequence numbers of its start and end. */
  get calls(): readonly Call[] {
    return this.#calls;
  }

  async account(): Promise<Reply<never>> {
    const [begun, beganAt] = [++this.#number, this.now];
    const condition = await this.#reach();
    const reply = accountReply(condition);
    const span = { begun, ended: ++this.#number, beganAt, endedAt: this.now };
    this.#calls.push({ kind: 'account', ...span, ...readAccountReply(reply) });
    return reply as Reply<never>;
  }

  async validate(code: string): Promise<Reply<Sourced<Purchase>>> {
    const [begun, beganAt] = [++this.#number, this.now];
    const condition = await this.#reach();
    const reply = codeReply(condition, code, this.#valid.has(code));
    const span = { begun, ended: ++this.#number, beganAt, endedAt: this.now };
    this.#calls.push({ kind: 'code', code, ...span, ...readCodeReply(code, reply) });
    return reply as Reply<Sourced<Purchase>>;
  }

  /** The condition when the call reaches the server. Both ways take a while. */
  async #reach(): Promise<Condition> {
    await this.#travel();
    this.now += this.#pauses.has(this.#answered) ? 180_000 : this.#pace;
    const condition = this.#conditions[this.#answered++] ?? 'good';
    const isFault = condition === 'good' && this.#dice() < this.#faultShare;
    await this.#travel();
    return isFault ? 'off' : condition;
  }

  /** Sometimes a call is overtaken by many others. */
  async #travel(): Promise<void> {
    const longest = this.#dice() < 0.05 ? 40 : 4;
    for (let left = Math.floor(this.#dice() * longest); left > 0; left--) await turn();
  }
}

function accountReply(condition: Condition): Parameters<typeof readAccountReply>[0] {
  switch (condition) {
    case 'good':
    case 'sells-nothing':
      return replies.opened('ada');
    case 'other-seller':
      return replies.opened('eve');
    case 'revoked':
      return replies.refused;
    default:
      return outageReply(condition);
  }
}

function codeReply(
  condition: Condition,
  code: string,
  isValid: boolean,
): Parameters<typeof readCodeReply>[1] {
  switch (condition) {
    case 'good':
      return isValid ? replies.found(code) : replies.denied;
    case 'down':
    case 'limited':
    case 'off':
      return outageReply(condition);
    default:
      return replies.denied;
  }
}

function outageReply(condition: 'down' | 'limited' | 'off') {
  if (condition === 'off') return replies.switchedOff;
  return condition === 'down' ? replies.maintenance : replies.limited;
}

const CANARY = 'the canary';

interface Case {
  readonly list: readonly boolean[];
  readonly stretches: readonly Stretch[];
  /** Share of single calls that find no API. */
  readonly faultShare: number;
  /** Milliseconds from one reply to the next. */
  readonly pace: number;
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests. */
  readonly spacingMs?: number;
  readonly seed: number;
}

const conditions: fc.Arbitrary<Condition> = fc.constantFrom(
  ...(['revoked', 'other-seller', 'sells-nothing', 'down', 'limited', 'off'] as const),
);
const stretches = fc
  .array(
    fc.record({
      after: fc.nat(120),
      calls: fc.integer({ min: 1, max: 60 }),
      condition: conditions,
    }),
    { maxLength: 4 },
  )
  .map((list): Stretch[] =>
    list.flatMap(({ after, calls, condition }) => [
      { calls: after, condition: 'good' },
      { calls, condition },
    ]),
  );
const cases = (list: fc.Arbitrary<readonly boolean[]>): fc.Arbitrary<Case> =>
  fc.record({
    list,
    stretches,
    faultShare: fc.constantFrom(0, 0.02, 0.1),
    pace: fc.constantFrom(10, 1_000, 4_000),
    concurrency: fc.constantFrom(1, 2, 5, 8, 16, 30, 48),
    seed: fc.nat(0xffffffff),
  });
/** True: valid. Long rows as well as shuffled codes. */
const mixed = fc
  .array(fc.tuple(fc.boolean(), fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 60 }))), {
    minLength: 1,
    maxLength: 20,
  })
  .map((rows) => rows.flatMap(([isValid, count]) => Array<boolean>(count).fill(isValid)));

async function validateBatch(
  { list, concurrency, spacingMs = 0, seed, ...conditions }: Case,
  canaries: readonly string[],
): Promise<{ codes: string[]; market: Market; report: BatchReport; counted: CountedCode[] }> {
  const codes = list.map((isValid, i) => `${isValid ? 'valid' : 'invalid'}-${i}`);
  const valid = new Set([CANARY, ...codes.filter((_, i) => list[i] === true)]);
  const market = new Market(valid, conditions, diceOf(seed));
  const counted: CountedCode[] = [];
  const validator = new BatchValidator(market, {
    account: 'ada',
    codes,
    canaries,
    concurrency,
    spacingMs,
    now: () => market.now,
    signal: never,
  });
  for await (const batch of validator) counted.push(...batch);
  const { report } = validator;
  return { codes, market, report, counted };
}

/** Expects that codes named `valid-…` were found and all others denied. */
function expectTruth(counted: readonly CountedCode[]): void {
  for (const { code, kind } of counted) {
    expect([code, kind]).toEqual([code, code.startsWith('valid') ? 'found' : 'denied']);
  }
}

describe('BatchValidator, whatever happens to the key and the marketplace', () => {
  it('yields no code twice and loses none', async () => {
    await fc.assert(
      fc.asyncProperty(cases(mixed), async (one) => {
        const { codes, report, counted } = await validateBatch(one, [CANARY]);
        const yielded = counted.map(({ code }) => code).filter((code) => code !== CANARY);
        expect(new Set(yielded).size).toBe(yielded.length);
        expect([...yielded, ...report.unproven.keys(), ...report.left].toSorted()).toEqual(
          codes.toSorted(),
        );
        if (report.stop === null) expect(report.left).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });

  it('yields a denial only if it counts by the rules, given every call to the end', async () => {
    await fc.assert(
      fc.asyncProperty(
        cases(mixed),
        fc.constantFrom<readonly string[]>([CANARY], []),
        async (one, canaries) => {
          const { market, counted } = await validateBatch(one, canaries);
          const proofs = new Proofs('ada', canaries.length > 0);
          const denials = new Map<string, CodeCall[]>();
          /** When the canary was denied; null while it works. A denied one is validated like a code. */
          let lostSince: number | null = null;
          for (const call of market.calls) {
            const isCanary = call.kind === 'code' && canaries.includes(call.code);
            const isProof = isCanary && (lostSince === null || call.begun < lostSince);
            const known: Call = isProof ? { ...call, kind: 'canary' } : call;
            if (isCanary && call.outcome.kind === 'success') lostSince = null;
            if (isCanary && call.outcome.kind === 'denied') lostSince ??= call.ended;
            proofs.add(known);
            if (known.kind !== 'code' || known.outcome.kind !== 'denied') continue;
            denials.set(known.code, [...(denials.get(known.code) ?? []), known]);
          }
          for (const one of counted) {
            if (one.kind !== 'denied' || one.code === CANARY) continue;
            const { code, proof, at, checkpoints } = one;
            // Another account, or the first valid code, may still show up after a verdict.
            if (proofs.otherAccount !== null || (canaries.length === 0 && proof === 'account'))
              continue;
            const judged = denials
              .get(code)
              ?.map((denial) => proofs.judgeDenial(denial, Infinity, market.now));
            expect([code, judged]).toEqual([code, expect.arrayContaining([checkpoints])]);
            expect(checkpoints.before).toBeLessThanOrEqual(at);
            expect(checkpoints.after).toBeGreaterThanOrEqual(at);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('yields no wrong result if bad stretches are longer than a row of denials may be', async () => {
    await fc.assert(
      fc.asyncProperty(cases(mixed), async (one) => {
        const long = one.stretches.map(({ calls, condition }) => ({
          // Longer than a row of denials that counts may be.
          calls: condition === 'good' ? calls : calls + MAX_DENIALS_IN_ROW,
          condition,
        }));
        const { counted } = await validateBatch({ ...one, stretches: long }, [CANARY]);
        expectTruth(counted.filter(({ code }) => code !== CANARY));
      }),
      { numRuns: 150 },
    );
  });

  it('counts no denial beside a pause of minutes, however short the key was bad', async () => {
    const brief = fc.record({
      after: fc.integer({ min: 1, max: 150 }),
      calls: fc.integer({ min: 1, max: 30 }),
      condition: fc.constantFrom<Condition>('revoked', 'other-seller', 'sells-nothing'),
      isAtEnd: fc.boolean(),
    });
    const besidePauses = fc.array(brief, { minLength: 1, maxLength: 2 }).map((list): Stretch[] =>
      list.flatMap(({ after, calls, condition, isAtEnd }) => [
        { calls: after, condition: 'good' },
        { calls, condition, isAfterPause: !isAtEnd },
        { calls: 1, condition: 'good', isAfterPause: isAtEnd },
      ]),
    );
    await fc.assert(
      fc.asyncProperty(cases(mixed), besidePauses, async (one, stretches) => {
        const { counted } = await validateBatch({ ...one, pace: 10, stretches, faultShare: 0 }, [
          CANARY,
        ]);
        expectTruth(counted.filter(({ code }) => code !== CANARY));
      }),
      { numRuns: 300 },
    );
  });

  it('counts every code without faults, at few extra calls', async () => {
    await fc.assert(
      fc.asyncProperty(cases(mixed), async (one) => {
        const { codes, market, counted } = await validateBatch(
          { ...one, stretches: [], faultShare: 0 },
          [CANARY],
        );
        expect(counted.length).toBe(codes.length);
        expectTruth(counted);
        const invalid = one.list.filter((isValid) => !isValid).length;
        // At the start of a row of invalid codes, or with a slow canary, calls in flight make the row too long.
        const rows = one.list.filter((isValid, i) => !isValid && one.list[i - 1] !== false).length;
        const again = one.concurrency === 1 ? 0 : Math.min(2 * invalid, 30 * rows);
        // Replies some seconds apart have a checkpoint a minute, of two calls, and overlap much.
        const slow = one.pace < 2_000 ? 0 : 2 * codes.length;
        const most = codes.length + again * 1.1 + 30 + invalid / 10 + codes.length / 10 + slow;
        expect(market.calls.length).toBeLessThanOrEqual(1.4 * most);
      }),
      { numRuns: 100 },
    );
  });
});
