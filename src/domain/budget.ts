/** Mirror requests go before audits when both wait for the budget. */
export type Priority = 'mirror' | 'audit';

/**
 * The request budget of a marketplace host, shared by all who ask it. `pauseUntil` stops everybody
 * until then (a 429, or no requests remaining).
 */
export interface Budget {
  /** How fast it lets requests leave, evenly spaced; 0: unlimited; not set: not known. */
  readonly requestsPerMinute?: number;
  /**
   * Returns when one request may leave.
   * @param patienceMs longest pause to wait out; default any
   * @throws {BudgetPaused} when the marketplace asked for a longer one
   */
  acquire(priority: Priority, signal: AbortSignal, patienceMs?: number): Promise<void>;
  /** @param until milliseconds since 1970 */
  pauseUntil(until: number): Promise<void>;
}

/** The marketplace asked for a pause longer than the caller can wait. */
export class BudgetPaused extends Error {
  override readonly name = 'BudgetPaused';

  /** @param until milliseconds since 1970 */
  constructor(readonly until: number) {
    super(`requests are paused until ${new Date(until).toISOString()}`);
  }
}
