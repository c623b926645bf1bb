/**
 * When a purchase code is valid, and when it is invalid.
 *
 * A wrong key, an outage and a bad code all get the same answer, so one denial proves nothing.
 *
 * 1. **Sweep.** Every code is checked once, as fast as the budget allows. A purchase that is found makes the code
 *    valid: the purchase is its own proof, once account details show that the key still opens the seller's account. A
 *    denial decides nothing. Without an answer the code is tried again later.
 * 2. **Confirm.** At least a minute later (5 s for up to 25 codes given as arguments) the denied codes are checked
 *    again in proven windows: prove the key, check up to 25 codes, prove the key again. A denial counts if both
 *    proofs were good, nothing in between cast doubt on the key, and all of it took at most two minutes
 *    (`marketplace/proven-window.ts`).
 * 3. A code is invalid after two denials at least a minute apart, the second one counted. If a denied code turns out
 *    valid after all, this marketplace denies valid codes. Every code still open then needs as many counted denials
 *    as chance requires, in further rounds, each in a new random order. If no number would do, they are unproven.
 * 4. Whatever stays without a counted answer is unproven, with its reason, and checked again later. Limits, outages
 *    and odd answers never become a verdict.
 *
 * A code that was invalid before stays invalid with one denial. A code that was valid before needs the full rule.
 */

export type Verdict = 'valid' | 'invalid' | 'unproven';

/** What proved a verdict: the purchase, a key that found a valid code, a key that only opened the account. */
export type Proof = 'purchase' | 'known-valid' | 'account' | 'none';

/** From a denial to the check that may confirm it, milliseconds. */
export const CONFIRM_AFTER_MS = 60_000;
/** The same for codes given as arguments: somebody waits for them at the terminal. */
export const CONFIRM_SOON_MS = 5_000;
/** From one counted denial to the next, where chance requires several, milliseconds. Stale caches last as long. */
const NEXT_ROUND_AFTER_MS = 20_000;

/** Tries without a counted answer before a code is given up. */
export const MAX_ATTEMPTS = 5;

/** Accepted probability that an audit calls a valid code invalid by chance. */
const MAX_RISK = 1 / 10_000;
/** If more counted denials were needed than this, the codes stay unproven. */
const MAX_COUNTED = 20;

export interface DenialCounts {
  /** Codes found so far, those that were denied at first included. */
  readonly valid: number;
  /** Codes that were denied and then found. */
  readonly overturned: number;
}

/**
 * How many counted denials make a code invalid; null: no number would prove anything.
 *
 * Overturned codes show how often this marketplace denies a valid code. The number keeps the risk for all valid codes
 * of the audit below `MAX_RISK`.
 */
export function countedDenialsNeeded({ valid, overturned }: DenialCounts): number | null {
  if (overturned === 0) return 1;
  const share = overturned / Math.max(valid, overturned);
  // If most valid codes were overturned, the true share is unknown.
  const assumed = Math.min(share, 0.5);
  const byChance = Math.ceil(Math.log(MAX_RISK / Math.max(valid, 1)) / Math.log(assumed));
  const needed = Math.max(2, byChance);
  return needed > MAX_COUNTED ? null : needed;
}

/** Milliseconds from the last denial of a code until it may be checked again. */
export function pauseBeforeConfirm(confirmAfterMs: number, counted: number): number {
  return counted === 0 ? confirmAfterMs : Math.min(confirmAfterMs, NEXT_ROUND_AFTER_MS);
}

/**
 * The sweep proves the key after this many denials in a row, and then after so many more. No verdict rests on it: it
 * saves the calls that a bad key would waste.
 */
export const FIRST_GUARD = 25;
export const NEXT_GUARD = 100;

/** A piece of the sweep has about so many codes, and begins with a proof of the key. */
export const PIECE_CODES = 500;
/** Purchases found between two looks at account details: with another account's key, they would be another seller's. */
export const FOUND_PER_LOOK = 75;

/** Codes without an answer in a row that look like an outage. */
export const SILENCES_LIKE_OUTAGE = 8;

const FIRST_RETRY_MS = 15_000;

/** Milliseconds before codes without an answer are tried again. @param pass times the list was gone through, from 1 */
export function pauseBeforeRetry(pass: number): number {
  return FIRST_RETRY_MS * 2 ** Math.min(pass - 1, 3);
}
