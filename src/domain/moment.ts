/** Formats a time to the second, in UTC: `2026-11-21 02:00:12Z`. */
export function moment(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')}Z`;
}

type DurationReading = { readonly ms: number } | { readonly fault: string };

const UNITS: Readonly<Record<string, number>> = {
  w: 604_800_000,
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
};
/** A hundred years. */
const LONGEST_MS = 36_525 * 86_400_000;
const DURATIONS = 'such as 30m, 12h, 7d or 1d12h';

/** Reads whole numbers with the units w, d, h, m (minutes) and s, larger units first. `0` needs no unit. */
export function parseDuration(text: string): DurationReading {
  const plain = text.trim().toLowerCase();
  if (plain === '') return { fault: `is empty; give a length of time ${DURATIONS}` };
  if (/^0+$/.test(plain)) return { ms: 0 };
  if (/^\d+$/.test(plain)) return { fault: `has no unit; give a length of time ${DURATIONS}` };
  const parts = /^(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(plain);
  if (parts === null) {
    return { fault: `is not a length of time; give whole numbers with units, ${DURATIONS}` };
  }
  const ms = Object.values(UNITS).reduce(
    (sum, unit, index) => sum + Number(parts[index + 1] ?? 0) * unit,
    0,
  );
  return ms <= LONGEST_MS ? { ms } : { fault: 'is longer than a hundred years' };
}

type MomentReading = { readonly at: Date } | { readonly fault: string };

const EXAMPLES = 'such as 2026-03-01, 2026-03-01T12:00Z or 7d';
const ISO =
  /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/i;

/**
 * Reads a day (its start), a day with a time, or a duration (before `now`). Without a zone it is UTC, like
 * all times in output.
 */
export function readMoment(text: string, now: Date): MomentReading {
  const plain = text.trim();
  const [whole, day = '', time = '00:00', zone = 'Z'] = ISO.exec(plain) ?? [];
  if (whole === undefined) {
    const length = parseDuration(plain);
    if ('ms' in length) return { at: new Date(now.getTime() - length.ms) };
    return { fault: `"${plain}" is not a date or time; give one ${EXAMPLES}` };
  }
  const offset = zone.length === 5 ? `${zone.slice(0, 3)}:${zone.slice(3)}` : zone.toUpperCase();
  const at = new Date(`${day}T${time}${offset}`);
  // `Date` reads 30 February as a day in March.
  const midnight = new Date(`${day}T00:00Z`);
  const exists = [at, midnight].every((date) => !Number.isNaN(date.getTime()));
  return exists && midnight.toISOString().startsWith(day)
    ? { at }
    : { fault: `"${plain}" does not exist` };
}
