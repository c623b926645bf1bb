import type { UnprovenReason } from './evidence.js';
import type { KnownValid, ProofBy } from './results.js';

/** What does not change while a piece of work is done. */
export interface Situation {
  /** User name of the seller's account; null: that of the first account details. */
  readonly account: string | null;
  /** From a denial to the next time that a code is asked, milliseconds: a column of the check. */
  readonly waitMs: number;
  /**
   * How long a due code waits for others to share its window, milliseconds. `waitMs` for a list: by then every denied code
   * is due. About 2,000 for look-ups, where a caller waits and new ones come.
   */
  readonly gatherMs: number;
  /** Milliseconds that the budget puts between two calls; 0: unlimited. */
  readonly spacingMs: number;
  /** Codes of this check, at its beginning. */
  readonly codes: number;
  /** The seller's known-valid codes, in the order of `forProofs`, some 100 of them. A code that a person named is first. */
  readonly knownValid: readonly KnownValid[];
  /** How many there are in all. */
  readonly knownValidCount: number;
  /** Some live items of the catalogue, at most ten: they stand for known-valid codes where those are too few. */
  readonly liveItems: readonly number[];
  /** Whether the catalogue has or had this item. True for each if there is no catalogue. */
  hadItem(id: number): boolean;
  /** In [0, 1). */
  dice(): number;
  /** The work ends in order: no new code is asked, and what was answered is proven and recorded. */
  isClosing(): boolean;
}

/** Why work has to wait or to stop. */
export interface Stop {
  readonly reason: UnprovenReason | 'challenge';
  /** The server's or the client's words, redacted. */
  readonly detail: string | null;
}

/**
 * What the plan remembers between two steps: plain JSON. Kept with the check, it serves whichever process goes on; without
 * it, work goes on as well, only slower.
 */
export interface Memory {
  /** User name of the account that the key opened, if the seller had none. */
  readonly account: string | null;
  /** The first pass has passed this position. */
  readonly after: number;
  /** Times that the open codes were gone through. */
  readonly passes: number;
  /** When open codes are tried again. */
  readonly retryAt: number;
  /** When the negative control was last denied, as it should be; null: never. */
  readonly controlAt: number | null;
  /** Three random codes were found: nothing can be proven here. */
  readonly findsEverything: boolean;
  /** Since when the key has been good without a break. Null: it was not proven, or came into doubt. */
  readonly goodSince: number | null;
  /** Bad proofs in a row. */
  readonly badProofs: number;
  /** The proof after the last window, which may serve before the next one. */
  readonly opening: GoodProof | null;
  /** Most codes of a window. It shrinks when windows take too long. */
  readonly windowCodes: number;
  /** Nothing is asked before `until`; null: a person must act, and the loop clears it when work goes on. */
  readonly hold: { readonly stop: Stop; readonly until: number | null } | null;
}

export const FRESH_MEMORY: Memory = {
  account: null,
  after: -1,
  passes: 0,
  retryAt: 0,
  controlAt: null,
  findsEverything: false,
  goodSince: null,
  badProofs: 0,
  opening: null,
  windowCodes: 25,
  hold: null,
};

export interface GoodProof {
  readonly by: ProofBy;
  /** User name of the account that the key opened. */
  readonly account: string;
  /** When its first call was sent, and when it was complete. */
  readonly beganAt: number;
  readonly at: number;
}
