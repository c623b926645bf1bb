import { moment } from '../../domain/moment.js';
import { askAgain, whyUnproven, type UnprovenReason } from '../../domain/codes/outcome.js';
import type { AuditState } from '../../store/audits/types.js';
import type { Stop, StopReason } from './types.js';

/** Rounds without a verdict after which a code stays unproven. */
const ROUNDS = 5;
/** Codes that are asked for again although every code known to be valid is denied. */
const MOST_WITHOUT_CANARY = 200;
/** As long as no code known to be valid is found, a round tells little, and costs as much. */
const ROUNDS_WITHOUT_CANARY = 2;

export interface AskResult {
  readonly stop: Stop | null;
  /** Codes that got a verdict, or were given up. */
  readonly settled: number;
  /** Codes to ask for again. */
  readonly open: number;
  /** Rounds that brought no verdict for some of them, where waiting may help; 0: none. */
  readonly roundsToWait: number;
}

export interface ChunkResult extends AskResult {
  /** No code of the audit ever got a verdict by asking. */
  readonly isFirst: boolean;
  readonly state: AuditState;
}

export type Consequence =
  | { readonly kind: 'done' }
  | { readonly kind: 'hand-back' }
  /** Again after `delayMs`: it may be otherwise then. */
  | { readonly kind: 'later'; readonly delayMs: number }
  /** Only a person, or a change at the marketplace, can mend it: again after growing pauses. */
  | { readonly kind: 'blocked'; readonly notBefore: number | null };

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Pause where a few codes got no verdict, for a reason that waiting does not help against, ms. */
const SOON_MS = 2 * SECOND;
/** A few codes got no answer while others did; doubles with each round: some eight minutes in all. */
const FIRST_WAIT_MS = 15 * SECOND;
const AFTER_STOP_MS: Partial<Record<StopReason, number>> = {
  // All may be denied for a moment; the second such round is the last one.
  'canary-lost': MINUTE,
  limited: MINUTE,
  challenge: 10 * MINUTE,
};
/** Outages that let answers through are short ones. */
const AFTER_BREAK_MS = 15 * SECOND;
const AFTER_OUTAGE_MS = 3 * MINUTE;

/** Only a person can mend these; until then every call meets them. */
const KEY_FAULTS: ReadonlySet<StopReason> = new Set(['refused', 'account-changed']);

const BLOCKING: ReadonlySet<StopReason> = new Set([...KEY_FAULTS, 'switched-off', 'redirect']);

/**
 * What follows from what asking came to.
 * @param now milliseconds since 1970
 * @param random 0 to 1, so that chunks that stopped together do not come back together
 */
export function nextStep(result: AskResult, now: number, random: number): Consequence {
  const { stop, settled, open } = result;
  if (open === 0) return { kind: 'done' };
  if (stop?.reason === 'aborted') return { kind: 'hand-back' };
  const notBefore = stop?.notBefore ?? null;
  // To try all codes without a canary is not worth their calls.
  const isHelpless = stop?.reason === 'canary-lost' && settled === 0 && open > MOST_WITHOUT_CANARY;
  if (isHelpless || (stop !== null && BLOCKING.has(stop.reason))) {
    return { kind: 'blocked', notBefore };
  }
  const { roundsToWait } = result;
  const afterRoundMs = roundsToWait === 0 ? SOON_MS : FIRST_WAIT_MS * 2 ** (roundsToWait - 1);
  const pauseMs =
    stop === null
      ? afterRoundMs
      : (AFTER_STOP_MS[stop.reason] ?? (settled > 0 ? AFTER_BREAK_MS : AFTER_OUTAGE_MS));
  // What the server asked for is waited for exactly; the budget spaces who comes back.
  const delayMs = notBefore !== null && notBefore > now ? notBefore - now : pauseMs * (1 + random);
  return { kind: 'later', delayMs: Math.ceil(delayMs) };
}

/**
 * Whether waiting for a key to be mended is of no use: it has never worked for this audit, so that
 * whoever asked for it is told at once. One that did may be on its way from one key to the next.
 */
export function isKeyNeverGood({ stop, settled, isFirst }: ChunkResult): boolean {
  return isFirst && settled === 0 && stop !== null && KEY_FAULTS.has(stop.reason);
}

/**
 * Whether a call without a verdict counts against its code. What ends the asking never does: outages,
 * limits and a key that is not good are waited for, and denials that they left without a proof.
 */
export function countsAgainst(reason: UnprovenReason, stop: Stop | null): boolean {
  if (stop === null || stop.reason === 'canary-lost') return true;
  return askAgain(reason) === 'pointless' && stop.reason !== 'unreadable';
}

/** @param attempts rounds without a verdict, this one included */
export function isGivenUp(attempts: number, stop: Stop | null): boolean {
  return attempts >= (stop?.reason === 'canary-lost' ? ROUNDS_WITHOUT_CANARY : ROUNDS);
}

export function describeStop(stop: Stop | null): string | null {
  if (stop === null || stop.reason === 'aborted') return null;
  const { reason, notBefore, detail } = stop;
  const words = WORDS[reason] ?? whyUnproven(reason);
  const until = notBefore === null ? '' : `, not before ${moment(new Date(notBefore))}`;
  // The detail of a challenge says the same.
  const isTold = detail === null || detail === '' || reason === 'challenge';
  return `${words}${until}${isTold ? '' : `: ${detail}`}`;
}

const WORDS: Partial<Record<StopReason, string>> = {
  challenge:
    'the marketplace’s bot protection wants to see a browser; ask its operator to let API requests from this address pass',
  'canary-lost':
    'every code that was known to be valid is denied, so no denial can be proven; name one that is valid with --canary',
};
