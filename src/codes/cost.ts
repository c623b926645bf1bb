import { checksPerWindow } from '../marketplace/proven-window.js';
import { CONFIRM_AFTER_MS } from './rules.js';

interface AuditWork {
  /** Distinct codes without a fresh verdict: each needs a call. */
  readonly toCheck: number;
  /** Those of them that were denied already; default 0. */
  readonly denied?: number;
  /** 0: unlimited. */
  readonly requestsPerMinute: number;
}

/** The cost of an audit if nothing fails. */
export interface AuditCost {
  /** One per code, and proofs of the key. */
  readonly calls: number;
  readonly proofCalls: number;
  /** Milliseconds that the request budget needs for the calls; null without a budget. */
  readonly leastMs: number | null;
  /** The end of the sweep if it began now, milliseconds since 1970; null without a budget. */
  readonly finishAt: number | null;
  /** Calls for each denied code: the second check, and its share of the proofs. */
  readonly callsPerDenied: number;
  /** Denied codes are checked again after this time, milliseconds. */
  readonly confirmAfterMs: number;
}

/** Codes of a piece of the sweep, which begins with a proof. */
const PIECE = 500;
const CALLS_PER_PROOF = 2;

/**
 * Estimates the cost of an audit: a call for each code and a proof for each piece of the sweep. How many codes will be
 * denied is not known; each costs `callsPerDenied` more.
 * @param now milliseconds since 1970
 */
export function auditCost(
  { toCheck, denied = 0, requestsPerMinute }: AuditWork,
  now: number,
): AuditCost {
  const spacingMs = requestsPerMinute === 0 ? 0 : 60_000 / requestsPerMinute;
  const perWindow = checksPerWindow(spacingMs);
  const callsPerDenied = 1 + CALLS_PER_PROOF / perWindow;
  const sweepProofs = toCheck < 100 ? 0 : CALLS_PER_PROOF * Math.ceil(toCheck / PIECE);
  const windowProofs = denied === 0 ? 0 : CALLS_PER_PROOF * (Math.ceil(denied / perWindow) + 1);
  const proofCalls = sweepProofs + windowProofs;
  const calls = toCheck + denied + proofCalls;
  // The first call does not wait.
  const leastMs = spacingMs === 0 ? null : Math.ceil(Math.max(0, calls - 1) * spacingMs);
  const finishAt = leastMs === null ? null : now + leastMs;
  const confirmAfterMs = CONFIRM_AFTER_MS;
  return { calls, proofCalls, leastMs, finishAt, callsPerDenied, confirmAfterMs };
}
