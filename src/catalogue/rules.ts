import { moment } from '../domain/moment.js';
import { displayName } from '../domain/text.js';

/** A run that would remove more than both limits is held; so is one that found no item at all. */
export interface RemovalGuard {
  readonly items: number;
  /** Percentage of the seller's live and missing items, without those that were held before. */
  readonly percent: number;
}

/**
 * The outcome of looking up one item. `gone`: denied between two proofs of the key. `denied`: without such
 * proof, or for the first time after look-ups had found it. Only an item that is gone may be removed.
 */
export type LookupOutcome = 'found' | 'gone' | 'denied' | 'unanswered';

/** What a run knows about an item of the mirror that the list lacks. Listed items are live. */
export type Sign = LookupOutcome | 'notAsked';

type Fate = 'live' | 'missing' | 'removed' | 'asItWas' | 'held';

/**
 * The state table: what becomes of a known item that the list lacks.
 *
 * | Fate    | What happens                                                                        |
 * | ------- | ----------------------------------------------------------------------------------- |
 * | live    | The item is live, with the record that its look-up found.                           |
 * | missing | It is missing; it counts for the guard.                                             |
 * | removed | It is removed; it counts for the guard. If the guard holds the run, it is missing.  |
 * | asItWas | Its state stays; it does not count.                                                 |
 * | held    | It stays missing until somebody accepts its removal; it does not count.             |
 *
 * Column `isDoubted`: a look-up found an item, so the list is not whole, and says nothing about items without an
 * answer. Column `wasHeld`: an earlier run held the item. A removed item is not looked up; it is live again when
 * a list or `sync item` has it.
 */
const FATES: Readonly<Record<Sign, Readonly<Record<'usual' | 'isDoubted' | 'wasHeld', Fate>>>> = {
  found: { usual: 'live', isDoubted: 'live', wasHeld: 'live' },
  gone: { usual: 'removed', isDoubted: 'removed', wasHeld: 'held' },
  denied: { usual: 'missing', isDoubted: 'missing', wasHeld: 'held' },
  unanswered: { usual: 'missing', isDoubted: 'asItWas', wasHeld: 'held' },
  notAsked: { usual: 'missing', isDoubted: 'asItWas', wasHeld: 'held' },
};

export interface RemovalInput {
  /** Number of items that were live or missing before the run. */
  readonly present: number;
  /** Those of them that are not in the list. */
  readonly unlisted: readonly number[];
  readonly lookups: ReadonlyMap<number, LookupOutcome>;
  /** Whether any item was listed or found. Without one, account details alone proved the key. */
  readonly witnessed: boolean;
  readonly guard: RemovalGuard;
  /** Items that earlier runs held, and that are still missing. Default: none. */
  readonly held?: ReadonlySet<number>;
  /** Items that the list always lacks, because look-ups found them in run after run. Default: none. */
  readonly hidden?: ReadonlySet<number>;
}

export interface RemovalPlan {
  /** True if more would be removed than the guard allows. Then nothing is removed. */
  readonly held: boolean;
  readonly remove: readonly number[];
  /** Unlisted, not found by a look-up, and not removed; with the items held before. */
  readonly missing: readonly number[];
  /** Proven to be gone, and not held before. A held run holds them back. */
  readonly confirmed: readonly number[];
  /** Possibly gone but not proven, and not held before. */
  readonly open: readonly number[];
  /** Without an answer, while the list is not whole: their states stay. */
  readonly asTheyWere: readonly number[];
  /** Found items that make the list incomplete. */
  readonly doubts: readonly number[];
}

/** The part of a plan that changes items. */
export type Removals = Pick<RemovalPlan, 'remove' | 'missing'>;

/**
 * Only a proven denial removes an item: with a wrong key, and with exactly one item, the list looks like an
 * empty catalogue (servers: errors). Items held before count neither for the guard nor as present.
 */
export function planRemovals(input: RemovalInput): RemovalPlan {
  const { unlisted, lookups, witnessed, guard, held: before = NONE, hidden = NONE } = input;
  const signOf = (id: number): Sign => lookups.get(id) ?? 'notAsked';
  const doubts = unlisted.filter((id) => signOf(id) === 'found' && !hidden.has(id));
  const usual = doubts.length > 0 ? 'isDoubted' : 'usual';
  const ids: Record<Fate, number[]> = { live: [], missing: [], removed: [], asItWas: [], held: [] };
  for (const id of unlisted) ids[FATES[signOf(id)][before.has(id) ? 'wasHeld' : usual]].push(id);
  const { removed: confirmed, missing: open, held: heldBefore, asItWas: asTheyWere } = ids;
  const atRisk = confirmed.length + open.length;
  const present = input.present - heldBefore.length;
  const exceedsGuard = atRisk > guard.items && atRisk * 100 > guard.percent * present;
  // The key of a user who sells nothing opens the account and is denied every item (servers: errors).
  const held = exceedsGuard || (!witnessed && confirmed.length > 0);
  const kept = [...open, ...heldBefore];
  return {
    held,
    remove: held ? [] : confirmed,
    missing: held ? [...confirmed, ...kept] : kept,
    ...{ confirmed, open, asTheyWere, doubts },
  };
}

