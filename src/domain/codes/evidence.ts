import { moment } from '../moment.js';
import type { KnownPurchase } from './known-code.js';
import type { Checkpoints } from './proof.js';
import { whyUnproven } from './outcome.js';

/** A denial that counts. */
export interface Denial {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Null if an older version recorded it. */
  readonly checkpoints: Checkpoints | null;
}

/** The denials that made a code invalid. */
export interface Denials {
  /** At least 1. */
  readonly times: number;
  readonly first: Denial;
  readonly last: Denial;
}

/** The outcome of a record of a list. */
export interface RecordFacts {
  /** `rejected`: the record holds no code. `pending`: the code was not checked yet. */
  readonly verdict: 'valid' | 'invalid' | 'unproven' | 'rejected' | 'pending';
  /** One word, for programs; for a rejected record, a sentence. */
  readonly reason: string;
  /** `purchase`, `canary`, `account` or `none`. */
  readonly proof: string;
  /** The denials that prove an invalid code; null if unknown. */
  readonly denials: Denials | null;
  /** The last known purchase. For an invalid code, it dates from when the code was valid. */
  readonly purchase: KnownPurchase | null;
  readonly checkedAt: Date | null;
}

/** Explains a verdict, or why there is none, in one sentence. Times are in UTC. */
export function describeVerdict(facts: Omit<RecordFacts, 'purchase'>): string {
  const { verdict, reason, proof, denials, checkedAt } = facts;
  if (verdict === 'rejected') return reason;
  if (verdict === 'pending') return 'it was not checked yet';
  if (verdict === 'unproven') return whyUnproven(reason);
  if (proof === 'purchase') {
    const at = checkedAt === null ? '' : ` at ${moment(checkedAt)}`;
    return `the marketplace answered with the purchase${at}`;
  }
  const denied = denials === null ? 'denied' : describeDenials(denials);
  if (proof === 'canary') {
    return `${denied}, while the API key opened the account and found a valid code before and after`;
  }
  if (proof === 'account') {
    return `${denied}, while the API key opened the account before and after; no valid code was known to try`;
  }
  return proof;
}

/**
 * Describes when a code was denied: `denied twice, 61 s apart, at 2026-11-21 10:00:00Z (between
 * checkpoints at 09:59:58Z and 10:00:02Z) and 2026-11-21 10:01:01Z (between …)`.
 */
export function describeDenials({ times, first, last }: Denials): string {
  if (times < 2) return `denied once, at ${denialText(last)}`;
  const apart = interval(last.at - first.at);
  return times === 2
    ? `denied twice, ${apart} apart, at ${denialText(first)} and ${denialText(last)}`
    : `denied ${times} times within ${apart}, from ${denialText(first)} to ${denialText(last)}`;
}

function denialText({ at, checkpoints }: Denial): string {
  const text = moment(new Date(at));
  if (checkpoints === null) return text;
  const day = text.slice(0, 'YYYY-MM-DD '.length);
  const [before, after] = [checkpoints.before, checkpoints.after].map((time) =>
    moment(new Date(time)).replace(day, ''),
  );
  return `${text} (between checkpoints at ${before} and ${after})`;
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
] as const;

/** A duration in the largest unit that it contains twice: `61 s`, `2 min`, `30 h`. */
function interval(ms: number): string {
  const seconds = Math.round(Math.max(0, ms) / 1_000);
  const [unit, size] = UNITS.find(([, length]) => seconds >= 2 * length) ?? ['s', 1];
  return `${Math.round(seconds / size)} ${unit}`;
}
