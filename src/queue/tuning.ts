import { ATTEMPTS, backoffMs } from './backoff.js';

/** Times and bounds of the queue's parts, in milliseconds; tests shorten them. */
export interface Tuning {
  /** How long a job belongs to its worker after the last renewal. */
  readonly lockMs: number;
  /** How often jobs whose worker is gone are looked for; they are taken over at the second look. */
  readonly stalledMs: number;
  /** How often an idle worker asks for a job. */
  readonly pollMs: number;
  /** Longest wait for a connection. */
  readonly connectMs: number;
  /** Longest wait for the answer to one command; then the connection counts as dead. */
  readonly commandMs: number;
  /** Longest that adding a job or asking for counts takes in all. */
  readonly answerMs: number;
  /** Longest pause between two attempts to reach a server that is away. */
  readonly retryMs: number;
  /** For handlers to return after their signal was aborted, and for what they return to be recorded. */
  readonly graceMs: number;
  /** How often a job may lose its worker before it counts as what kills them. */
  readonly maxStalled: number;
  /** Finished jobs kept per queue beside the days, so that a busy one can't fill the server. */
  readonly completedKept: number;
  readonly failedKept: number;
  readonly attempts: number;
  readonly backoff: typeof backoffMs;
}

export const TUNING: Tuning = {
  lockMs: 30_000,
  stalledMs: 30_000,
  pollMs: 1_000,
  connectMs: 5_000,
  commandMs: 5_000,
  answerMs: 10_000,
  retryMs: 5_000,
  graceMs: 5_000,
  maxStalled: 100,
  completedKept: 20_000,
  failedKept: 5_000,
  attempts: ATTEMPTS,
  backoff: backoffMs,
};
