/** Above both of these, removals are not carried out. */
export interface RemovalGuard {
  readonly items: number;
  /** Of the items that the mirror held as present. */
  readonly percent: number;
}

/** What the look-up of one unlisted item came to. */
export type LookupOutcome = 'found' | 'denied' | 'unanswered';

export interface RemovalQuestion {
  /** Items the mirror held as live or missing before the run. */
  readonly present: number;
  /** Items of these that the list did not name. */
  readonly unlisted: readonly number[];
  /** Look-ups made; an unlisted item without one was not asked for. */
  readonly lookups: ReadonlyMap<number, LookupOutcome>;
  /** The credential was proven before the list and again after the last look-up. */
  readonly provenAfter: boolean;
  readonly guard: RemovalGuard;
}

export interface RemovalPlan {
  /** More would go than the guard allows: nothing is removed. */
  readonly held: boolean;
  /** Denied between two proofs of the credential: gone. */
  readonly remove: readonly number[];
  /** Not listed, and not known to be there or gone. */
  readonly missing: readonly number[];
  /** Not listed, but the marketplace still answers for it. */
  readonly found: readonly number[];
}

/** Whether so many removals pass the guard's threshold: over `items` *and* over `percent`. */
export function exceedsGuard(going: number, present: number, guard: RemovalGuard): boolean {
  return going > guard.items && going * 100 > guard.percent * present;
}

/**
 * What becomes of the items that the list no longer names. Only a denial between two proofs of the
 * credential removes an item: a wrong key, and a list of exactly one item, look just like an empty
 * catalogue (field notes: errors). Everything that may still go counts against the guard.
 */
export function planRemovals(question: RemovalQuestion): RemovalPlan {
  const found: number[] = [];
  const denied: number[] = [];
  const open: number[] = [];
  for (const id of question.unlisted) {
    const outcome = question.lookups.get(id);
    if (outcome === 'found') found.push(id);
    else if (outcome === 'denied' && question.provenAfter) denied.push(id);
    else open.push(id);
  }
  const held = exceedsGuard(denied.length + open.length, question.present, question.guard);
  return held
    ? { held, remove: [], missing: [...denied, ...open], found }
    : { held, remove: denied, missing: open, found };
}
