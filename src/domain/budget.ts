/** Mirror requests go before audits when both wait for the budget. */
export type Priority = 'mirror' | 'audit';

/**
 * The request budget of a marketplace host, shared by all who ask it. `acquire` returns when one
 * request may leave; `pauseUntil` stops everybody until then (a 429, or no requests remaining).
 */
export interface Budget {
  acquire(priority: Priority, signal: AbortSignal): Promise<void>;
  /** @param until milliseconds since 1970 */
  pauseUntil(until: number): Promise<void>;
}
