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

/** How fast codes are asked for. */
export interface Pace {
  /** Most validations under way at the same time. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests; 0: unlimited. */
  readonly spacingMs: number;
}

/** How fast the codes of a chunk are asked for. @param requestsPerMinute 0: unlimited */
export function paceOf(requestsPerMinute: number): Pace {
  const spacingMs = requestsPerMinute === 0 ? 0 : 60_000 / requestsPerMinute;
  return { concurrency: callsAtOnce(requestsPerMinute), spacingMs };
}

/** Codes of a chunk that a budget spreads over minutes anyway. */
const CHUNK = 500;
/** Codes of a chunk where nothing but calls takes time: some seconds of work, as audits take turns. */
const UNLIMITED_CHUNK = 20_000;

/**
 * How many codes an audit asks for in one go. Between two chunks calls are not kept under way, which
 * matters only where no budget makes them wait.
 * @param requestsPerMinute 0: unlimited
 */
export function chunkSizeFor(requestsPerMinute: number): number {
  return requestsPerMinute === 0 ? UNLIMITED_CHUNK : CHUNK;
}
