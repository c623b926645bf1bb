import type {
  SuspectReason,
  Evidence,
  InconclusiveReason,
  UnprovenReason,
} from '../../domain/codes/outcome.js';
import type { Call, Checkpoints } from '../../domain/codes/proof.js';
import type { Purchase } from '../../domain/item.js';
import type { Marketplace, Sourced } from '../../marketplace/types.js';

export type CodeMarketplace = Pick<Marketplace, 'account' | 'validate'>;

export interface BatchOptions {
  /** User name that the seller is bound to; null: that of the first account details. */
  readonly account: string | null;
  readonly codes: readonly string[];
  /** Codes outside the list, validated after it once another code was found. */
  readonly extraCodes?: readonly string[];
  /** Codes of this seller known to be valid, the best first. */
  readonly canaries: readonly string[];
  /** Most validations in flight. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests of this audit; 0: unlimited, or not known. */
  readonly spacingMs: number;
  /** The `endState` of the batch before, if there was one. */
  readonly startState?: BatchState | null;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Cancels the calls in flight. */
  readonly signal: AbortSignal;
  /** Once aborted, no further code is sent; pending denials still get their checkpoint. */
  readonly closing?: AbortSignal;
}

/** A code that was found, or whose denial counts (see `domain/codes/proof.ts`). */
export type CountedCode = FoundCode | DeniedCode;

interface CountedReply {
  readonly code: string;
  readonly evidence: Evidence;
  /** When the reply came, milliseconds since 1970. */
  readonly at: number;
}

interface FoundCode extends CountedReply {
  readonly kind: 'found';
  readonly proof: 'purchase';
  readonly answer: Sourced<Purchase>;
}

export interface DeniedCode extends CountedReply {
  readonly kind: 'denied';
  readonly proof: 'canary' | 'account';
  /** Those around the denial. */
  readonly checkpoints: Checkpoints;
}

/** A code that was validated without a result that counts. */
export interface UnprovenCode {
  readonly reason: UnprovenReason;
  readonly evidence: Evidence;
  /** When the last reply came, milliseconds since 1970. */
  readonly at: number;
}

/** Why a batch ended early. */
export interface Stop {
  readonly reason: StopReason;
  /** When the server allows a retry, milliseconds since 1970; null when it did not say. */
  readonly notBefore: number | null;
  /** The server's or client's message, redacted and bounded. */
  readonly detail: string | null;
}

export type StopReason =
  | Exclude<InconclusiveReason, 'no-purchase'>
  | Exclude<SuspectReason, 'another-code'>
  /** Bot protection asks for a browser. */
  | 'challenge'
  /** The key opens a different account than before. */
  | 'account-changed'
  /** Every code known to be valid is denied, so no denial can be proven. */
  | 'canary-lost'
  | 'aborted';

export interface BatchReport {
  /** Codes of the list that were sent without a result that counts. */
  readonly unproven: ReadonlyMap<string, UnprovenCode>;
  /** Codes that were not sent. */
  readonly left: readonly string[];
  /** Null when every code was sent. */
  readonly stop: Stop | null;
  /** User name of the account that the key opened; null: not known. */
  readonly account: string | null;
  /** Canaries that were denied. Once another code is found, they are validated like codes of the list. */
  readonly lostCanaries: readonly string[];
  readonly endState: BatchState;
}

/** What the next batch of the same seller starts from. */
export interface BatchState {
  /** The calls of the last checkpoint, with sequence numbers up to 0; empty when it no longer counts. */
  readonly checkpoint: readonly Call[];
  /** A code that was found. */
  readonly canary: string | null;
  /** Most denials between two checkpoints; `Infinity` unless the server asks for long pauses. */
  readonly denialsPerCheckpoint: number;
}
