/** Calls in flight without a budget: marketplaces are far away, and calls cost nothing. */
const MAX_UNLIMITED = 48;
/** Calls in flight with a budget. */
const MAX_BUDGETED = 16;
/** A call may take this many seconds and the budget is still used up. */
const SLOW_CALL_S = 2;

export interface Pace {
  /** Most calls under way. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests; 0: unlimited. */
  readonly spacingMs: number;
}

/**
 * Returns how fast an audit may send requests. The calls in flight are enough to use up the budget although
 * each takes a while, and no more: the others would only queue for it.
 * @param requestsPerMinute 0: unlimited
 */
export function paceOf(requestsPerMinute: number): Pace {
  if (requestsPerMinute === 0) return { concurrency: MAX_UNLIMITED, spacingMs: 0 };
  const enough = 1 + Math.ceil((requestsPerMinute / 60) * SLOW_CALL_S);
  return { concurrency: Math.min(MAX_BUDGETED, enough), spacingMs: 60_000 / requestsPerMinute };
}
