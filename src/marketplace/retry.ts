import type { Failure, Reply, UnavailableReason } from './reply.js';

/** How to retry after transient failures. All four operations only read, so each may be repeated. */
export interface RetryPolicy {
  /** Total attempts, including the first; default 4. */
  readonly attempts: number;
  /** First pause, milliseconds; doubles after each attempt, with full jitter; default 500. */
  readonly baseMs: number;
  /** Longest pause, milliseconds; default 120,000. If the server asks for more, the call fails. */
  readonly maxMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { attempts: 4, baseMs: 500, maxMs: 120_000 };

/** Excludes `challenge`: retries make it worse (servers: outages). */
const OUTAGES: ReadonlySet<UnavailableReason> = new Set([
  'network',
  'timeout',
  'server-error',
  'maintenance',
  'cut-off',
]);

/** True if the marketplace or the network failed, not a setting. */
export function isOutage(failure: Failure): boolean {
  return failure.kind === 'unavailable' && OUTAGES.has(failure.reason);
}

export function isTransient(failure: Failure): boolean {
  return failure.kind === 'limited' || isOutage(failure);
}

/**
 * Pause before the next attempt (ms): exponential backoff with full jitter, or the server's own pause if longer.
 * @param attempt number of the attempt that got this reply, from 1 @param random in [0, 1)
 * @returns null if the reply is final, or if the server asks for a pause longer than `maxMs`
 */
export function pauseAfter(
  reply: Reply<unknown>,
  attempt: number,
  policy: RetryPolicy,
  now: number,
  random: number,
): number | null {
  if (reply.kind === 'answered' || attempt >= policy.attempts || !isTransient(reply)) return null;
  const backoff = random * Math.min(policy.maxMs, policy.baseMs * 2 ** (attempt - 1));
  const at = 'retryAt' in reply ? reply.retryAt : null;
  if (at === null) return backoff;
  return at - now > policy.maxMs ? null : Math.max(at - now, backoff);
}

/** Node fires timers longer than this immediately. */
export const MAX_TIMER_MS = 2_147_483_647;
