import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { carriedOver } from '../../../src/domain/codes/proofs.js';
import { judgeChunk, LONGEST_RUN, type CodeJudgement } from '../../../src/domain/codes/verdict.js';
import {
  diceOf,
  fairWorld,
  work,
  type AnsweredCall,
  type KeyState,
  type Truth,
  type Weather,
  type World,
  type Worked,
} from './model.js';

/** Bad for `calls` calls after `after` good ones. */
interface Stretch {
  readonly after: number;
  readonly calls: number;
  readonly state: KeyState;
}

const seed = fc.nat(0xffffffff);
const concurrency = fc.constantFrom(1, 1, 2, 3, 8, 16, 24, 48);
/** Lists of all mixtures, in rows as well as shuffled. */
const truths = (...kinds: readonly Truth[]): fc.Arbitrary<readonly Truth[]> =>
  fc
    .array(
      fc.tuple(
        fc.constantFrom(...kinds),
        fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 40 })),
      ),
      { minLength: 1, maxLength: 30 },
    )
    .map((rows) => rows.flatMap(([truth, count]) => Array<Truth>(count).fill(truth)));

const bad = (calls: fc.Arbitrary<number>): fc.Arbitrary<readonly Stretch[]> =>
  fc.array(
    fc.record({
      after: fc.nat(80),
      calls,
      state: fc.constantFrom<KeyState>('revoked', 'other-seller', 'sells-nothing'),
    }),
    { maxLength: 4 },
  );

function keyOf(stretches: readonly Stretch[]): World['key'] {
  const states: KeyState[] = [];
  for (const { after, calls, state } of stretches) {
    for (let i = 0; i < after; i++) states.push('good');
    for (let i = 0; i < calls; i++) states.push(state);
  }
  return (tick) => states[tick - 1] ?? 'good';
}

function weatherOf(seed: number, share: number): World['weather'] {
  const kinds: readonly Weather[] = ['limited', 'maintenance', 'switched-off', 'refused'];
  return (tick) => {
    const dice = diceOf(seed + tick * 7919);
    return dice() < share ? (kinds[Math.floor(dice() * kinds.length)] as Weather) : null;
  };
}

function world(list: readonly Truth[], other: Partial<World>): World {
  const named = list.map((truth, i): [string, Truth] => [`${truth}-${i}`, truth]);
  return { ...fairWorld, truths: new Map([...named, ['bird', 'valid']]), ...other };
}

const codesOf = ({ truths }: World): string[] =>
  [...truths.keys()].filter((code) => code !== 'bird');

const judged = ({ timeline }: Worked): [string, CodeJudgement][] => [...judgeChunk(timeline)];

/** Denials that were believed of codes that were valid all the time. */
function wronglyInvalid(world: World, worked: Worked): AnsweredCall[] {
  return judged(worked)
    .filter(([code, { verdict }]) => verdict === 'invalid' && world.truths.get(code) === 'valid')
    .map(([, { call }]) => call as AnsweredCall);
}

