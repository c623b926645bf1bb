import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hearAccount, hearCode } from '../../../src/domain/codes/outcome.js';
import type { ChunkCall } from '../../../src/domain/codes/timeline.js';
import { judgeChunk } from '../../../src/domain/codes/verdict.js';
import type { Purchase } from '../../../src/domain/item.js';
import type { Reply } from '../../../src/domain/reply.js';
import { askCodes, type CodeMarketplace } from '../../../src/jobs/codes/ask-codes.js';
import type { AskReport, SettledCode } from '../../../src/jobs/codes/types.js';
import type { Sourced } from '../../../src/marketplace/types.js';
import { diceOf } from '../../domain/codes/model.js';
import * as replies from '../../domain/codes/support.js';
import { never } from '../../support/mirror.js';

type Condition = 'good' | 'revoked' | 'other-seller' | 'sells-nothing' | 'down' | 'limited' | 'off';

/** What a marketplace is like for so many of its replies. */
interface Stretch {
  readonly calls: number;
  readonly condition: Condition;
  /** A minute passes before its first reply. */
  readonly isAfterLull?: boolean;
}

/** A marketplace whose calls take a while, in any order, and whose key changes by the call. */
class Market implements CodeMarketplace {
  readonly #valid: ReadonlySet<string>;
  readonly #conditions: readonly Condition[];
  readonly #dice: () => number;
  readonly #tap: ChunkCall[] = [];
  readonly #gusts: number;
  readonly #pace: number;
  readonly #lulls = new Set<number>();
  /** Milliseconds since 1970. */
  now = 1_000_000;
  #number = 0;
  #answered = 0;

  constructor(
    valid: ReadonlySet<string>,
    { stretches, gusts, pace }: Pick<Case, 'stretches' | 'gusts' | 'pace'>,
    dice: () => number,
  ) {
    this.#pace = pace;
    this.#valid = valid;
    this.#gusts = gusts;
    this.#conditions = stretches.flatMap(({ calls, condition }) =>
      Array<Condition>(calls).fill(condition),
    );
    let begun = 0;
    for (const { calls, isAfterLull = false } of stretches) {
      if (isAfterLull) this.#lulls.add(begun);
      begun += calls;
    }
    this.#dice = dice;
  }

  /** Every call that was made, numbered as it came and went. */
  get calls(): readonly ChunkCall[] {
    return this.#tap;
  }

  async account(): Promise<Reply<never>> {
    const begun = ++this.#number;
    const condition = await this.#reach();
    const reply = accountReply(condition);
    this.#tap.push({ kind: 'account', begun, ended: ++this.#number, ...hearAccount(reply) });
    return reply as Reply<never>;
  }

  async validate(code: string): Promise<Reply<Sourced<Purchase>>> {
    const begun = ++this.#number;
    const condition = await this.#reach();
    const reply = codeReply(condition, code, this.#valid.has(code));
    const heard = hearCode(code, reply);
    this.#tap.push({ kind: 'code', code, begun, ended: ++this.#number, ...heard });
    return reply as Reply<Sourced<Purchase>>;
  }

  /** How things are when the call is answered, some time after it began; its answer travels too. */
  async #reach(): Promise<Condition> {
    await this.#travel();
    this.now += this.#lulls.has(this.#answered) ? 60_000 : this.#pace;
    const condition = this.#conditions[this.#answered++] ?? 'good';
    const isGusty = condition === 'good' && this.#dice() < this.#gusts;
    await this.#travel();
    return isGusty ? 'off' : condition;
  }

  /** Now and then a call is overtaken by many. */
  async #travel(): Promise<void> {
    const longest = this.#dice() < 0.05 ? 40 : 4;
    for (let left = Math.floor(this.#dice() * longest); left > 0; left--) await turn();
  }
}

function accountReply(condition: Condition): Parameters<typeof hearAccount>[0] {
  switch (condition) {
    case 'good':
    case 'sells-nothing':
      return replies.opened('ada');
    case 'other-seller':
      return replies.opened('eve');
    case 'revoked':
      return replies.refused;
    default:
      return weather(condition);
  }
}