const NONE: ReadonlySet<number> = new Set();

/** Most items of a window: a row of false denials between two proofs goes unnoticed. */
const MAX_WINDOW_ITEMS = 25;
/** Longest time from the start of the first proof of a window to the end of the second, milliseconds. */
const MAX_WINDOW_MS = 120_000;
/** This many calls fit into a window, however small the budget. */
const MIN_WINDOW_CALLS = 10;
/** Calls of the two proofs of a window: account details and a witness each. */
export const PROOF_CALLS = 4;
/** How many items fit into one window. @param spacingMs between two calls */
export function itemsPerWindow(spacingMs: number): number {
  const calls = spacingMs === 0 ? Infinity : Math.floor(windowLimitMs(spacingMs) / spacingMs);
  return Math.max(1, Math.min(MAX_WINDOW_ITEMS, calls - PROOF_CALLS));
}

/** Longest duration of a window, milliseconds: the key may have failed and recovered in a longer one. */
export function windowLimitMs(spacingMs: number): number {
  return Math.max(MAX_WINDOW_MS, MIN_WINDOW_CALLS * spacingMs);
}

/** Runs in a row in which a look-up finds an unlisted item, until that says nothing about the list any more. */
export const HIDDEN_AFTER_RUNS = 3;

/**
 * Whether a list lacks so much that some items must be asked for before it is used: more than half of the known
 * items. It may be another seller's, from a cache.
 * @param present known items that are live or missing, without those held or hidden
 * @param unlisted number of them that the list lacks
 */
export function isSuspicious(present: number, unlisted: number): boolean {
  return unlisted * 2 > present;
}

/** How many known and new items a suspicious list is checked with. */
export const PROBES = 10;

/**
 * Judges a suspicious list by what look-ups say about some items.
 * @param known outcomes for known items that the list lacks
 * @param fresh outcomes for items of the list that the mirror does not know
 * @returns why the list is refused; null if it is not
 */
export function refusalOf(known: readonly Sign[], fresh: readonly Sign[]): string | null {
  const found = known.filter((sign) => sign === 'found').length;
  if (found > 0) {
    return `look-ups found ${found} of ${known.length} known items that it lacks, so it is not whole or not this account’s`;
  }
  if (known.length > 0 && known.every((sign) => sign === 'unanswered')) {
    return `look-ups of ${known.length} of those got no answer, so nothing says that it is whole and this account’s`;
  }
  if (fresh.length === 0 || fresh.includes('found')) return null;
  return fresh.every((sign) => sign === 'denied')
    ? `look-ups deny each of ${fresh.length} new items that it names, so it is not this account’s`
    : `look-ups found none of ${fresh.length} new items that it names, so nothing says that it is this account’s`;
}

/** A held item, and what has become of it. */
export interface ShownItem {
  readonly itemId: number;
  readonly name: string;
  /** `gone`: still held as proven gone. `unproven`: still held, without proof. `back`: listed or found since. */
  readonly now: 'gone' | 'unproven' | 'back' | 'removed';
}

/**
 * What accepting the removals that a run showed does, in sentences for a person.
 * @returns `refusal`: why nothing can be removed; null if something can
 */
export function describeAcceptance(runId: bigint, shown: readonly ShownItem[]) {
  const of = (now: ShownItem['now']): readonly ShownItem[] =>
    shown.filter((one) => one.now === now);
  const [gone, back, unproven, removed] = [of('gone'), of('back'), of('unproven'), of('removed')];
  const rest = [
    back.length > 0
      ? `${back.length} of ${shown.length} are back: ${exampleNames(back.slice(0, NAMED), back.length)}`
      : '',
    unproven.length > 0
      ? `${unproven.length} of ${shown.length} are not proven to be gone, and stay missing`
      : '',
    removed.length > 0 ? `${removed.length} of ${shown.length} were removed before` : '',
  ].filter(Boolean);
  const why = rest.length > 0 ? rest.join('; ') : 'it held nothing';
  return {
    gone,
    rest,
    refusal: gone.length > 0 ? null : `run ${runId} shows nothing that can be removed: ${why}`,
  };
}

/** Items named in a sentence about what is not removed. */
const NAMED = 5;

/** `1001 Foo, 1002 Bar and 10 more`. @param examples of `items` */
export function exampleNames(
  examples: readonly Pick<ShownItem, 'itemId' | 'name'>[],
  items: number,
): string {
  const names = examples.map(({ itemId, name }) => `${itemId} ${displayName(name)}`.trim());
  const more = items - examples.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
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
