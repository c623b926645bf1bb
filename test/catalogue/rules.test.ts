import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  describeAcceptance,
  describeRemoval,
  isSuspicious,
  itemsPerWindow,
  type LookupOutcome,
  planRemovals,
  refusalOf,
  type RemovalInput,
  type Sign,
  windowLimitMs,
} from '../../src/catalogue/rules.js';

const GUARD = { items: 10, percent: 20 };
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1);
const all = (ids: number[], outcome: LookupOutcome): Map<number, LookupOutcome> =>
  new Map(ids.map((id) => [id, outcome]));

/** A plan for `going` items of `present`, all proven to be gone. */
const plan = (present: number, going: number, more: Partial<RemovalInput> = {}) =>
  planRemovals({
    present,
    unlisted: range(going),
    lookups: all(range(going), 'gone'),
    witnessed: true,
    guard: GUARD,
    ...more,
  });

describe('the state of an unlisted item', () => {
  /** The state of item 1 after a run: usually, if the list is doubted, and if an earlier run held the item. */
  const stateAfter = (sign: Sign, how: 'usual' | 'doubted' | 'held' | 'guarded'): string => {
    const others = how === 'guarded' ? range(50).slice(1) : [];
    const lookups = all(others, 'gone');
    if (sign !== 'notAsked') lookups.set(1, sign);
    lookups.set(60, 'found');
    const { held, remove, missing, asTheyWere } = plan(100, 0, {
      unlisted: [1, 60, ...others],
      lookups,
      hidden: how === 'doubted' ? new Set() : new Set([1, 60]),
      held: new Set(how === 'held' ? [1] : []),
    });
    expect(held).toBe(how === 'guarded');
    if (remove.includes(1)) return 'removed';
    if (asTheyWere.includes(1)) return 'as it was';
    return missing.includes(1) ? 'missing' : 'live';
  };

  // With a bad key everything is denied, so only `gone`, a denial between two proofs of the key, removes an item.
  it.each([
    // Sign        Usually    List doubted  Held before  The guard holds the run
    ['found', 'live', 'live', 'live', 'live'],
    ['gone', 'removed', 'removed', 'missing', 'missing'],
    ['denied', 'missing', 'missing', 'missing', 'missing'],
    ['unanswered', 'missing', 'as it was', 'missing', 'missing'],
    ['notAsked', 'missing', 'as it was', 'missing', 'missing'],
  ] as const)('that is %s: %s; %s; %s; %s', (sign, usual, doubted, held, guarded) => {
    expect(stateAfter(sign, 'usual')).toBe(usual);
    expect(stateAfter(sign, 'doubted')).toBe(doubted);
    expect(stateAfter(sign, 'held')).toBe(held);
    expect(stateAfter(sign, 'guarded')).toBe(guarded);
  });
});

describe('the removal guard', () => {
  it('holds a single item back if no item was found at all, as with a key that may not see them', () => {
    const unseen = plan(1, 1, { witnessed: false });
    expect(unseen).toMatchObject({ held: true, remove: [], missing: [1] });
  });

  it('allows 10 items, whatever their share, and 20 %, whatever their number; it holds what is above both', () => {
    expect(plan(10, 10).remove).toHaveLength(10);
    expect(plan(500, 100).remove).toHaveLength(100);
    expect(plan(50, 11)).toMatchObject({ held: true, remove: [], missing: range(11) });
  });

  it('does not count items held before, neither as going nor as present, which would raise the limit', () => {
    const held = new Set(range(20));
    expect(plan(50, 22, { held })).toMatchObject({ held: false, remove: [21, 22] });
    // 11 of 50 items are 22 %; of the 30 that were not held they are 37 %.
    expect(plan(50, 31, { held })).toMatchObject({ held: true, confirmed: range(31).slice(20) });
  });
});

describe('a list that lacks known items', () => {
  it('is suspicious if it lacks more than half of them', () => {
    expect([
      isSuspicious(30, 15),
      isSuspicious(30, 16),
      isSuspicious(1, 1),
      isSuspicious(0, 0),
    ]).toEqual([false, true, true, false]);
  });

  it.each<[string, Sign[], Sign[], RegExp | null]>([
    ['a known item is found', ['denied', 'found'], [], /found 1 of 2 known/],
    ['all new items are denied', ['denied'], ['denied', 'denied'], /deny each of 2 new/],
    ['a new item is found', ['denied'], ['denied', 'found'], null],
    ['there are no new items', ['denied'], [], null],
    ['nobody answers', ['unanswered', 'unanswered'], [], /look-ups of 2 of those got no answer/],
    ['some known items are denied', ['denied', 'unanswered'], [], null],
    ['no new item is found', ['denied'], ['denied', 'unanswered'], /found none of 2 new items/],
  ])('is refused or not: %s', (_, known, fresh, why) => {
    const refusal = refusalOf(known, fresh);
    if (why === null) expect(refusal).toBeNull();
    else expect(refusal).toMatch(why);
  });
});

