/**
 * When a purchase code is valid, and when it is invalid.
 *
 * A wrong key, an outage and a bad code all get the same answer, so one denial proves nothing.
 *
 * 1. **First pass.** Every code is asked once, as fast as the budget allows. A purchase that is found makes the code valid: the
 *    purchase is its own proof, once account details show that the key still opens the seller's account. A denial decides
 *    nothing. Without an answer the code is tried again later.
 * 2. **Second check.** At least a minute later (5 s for up to 25 codes given as arguments, and in the demo) the denied codes are
 *    asked again in proven windows: prove the key, ask up to 25 codes, prove the key again. A denial counts if both proofs
 *    were good, nothing in between cast doubt on the key, and all of it took at most two minutes (or 12 calls, with a small
 *    budget).
 * 3. A code is invalid after two denials that far apart, the second one counted. There is no shorter way, whatever was known
 *    before: until then a code keeps its old verdict, with its old date. A code that was valid before is then no longer valid.
 * 4. **Chance.** If valid codes of the seller were denied, every open code needs as many counted denials as chance requires, in
 *    two windows at least. What was seen of a seller fades by half each week. While fewer than 200 calls that found a purchase
 *    are in these figures, a code that is denied in its window is asked twice more, on another connection. While a known-valid
 *    code was denied and has no verdict yet, no code of the list becomes invalid.
 * 5. **End.** After 5 windows without a counted answer, 20 counted denials or 12 rounds, one a minute, a code is unproven, with its
 *    reason. Limits, outages and odd answers never become a verdict.
 */

/** `no_longer_valid`: invalid now, and valid before. */
export type Verdict = 'valid' | 'invalid' | 'no_longer_valid' | 'unproven';

/** Whether the marketplace denies the code, with proof: it never was valid, or no longer is. */
export function isInvalid(verdict: string | null): verdict is 'invalid' | 'no_longer_valid' {
  return verdict === 'invalid' || verdict === 'no_longer_valid';
}

/** "A minute later": from a denial to the next time that a code is asked, milliseconds. A column of the check. */
export const WAIT_MS = 60_000;
/** The same for up to 25 codes given as arguments, and in the demo. */
export const SHORT_WAIT_MS = 5_000;

/** Windows without a counted answer, counted denials, and rounds before a code is given up as unproven. */
export const MAX_UNCOUNTED_WINDOWS = 5;
export const MAX_COUNTED_DENIALS = 20;
export const MAX_ROUNDS = 12;
/** Denials of one window that count at most. */
const COUNTED_PER_WINDOW = 3;
/** Until so many purchases of the seller are counted for chance, a code that is denied in its window is asked twice more. */
const FEW_FOUND = 200;

/** Most codes of a window. */
export const WINDOW_CODES = 25;
/** Longest time from the beginning of a window's first proof to the end of its second one. */
const WINDOW_MS = 120_000;
/** Or the time for so many calls, with a small budget. */
const WINDOW_CALLS = 12;
/** Calls of the two proofs around a window if none is passed over: account details and a known-valid code each. */
export const PROOF_CALLS = 2;

/** Bad proofs in a row before a check pauses. */
export const MAX_BAD_PROOFS = 5;
/** Known-valid codes asked in one proof. */
export const KNOWN_VALID_PER_PROOF = 3;

/** An account and a negative control that were good this long ago still speak for the key (ms). */
export const KEY_FRESH_MS = 600_000;

/** Tries of the first pass without an answer that counts before a code is given up. */
export const MAX_ATTEMPTS = 5;
/** Purchases found between two looks at account details: with another account's key, they would be another seller's. */
export const FOUND_PER_LOOK = 75;
/**
 * The first pass proves the key after this many denials in a row, and then after so many more. No verdict rests on it: it
 * saves the calls that a bad key would waste.
 */
export const FIRST_GUARD = 25;
export const NEXT_GUARD = 100;
/** Codes without an answer in a row that look like an outage. */
export const SILENCES_LIKE_OUTAGE = 8;

const FIRST_RETRY_MS = 15_000;

