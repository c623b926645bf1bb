import type {
  SuspectReason,
  Evidence,
  InconclusiveReason,
  UnprovenReason,
} from '../../domain/codes/outcome.js';
import type { Call, Checkpoints, Proof } from '../../domain/codes/proof.js';
import type { Purchase } from '../../domain/item.js';
import type { Marketplace, Sourced } from '../../marketplace/types.js';

export type CodeMarketplace = Pick<Marketplace, 'account' | 'validate'>;

export interface BatchOptions {
  /** User name that the seller is bound to; null when the first proof is to tell. */
  readonly account: string | null;
  readonly codes: readonly string[];
  /** Codes that are not of the list, and asked for after it when another code was found. */
  readonly also?: readonly string[];
  /** Codes of this seller known to be valid, the best first. */
  readonly canaries: readonly string[];
  /** Most validations under way at the same time. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests of this audit; 0: unlimited, or not known. */
  readonly spacingMs: number;
  /** What `BatchReport.endState` held after the codes asked for before, when there were any. */
  readonly startState?: BatchState | null;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Cuts the calls under way. */
  readonly signal: AbortSignal;
  /** Once aborted no further code is asked for; the checkpoint that is due still is. */
  readonly closing?: AbortSignal;
}

/** A code that was found, or whose denial counts (see `domain/codes/proof.ts`). */
export interface SettledCode {
  readonly code: string;
  readonly kind: 'found' | 'denied';
  readonly proof: Exclude<Proof, 'none'>;
  readonly evidence: Evidence;
  /** When it was answered or denied, milliseconds since 1970. */
  readonly at: number;
  /** Those around a denial; null when it was found. */
  readonly checkpoints: Checkpoints | null;
  /** Null when it was denied. */
  readonly answer: Sourced<Purchase> | null;
}

/** A code that was asked for without anything that counts. */
export interface UnprovenCode {
  readonly reason: UnprovenReason;
  readonly evidence: Evidence;
  /** When the last reply came, milliseconds since 1970. */
  readonly at: number;
}

/** Why asking ended before every code was asked for, and when to come back. */
export interface Stop {
  readonly reason: StopReason;
  /** When the server says to come back, milliseconds since 1970; null when it did not say. */
  readonly notBefore: number | null;
  /** What the server or the client said of it, redacted and bounded; null when there is nothing to say. */
  readonly detail: string | null;
}

export type StopReason =
  | InconclusiveReason
  | Exclude<SuspectReason, 'another-code'>
  /** Bot protection wants to see a browser. */
  | 'challenge'
  /** The key opens another account than before. */
  | 'account-changed'
  /** Every code that was known to be valid is denied: no denial can be proven. */
  | 'canary-lost'
  | 'aborted';

export interface BatchReport {
  /** Codes of the list that were asked for and not settled. */
  readonly unproven: ReadonlyMap<string, UnprovenCode>;
  /** Codes that were not asked for. */
  readonly left: readonly string[];
  /** Null when every code was asked for. */
  readonly stop: Stop | null;
  /** User name of the account that the key opened; null when nothing told it. */
  readonly account: string | null;
  /** Canaries that were denied. As soon as another is found they are asked for as codes, and settled like those. */
  readonly lostCanaries: readonly string[];
  /** What tells those who ask next of the key. */
  readonly endState: BatchState;
}

/** What the calls so far tell those who ask for the next codes of the same seller. */
export interface BatchState {
  /** The calls of the last checkpoint, numbered up to 0; empty when it no longer stands. */
  readonly checkpoint: readonly Call[];
  /** A canary that was found. */
  readonly canary: string | null;
  /** Denials between two checkpoints where the server asks for long pauses; `Infinity` where it does not. */
  readonly denialsPerCheckpoint: number;
}
