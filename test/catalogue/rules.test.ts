import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ItemState } from '../../src/domain/item.js';
import { KnownItems } from '../../src/catalogue/known-items.js';
import { wireHash } from '../../src/marketplace/decode.js';
import {
  checkDecision,
  type Decision,
  describeRemoval,
  type HeldRun,
  type LookupOutcome,
  planRemovals,
} from '../../src/catalogue/rules.js';

const hashOf = (id: number): Buffer => wireHash(Buffer.from(`record ${id}`));

describe('KnownItems', () => {
  it('behaves like a map for any ids', () => {
    const ids = fc.uniqueArray(fc.oneof(fc.maxSafeNat(), fc.integer({ min: 1, max: 5000 })), {
      maxLength: 3000,
      size: 'max',
    });
    const states = fc.constantFrom<ItemState>('live', 'missing', 'removed');
    fc.assert(
      fc.property(ids, states, fc.nat(100), (all, state, expected) => {
        const table = new KnownItems(expected);
        const known = all.filter((_, i) => i % 2 === 0);
        const fresh = all.filter((_, i) => i % 2 === 1);
        for (const id of known) table.addKnown(id, hashOf(id), state);
        for (const id of known.filter((_, i) => i % 3 === 0)) table.markListed(table.find(id));
        for (const id of fresh) table.addNew(id, hashOf(id));
        for (const id of all) {
          expect(table.hasWireHash(table.find(id), hashOf(id))).toBe(true);
          expect(table.hasWireHash(table.find(id), hashOf(id + 1))).toBe(false);
        }
        const unlisted = state === 'removed' ? [] : known.filter((_, i) => i % 3 !== 0);
        expect(new Set(table.unlisted())).toEqual(new Set(unlisted));
        expect(table.presentCount()).toBe(state === 'removed' ? 0 : known.length);
        expect(table.size).toBe(all.length);
        const unknown = all.reduce((a, b) => Math.max(a, b), 0) + 1;
        expect(table.find(unknown)).toBe(-1);
      }),
      { numRuns: 30 },
    );
  });

  it('tells live items from missing and removed ones', () => {
    const table = new KnownItems(3);
    table.addKnown(1, hashOf(1), 'live');
    table.addKnown(2, hashOf(2), 'missing');
    table.addKnown(3, hashOf(3), 'removed');
    expect([1, 2, 3].map((id) => table.isLive(table.find(id)))).toEqual([true, false, false]);
    expect(table.unlisted()).toEqual([1, 2]);
  });
});

const GUARD = { items: 10, percent: 20 };
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1);
const all = (ids: number[], outcome: LookupOutcome): Map<number, LookupOutcome> =>
  new Map(ids.map((id) => [id, outcome]));

describe('an unlisted item', () => {
  /** The state of item 1 after a run. The guard holds the run if 49 other items are gone as well. */
  const stateAfter = (outcome: string, decision: string, isHeld: boolean): string => {
    const [, ...others] = range(isHeld ? 50 : 1);
    const lookups = all(others, 'gone');
    if (outcome !== 'not asked') lookups.set(1, outcome as LookupOutcome);
    const decided = new Map(decision === 'none' ? [] : [[1, decision as Decision]]);
    const known = { present: 100, unlisted: [1, ...others], witnessed: true };
    const { held, remove, missing } = planRemovals({ ...known, lookups, decided, guard: GUARD });
    expect(held).toBe(isHeld);
    if (remove.includes(1)) return 'removed';
    return missing.includes(1) ? 'missing' : 'live';
  };

  // With a bad key everything is denied, so only `gone`, a denial between two proofs of the key, removes an item.
  it.each([
    // Look-up     Decision    State      If the run is held
    ['found', 'none', 'live', 'live'],
    ['found', 'approved', 'live', 'live'],
    ['found', 'rejected', 'live', 'live'],
    ['gone', 'none', 'removed', 'missing'],
    ['gone', 'approved', 'removed', 'missing'],
    ['gone', 'rejected', 'missing', 'missing'],
    ['denied', 'none', 'missing', 'missing'],
    ['denied', 'approved', 'missing', 'missing'],
    ['denied', 'rejected', 'missing', 'missing'],
    ['unanswered', 'none', 'missing', 'missing'],
    ['unanswered', 'approved', 'missing', 'missing'],
    ['unanswered', 'rejected', 'missing', 'missing'],
    ['not asked', 'none', 'missing', 'missing'],
    ['not asked', 'approved', 'missing', 'missing'],
    ['not asked', 'rejected', 'missing', 'missing'],
  ])('look-up %s, decision %s: %s, and %s if the run is held', (outcome, decision, state, held) => {
    expect(stateAfter(outcome, decision, false)).toBe(state);
    expect(stateAfter(outcome, decision, true)).toBe(held);
  });
});

