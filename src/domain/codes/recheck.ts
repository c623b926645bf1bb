import type { KnownCode } from './transition.js';

/** A known code that may be asked for again. */
export interface RecheckCandidate extends Pick<KnownCode, 'verdict' | 'checkedAt'> {
  readonly code: string;
  /** End of support, milliseconds since 1970; null when there is none. */
  readonly supportedUntil: number | null;
}

export interface RecheckFilter {
  /** Only codes not checked for this long, milliseconds. */
  readonly olderThan: number;
  readonly validOnly: boolean;
}

/** Support that ends within this time is worth a look, since buyers extend it about then. */
export const SOON_MS = 14 * 86_400_000;

/** Where a code stands in the order of usefulness: by `group`, then by `at`, the lower first. */
export interface Usefulness {
  /** 0: support of a valid code has ended since the last check, or soon will; 1: any other. */
  readonly group: 0 | 1;
  /** Of group 0 the end of support, of group 1 the last check; milliseconds since 1970. */
  readonly at: number;
}

/**
 * How useful it is to ask for a code again: first those whose support is about to end or has ended
 * unseen, the earliest end first; then the oldest check first.
 * @param now milliseconds since 1970
 */
export function usefulness(code: RecheckCandidate, now: number): Usefulness {
  const { verdict, supportedUntil, checkedAt } = code;
  const ends =
    verdict === 'valid' &&
    supportedUntil !== null &&
    supportedUntil > checkedAt &&
    supportedUntil <= now + SOON_MS;
  return ends ? { group: 0, at: supportedUntil } : { group: 1, at: checkedAt };
}

/** Orders codes by usefulness; the code itself decides between equals, so that the order is one. */
export function byUsefulness(now: number): (a: RecheckCandidate, b: RecheckCandidate) => number {
  return (a, b) => {
    const [first, second] = [usefulness(a, now), usefulness(b, now)];
    return (
      first.group - second.group ||
      first.at - second.at ||
      (a.code < b.code ? -1 : a.code > b.code ? 1 : 0)
    );
  };
}

/** Whether a code is asked for again at all. */
export function isDue(code: RecheckCandidate, filter: RecheckFilter, now: number): boolean {
  return (
    now - code.checkedAt >= filter.olderThan && (code.verdict === 'valid' || !filter.validOnly)
  );
}

/**
 * How many calls a share of the budget allows within a time; infinite where the budget is.
 * @param share more than 0, at most 1
 * @param windowMs the time from one re-audit to the next, milliseconds
 */
export function callsWithin(requestsPerMinute: number, share: number, windowMs: number): number {
  if (requestsPerMinute === 0) return Infinity;
  return Math.floor((requestsPerMinute * share * windowMs) / 60_000);
}

/** The codes to ask for again, the most useful first, no more than `limit`. */
export function planRecheck(
  codes: readonly RecheckCandidate[],
  filter: RecheckFilter,
  limit: number,
  now: number,
): readonly RecheckCandidate[] {
  return codes
    .filter((code) => isDue(code, filter, now))
    .sort(byUsefulness(now))
    .slice(0, limit);
}

/** A length of time read from text, or what is wrong with the text. */
export type DurationReading = { readonly ms: number } | { readonly fault: string };

const UNITS: Readonly<Record<string, number>> = {
  w: 604_800_000,
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
};
/** A hundred years: nobody means more, and moments that far apart still are moments. */
const LONGEST_MS = 36_525 * 86_400_000;
const EXAMPLES = 'such as 30m, 12h, 7d or 1d12h';

/**
 * Whether a verdict is young enough to be used again without a call. A moment that is still to come,
 * as the clock of another machine may have it, is as far off as one that is past.
 * @param checkedAt when the code was last proven, milliseconds since 1970; null when it never was
 * @param maxAge milliseconds; 0 to ask always
 * @param now milliseconds since 1970
 */
export function isFresh(checkedAt: number | null, maxAge: number, now: number): boolean {
  return checkedAt !== null && Math.abs(now - checkedAt) < maxAge;
}

/**
 * Reads a length of time: whole numbers with the units w, d, h, m (minutes) and s, the larger first.
 * `0` needs no unit.
 */
export function parseDuration(text: string): DurationReading {
  const plain = text.trim().toLowerCase();
  if (plain === '') return { fault: `is empty; give a length of time ${EXAMPLES}` };
  if (/^0+$/.test(plain)) return { ms: 0 };
  if (/^\d+$/.test(plain)) return { fault: `has no unit; give a length of time ${EXAMPLES}` };
  const parts = /^(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(plain);
  if (parts === null) {
    return { fault: `is no length of time; give whole numbers with units, ${EXAMPLES}` };
  }
  const ms = Object.values(UNITS).reduce(
    (sum, unit, index) => sum + Number(parts[index + 1] ?? 0) * unit,
    0,
  );
  return ms <= LONGEST_MS ? { ms } : { fault: 'is longer than a hundred years' };
}
