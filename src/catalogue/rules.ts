import { moment } from '../domain/moment.js';

/** A run that would remove more than both limits is held; so is one that found no item at all. */
export interface RemovalGuard {
  readonly items: number;
  /** Percentage of the seller's live and missing items. */
  readonly percent: number;
}

/**
 * The outcome of looking up one item. `gone`: denied between two proofs of the key. `denied`: without such
 * proof, or for the first time after look-ups had found it. Only an item that is gone may be removed.
 */
export type LookupOutcome = 'found' | 'gone' | 'denied' | 'unanswered';

/** A person's decision about a removal that the guard held back. */
export type Decision = 'approved' | 'rejected';

type Fate = 'live' | 'confirmed' | 'approved' | 'open' | 'waiting' | 'rejected';

/**
 * What becomes of a known item that tonight's list lacks, by its look-up and by a person's decision. Absence from
 * the list is the first sign that it is gone; a denial in a proven window (`gone`) is the second.
 *
 * - `live`: its look-up found it.
 * - `confirmed`, `approved`: removed. If the guard holds the run, missing.
 * - `open`, `waiting`, `rejected`: missing.
 *
 * The guard counts items without a decision: `confirmed` and `open` ones. Listed items are live. A removed item
 * is not looked up; it is live again when a list or `sync item` has it.
 */
const FATES: Readonly<
  Record<LookupOutcome | 'notAsked', Readonly<Record<Decision | 'undecided', Fate>>>
> = {
  found: { undecided: 'live', approved: 'live', rejected: 'live' },
  gone: { undecided: 'confirmed', approved: 'approved', rejected: 'rejected' },
  denied: { undecided: 'open', approved: 'waiting', rejected: 'rejected' },
  unanswered: { undecided: 'open', approved: 'waiting', rejected: 'rejected' },
  notAsked: { undecided: 'open', approved: 'waiting', rejected: 'rejected' },
};

interface RemovalInput {
  /** Number of items that were live or missing before the run. */
  readonly present: number;
  /** Those of them that are not in the list. */
  readonly unlisted: readonly number[];
  readonly lookups: ReadonlyMap<number, LookupOutcome>;
  /** Whether any item was listed or found. Without one, account details alone proved the key. */
  readonly witnessed: boolean;
  readonly guard: RemovalGuard;
  /** Earlier decisions by item id; default none. */
  readonly decided?: ReadonlyMap<number, Decision>;
}

export interface RemovalPlan {
  /** True if more would be removed than the guard allows. Then nothing is removed. */
  readonly held: boolean;
  readonly remove: readonly number[];
  /** Unlisted, not found by a look-up, and not removed. */
  readonly missing: readonly number[];
  /** Proven to be gone, without a decision. A held run holds them back. */
  readonly confirmed: readonly number[];
  /** Possibly gone but not proven, without a decision. */
  readonly open: readonly number[];
  /** Kept missing by a person's decision. */
  readonly rejected: readonly number[];
}

/** The part of a plan that changes items. */
export type Removals = Pick<RemovalPlan, 'remove' | 'missing'>;

/**
 * Only a proven denial removes an item: with a wrong key, and with exactly one item, the list looks like an
 * empty catalogue (servers: errors). Items with a decision don't count for the guard, nor as present.
 */
export function planRemovals(input: RemovalInput): RemovalPlan {
  const { unlisted, lookups, witnessed, guard, decided } = input;
  const ids: Record<Fate, number[]> = {
    ...{ live: [], confirmed: [], approved: [] },
    ...{ open: [], waiting: [], rejected: [] },
  };
  for (const id of unlisted) {
    ids[FATES[lookups.get(id) ?? 'notAsked'][decided?.get(id) ?? 'undecided']].push(id);
  }
  const { confirmed, open, approved, waiting, rejected } = ids;
  const withoutDecision = input.present - approved.length - waiting.length - rejected.length;
  const atRisk = confirmed.length + open.length;
  const exceedsGuard = atRisk > guard.items && atRisk * 100 > guard.percent * withoutDecision;
  // The key of a user who sells nothing opens the account and is denied every item (servers: errors).
  const held = exceedsGuard || (!witnessed && confirmed.length > 0);
  const gone = [...confirmed, ...approved];
  const kept = [...open, ...waiting, ...rejected];
  const removals = held
    ? { remove: [], missing: [...gone, ...kept] }
    : { remove: gone, missing: kept };
  return { held, ...removals, confirmed, open, rejected };
}