describe('the removal guard', () => {
  const plan = (present: number, going: number, witnessed = true) =>
    planRemovals({
      present,
      unlisted: range(going),
      lookups: all(range(going), 'gone'),
      witnessed,
      guard: GUARD,
    });

  it('holds a single item back if no item was found at all, as with a key that may not see them', () => {
    expect(plan(1, 1, false)).toMatchObject({ held: true, remove: [], missing: [1] });
  });

  it('allows the removal of 10 items, whatever their share', () => {
    expect(plan(10, 10).remove).toHaveLength(10);
  });

  it('allows the removal of 20 %, whatever their number', () => {
    expect(plan(500, 100).remove).toHaveLength(100);
  });

  it('holds everything back above both limits', () => {
    expect(plan(50, 11)).toMatchObject({ held: true, remove: [] });
    expect(plan(50, 11).missing).toHaveLength(11);
  });
});

describe('items with a decision', () => {
  const ids = range(20);
  const plan = (decision: Decision, extra: number) => {
    const unlisted = range(20 + extra);
    return planRemovals({
      present: 50,
      unlisted,
      lookups: all(unlisted, 'gone'),
      witnessed: true,
      guard: GUARD,
      decided: new Map(ids.map((id) => [id, decision])),
    });
  };

  it('stay if rejected, and do not hold the next run', () => {
    expect(plan('rejected', 2)).toMatchObject({ held: false, remove: [21, 22], rejected: ids });
  });

  it('are removed if approved, however many they are', () => {
    expect(plan('approved', 0)).toMatchObject({ held: false, remove: ids, missing: [] });
  });

  it('need no new decision when further items are held back', () => {
    const held = plan('approved', 11);
    expect(held).toMatchObject({ held: true, remove: [], confirmed: range(31).slice(20) });
  });

  it('do not count as present, which would raise the limit for the others', () => {
    // 11 of 50 items are 22 %; of the 30 without a decision they are 37 %.
    expect(plan('rejected', 11).held).toBe(true);
  });
});

