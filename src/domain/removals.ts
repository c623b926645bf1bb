/** Above both of these, removals are not carried out. */
export interface RemovalGuard {
  readonly items: number;
  /** Of the items that the mirror held as present. */
  readonly percent: number;
}

/**
 * What asking for one unlisted item came to. Only an item that is `gone` may be removed: it was denied
 * twice, the second time after an item that is there was found, and the credential was proven before
 * and after. One that is merely `denied` lacks some of that.
 */
export type LookupOutcome = 'found' | 'gone' | 'denied' | 'unanswered';

/** What a person decided about an item that was held back, and that was missing ever since. */
export type Decision = 'approved' | 'rejected';

export interface RemovalQuestion {
  /** Items the mirror held as live or missing before the run. */
  readonly present: number;
  /** Items of these that the list did not name. */
  readonly unlisted: readonly number[];
  /** Look-ups made; an unlisted item without one was not asked for. */
  readonly lookups: ReadonlyMap<number, LookupOutcome>;
  readonly guard: RemovalGuard;
  /** What was decided already; default nothing. */
  readonly decided?: ReadonlyMap<number, Decision>;
}

export interface RemovalPlan {
  /** More would go than the guard allows: nothing is removed. */
  readonly held: boolean;
  /** Proven to be gone. */
  readonly remove: readonly number[];
  /** Not listed, and not known to be there or gone. */
  readonly missing: readonly number[];
  /** Not listed, but the marketplace still answers for it. */
  readonly found: readonly number[];
  /** Of a held run: what it would have removed. */
  readonly confirmed: readonly number[];
  /** Of a held run: what may be gone as well, but was not proven to be. */
  readonly open: readonly number[];
  /** Missing, and kept so because a person said so. */
  readonly rejected: readonly number[];
}

/** As much of a plan as is carried out. */
export type Removals = Pick<RemovalPlan, 'remove' | 'missing'>;

/** Whether so many removals pass the guard's threshold: over `items` *and* over `percent`. */
function exceedsGuard(going: number, present: number, guard: RemovalGuard): boolean {
  return going > guard.items && going * 100 > guard.percent * present;
}

/**
 * What becomes of the items that the list no longer names. Only a proven denial removes an item: a
 * wrong key, and a list of exactly one item, look just like an empty catalogue (field notes: errors). Everything that may still go counts against the guard, except
 * items of which a person decided already: those that may go are removed as they are denied, those
 * that may not stay missing, and neither is asked about again.
 */
export function planRemovals(question: RemovalQuestion): RemovalPlan {
  const { unlisted, lookups, guard, decided } = question;
  const found: number[] = [];
  const [gone, open]: [number[], number[]] = [[], []];
  const [approved, waiting, rejected]: [number[], number[], number[]] = [[], [], []];
  for (const id of unlisted) {
    const outcome = lookups.get(id);
    const isGone = outcome === 'gone';
    const decision = decided?.get(id);
    if (outcome === 'found') found.push(id);
    else if (decision === 'rejected') rejected.push(id);
    else if (decision === 'approved') (isGone ? approved : waiting).push(id);
    else (isGone ? gone : open).push(id);
  }
  const undecided = question.present - approved.length - waiting.length - rejected.length;
  return exceedsGuard(gone.length + open.length, undecided, guard)
    ? {
        ...{ held: true, remove: [], found, rejected, confirmed: gone, open },
        missing: [...gone, ...open, ...approved, ...waiting, ...rejected],
      }
    : {
        ...{ held: false, remove: [...gone, ...approved], found, rejected },
        ...{ confirmed: [], open: [] },
        missing: [...open, ...waiting, ...rejected],
      };
}

/** What is known of a run when a person decides about what it held back. */
export interface HeldRun {
  readonly runId: bigint;
  readonly state: string;
  /** How many items it held back. */
  readonly items: number;
  /** How many of these are missing still, and not found again since. */
  readonly missing: number;
  /** How many of these are removed by now. */
  readonly removed: number;
  readonly decision: Decision | null;
  /** The run that removed items when this one was approved. */
  readonly approvalRunId: bigint | null;
  /** A newer run of the seller that was held. */
  readonly newerHeld: { readonly runId: bigint; readonly decision: Decision | null } | null;
}

/** Whether a decision can be made: carry it out, it is made already, or why not, and what to do. */
export type DecisionCheck =
  | { readonly kind: 'go' | 'made' }
  | { readonly kind: 'no'; readonly why: string; readonly remedy: string };

/**
 * Whether a person may decide so about a run. Of runs that nobody decided about, the newest one holds
 * back all that the others did. A rejection can be taken back later. An approval can be for the items
 * that are still missing, since they were not proven to be gone; a removal can't.
 */
export function checkDecision(run: HeldRun, wanted: Decision): DecisionCheck {
  const { runId, state, items, missing, removed, decision, approvalRunId, newerHeld } = run;
  if (state !== 'held') {
    const why =
      state === 'running'
        ? `run ${runId} is still at work`
        : `run ${runId} was not held (${state})`;
    return no(
      why,
      '`seller-mirror status` names the run that waits for a decision, if there is one',
    );
  }
  if (decision === wanted) return { kind: 'made' };
  if (decision === 'approved') {
    if (missing > 0) return { kind: 'go' };
    const by = approvalRunId === null ? '' : ` (run ${approvalRunId})`;
    return no(
      `run ${runId} was approved already${by}: ${removed} of its ${items} items are removed, and none is missing that could be kept`,
      'items that the marketplace lists again are restored by the next `seller-mirror sync`',
    );
  }
  if (decision === null && newerHeld !== null) {
    const { runId: newer, decision: other } = newerHeld;
    const was = other === null ? '' : ` and was ${other}`;
    const open = other === null || (other === 'rejected' && wanted === 'approved');
    return no(
      `run ${newer} is newer${was}; it held back what run ${runId} did, as far as it is still missing`,
      open
        ? `decide about that one: \`seller-mirror runs ${verbOf(wanted)} ${newer}\``
        : 'nothing is left to decide here',
    );
  }
  if (items === 0) {
    return no(
      `which items run ${runId} held back is not recorded`,
      'run `seller-mirror sync items`, and decide about that run',
    );
  }
  return { kind: 'go' };
}

function no(why: string, remedy: string): DecisionCheck {
  return { kind: 'no', why, remedy };
}

function verbOf(decision: Decision): string {
  return decision === 'approved' ? 'approve' : 'reject';
}
