/** Mirror requests go before audit requests. */
export type Priority = 'mirror' | 'audit';

/** The request budget of a marketplace host, shared by all its clients. */
export interface Budget {
  /** Granted evenly spaced; 0: unlimited; not set: unknown. */
  readonly requestsPerMinute?: number;
  /**
   * Waits until the next request may be sent.
   * @param patienceMs longest pause to wait for
   * @throws {BudgetPaused} if the pause is longer
   */
  acquire(priority: Priority, signal: AbortSignal, patienceMs?: number): Promise<void>;
  /** Pauses all clients. @param until milliseconds since 1970 */
  pauseUntil(until: number): Promise<void>;
}

/** Told of a long wait for a budget. @param ms left; null: it is over */
export type OnWait = (ms: number | null) => void;

/** Whether requests to a host carry a random parameter, which keeps caches from answering them. */
export interface RandomParameter {
  /** False for a day after the host answered only without it. */
  isSent(): Promise<boolean>;
  /** Leaves it out for a day. */
  leaveOut(): Promise<void>;
}

/** How long a host goes without the random parameter, hours. */
export const LEFT_OUT_HOURS = 24;

/** Sends 1 % slower than allowed, so that network jitter never puts too many requests into one window. */
const SLACK = 1.01;

/** Milliseconds between two evenly spaced requests. */
export function spacingOf(requestsPerMinute: number): number {
  return (60_000 / requestsPerMinute) * SLACK;
}

/** The marketplace requested a pause longer than the caller can wait. */
export class BudgetPaused extends Error {
  override readonly name = 'BudgetPaused';

  /** @param until milliseconds since 1970 */
  constructor(readonly until: number) {
    super(`requests are paused until ${new Date(until).toISOString()}`);
  }
}
