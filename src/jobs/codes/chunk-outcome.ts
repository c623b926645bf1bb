import { moment } from '../../domain/moment.js';
import { retryOf, whyUnproven, type UnprovenReason } from '../../domain/codes/outcome.js';
import type { AuditState } from '../../store/audits/types.js';
import type { Stop, StopReason } from './types.js';

/** Rounds without a verdict before a code stays unproven. */
const MAX_ROUNDS = 5;
/** The same while no valid code is found: such a round tells little and costs as much. */
const MAX_ROUNDS_WITHOUT_CANARY = 2;
/** Most codes that are retried although every code known to be valid is denied. */
const MAX_RETRIED_WITHOUT_CANARY = 200;

export interface BatchResult {
  readonly stop: Stop | null;
  /** Codes that this round is done with: found, denied so that it counts, or given up. */
  readonly done: number;
  /** Codes to retry. */
  readonly open: number;
  /** Most rounds that an open code has failed for a reason that may pass; 0: none did. */
  readonly failedRounds: number;
}

export interface ChunkResult extends BatchResult {
  /** No validation of this audit has brought a verdict yet. */
  readonly isUntried: boolean;
  readonly state: AuditState;
}

type NextStep =
  | { readonly kind: 'done' }
  | { readonly kind: 'hand-back' }
  /** Retry after `delayMs`. */
  | { readonly kind: 'later'; readonly delayMs: number }
  /** A person or the marketplace must act first: retry after growing pauses. */
  | { readonly kind: 'blocked'; readonly notBefore: number | null };

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Pause before retrying codes that waiting does not help, ms. */
const SOON_MS = 2 * SECOND;
/** First pause for codes that got no answer while others did; it doubles with each round, 4 to 8 minutes in all. */
const FIRST_WAIT_MS = 15 * SECOND;
const AFTER_STOP_MS: Partial<Record<StopReason, number>> = {
  // The marketplace may deny all codes for a moment. The second such round is the last.
  'canary-lost': MINUTE,
  limited: MINUTE,
  challenge: 10 * MINUTE,
};
/** Pause after an outage that let some answers through: such outages are short. */
const AFTER_BREAK_MS = 15 * SECOND;
const AFTER_OUTAGE_MS = 3 * MINUTE;

/** Only a person can fix these; every call fails until then. */
const KEY_FAULTS: ReadonlySet<StopReason> = new Set(['refused', 'account-changed']);

const BLOCKING: ReadonlySet<StopReason> = new Set([...KEY_FAULTS, 'switched-off', 'redirect']);

/**
 * Decides what happens after a batch.
 * @param now milliseconds since 1970
 * @param random 0 to 1; spreads the retries of chunks that stopped together
 */
export function nextStep(result: BatchResult, now: number, random: number): NextStep {
  const { stop, done, open, failedRounds } = result;
  if (open === 0) return { kind: 'done' };
  if (stop?.reason === 'aborted') return { kind: 'hand-back' };
  const notBefore = stop?.notBefore ?? null;
  // Without a canary, retrying many codes is not worth the calls.
  const isHelpless =
    stop?.reason === 'canary-lost' && done === 0 && open > MAX_RETRIED_WITHOUT_CANARY;
  if (isHelpless || (stop !== null && BLOCKING.has(stop.reason))) {
    return { kind: 'blocked', notBefore };
  }
  const afterRoundMs = failedRounds === 0 ? SOON_MS : FIRST_WAIT_MS * 2 ** (failedRounds - 1);
  const pauseMs =
    stop === null
      ? afterRoundMs
      : (AFTER_STOP_MS[stop.reason] ?? (done > 0 ? AFTER_BREAK_MS : AFTER_OUTAGE_MS));
  // The server's own time is kept exactly; the budget spreads the clients that come back then.
  const delayMs = notBefore !== null && notBefore > now ? notBefore - now : pauseMs * (1 + random);
  return { kind: 'later', delayMs: Math.ceil(delayMs) };
}

/**
 * True when the key has never worked for this audit: fail at once, so that the person who started it
 * learns of it. A key that did work may be in the middle of a rotation.
 */
export function isKeyNeverGood({ stop, done, isUntried }: ChunkResult): boolean {
  return isUntried && done === 0 && stop !== null && KEY_FAULTS.has(stop.reason);
}

/**
 * Whether a call without a verdict counts as a failed round of its code. It does not when an outage, a
 * limit or a bad key ended the batch: those are waited out, and so are the denials they left unproven.
 */
export function countsAgainst(reason: UnprovenReason, stop: Stop | null): boolean {
  if (stop === null || stop.reason === 'canary-lost') return true;
  return retryOf(reason) === 'pointless' && stop.reason !== 'unreadable';
}

/** @param rounds rounds without a verdict, this one included */
export function isGivenUp(rounds: number, stop: Stop | null): boolean {
  return rounds >= (stop?.reason === 'canary-lost' ? MAX_ROUNDS_WITHOUT_CANARY : MAX_ROUNDS);
}

export function describeStop(stop: Stop | null): string | null {
  if (stop === null || stop.reason === 'aborted') return null;
  const { reason, notBefore, detail } = stop;
  const text = STOP_TEXTS[reason] ?? whyUnproven(reason);
  const until = notBefore === null ? '' : `, not before ${moment(new Date(notBefore))}`;
  // The detail of a challenge repeats the text.
  const hasDetail = detail !== null && detail !== '' && reason !== 'challenge';
  return `${text}${until}${hasDetail ? `: ${detail}` : ''}`;
}

const STOP_TEXTS: Partial<Record<StopReason, string>> = {
  challenge:
    'the marketplace’s bot protection blocks this program; ask its operator to allow API requests from this address',
  'canary-lost':
    'every code that was known to be valid is denied, so no denial can be proven; name a valid code with --canary',
};
