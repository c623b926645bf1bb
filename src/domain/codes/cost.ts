export interface AuditSize {
  /** Codes that need a call: neither fresh nor in the list twice. */
  readonly toAsk: number;
  /** 0: unlimited. */
  readonly requestsPerMinute: number;
  /** Codes in a chunk, at least 1. */
  readonly chunkSize: number;
}

/** What an audit costs while nothing fails, unless most of its codes are denied. */
export interface AuditCost {
  readonly chunks: number;
  /** One for each code. */
  readonly codeCalls: number;
  /** Account details and canaries. */
  readonly proofCalls: number;
  readonly calls: number;
  /** Milliseconds that the budget spreads the calls over; null without one: the marketplace's speed is unknown. */
  readonly leastMs: number | null;
  /** When it would end if it began now, milliseconds since 1970. */
  readonly finishAt: number | null;
}

/** Codes between account details while denials wait for them; at most a minute's worth. */
const CODES_AN_ACCOUNT = 100;

/**
 * A chunk ends with account details and a canary, with which the next one begins; account details are asked
 * for within a chunk too. Chunks in which nothing is denied need less, others a canary more for every 17
 * denials. Second looks come on top. @param now milliseconds since 1970
 */
export function auditCost(size: AuditSize, now: number): AuditCost {
  const { toAsk, requestsPerMinute, chunkSize } = size;
  const chunks = Math.ceil(toAsk / chunkSize);
  const anAccount = Math.min(CODES_AN_ACCOUNT, requestsPerMinute || CODES_AN_ACCOUNT);
  const accounts = Math.max(chunks, Math.floor(toAsk / anAccount));
  const proofCalls = chunks === 0 ? 0 : 2 + accounts + chunks;
  const calls = toAsk + proofCalls;
  // The first call leaves at once; each other waits for its turn.
  const spaces = Math.max(0, calls - 1);
  const leastMs = requestsPerMinute === 0 ? null : Math.ceil((spaces * 60_000) / requestsPerMinute);
  const finishAt = leastMs === null ? null : now + leastMs;
  return { chunks, codeCalls: toAsk, proofCalls, calls, leastMs, finishAt };
}
