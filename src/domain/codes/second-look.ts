/**
 * Decides which denied codes are checked again before they are called invalid. `proof.ts` has the rule.
 *
 * Checkpoints prove the key, not the denial. A denied code that turns out valid shows that this marketplace gives
 * false denials, so a sample is no longer enough.
 */

export const CONFIRM_MODES = ['auto', 'all', 'none'] as const;
export type Confirm = (typeof CONFIRM_MODES)[number];

/** Milliseconds from a denial to the second look. */
export const SECOND_LOOK_DELAY_MS = 60_000;
/** The same for codes given as arguments: somebody waits for them at the terminal. */
export const SHORT_SECOND_LOOK_DELAY_MS = 5_000;

/** Up to this many denied codes are all checked again. Of more, at least this many are. */
export const MIN_SECOND_LOOKS = 1_000;
/** Up to this share of the list, all denied codes are checked again. */
const SMALL_SHARE = 0.1;
/**
 * A sample has one random code of each 12 denied codes in list order; of fewer, if that gives at most 1,000
 * codes. So it has at least one from each row of 25 denied codes, the longest that checkpoints accept. It can
 * miss a shorter row of false denials.
 */
export const SAMPLE_INTERVAL = 12;
/** Accepted probability that an audit calls a valid code invalid by chance. */
const MAX_RISK = 1 / 10_000;
/** If this many denials could still be chance, the codes stay unproven. */
const MAX_DENIALS = 10;

export interface DenialCounts {
  readonly confirm: Confirm;
  /** Distinct codes of the list that needed a call. */
  readonly checked: number;
  /** Codes that were denied every time and have no verdict yet. */
  readonly denied: number;
  /** Valid codes, including those denied at first. */
  readonly valid: number;
  /** Codes that were denied at first and turned out valid. */
  readonly overturned: number;
}

export type SecondLookPlan =
  /** Checks codes again that have fewer than `denials` denials: one in `oneIn` of them. */
  | { readonly kind: 'look'; readonly denials: number; readonly oneIn: number }
  /** No number of denials would prove anything. */
  | { readonly kind: 'unproven' };

/**
 * Decides how many denials a code needs, and which codes are checked again. Overturned codes show how often
 * this marketplace denies a valid code. The number of denials then keeps the risk below `MAX_RISK`.
 */
export function planSecondLook({
  confirm,
  checked,
  denied,
  valid,
  overturned,
}: DenialCounts): SecondLookPlan {
  if (confirm === 'none') return { kind: 'look', denials: 1, oneIn: 1 };
  if (overturned === 0) {
    const isAll =
      confirm === 'all' || denied <= MIN_SECOND_LOOKS || denied <= SMALL_SHARE * checked;
    const oneIn = isAll ? 1 : Math.min(SAMPLE_INTERVAL, Math.floor(denied / MIN_SECOND_LOOKS));
    return { kind: 'look', denials: 2, oneIn };
  }
  const share = overturned / Math.max(valid, overturned);
  // If most valid codes were overturned, the true share is unknown.
  const assumed = Math.min(share, 0.5);
  const needed = Math.ceil(Math.log(MAX_RISK / Math.max(valid, 1)) / Math.log(assumed));
  const denials = Math.max(3, needed);
  return denials > MAX_DENIALS ? { kind: 'unproven' } : { kind: 'look', denials, oneIn: 1 };
}

/**
 * Milliseconds to wait before the next look.
 * @param deniedAt the last denial of each code, milliseconds since 1970
 */
export function waitBeforeSecondLook(
  deniedAt: readonly number[],
  lookAfterMs: number,
  overturned: number,
  now: number,
): number {
  // Further looks rule out chance, which needs no long delay.
  const afterMs = overturned > 0 ? Math.min(lookAfterMs, SHORT_SECOND_LOOK_DELAY_MS) : lookAfterMs;
  const last = deniedAt.reduce((latest, at) => Math.max(latest, at), 0);
  return Math.min(afterMs, Math.max(0, last + afterMs - now));
}
