import type { Pace } from '../../domain/codes/pulse.js';

/** Calls under way that an unlimited budget is worth: marketplaces are far, and calls cost nothing. */
const MOST = 48;
/** With a budget fewer: where denials come in a row unexpectedly, the others are asked for again. */
const MOST_OF_BUDGET = 16;
/** How long a call may take before the budget is not used up, seconds. */
const SLOW_CALL = 2;

/**
 * How many calls of a chunk may be under way at the same time: as many as it takes to use up the
 * budget although each takes a while, and no more, since the others would only stand in line for it.
 * @param requestsPerMinute 0: unlimited
 */
export function callsAtOnce(requestsPerMinute: number): number {
  if (requestsPerMinute === 0) return MOST;
  return Math.min(MOST_OF_BUDGET, 1 + Math.ceil((requestsPerMinute / 60) * SLOW_CALL));
}

/** How fast replies to a chunk are to come. @param requestsPerMinute 0: unlimited */
export function paceOf(requestsPerMinute: number): Pace {
  const spacingMs = requestsPerMinute === 0 ? 0 : 60_000 / requestsPerMinute;
  return { concurrency: callsAtOnce(requestsPerMinute), spacingMs };
}