function codeReply(
  condition: Condition,
  code: string,
  isValid: boolean,
): Parameters<typeof hearCode>[1] {
  switch (condition) {
    case 'good':
      return isValid ? replies.found(code) : replies.denied;
    case 'down':
    case 'limited':
    case 'off':
      return weather(condition);
    default:
      return replies.denied;
  }
}

function weather(condition: 'down' | 'limited' | 'off') {
  if (condition === 'off') return replies.switchedOff;
  return condition === 'down' ? replies.maintenance : replies.limited;
}

const CANARY = 'the canary';

interface Case {
  readonly list: readonly boolean[];
  readonly stretches: readonly Stretch[];
  /** Share of single calls that find no API. */
  readonly gusts: number;
  /** Milliseconds from one reply to the next. */
  readonly pace: number;
  readonly concurrency: number;
  /** How often each code must be denied. */
  readonly denials: number;
  /** As in `Pace`. */
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
    gusts: fc.constantFrom(0, 0.02, 0.1),
    pace: fc.constantFrom(10, 1_000, 60_000, 600_000),
    concurrency: fc.constantFrom(1, 2, 5, 8, 16, 30, 48),
    denials: fc.constantFrom(1, 1, 2),
    seed: fc.nat(0xffffffff),
  });
/** True: valid. In rows as well as shuffled. */
const mixed = fc
  .array(fc.tuple(fc.boolean(), fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 60 }))), {
    minLength: 1,
    maxLength: 20,
  })
  .map((rows) => rows.flatMap(([isValid, count]) => Array<boolean>(count).fill(isValid)));

async function ask(
  { list, concurrency, denials, spacingMs = 0, seed, ...conditions }: Case,
  canaries: readonly string[],
): Promise<{ codes: string[]; market: Market; report: AskReport; settled: SettledCode[] }> {
  const codes = list.map((isValid, i) => `${isValid ? 'valid' : 'invalid'}-${i}`);
  const valid = new Set([CANARY, ...codes.filter((_, i) => list[i] === true)]);
  const market = new Market(valid, conditions, diceOf(seed));
  const settled: SettledCode[] = [];
  const report = await askCodes(market, {
    account: 'ada',
    codes,
    canaries,
    denialsNeeded: () => denials,
    concurrency,
    spacingMs,
    now: () => market.now,
    signal: never,
    onSettled: (news) => {
      settled.push(...news);
    },
  });
  return { codes, market, report, settled };
}

/** The calls as the rules would see them who had all of them before their eyes. */
function timelineOf(market: Market, canaries: readonly string[]) {
  const calls = market.calls.map((call): ChunkCall =>
    call.kind === 'code' && canaries.includes(call.code) ? { ...call, kind: 'canary' } : call,
  );
  return { account: 'ada', canaries, calls };
}

