const FIRST_MS = 30_000;
const LONGEST_MS = 4 * 3_600_000;
/** Longest that a server can put a job off by `Retry-After`. */
const LATEST_MS = 24 * 3_600_000;
/** Most milliseconds added to a given time, so that jobs don't come back all at once. */
const SPREAD_MS = 60_000;

/**
 * Pause before a job is tried again, in milliseconds: 30 seconds after the first attempt, doubling up
 * to 4 hours, less a random part of up to a half, so that jobs that failed together come back apart.
 * Never before `notBefore`, at most about a day.
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
  const full = Math.min(FIRST_MS * 2 ** (attempt - 1), LONGEST_MS);
  const pause = full / 2 + (full / 2) * random;
  if (notBefore === null) return Math.round(pause);
  const wait = Math.min(Math.max(0, notBefore - now), LATEST_MS);
  return Math.round(Math.max(pause, wait + Math.min(full, SPREAD_MS) * random));
}

/** Times and bounds of the queue's parts, in milliseconds; tests shorten them. */
export const TUNING = {
  /** How long a job belongs to its worker after the last renewal. */
  lockMs: 30_000,
  /** How often stalled jobs (their worker is gone) are looked for; the second look takes them over. */
  stalledMs: 30_000,
  /** Longest that an idle worker waits to be told of a job; then it looks for one by itself. */
  blockMs: 120_000,
  /** Longest wait for a connection. */
  connectMs: 5_000,
  /** Longest wait for the answer to one command; then the connection counts as dead. */
  commandMs: 5_000,
  /** Longest that adding a job or asking for counts takes in all. */
  answerMs: 10_000,
  /** Longest pause between two attempts to reach a server that is away. */
  retryMs: 5_000,
  /** For handlers to return after their signal was aborted, and for their end to be recorded. */
  graceMs: 5_000,
  /** How often a job may lose its worker before it is given up as the cause. */
  maxStalled: 100,
  /** Most finished jobs kept of a queue, so that a busy one can't fill the server. */
  completedKept: 20_000,
  failedKept: 5_000,
  /** How often a job is tried before it counts as failed: about twelve hours at these pauses. */
  attempts: 12,
  backoff: backoffMs,
};

export type Tuning = Readonly<typeof TUNING>;
