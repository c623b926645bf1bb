/** Mirror requests go before audits when both wait for the budget. */
export type Priority = 'mirror' | 'audit';

/**
 * The request budget of a marketplace host, shared by all its clients. `pauseUntil` pauses all of them
 * (after a 429, or when no requests remain).
 */
export interface Budget {
  /** Rate at which it grants requests, evenly spaced; 0: unlimited; not set: unknown. */
  readonly requestsPerMinute?: number;
  /**
   * Resolves when one request may be sent.
   * @param patienceMs longest pause to wait for, milliseconds; default any
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
