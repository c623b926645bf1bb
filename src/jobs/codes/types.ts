import type { DoubtReason, SilenceReason } from '../../domain/codes/outcome.js';
import type { Pace } from '../../domain/codes/pulse.js';
import type {
  CodeJudgement,
  InvalidJudgement,
  ValidJudgement,
} from '../../domain/codes/verdict.js';
import type { Purchase } from '../../domain/item.js';
import type { Sourced } from '../../marketplace/types.js';
import type { Carried } from './journal.js';

/** What codes are to be asked for, and by what means. */
export interface AskOptions extends Pace {
  /** User name that the seller is bound to; null when the first proof is to tell. */
  readonly account: string | null;
  /** Each of them once. */
  readonly codes: readonly string[];
  /** Codes of this seller known to be valid, the best first. */
  readonly canaries: readonly string[];
  /** How often a code must be denied; default once. */
  readonly denialsNeeded?: (code: string) => number;
  /** What `AskReport.carried` held after the chunk before, when there was one. */
  readonly carried?: Carried | null;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Cuts the calls under way. */
  readonly signal: AbortSignal;
  /** Aborted when no further code is to be asked for, while what was denied may be proven still. */
  readonly closing?: AbortSignal;
  /**
   * Told of verdicts as soon as they stand: valid ones at once, invalid ones when they are proven.
   * No code is told of twice. When it returns a promise, no further code is asked for until it is
   * fulfilled.
   */
  readonly onSettled?: (settled: readonly SettledCode[]) => Promise<void> | void;
}

/** A code with its verdict. */
export interface SettledCode {
  readonly code: string;
  readonly judgement: ValidJudgement | InvalidJudgement;
  /** When it was answered or denied, milliseconds since 1970. */
  readonly at: number;
  /** Null when it was denied. */
  readonly answer: Sourced<Purchase> | null;
}

/** Why asking ended before every code was asked for, and when to come back. */
export interface Stop {
  readonly reason: StopReason;
  /** When the server says to come back, milliseconds since 1970; null when it did not say. */
  readonly notBefore: number | null;
  /** What the server or the client said of it, redacted and bounded; null when there is nothing to say. */
  readonly detail: string | null;
  /** True: it looked like an outage, but account details are answered; it may be these very codes. */
  readonly isContradicted?: true;
}

export type StopReason =
  | SilenceReason
  | Exclude<DoubtReason, 'another-code'>
  /** Bot protection wants to see a browser. */
  | 'challenge'
  /** The key opens another account than before. */
  | 'account-changed'
  /** Codes that were known to be valid are denied: nothing that is denied can be proven. */
  | 'canary-lost'
  | 'aborted';

/** What came of asking. */
export interface AskReport {
  /** Of every code that was asked for. */
  readonly judgements: ReadonlyMap<string, CodeJudgement>;
  /** Codes that were not asked for. */
  readonly left: readonly string[];
  /** Null when every code was asked for. */
  readonly stop: Stop | null;
  /** Questions put to the marketplace; the client may have repeated some. */
  readonly calls: { readonly codes: number; readonly proofs: number };
  /** User name of the account that the key opened; null when nothing told it. */
  readonly account: string | null;
  /** Canaries that were denied. */
  readonly lostCanaries: readonly string[];
  /** What tells the next chunk of the credential. */
  readonly carried: Carried;
}
