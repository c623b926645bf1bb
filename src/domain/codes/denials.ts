import { moment } from '../moment.js';

/** How often a code was denied between two checkpoints before it was called invalid, and when. */
export interface Denials {
  /** 1 or more. */
  readonly times: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
}

/**
 * The evidence of a denied code in one sentence, without its full stop:
 * `denied twice, 61 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 10:01:01Z`.
 */
export function describeDenials({ times, firstAt, lastAt }: Denials): string {
  const [first, last] = [moment(firstAt), moment(lastAt)];
  if (times < 2) return `denied once, at ${last}`;
  const between = interval(lastAt.getTime() - firstAt.getTime());
  return times === 2
    ? `denied twice, ${between} apart, at ${first} and ${last}`
    : `denied ${times} times within ${between}, from ${first} to ${last}`;
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
