/** Mirror requests go before audits when both wait for the budget. */
export type Priority = 'mirror' | 'audit';

/** The requests to a marketplace host, shared by all its clients. A pause holds all of them. */
export interface Budget {
  /** Rate at which it grants requests, evenly spaced; 0: unlimited; not set: unknown. */
  readonly requestsPerMinute?: number;
  /** @param patienceMs longest pause to wait for @throws {BudgetPaused} when it would be longer */
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
