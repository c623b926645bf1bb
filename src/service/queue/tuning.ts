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

/** Timeouts and limits of the queue. Tests shorten them. */
export const TUNING = {
  /** A worker's lock on a job expires this long after its last renewal. */
  lockMs: 30_000,
  /** Interval of the check for stalled jobs (their lock expired). The second check in a row takes a job over. */
  stalledMs: 30_000,
  /** An idle worker waits this long for a notification; then it looks for jobs itself. */
  blockMs: 120_000,
  /** Longest wait for a connection. */
  connectMs: 5_000,
  /** Longest wait for the answer to one command. Then the connection counts as dead. */
  commandMs: 5_000,
  /** Longest time for one call of `Queues`, such as adding a job. */
  answerMs: 10_000,
  /** Longest pause between two attempts to reach the server. */
  retryMs: 5_000,
  /** Time for handlers to return after their signal was aborted, and for recording their outcome. */
  graceMs: 5_000,
  /** A job that lost its worker more often than this is given up as the likely cause. */
  maxStalled: 100,
  /** Finished jobs kept in each queue, so that a busy queue can't fill the server. */
  completedKept: 20_000,
  failedKept: 5_000,
  /** Attempts before a job counts as failed. With these pauses, they take about twelve hours. */
  attempts: 12,
  backoff: backoffMs,
};

export type Tuning = Readonly<typeof TUNING>;
