/**
 * What the ledger gives to the plan, and what it records. All times are milliseconds since 1970 by the clock of the
 * database.
 */

import { meaningOf, messageOf, type Reply } from '../marketplace/reply.js';
import type { FoundPurchase } from './known-code.js';
import type { UnprovenReason } from './evidence.js';
import type { Chance } from './rules.js';

/** A code that the first pass has not answered yet. */
export interface OpenCode {
  /** Identifies the code within its check; ascends in list order. */
  readonly position: number;
  /** What the marketplace is asked, one after the other until one is found. At least one; the one found last first. */
  readonly forms: readonly string[];
  /** Tries without an answer that counts. */
  readonly attempts: number;
}

/** A code that was denied, and has no verdict yet. */
export interface DeniedCode {
  /** Negative for a known-valid code that is not listed, but was denied as a proof. */
  readonly position: number;
  /** The form that was denied last: windows ask for no other. */
  readonly form: string;
  readonly firstDeniedAt: number;
  /** When it was last denied, or asked in a window: it is asked again `waitMs` later. */
  readonly askedAt: number;
  /** Denials that count: both proofs around them were good. Up to three of one window. */
  readonly counted: number;
  /** Windows in which it was asked. */
  readonly rounds: number;
  /** Those of them without an answer that counts. */
  readonly uncounted: number;
}

/** A code of the seller whose newest proven verdict is `valid`. Open and denied codes of the check may be among them. */
export interface KnownValid {
  /** Null for a code that a person named and the store does not have. */
  readonly codeId: string | null;
  /** As the marketplace found it last, whatever the spelling in a list. */
  readonly form: string;
  /** When it was last found, by a check or as a proof. */
  readonly foundAt: number;
  /** Its item is live: a removed one may be gone with its purchases. */
  readonly isLive: boolean;
  /** It was found in this check already: `foundAt` is later than the check’s beginning. */
  readonly isUsed: boolean;
  /** It was denied in this check, and not found since: the second check has it. */
  readonly isDenied: boolean;
}

/** What one statement reads of a check before each step. */
export interface CheckFacts {
  /** Open codes. */
  readonly open: number;
  /** Denied codes without a verdict, and known-valid ones among them that are not listed. */
  readonly denied: number;
  /**
   * Up to `DENIED_PER_STEP` of the denied ones: those that are not listed (`position` below 0) first, then those asked
   * longest ago (`askedAt`).
   */
  readonly deniedCodes: readonly DeniedCode[];
  /** What this check has seen of chance. */
  readonly chance: Chance;
  /** The same of the seller, this check included, faded until now (`faded` in rules.ts). */
  readonly sellerChance: Chance;
  /** Codes of the seller that were ever found, those of this check included. */
  readonly foundEver: number;
}

/** One answer about a code, with its evidence. */
export interface CodeCheck {
  /** When the reply came. */
  readonly at: number;
  /** Found, denied, or why the check decided nothing. */
  readonly reason: 'answered' | 'denied' | UnprovenReason;
  readonly httpStatus: number | null;
  /** The server's or the client's message, redacted; null for an answer with data. */
  readonly message: string | null;
  /** The purchase that was found. */
  readonly answer: FoundPurchase | null;
  /** The proofs of the key around a denial that counts. */
  readonly proven: ProvenBetween | null;
}

/** What was found beside the account: a known-valid code, a live item in place of one, or nothing that could be. */
export type ProofBy = 'known-valid' | 'item' | 'account';

export interface ProvenBetween {
  /** The weaker one of both proofs. */
  readonly by: ProofBy;
  /** When the two proofs were complete. */
  readonly before: number;
  readonly after: number;
}

/** What a step found out about one code. Codes that have a verdict by now are left as they are. */
export interface CodeResult {
  /**
   * A position; or a known-valid code that was denied as a proof: it joins the denied codes, under its own position if the
   * check has it as an open code, else under a new negative one. If it is denied already, only the check is recorded.
   */
  readonly of: { readonly position: number } | { readonly codeId: string };
  /** Null: the verdict rests on checks that are recorded already. */
  readonly check: CodeCheck | null;
  /** The form that was asked last: for `valid` the one that was found. Null if no check was made. */
  readonly form: string | null;
  /**
   * Null: none yet. `invalid` is stored as `no_longer_valid` for a code that was valid before. For `unproven`, the code’s
   * own verdict from before stays with its date.
   */
  readonly verdict: 'valid' | 'invalid' | 'unproven' | null;
  /** Why there is no verdict, for `unproven`. */
  readonly reason: UnprovenReason | null;
  /** Added to the code’s figures. A window adds a round, whatever came of it, and sets `askedAt` to the check’s `at`. */
  readonly adds: {
    readonly attempts: number;
    readonly counted: number;
    readonly rounds: number;
    readonly uncounted: number;
  };
  /** Added to the figures of the check and of the seller. */
  readonly chance: Chance;
}

/** A known-valid code that was found as a proof of the key. */
export interface FoundProof {
  readonly codeId: string;
  readonly at: number;
}

/** No call about a code that is valid. */
export const NO_CHANCE: Chance = { calls: 0, denied: 0 };
/** Nothing is added to a code's figures. */
export const NOTHING: CodeResult['adds'] = { attempts: 0, counted: 0, rounds: 0, uncounted: 0 };

/** A result, of which only some parts are known. */
export function resultOf(of: CodeResult['of'], parts: Partial<Omit<CodeResult, 'of'>>): CodeResult {
  const nothing = { check: null, form: null, verdict: null, reason: null, adds: NOTHING };
  return { of, ...nothing, chance: NO_CHANCE, ...parts };
}

/** Whether a denied code is a known-valid one that is not listed, but was denied as a proof. */
export function isUnlisted({ position }: Pick<DeniedCode, 'position'>): boolean {
  return position < 0;
}

export function addChance(a: Chance, b: Chance): Chance {
  return { calls: a.calls + b.calls, denied: a.denied + b.denied };
}

/**
 * The evidence that an answer gives about a code.
 * @param at when it came
 * @param proven the proofs around a denial that counts
 */
export function evidenceOf(
  reply: Reply<FoundPurchase>,
  at: number,
  proven: ProvenBetween | null = null,
): CodeCheck {
  const { httpStatus } = reply;
  const evidence = { at, httpStatus, message: messageOf(reply), answer: null, proven: null };
  const meaning = meaningOf(reply);
  switch (meaning.kind) {
    case 'found':
      return {
        ...evidence,
        reason: 'answered',
        answer: reply.kind === 'answered' ? reply.data : null,
      };
    case 'denied':
      return { ...evidence, reason: 'denied', proven };
    case 'doubt':
    case 'silent':
      return { ...evidence, reason: meaning.reason };
  }
}
