import { moment } from './moment.js';

/** A run that would remove more than both limits is held. */
export interface RemovalGuard {
  readonly items: number;
  /** Percentage of the items that the mirror had as present. */
  readonly percent: number;
}

/**
 * The outcome of looking up one unlisted item. Only a `gone` item may be removed: it was denied twice,
 * the second time after a listed item was found, and the key was proven before and after. A `denied`
 * item lacks some of that.
 */
export type LookupOutcome = 'found' | 'gone' | 'denied' | 'unanswered';

/** A person's decision about an item that was held back and is still missing. */
export type Decision = 'approved' | 'rejected';

interface RemovalQuestion {
  /** Number of items that were live or missing before the run. */
  readonly present: number;
  /** Those of them that the list does not name. */
  readonly unlisted: readonly number[];
  readonly lookups: ReadonlyMap<number, LookupOutcome>;
  readonly guard: RemovalGuard;
  /** Earlier decisions, by item; default none. */
  readonly decided?: ReadonlyMap<number, Decision>;
}

export interface RemovalPlan {
  /** More would be removed than the guard allows, so nothing is. */
  readonly held: boolean;
  readonly remove: readonly number[];
  /** Not listed, not found by a look-up, and not removed. */
  readonly missing: readonly number[];
  /** Proven to be gone, and nobody has decided about them: a held run holds them back. */
  readonly confirmed: readonly number[];
  /** The same of items that may be gone, without proof. */
  readonly open: readonly number[];
  /** Kept missing by a person's decision. */
  readonly rejected: readonly number[];
}

/** The part of a plan that changes items. */
export type Removals = Pick<RemovalPlan, 'remove' | 'missing'>;

/**
 * Only a proven denial removes an item: a wrong key and a list of exactly one item look like an empty
 * catalogue (field notes: errors). All items that may be gone count against the guard, except those with a
 * decision: approved ones go once they are proven gone, rejected ones stay; neither holds a run again.
 */
export function planRemovals(question: RemovalQuestion): RemovalPlan {
  const { unlisted, lookups, guard, decided } = question;
  const [confirmed, open]: [number[], number[]] = [[], []];
  const approved: number[] = [];
  const waiting: number[] = [];
  const rejected: number[] = [];
  for (const id of unlisted) {
    const outcome = lookups.get(id);
    const isGone = outcome === 'gone';
    const decision = decided?.get(id);
    if (outcome === 'found') continue;
    if (decision === 'rejected') rejected.push(id);
    else if (decision === 'approved') (isGone ? approved : waiting).push(id);
    else (isGone ? confirmed : open).push(id);
  }
  const undecided = question.present - approved.length - waiting.length - rejected.length;
  const going = confirmed.length + open.length;
  const held = going > guard.items && going * 100 > guard.percent * undecided;
  const gone = [...confirmed, ...approved];
  const kept = [...open, ...waiting, ...rejected];
  const fates = held
    ? { remove: [], missing: [...gone, ...kept] }
    : { remove: gone, missing: kept };
  return { held, ...fates, confirmed, open, rejected };
}

export interface HeldRun {
  readonly runId: bigint;
  readonly state: string;
  readonly items: number;
  /** Number of these that are still missing. */
  readonly missing: number;
  /** Number of these that are removed by now. */
  readonly removed: number;
  readonly decision: Decision | null;
  /** The run that removed items when this one was approved. */
  readonly approvalRunId: bigint | null;
  /** A newer run of the seller that was held. */
  readonly newerHeld: { readonly runId: bigint; readonly decision: Decision | null } | null;
}

/** Whether a decision can be made (`go`), was made before (`made`), or why not and what to do (`no`). */
type DecisionCheck =
  | { readonly kind: 'go' | 'made' }
  | { readonly kind: 'no'; readonly why: string; readonly remedy: string };

/**
 * The newest held run without a decision holds back all items of the older ones. A rejection can be
 * followed by an approval, and an approval by a rejection for the items still missing.
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

/** What is known of an item's removal; null: not recorded, or no longer kept. */
interface RemovalEvidence {
  /** The run whose list lacked the item. */
  readonly unlisted: { readonly runId: bigint; readonly at: Date } | null;
  /** When the item was looked up and denied, proven. */
  readonly deniedAt: Date | null;
}

/** Explains a removal in one sentence with times in UTC. */
export function describeRemoval({ unlisted, deniedAt }: RemovalEvidence): string {
  const list =
    unlisted === null
      ? 'not in the list'
      : `not in the list of run ${unlisted.runId} at ${moment(unlisted.at)}`;
  const at = deniedAt === null ? '' : ` at ${moment(deniedAt)}`;
  return `${list}, and denied when looked up${at}, between two proofs of the key`;
}
