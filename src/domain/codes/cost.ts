export interface AuditSize {
  /** Codes that need a call: neither fresh nor in the list twice. */
  readonly toAsk: number;
  readonly requestsPerMinute: number;
  /** Codes in a chunk, at least 1. */
  readonly chunkSize: number;
  /** Calls under way at a time, at least 1. */
  readonly concurrency: number;
  /** How long a call takes, milliseconds; default 250. It matters only where the budget does not. */
  readonly callMs?: number;
}

/** What an audit costs while nothing fails, unless most of its codes are denied. */
export interface AuditCost {
  readonly chunks: number;
  /** One for each code. */
  readonly codeCalls: number;
  /** Account details and canaries. */
  readonly proofCalls: number;
  readonly calls: number;
  /** Milliseconds that this many calls take at least. */
  readonly leastMs: number;
  /** When it would end if it began now, milliseconds since 1970. */
  readonly finishAt: number;
}

/** Codes between account details while denials wait for them; at most a minute's worth. */
const CODES_AN_ACCOUNT = 100;
const DEFAULT_CALL_MS = 250;

/**
 * A chunk ends with account details and a canary, with which the next one begins; account details are asked
 * for within a chunk too. Chunks in which nothing is denied need less, others a canary more for every 17
 * denials. Second looks come on top. @param now milliseconds since 1970
 */
export function auditCost(size: AuditSize, now: number): AuditCost {
  const { toAsk, requestsPerMinute, chunkSize, concurrency, callMs = DEFAULT_CALL_MS } = size;
  const chunks = Math.ceil(toAsk / chunkSize);
  const anAccount = Math.min(CODES_AN_ACCOUNT, requestsPerMinute || CODES_AN_ACCOUNT);
  const accounts = Math.max(chunks, Math.floor(toAsk / anAccount));
  const proofCalls = chunks === 0 ? 0 : 2 + accounts + chunks;
  const calls = toAsk + proofCalls;
  // The first call leaves at once; each other waits for its turn.
  const spacingMs = requestsPerMinute === 0 ? 0 : 60_000 / requestsPerMinute;
  const waitingMs = Math.max(0, calls - 1) * spacingMs;
  const workingMs = Math.ceil(calls / concurrency) * callMs;
  const leastMs = Math.ceil(Math.max(waitingMs, workingMs));
  return { chunks, codeCalls: toAsk, proofCalls, calls, leastMs, finishAt: now + leastMs };
}
