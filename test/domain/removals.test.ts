import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planRemovals, type LookupOutcome } from '../../src/domain/removals.js';

const GUARD = { items: 10, percent: 20 };
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1);
const all = (ids: number[], outcome: LookupOutcome): Map<number, LookupOutcome> =>
  new Map(ids.map((id) => [id, outcome]));

describe('an unlisted item', () => {
  const question = { present: 100, unlisted: [1], guard: GUARD };

  it('is removed when it is denied between two proofs of the credential', () => {
    const plan = planRemovals({ ...question, lookups: all([1], 'denied'), provenAfter: true });
    expect(plan).toEqual({ held: false, remove: [1], missing: [], found: [] });
  });

  it('stays missing when the key could not be proven afterwards, since a bad key is denied everything', () => {
    const plan = planRemovals({ ...question, lookups: all([1], 'denied'), provenAfter: false });
    expect(plan).toMatchObject({ remove: [], missing: [1] });
  });

  it('stays missing when nobody answered, or nobody asked', () => {
    expect(
      planRemovals({ ...question, lookups: all([1], 'unanswered'), provenAfter: true }),
    ).toMatchObject({ remove: [], missing: [1] });
    expect(planRemovals({ ...question, lookups: new Map(), provenAfter: true })).toMatchObject({
      remove: [],
      missing: [1],
    });
  });

  it('stays as it is when the marketplace still answers for it', () => {
    expect(
      planRemovals({ ...question, lookups: all([1], 'found'), provenAfter: true }),
    ).toMatchObject({ remove: [], missing: [], found: [1] });
  });
});

describe('the removal guard', () => {
  const plan = (present: number, going: number) =>
    planRemovals({
      present,
      unlisted: range(going),
      lookups: all(range(going), 'denied'),
      provenAfter: true,
      guard: GUARD,
    });

  it('lets 10 items go whatever their share', () => {
    expect(plan(10, 10).remove).toHaveLength(10);
  });

  it('lets 20 % go whatever their number', () => {
    expect(plan(500, 100).remove).toHaveLength(100);
  });

  it('holds everything back when both are exceeded', () => {
    expect(plan(50, 11)).toMatchObject({ held: true, remove: [] });
    expect(plan(50, 11).missing).toHaveLength(11);
  });
});

it('never removes an item without a denial, a proof and the guard’s leave, and forgets none', () => {
  const outcome = fc.constantFrom<LookupOutcome | undefined>(
    'found',
    'denied',
    'unanswered',
    undefined,
  );
  fc.assert(
    fc.property(
      fc.array(outcome, { maxLength: 60 }),
      fc.nat(200),
      fc.boolean(),
      fc.nat(30),
      fc.nat(100),
      (outcomes, others, provenAfter, items, percent) => {
        const unlisted = range(outcomes.length);
        const lookups = new Map<number, LookupOutcome>();
        outcomes.forEach((value, i) => value !== undefined && lookups.set(i + 1, value));
        const present = outcomes.length + others;
        const plan = planRemovals({
          present,
          unlisted,
          lookups,
          provenAfter,
          guard: { items, percent },
        });
        for (const id of plan.remove) expect(lookups.get(id)).toBe('denied');
        if (!provenAfter) expect(plan.remove).toEqual([]);
        if (plan.remove.length > items)
          expect(plan.remove.length * 100).toBeLessThanOrEqual(percent * present);
        expect([...plan.remove, ...plan.missing, ...plan.found].sort((a, b) => a - b)).toEqual(
          unlisted,
        );
      },
    ),
  );
});