describe('a decision', () => {
  const held: HeldRun = {
    runId: 12n,
    state: 'held',
    items: 11,
    missing: 11,
    removed: 0,
    decision: null,
    approvalRunId: null,
    newerHeld: null,
  };
  const newer = (decision: Decision | null) => ({ newerHeld: { runId: 14n, decision } });

  it('can be made about a held run, and repeated without harm', () => {
    expect(checkDecision(held, 'approved')).toEqual({ kind: 'allowed' });
    expect(checkDecision({ ...held, decision: 'approved' }, 'approved')).toEqual({
      kind: 'already-made',
    });
    expect(checkDecision({ ...held, decision: 'rejected' }, 'rejected')).toEqual({
      kind: 'already-made',
    });
  });

  it('to reject can be reversed, even after a newer held run; a removal can’t', () => {
    const rejected = { ...held, decision: 'rejected', ...newer(null) } as const;
    expect(checkDecision(rejected, 'approved')).toEqual({ kind: 'allowed' });
    const approved = { ...held, decision: 'approved', missing: 0, removed: 9 } as const;
    expect(checkDecision({ ...approved, approvalRunId: 13n }, 'rejected')).toMatchObject({
      kind: 'refused',
      why: expect.stringMatching(/already approved \(run 13\): 9 of its 11 items are/) as string,
    });
  });

  it('to approve can be reversed for the items that are still missing', () => {
    const partly = { ...held, decision: 'approved', missing: 4, removed: 7 } as const;
    expect(checkDecision({ ...partly, approvalRunId: 13n }, 'rejected')).toEqual({
      kind: 'allowed',
    });
  });

  it('must be about the newest held run, which holds back the items of older ones', () => {
    expect(checkDecision({ ...held, ...newer(null) }, 'approved')).toMatchObject({
      why: expect.stringContaining('run 14 is newer') as string,
      remedy: expect.stringContaining('`seller-mirror runs approve 14`') as string,
    });
    expect(checkDecision({ ...held, ...newer('rejected') }, 'approved')).toMatchObject({
      remedy: expect.stringContaining('`seller-mirror runs approve 14`') as string,
    });
    expect(checkDecision({ ...held, ...newer('approved') }, 'approved')).toMatchObject({
      remedy: 'nothing is left to decide here',
    });
  });

  it.each(['succeeded', 'failed', 'running', 'interrupted'])(
    'can’t be made about a run that is %s',
    (state) => {
      expect(checkDecision({ ...held, state }, 'rejected').kind).toBe('refused');
    },
  );

  it('can’t be made about a run whose held items are not recorded', () => {
    expect(checkDecision({ ...held, items: 0 }, 'approved')).toMatchObject({
      remedy: expect.stringContaining('sync items') as string,
    });
  });
});

it('a plan accounts for every item, and removes none without a proven denial or against the guard', () => {
  const outcome = fc.constantFrom<LookupOutcome | undefined>(
    ...(['found', 'gone', 'denied', 'unanswered', undefined] as const),
  );
  fc.assert(
    fc.property(
      fc.array(outcome, { maxLength: 60 }),
      fc.nat(200),
      fc.nat(30),
      fc.nat(100),
      fc.array(fc.constantFrom<Decision | undefined>('approved', 'rejected', undefined), {
        maxLength: 60,
      }),
      (outcomes, others, items, percent, decisions) => {
        const unlisted = range(outcomes.length);
        const lookups = new Map<number, LookupOutcome>();
        outcomes.forEach((value, i) => value !== undefined && lookups.set(i + 1, value));
        const decided = new Map<number, Decision>();
        decisions.forEach((value, i) => value !== undefined && decided.set(i + 1, value));
        const present = outcomes.length + others;
        const plan = planRemovals({
          witnessed: true,
          present,
          unlisted,
          lookups,
          guard: { items, percent },
          decided,
        });
        for (const id of plan.remove) expect(lookups.get(id)).toBe('gone');
        const undecided = plan.remove.filter((id) => !decided.has(id));
        if (undecided.length > items)
          expect(undecided.length * 100).toBeLessThanOrEqual(percent * present);
        if (plan.held) expect(plan.remove).toEqual([]);
        for (const id of plan.remove) expect(decided.get(id)).not.toBe('rejected');
        // A held run holds back all missing items without a decision, and no others.
        const waiting = [...plan.confirmed, ...plan.open];
        expect(waiting.filter((id) => decided.has(id))).toEqual([]);
        if (plan.held) {
          const lacking = plan.missing.filter((id) => !decided.has(id));
          expect(waiting.toSorted((a, b) => a - b)).toEqual(lacking.toSorted((a, b) => a - b));
        }
        const found = unlisted.filter((id) => lookups.get(id) === 'found');
        const accounted = [...plan.remove, ...plan.missing, ...found];
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