/** Milliseconds before codes without an answer are tried again. @param pass times the list was gone through, from 1 */
export function pauseBeforeRetry(pass: number): number {
  return FIRST_RETRY_MS * 2 ** Math.min(pass - 1, 3);
}

/** Accepted probability that a check calls any valid code invalid by chance. */
const MAX_RISK = 1 / 10_000;
const WEEK_MS = 7 * 24 * 3_600_000;
/** Fewer denials than this are forgotten: half of one after a week, an eighth after three. */
const FORGOTTEN = 0.1;

/** Calls about codes that are valid: how many, and how many of them were denied. The seller’s figures are fractions. */
export interface Chance {
  readonly calls: number;
  readonly denied: number;
}

/** What was seen of a seller fades by half each week. @param ageMs since it was written down */
export function faded({ calls, denied }: Chance, ageMs: number): Chance {
  const left = 0.5 ** (Math.max(0, ageMs) / WEEK_MS);
  return { calls: calls * left, denied: denied * left };
}

/**
 * How many counted denials make a code invalid. 1, unless valid codes were denied: then as many as keep the risk that any
 * valid code of the check is called invalid below `MAX_RISK`. The worse of both figures decides, so that a long good past
 * does not hide what this check has seen. May be more than `MAX_COUNTED_DENIALS`: such codes end as unproven.
 */
export function denialsNeeded(check: Chance, seller: Chance): number {
  const share = Math.max(shareOf(check), shareOf(seller));
  if (share === 0) return 1;
  const valid = Math.max(1, check.calls - check.denied);
  return Math.max(2, Math.ceil(Math.log(MAX_RISK / valid) / Math.log(share)));
}

/** The share of valid codes' calls that were denied. If most of them were, the true share is unknown. */
function shareOf({ calls, denied }: Chance): number {
  return denied < FORGOTTEN ? 0 : Math.min(0.5, denied / Math.max(calls, denied));
}

/**
 * How often a code is asked in one window if it is denied each time: once, or three times while little is known of the
 * marketplace.
 * @param counted its counted denials so far
 * @param wasInDoubt whether the key came into doubt in this check
 */
export function asksInWindow(
  needed: number,
  counted: number,
  foundEver: number,
  wasInDoubt = false,
): number {
  const isUnsure = needed > 1 || foundEver < FEW_FOUND || wasInDoubt;
  if (!isUnsure) return 1;
  const atMost = MAX_COUNTED_DENIALS - counted;
  return Math.max(1, Math.min(COUNTED_PER_WINDOW, atMost));
}

/** Longest duration of a window, milliseconds. @param spacingMs that the budget puts between two calls; 0: none */
export function longestWindowMs(spacingMs: number): number {
  return Math.max(WINDOW_MS, WINDOW_CALLS * spacingMs);
}

/** How many codes fit into a window, each asked so many times. */
export function codesInWindow(spacingMs: number, asks: number): number {
  const calls = spacingMs === 0 ? Infinity : Math.floor(longestWindowMs(spacingMs) / spacingMs);
  return Math.max(1, Math.min(WINDOW_CODES, Math.floor((calls - 2 * PROOF_CALLS) / asks)));
}

/** A denied code's figures, the last window included. */
export interface DenialFigures {
  readonly counted: number;
  readonly rounds: number;
  readonly uncounted: number;
}

/**
 * What follows from a code's denials. It was denied before, at least `waitMs` before the first counted one.
 * @returns null: it is asked again
 */
export function verdictOf(
  { counted, rounds, uncounted }: DenialFigures,
  needed: number,
): 'invalid' | 'contradicted' | 'not-counted' | null {
  // Three denials of one window may share a cause: chance wants two windows.
  const roundsNeeded = needed > 1 ? 2 : 1;
  if (counted >= needed && rounds - uncounted >= roundsNeeded) return 'invalid';
  if (uncounted >= MAX_UNCOUNTED_WINDOWS) return 'not-counted';
  if (counted >= MAX_COUNTED_DENIALS || rounds >= MAX_ROUNDS) return 'contradicted';
  return null;
}

/** Look-ups that are due wait so long for others to share their window, milliseconds: a caller waits, and new ones come. */
export const LOOK_UPS_GATHER_MS = 2_000;
