interface AuditWork {
  /** Distinct codes without a fresh verdict: each needs a call. */
  readonly toCheck: number;
  /** 0: unlimited. */
  readonly requestsPerMinute: number;
  /** Codes in a chunk, at least 1. */
  readonly chunkSize: number;
}

/** The cost of an audit if nothing fails and few codes are denied. */
export interface AuditCost {
  readonly chunks: number;
  /** One per code. */
  readonly codeCalls: number;
  /** Account details and canaries. */
  readonly proofCalls: number;
  readonly calls: number;
  /** Milliseconds that the request budget needs for the calls; null without a budget. */
  readonly leastMs: number | null;
  /** The end of the audit if it began now, milliseconds since 1970; null without a budget. */
  readonly finishAt: number | null;
}

/** Account details are requested after this many codes, or after a minute's worth if that is less. */
export const CODES_PER_ACCOUNT_CALL = 100;

/**
 * Estimates the cost of an audit. Each chunk ends with account details and a canary, which also start the
 * next chunk; long chunks request account details in between. Not counted: a canary for every 17 denials,
 * and second looks. A chunk without denials needs fewer calls.
 * @param now milliseconds since 1970
 */
export function auditCost(work: AuditWork, now: number): AuditCost {
  const { toCheck, requestsPerMinute, chunkSize } = work;
  const chunks = Math.ceil(toCheck / chunkSize);
  const codesPerAccount = Math.min(CODES_PER_ACCOUNT_CALL, requestsPerMinute || Infinity);
  const accounts = Math.max(chunks, Math.floor(toCheck / codesPerAccount));
  const proofCalls = chunks === 0 ? 0 : 2 + accounts + chunks;
  const calls = toCheck + proofCalls;
  // The first call does not wait.
  const waits = Math.max(0, calls - 1);
  const leastMs = requestsPerMinute === 0 ? null : Math.ceil((waits * 60_000) / requestsPerMinute);
  const finishAt = leastMs === null ? null : now + leastMs;
  return { chunks, codeCalls: toCheck, proofCalls, calls, leastMs, finishAt };
}