describe('asking for codes, whatever happens to the key and the weather meanwhile', () => {
  it('tells no code twice, and forgets none', async () => {
    await fc.assert(
      fc.asyncProperty(cases(mixed), async (one) => {
        const { codes, report, settled } = await ask(one, [CANARY]);
        const told = settled.map(({ code }) => code);
        expect(new Set(told).size).toBe(told.length);
        const judged = [...report.judgements.keys()];
        expect([...judged, ...report.left].toSorted()).toEqual(codes.toSorted());
        for (const { code, judgement } of settled) {
          expect(report.judgements.get(code)).toBe(judgement);
        }
        if (report.stop === null) expect(report.left).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });

  it('calls invalid only what the rules call so who see every call to the end, and what is forgotten', async () => {
    await fc.assert(
      fc.asyncProperty(
        cases(mixed),
        fc.constantFrom<readonly string[]>([CANARY], []),
        async (one, canaries) => {
          const { market, settled } = await ask(one, canaries);
          const timeline = timelineOf(market, canaries);
          const accounts = timeline.calls.filter(({ kind }) => kind === 'account');
          const isOther = accounts.some((call) => 'account' in call && call.account === 'eve');
          for (const { code, judgement } of settled) {
            if (judgement.verdict !== 'invalid') continue;
            // Later news of another account, or the first find, may still come after a verdict.
            if (isOther || (canaries.length === 0 && judgement.proof === 'account')) continue;
            expect([code, judgeChunk(timeline).get(code)?.verdict]).toEqual([code, 'invalid']);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('never calls a code valid that is not, nor one of a good key’s time invalid', async () => {
    await fc.assert(
      fc.asyncProperty(cases(mixed), async (one) => {
        const long = one.stretches.map(({ calls, condition }) => ({
          // Longer than a run of denials may be, and than calls that were under way.
          calls: condition === 'good' ? calls : calls + 25 + 2 * one.concurrency,
          condition,
        }));
        const { settled } = await ask({ ...one, stretches: long }, [CANARY]);
        for (const { code, judgement } of settled) {
          expect(code.startsWith(judgement.verdict)).toBe(true);
        }
      }),
      { numRuns: 150 },
    );
  });

  it('never calls a code invalid that was denied beside a lull, however short the key was bad', async () => {
    const brief = fc.record({
      after: fc.integer({ min: 1, max: 150 }),
      calls: fc.integer({ min: 1, max: 30 }),
      condition: fc.constantFrom<Condition>('revoked', 'other-seller', 'sells-nothing'),
      isAtEnd: fc.boolean(),
    });
    const paces = fc.constantFrom<Pick<Case, 'pace' | 'concurrency' | 'spacingMs'>>(
      { pace: 10, concurrency: 1 },
      { pace: 10, concurrency: 16 },
      { pace: 10, concurrency: 48 },
      { pace: 100, concurrency: 16, spacingMs: 100 },
      { pace: 1_000, concurrency: 3, spacingMs: 1_000 },
      // Shared with another.
      { pace: 2_000, concurrency: 3, spacingMs: 1_000 },
      { pace: 5_000, concurrency: 2, spacingMs: 5_000 },
    );
    const besideLulls = fc.array(brief, { minLength: 1, maxLength: 2 }).map((list): Stretch[] =>
      list.flatMap(({ after, calls, condition, isAtEnd }) => [
        { calls: after, condition: 'good' },
        { calls, condition, isAfterLull: !isAtEnd },
        { calls: 1, condition: 'good', isAfterLull: isAtEnd },
      ]),
    );
    await fc.assert(
      fc.asyncProperty(cases(mixed), besideLulls, paces, async (one, stretches, pace) => {
        const { settled } = await ask({ ...one, ...pace, stretches, gusts: 0 }, [CANARY]);
        for (const { code, judgement } of settled) {
          expect(code.startsWith(judgement.verdict)).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('settles every code truly in fair weather, at few calls besides, however slowly replies come', async () => {
    await fc.assert(
      fc.asyncProperty(cases(mixed), async (one) => {
        const { codes, market, settled } = await ask({ ...one, stretches: [], gusts: 0 }, [CANARY]);
        expect(settled.length).toBe(codes.length);
        for (const { code, judgement } of settled) {
          expect(code.startsWith(judgement.verdict)).toBe(true);
        }
        const denials = one.denials * one.list.filter((isValid) => !isValid).length;
        // The first long gap is taken for a lull: proofs and the denials beside it are asked again.
        const lull = one.pace >= 1_000 ? 4 + 2 * one.concurrency : 0;
        // More under way than a run may have: all of them are asked again where rows of denials begin.
        const rows = one.list.filter((isValid, i) => !isValid && one.list[i - 1] !== false).length;
        const wide = one.concurrency > 16 ? one.denials * rows * one.concurrency : 0;
        const valid = one.list.filter((isValid) => isValid).length;
        const most = valid + denials + 6 + denials / 4 + codes.length / 50 + lull + wide;
        expect(market.calls.length).toBeLessThanOrEqual(most);
      }),
      { numRuns: 100 },
    );
  });
});
