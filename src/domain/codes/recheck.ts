import type { KnownCode } from './known-code.js';

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

/** Valid codes whose support has ended since the last check, or soon will: with the end of support. */
function endingSupport(code: RecheckCandidate, now: number): number | null {
  const { verdict, supportedUntil: end, checkedAt } = code;
  const isWorth = verdict === 'valid' && end !== null && end > checkedAt && end <= now + SOON_MS;
  return isWorth ? end : null;
}

/** The earliest end of support first, then the oldest check. @param now milliseconds since 1970 */
export function byUsefulness(now: number): (a: RecheckCandidate, b: RecheckCandidate) => number {
  return (a, b) => {
    const [first, second] = [endingSupport(a, now), endingSupport(b, now)];
    if ((first === null) !== (second === null)) return first === null ? 1 : -1;
    return (
      (first ?? a.checkedAt) - (second ?? b.checkedAt) ||
      (a.code < b.code ? -1 : a.code > b.code ? 1 : 0)
    );
  };
}

/** How many calls a share of the budget allows within a time. @param share more than 0, at most 1 */
export function callsWithin(requestsPerMinute: number, share: number, windowMs: number): number {
  if (requestsPerMinute === 0) return Infinity;
  return Math.floor((requestsPerMinute * share * windowMs) / 60_000);
}

/** The codes to ask for again, the most useful first, no more than `limit`. */
export function planRecheck(
  codes: readonly RecheckCandidate[],
  { olderThan, validOnly }: RecheckFilter,
  limit: number,
  now: number,
): readonly RecheckCandidate[] {
  return codes
    .filter(
      ({ checkedAt, verdict }) =>
        now - checkedAt >= olderThan && (verdict === 'valid' || !validOnly),
    )
    .sort(byUsefulness(now))
    .slice(0, limit);
}

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

/** Whole numbers with the units w, d, h, m (minutes) and s, the larger first. `0` needs no unit. */
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