export interface HeldRun {
  readonly runId: bigint;
  readonly state: string;
  /** Items that the run held back. */
  readonly items: number;
  /** Those of them that are still missing. */
  readonly missing: number;
  /** Those of them that are removed by now. */
  readonly removed: number;
  readonly decision: Decision | null;
  /** The run that removed the items after the approval. */
  readonly approvalRunId: bigint | null;
  /** A newer held run of the seller. */
  readonly newerHeld: { readonly runId: bigint; readonly decision: Decision | null } | null;
}

type DecisionCheck =
  | { readonly kind: 'allowed' | 'already-made' }
  | { readonly kind: 'refused'; readonly why: string; readonly remedy: string };

/**
 * Checks whether a decision about a held run can be made. The newest held run without a decision holds back
 * all items of older ones. A person may approve after a rejection, and after an approval may reject the items
 * that are still missing.
 */
export function checkDecision(run: HeldRun, wanted: Decision): DecisionCheck {
  const { runId, state, items, missing, removed, decision, approvalRunId, newerHeld } = run;
  if (state !== 'held') {
    const why =
      state === 'running'
        ? `run ${runId} is still running`
        : `run ${runId} needs no decision: its state is ${state}`;
    return refused(
      why,
      '`seller-mirror status` names the run that waits for a decision, if there is one',
    );
  }
  if (decision === wanted) return { kind: 'already-made' };
  if (decision === 'approved') {
    if (missing > 0) return { kind: 'allowed' };
    const by = approvalRunId === null ? '' : ` (run ${approvalRunId})`;
    return refused(
      `run ${runId} was already approved${by}: ${removed} of its ${items} items are removed, and none is left to keep`,
      'items that the marketplace lists again are restored by the next `seller-mirror sync`',
    );
  }
  if (decision === null && newerHeld !== null) {
    const { runId: newer, decision: other } = newerHeld;
    const was = other === null ? '' : ` and was ${other}`;
    const open = other === null || (other === 'rejected' && wanted === 'approved');
    return refused(
      `run ${newer} is newer${was}; it holds back the items of run ${runId} that are still missing`,
      open
        ? `decide about that one: \`seller-mirror runs ${verbOf(wanted)} ${newer}\``
        : 'nothing is left to decide here',
    );
  }
  if (items === 0) {
    return refused(
      `the items that run ${runId} held back are not recorded`,
      'run `seller-mirror sync items`, and decide about that run',
    );
  }
  return { kind: 'allowed' };
}

function refused(why: string, remedy: string): DecisionCheck {
  return { kind: 'refused', why, remedy };
}

function verbOf(decision: Decision): string {
  return decision === 'approved' ? 'approve' : 'reject';
}

/** The evidence for an item's removal. Null fields were not recorded, or are no longer kept. */
interface RemovalEvidence {
  /** The run whose list did not have the item. */
  readonly unlisted: { readonly runId: bigint; readonly at: Date } | null;
  /** When the look-up was denied with proof. */
  readonly deniedAt: Date | null;
}

/** Explains a removal in one sentence. Times are in UTC. */
export function describeRemoval({ unlisted, deniedAt }: RemovalEvidence): string {
  const list =
    unlisted === null
      ? 'not in the list'
      : `not in the list of run ${unlisted.runId} at ${moment(unlisted.at)}`;
  const at = deniedAt === null ? '' : ` at ${moment(deniedAt)}`;
  return `${list}, and denied when looked up${at}, between two proofs of the key`;
}