describe('with a key that goes bad and good again', () => {
  it('no valid code is ever invalid when it is bad for longer than a run of denials may be', () => {
    fc.assert(
      fc.property(
        truths('valid', 'invalid', 'refunded'),
        bad(fc.integer({ min: 0, max: 60 })),
        concurrency,
        fc.nat(300),
        seed,
        (list, short, width, refundAt, dice) => {
          // Calls that were under way when the key went bad may be answered after it.
          const long = short.map((one) => ({ ...one, calls: one.calls + LONGEST_RUN + width + 1 }));
          const market = world(list, { key: keyOf(long), refundAt });
          const worked = work(market, {
            codes: codesOf(market),
            canaries: ['bird'],
            concurrency: width,
            dice: diceOf(dice),
          });
          expect(wronglyInvalid(market, worked)).toEqual([]);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('no valid code is ever invalid when any proof fell into the bad time, however short', () => {
    const weather = fc.tuple(seed, fc.constantFrom(0, 0, 0.05, 0.3));
    fc.assert(
      fc.property(
        truths('valid', 'invalid', 'refunded'),
        bad(fc.integer({ min: 1, max: 70 })),
        concurrency,
        fc.constantFrom<readonly string[]>(['bird'], []),
        weather,
        seed,
        (list, stretches, width, canaries, [from, share], dice) => {
          const key = keyOf(stretches);
          const market = world(list, { key, weather: weatherOf(from, share), refundAt: 40 });
          const worked = work(market, {
            codes: codesOf(market),
            canaries,
            concurrency: width,
            dice: diceOf(dice),
          });
          const { calls } = worked.timeline;
          for (const { tick } of wronglyInvalid(market, worked)) {
            expect(key(tick)).not.toBe('good');
            const isBadFrom = (from: number, to: number): boolean => {
              for (let at = from; at <= to; at++) if (key(at) !== key(tick)) return false;
              return true;
            };
            const together = calls.filter((one) =>
              isBadFrom(Math.min(one.tick, tick), Math.max(one.tick, tick)),
            );
            const proofs = together.filter(
              (one) => one.kind !== 'code' && market.weather(one.tick) === null,
            );
            const telling = proofs.filter(
              ({ kind }) => kind === 'canary' || key(tick) !== 'sells-nothing',
            );
            expect(telling).toEqual([]);
            if (canaries.length > 0 || key(tick) === 'revoked') {
              const denials = together.filter(({ outcome }) => outcome.kind === 'denied');
              expect(denials.length).toBeLessThanOrEqual(LONGEST_RUN + width);
            }
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('no valid code is ever invalid that was denied just before a lull or just after it, however short the bad time', () => {
    fc.assert(
      fc.property(
        truths('valid', 'invalid'),
        bad(fc.integer({ min: 1, max: 70 })),
        fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
        concurrency,
        fc.constantFrom<readonly string[]>(['bird'], []),
        seed,
        (list, stretches, isAtEnd, width, canaries, dice) => {
          const lulls = new Set<number>();
          let tick = 0;
          stretches.forEach(({ after, calls }, i) => {
            lulls.add(tick + after + (isAtEnd[i] === true ? calls : 0));
            tick += after + calls;
          });
          const key = keyOf(stretches);
          const market = world(list, { key, lulls });
          const worked = work(market, {
            codes: codesOf(market),
            canaries,
            concurrency: width,
            dice: diceOf(dice),
          });
          for (const { tick } of wronglyInvalid(market, worked)) {
            // That seller's codes are found, or account details open: they vouch for the key.
            expect(canaries.length === 0 && key(tick) === 'sells-nothing').toBe(true);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('no code is ever valid that is not, and another seller’s only until the next account proof', () => {
    fc.assert(
      fc.property(
        truths('valid', 'invalid', 'theirs'),
        bad(fc.integer({ min: 1, max: 70 })),
        concurrency,
        seed,
        (list, stretches, width, dice) => {
          const key = keyOf(stretches);
          const market = world(list, { key, weather: weatherOf(dice, 0.1) });
          const worked = work(market, {
            codes: codesOf(market),
            canaries: ['bird'],
            concurrency: width,
            dice: diceOf(dice),
          });
          for (const [code, { verdict, call }] of judged(worked)) {
            if (verdict !== 'valid') continue;
            expect(market.truths.get(code)).not.toBe('invalid');
            if (market.truths.get(code) !== 'theirs') continue;
            const last = worked.timeline.calls.findLast(
              (one) => one.kind === 'account' && one.account !== null && one.ended < call.begun,
            );
            expect(last).toMatchObject({ account: 'ada' });
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('in fair weather', () => {
  const TRUE: Readonly<Record<Truth, string>> = {
    valid: 'valid',
    invalid: 'invalid',
    refunded: 'either',
    theirs: 'invalid',
  };

  /** The most calls under way of which no denials in a row are too many before a canary looks into them. */
  const NARROW = 16;

  function expectTrue(market: World, worked: Worked, width: number): void {
    for (const [code, { verdict }] of judged(worked)) {
      if (width > NARROW && verdict === 'unproven') continue;
      const truth = TRUE[market.truths.get(code) ?? 'invalid'];
      if (truth === 'either') expect(['valid', 'invalid']).toContain(verdict);
      else expect(verdict).toBe(truth);
    }
    expect(worked.left).toEqual([]);
  }

  it('every code has its true verdict at the end of its chunk, or is to be asked again where many calls were under way', () => {
    fc.assert(
      fc.property(
        truths('valid', 'invalid', 'refunded', 'theirs'),
        concurrency,
        fc.nat(300),
        seed,
        (list, width, refundAt, dice) => {
          const market = world(list, { refundAt });
          const worked = work(market, {
            codes: codesOf(market),
            canaries: ['bird'],
            concurrency: width,
            dice: diceOf(dice),
          });
          expectTrue(market, worked, width);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('every code has its true verdict by account details where no valid code is known or found', () => {
    fc.assert(
      fc.property(truths('invalid', 'theirs'), concurrency, seed, (list, width, dice) => {
        const market = world(list, {});
        const work1 = {
          codes: codesOf(market),
          canaries: [],
          concurrency: width,
          dice: diceOf(dice),
        };
        expectTrue(market, work(market, work1), width);
      }),
    );
  });

  it('what was denied before the first code was found is proven in the next chunk, which needs no proofs to begin with', () => {
    fc.assert(
      fc.property(truths('valid', 'invalid'), concurrency, seed, (list, width, dice) => {
        const market = world([...list, 'valid'], {});
        const common = { canaries: [], concurrency: width, dice: diceOf(dice) };
        const first = work(market, { ...common, codes: codesOf(market) });
        const open = judged(first).filter(([, { verdict }]) => verdict === 'unproven');
        if (width <= NARROW) {
          for (const [, { reason }] of open) expect(reason).toBe('no-canary-before');
        }
        const again = [...open.map(([code]) => code), ...first.left];
        const carried = carriedOver(first.timeline);
        expect(carried.map(({ kind }) => kind)).toEqual(
          carried.length > 1 ? ['account', 'canary'] : ['account'],
        );
        const canaries = judged(first).flatMap(([code, { verdict }]) =>
          verdict === 'valid' ? [code] : [],
        );
        const second = work(market, { ...common, codes: again, carried, canaries });
        for (const [code, { verdict }] of judged(second))
          expect(verdict).toBe(market.truths.get(code));
        if (again.length === 1 && carried.length === 2) {
          expect(second.timeline.calls.length - carried.length).toBeLessThanOrEqual(
            again.length + 2,
          );
        }
      }),
    );
  });

  it.each([
    [0, 2],
    [0.02, 4],
    [0.1, 4],
    [0.3, 5],
    [0.5, 5],
    [0.9, 6],
    [1, 8],
  ])(
    '100 codes of which a share of %d is invalid take %i proofs at most, on average',
    (share, most) => {
      let proofs = 0;
      const rounds = 50;
      for (let round = 0; round < rounds; round++) {
        const dice = diceOf(round);
        const list = Array.from({ length: 100 }, (): Truth =>
          dice() < share ? 'invalid' : 'valid',
        );
        const market = world(list, {});
        const worked = work(market, {
          codes: codesOf(market),
          canaries: ['bird'],
          concurrency: 4,
          dice,
        });
        expectTrue(market, worked, 4);
        proofs += worked.timeline.calls.length - list.length;
      }
      expect(proofs / rounds).toBeLessThanOrEqual(most);
    },
  );
});

it('verdicts given while nothing is under way stay, whatever calls come after', () => {
  fc.assert(
    fc.property(
      truths('valid', 'invalid', 'refunded'),
      bad(fc.integer({ min: 1, max: 70 })),
      concurrency,
      seed,
      (list, stretches, width, dice) => {
        const key = keyOf(stretches.filter(({ state }) => state !== 'other-seller'));
        const market = world(list, { key, weather: weatherOf(dice, 0.1) });
        const worked = work(market, {
          codes: codesOf(market),
          canaries: ['bird'],
          concurrency: width,
          dice: diceOf(dice),
        });
        const end = judgeChunk(worked.timeline);
        for (const now of worked.quiet) {
          const calls = worked.timeline.calls.filter(({ ended }) => ended <= now);
          for (const [code, { verdict }] of judgeChunk({ ...worked.timeline, calls })) {
            if (verdict !== 'unproven') expect(end.get(code)?.verdict).toBe(verdict);
          }
        }
      },
    ),
    { numRuns: 100 },
  );
});

it('every code has its true verdict after some rounds of bad weather and bad keys that passes', () => {
  fc.assert(
    fc.property(
      truths('valid', 'invalid'),
      bad(fc.integer({ min: 30, max: 60 })),
      fc.constantFrom(1, 4),
      seed,
      (list, stretches, width, dice) => {
        const market = world(list, { key: keyOf(stretches), weather: weatherOf(dice, 0.05) });
        const verdicts = new Map<string, string>();
        for (let round = 0; round < 200 && verdicts.size < list.length; round++) {
          const codes = codesOf(market).filter((code) => !verdicts.has(code));
          const start = round * 100;
          const here: World = {
            ...market,
            key: (tick) => market.key(tick + start),
            weather: (tick) => market.weather(tick + start),
          };
          const work1 = {
            codes,
            canaries: ['bird'],
            concurrency: width,
            dice: diceOf(dice + round),
          };
          for (const [code, { verdict }] of judged(work(here, work1))) {
            if (verdict !== 'unproven') verdicts.set(code, verdict);
          }
        }
        expect(verdicts.size).toBe(list.length);
        for (const [code, verdict] of verdicts) {
          if (verdict === 'valid') expect(market.truths.get(code)).toBe('valid');
        }
      },
    ),
    { numRuns: 60 },
  );
});

it('judges single codes as it judges them among all, in whatever order the calls are told', () => {
  fc.assert(
    fc.property(
      truths('valid', 'invalid', 'refunded', 'theirs'),
      bad(fc.integer({ min: 1, max: 70 })),
      concurrency,
      seed,
      (list, stretches, width, dice) => {
        const market = world(list, { key: keyOf(stretches), weather: weatherOf(dice, 0.1) });
        const { timeline } = work(market, {
          codes: codesOf(market),
          canaries: ['bird'],
          concurrency: width,
          dice: diceOf(dice),
        });
        const all = judgeChunk(timeline);
        const roll = diceOf(dice + 1);
        const some = new Set([...all.keys()].filter(() => roll() < 0.3));
        const shuffled = timeline.calls
          .map((call) => ({ call, turn: roll() }))
          .sort((a, b) => a.turn - b.turn)
          .map(({ call }) => call);
        const judged = judgeChunk({ ...timeline, calls: shuffled }, some);
        expect(judged.size).toBe(some.size);
        for (const [code, judgement] of judged) expect(judgement).toEqual(all.get(code));
      },
    ),
    { numRuns: 100 },
  );
});
