import { moment } from '../moment.js';

/**
 * Which denied codes are asked for again before they are called invalid.
 *
 * Checkpoints prove the key, not that a denial is true: a stale cache denies good codes for a moment,
 * one sick machine of several denies some of them all the time. So a code is *invalid* only when it
 * was denied twice, the second time at least `SECOND_LOOK_DELAY_MS` later and after every other code of the
 * list. `--confirm` says for which codes: `all` of them, `none`, or `auto`, which looks again at every
 * denied code where few are denied, and else at a part of them: a sample, so that false denials which
 * are few and brief may be missed. `all` misses none.
 *
 * A code that is found after all shows that denials of this marketplace can be false. Then every
 * denied code is asked for again, until chance can no longer explain that it was denied each time.
 */

export const CONFIRM_MODES = ['auto', 'all', 'none'] as const;
export type Confirm = (typeof CONFIRM_MODES)[number];

/** From a denial to the second look at it, milliseconds. */
export const SECOND_LOOK_DELAY_MS = 60_000;
/** The same for a few codes that somebody waits for at the terminal. */
export const SHORT_SECOND_LOOK_DELAY_MS = 5_000;

/** With so many denied codes or fewer, each is asked for again; of more, at least so many are. */
export const MIN_SECOND_LOOKS = 1_000;
/** And with such a share of the list or less. */
const SMALL_SHARE = 0.1;
/**
 * One in so many, in the order of the list: a row of 25 denied codes, which the rules of checkpoints let
 * pass, holds at least one. A short stretch of false denials among true ones can still go unseen.
 */
export const SAMPLE_INTERVAL = 12;
/** How likely it may be that any code of an audit is called invalid by chance alone. */
const RISK = 1 / 10_000;
/** Most looks. Where these are not enough, denials prove nothing and the codes stay unproven. */
const MOST_DENIALS = 10;

export interface DenialCounts {
  readonly confirm: Confirm;
  /** Distinct codes of the list that were to be asked for. */
  readonly asked: number;
  /** Codes that were denied, never found, and have no verdict yet. */
  readonly denied: number;
  /** Codes that were found, those found after a denial among them. */
  readonly valid: number;
  /** Codes that were denied at first and found when they were asked for again. */
  readonly overturned: number;
}

export type SecondLookPlan =
  /** Those denied fewer times than `denials` are asked for again: all, or one in `oneIn`. */
  | { readonly kind: 'look'; readonly denials: number; readonly oneIn: number }
  /** No number of denials would prove anything. */
  | { readonly kind: 'unproven' };

/**
 * How often denied codes must be denied, and which of them. The share of valid codes that are denied is known
 * once codes were overturned: so many denials are asked for that less than one code in 10,000 audits is
 * called invalid by chance.
 */
export function planSecondLook({
  confirm,
  asked,
  denied,
  valid,
  overturned,
}: DenialCounts): SecondLookPlan {
  if (confirm === 'none') return { kind: 'look', denials: 1, oneIn: 1 };
  if (overturned === 0) {
    const isAll = confirm === 'all' || denied <= MIN_SECOND_LOOKS || denied <= SMALL_SHARE * asked;
    const oneIn = isAll ? 1 : Math.min(SAMPLE_INTERVAL, Math.floor(denied / MIN_SECOND_LOOKS));
    return { kind: 'look', denials: 2, oneIn };
  }
  const share = overturned / Math.max(valid, overturned);
  // With no more valid codes than these, how often a denial is false is not known.
  const assumed = Math.min(share, 0.5);
  const denials = Math.max(3, Math.ceil(Math.log(RISK / Math.max(valid, 1)) / Math.log(assumed)));
  return denials > MOST_DENIALS ? { kind: 'unproven' } : { kind: 'look', denials, oneIn: 1 };
}

/** @param deniedAt when each was denied last, milliseconds since 1970 */
export function waitBeforeSecondLook(
  deniedAt: readonly number[],
  lookAfterMs: number,
  overturned: number,
  now: number,
): number {
  // Looks after the first are against chance: time is of no use there.
  const afterMs = overturned > 0 ? Math.min(lookAfterMs, SHORT_SECOND_LOOK_DELAY_MS) : lookAfterMs;
  const last = deniedAt.reduce((latest, at) => Math.max(latest, at), 0);
  return Math.min(afterMs, Math.max(0, last + afterMs - now));
}

/** A denial that counts. */
export interface Denial {
  readonly at: Date;
  /** When the checkpoints around it were complete; null where an older version recorded it. */
  readonly checkpointBefore: Date | null;
  readonly checkpointAfter: Date | null;
}

/** How often a code was denied between two checkpoints before it was called invalid, and when. */
export interface Denials {
  /** 1 or more. */
  readonly times: number;
  readonly first: Denial;
  readonly last: Denial;
}

/**
 * Says in words when a code was denied: `denied twice, 61 s apart, at 2026-11-21 10:00:00Z (between
 * checkpoints at 09:59:58Z and 10:00:02Z) and 2026-11-21 10:01:01Z (between …)`.
 */
export function describeDenials({ times, first, last }: Denials): string {
  if (times < 2) return `denied once, at ${denialText(last)}`;
  const apart = interval(last.at.getTime() - first.at.getTime());
  return times === 2
    ? `denied twice, ${apart} apart, at ${denialText(first)} and ${denialText(last)}`
    : `denied ${times} times within ${apart}, from ${denialText(first)} to ${denialText(last)}`;
}

function denialText({ at, checkpointBefore, checkpointAfter }: Denial): string {
  const text = moment(at);
  if (checkpointBefore === null || checkpointAfter === null) return text;
  const day = text.slice(0, 'YYYY-MM-DD '.length);
  const [before, after] = [checkpointBefore, checkpointAfter].map((checkpoint) =>
    moment(checkpoint).replace(day, ''),
  );
  return `${text} (between checkpoints at ${before} and ${after})`;
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
] as const;

/** A time in the largest unit of which it holds two: `61 s`, `2 min`, `30 h`. @param ms milliseconds */
function interval(ms: number): string {
  const seconds = Math.round(Math.max(0, ms) / 1_000);
  const [unit, size] = UNITS.find(([, one]) => seconds >= 2 * one) ?? ['s', 1];
  return `${Math.round(seconds / size)} ${unit}`;
}