describe('a window of look-ups between two proofs of the key', () => {
  it.each([
    // Milliseconds between two calls, items, longest duration
    [0, 25, 120_000],
    [6_000, 16, 120_000],
    [60_000, 6, 600_000],
  ])('has fewer items with a small budget, so that it ends in time: %j', (spacing, items, ms) => {
    expect([itemsPerWindow(spacing), windowLimitMs(spacing)]).toEqual([items, ms]);
  });
});

it('accepting names what is back, not proven, and removed before', () => {
  const shown = (['gone', 'back', 'unproven', 'removed'] as const).map((now, n) => {
    return { itemId: n + 1, name: `Item ${n + 1}`, now };
  });
  expect(describeAcceptance(7n, shown)).toMatchObject({
    gone: [{ itemId: 1 }],
    rest: [
      '1 of 4 are back: 2 Item 2',
      '1 of 4 are not proven to be gone, and stay missing',
      '1 of 4 were removed before',
    ],
    refusal: null,
  });
  expect(describeAcceptance(7n, shown.slice(1)).refusal).toMatch(
    /^run 7 shows nothing that can be/,
  );
});

it('a plan accounts for every item, and removes none without a proven denial or against the guard', () => {
  const outcome = fc.constantFrom<LookupOutcome | undefined>(
    ...(['found', 'gone', 'denied', 'unanswered', undefined] as const),
  );
  const some = fc.array(fc.boolean(), { maxLength: 60 });
  fc.assert(
    fc.property(
      fc.array(outcome, { maxLength: 60 }),
      fc.nat(200),
      fc.record({ items: fc.nat(30), percent: fc.nat(100) }),
      some,
      some,
      (outcomes, others, guard, holds, hides) => {
        const unlisted = range(outcomes.length);
        const lookups = new Map<number, LookupOutcome>();
        outcomes.forEach((value, i) => value !== undefined && lookups.set(i + 1, value));
        const held = new Set(unlisted.filter((id) => holds[id - 1] === true));
        const hidden = new Set(unlisted.filter((id) => hides[id - 1] === true));
        const present = outcomes.length + others;
        const input = { present, unlisted, lookups, witnessed: true, guard, held, hidden };
        const { remove, missing, asTheyWere, confirmed, open, ...planned } = planRemovals(input);
        for (const id of remove) expect([lookups.get(id), held.has(id)]).toEqual(['gone', false]);
        const found = unlisted.filter((id) => lookups.get(id) === 'found');
        const counted =
          present - unlisted.filter((id) => held.has(id) && !found.includes(id)).length;
        if (remove.length > guard.items) {
          expect(remove.length * 100).toBeLessThanOrEqual(guard.percent * counted);
        }
        if (planned.held) expect(remove).toEqual([]);
        // A held run holds back all missing items that were not held before, and no others.
        const holding = [...confirmed, ...open];
        expect(holding.filter((id) => held.has(id))).toEqual([]);
        if (planned.held) {
          expect(new Set(holding)).toEqual(new Set(missing.filter((id) => !held.has(id))));
        }
        // Without a sign that the list is not whole, no item escapes judgement.
        if (found.every((id) => hidden.has(id))) expect(asTheyWere).toEqual([]);
        const accounted = [...remove, ...missing, ...asTheyWere, ...found];
        expect(accounted.toSorted((a, b) => a - b)).toEqual(unlisted);
      },
    ),
  );
});

it.each([
  [
    { runId: 12n, at: new Date('2026-11-22T02:00:05Z') },
    new Date('2026-11-22T02:01:00Z'),
    'not in the list of run 12 at 2026-11-22 02:00:05Z, and denied when looked up at 2026-11-22 02:01:00Z, between two proofs of the key',
  ],
  [null, null, 'not in the list, and denied when looked up, between two proofs of the key'],
])('a removal is explained in one sentence: %#', (unlisted, deniedAt, sentence) => {
  expect(describeRemoval({ unlisted, deniedAt })).toBe(sentence);
});
