import type { Purchase } from '../domain/item.js';
import type { Sourced } from '../marketplace/types.js';
import type { UnprovenReason } from './evidence.js';
import type { Proof, Verdict } from './rules.js';

/** A code without a verdict. */
export interface OpenCode {
  /** Identifies the code within its ledger; ascends in list order. */
  readonly position: number;
  readonly code: string;
  /** The last proven verdict, from before this audit. */
  readonly known: Exclude<Verdict, 'unproven'> | null;
  /** Tries without a counted answer. */
  readonly attempts: number;
}

/** A code that was denied, and is checked again before it becomes invalid. */
export interface DeniedCode extends OpenCode {
  readonly counted: number;
  /** Milliseconds since 1970. */
  readonly deniedAt: number;
}

/** One check of a code, with its evidence. */
export interface CodeCheck {
  /** When the reply came, milliseconds since 1970. */
  readonly at: number;
  readonly outcome: 'found' | 'denied' | 'unanswered';
  /** `answered`, `denied`, or why the check decided nothing. */
  readonly reason: 'answered' | 'denied' | UnprovenReason;
  readonly httpStatus: number | null;
  /** The server's or the client's message, redacted; null for an answer with data. */
  readonly message: string | null;
  /** The purchase that was found. */
  readonly answer: Sourced<Purchase> | null;
  /** The proofs of the key around a denial that counts. */
  readonly proven: ProvenBetween | null;
}

export interface ProvenBetween {
  readonly by: Extract<Proof, 'known-valid' | 'account'>;
  /** When the two proofs were complete, milliseconds since 1970. */
  readonly before: number;
  readonly after: number;
}

export interface CodeResult {
  /** Null for a known-valid code that served as a proof and was denied: it joins the denied codes. */
  readonly position: number | null;
  readonly code: string;
  /** Null: the verdict rests on checks that are recorded already. */
  readonly check: CodeCheck | null;
  /** Null: the code stays open, or denied. */
  readonly verdict: Verdict | null;
  /** Why there is no verdict, for `unproven`. */
  readonly reason?: UnprovenReason;
}

export interface LedgerCounts {
  /** Codes that were not checked yet, or got no answer. */
  readonly open: number;
  /** Codes that were denied and have no verdict yet. */
  readonly denied: number;
  readonly valid: number;
  /** Codes that were denied and then found. */
  readonly overturned: number;
}

/** Where the state of a list of codes is kept: in PostgreSQL for audits, in memory for the library. */
export interface Ledger {
  /** The next codes to sweep after this position, in list order. */
  open(after: number, limit: number): Promise<readonly OpenCode[]>;
  /**
   * Denied codes with fewer counted denials than `below`, and at least `from` (default 0): those with the fewest first,
   * in random order.
   */
  denied(below: number, limit: number, from?: number): Promise<readonly DeniedCode[]>;
  /** Records results. Those of codes that have a verdict already change nothing. */
  record(results: readonly CodeResult[]): Promise<void>;
  counts(): Promise<LedgerCounts>;
  /** Codes of the seller that are known to be valid, the most useful as proofs first. */
  knownValid(limit: number): Promise<readonly string[]>;
}
