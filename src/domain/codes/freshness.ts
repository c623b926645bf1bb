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
