/** Attempts before a job counts as failed. With their pauses they take about twelve hours. */
export const ATTEMPTS = 12;
const FIRST_PAUSE_MS = 30_000;
const MAX_PAUSE_MS = 4 * 3_600_000;
/** A server's `Retry-After` can delay a job by at most this. */
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;
/** Jitter added to a server's `Retry-After`, so that jobs don't all retry at once. */
const MAX_JITTER_MS = 60_000;

/**
 * Pause before a job is retried, in milliseconds: 30 seconds after the first attempt, doubling up to 4 hours,
 * minus a random part of at most half. Never ends before `notBefore`, but within about a day.
 * @param attempt number of the attempt that failed, from 1
 * @param notBefore earliest time of the retry, milliseconds since 1970
 * @param random 0 to 1
 */
export function backoffMs(
  attempt: number,
  notBefore: number | null,
  now: number,
  random: number,
): number {
  const full = Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), MAX_PAUSE_MS);
  const pause = full / 2 + (full / 2) * random;
  if (notBefore === null) return Math.round(pause);
  const wait = Math.min(Math.max(0, notBefore - now), MAX_RETRY_AFTER_MS);
  return Math.round(Math.max(pause, wait + Math.min(full, MAX_JITTER_MS) * random));
}
