const FIRST_MS = 30_000;
const LONGEST_MS = 4 * 3_600_000;
/** No server can put a job off for longer, whatever it says in `Retry-After`. */
const LATEST_MS = 24 * 3_600_000;
/** Most that is added behind a time that was given, so that not all come back in one moment. */
const SPREAD_MS = 60_000;

/** How often a job is tried before it counts as failed: about twelve hours at these pauses. */
export const ATTEMPTS = 12;

/**
 * Pause before a job is tried again, in milliseconds: 30 seconds after the first attempt, doubling
 * up to 4 hours, of which a random half is cut so that jobs that failed together do not come back
 * together. Never before `notBefore`, but at most a day.
 * @param attempt the one that failed, 1 for the first
 * @param notBefore when to come back at the earliest, milliseconds since 1970
 * @param random 0 to 1
 */
export function backoffMs(
  attempt: number,
  notBefore: number | null,
  now: number,
  random: number,
): number {
  const full = Math.min(FIRST_MS * 2 ** Math.max(0, attempt - 1), LONGEST_MS);
  const pause = full / 2 + (full / 2) * random;
  if (notBefore === null) return Math.round(pause);
  const wait = Math.min(Math.max(0, notBefore - now), LATEST_MS);
  return Math.round(Math.max(pause, wait + Math.min(full, SPREAD_MS) * random));
}
