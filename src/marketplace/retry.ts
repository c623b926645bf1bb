import type { Failure, Reply, UnavailableReason } from '../domain/reply.js';
import type { RetryPolicy } from './types.js';

export const DEFAULT_RETRY: RetryPolicy = { attempts: 4, baseMs: 500, maxMs: 120_000 };

/** Time and chance, replaceable where tests need it. */
export interface Chance {
  /** Milliseconds since 1970. */
  now(): number;
  /** From 0 up to, not including, 1. */
  random(): number;
  /** Rejects with the signal's reason when it is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** A challenge is left alone: asking again hard makes it worse (field notes: limits and weather). */
const PASSING: ReadonlySet<UnavailableReason> = new Set([
  'network',
  'timeout',
  'server-error',
  'maintenance',
  'cut-off',
]);

/** True when the same question may well be answered soon. */
export function isTransient(failure: Failure): boolean {
  return (
    failure.kind === 'limited' || (failure.kind === 'unavailable' && PASSING.has(failure.reason))
  );
}

/**
 * How long to wait before asking again: exponential backoff with full jitter, or as long as the
 * server said.
 * @param attempt number of the attempt that came to this reply, from 1
 * @returns milliseconds; null when the reply is final, or the server asks for more than `maxMs`
 */
export function pauseAfter(
  reply: Reply<unknown>,
  attempt: number,
  policy: RetryPolicy,
  chance: Pick<Chance, 'now' | 'random'>,
): number | null {
  if (reply.kind === 'answered' || attempt >= policy.attempts || !isTransient(reply)) return null;
  const backoff = chance.random() * Math.min(policy.maxMs, policy.baseMs * 2 ** (attempt - 1));
  const at = 'retryAt' in reply ? reply.retryAt : null;
  if (at === null) return backoff;
  const wait = at - chance.now();
  return wait > policy.maxMs ? null : Math.max(wait, backoff);
}

/** Asks until the reply is final. All four operations are reads, so each may be repeated. */
export async function withRetries<T>(
  policy: RetryPolicy,
  chance: Chance,
  signal: AbortSignal,
  ask: (attempt: number) => Promise<Reply<T>>,
): Promise<Reply<T>> {
  for (let attempt = 1; ; attempt++) {
    const reply = await ask(attempt);
    const pause = pauseAfter(reply, attempt, policy, chance);
    if (pause === null) return reply;
    await chance.sleep(pause, signal);
  }
}
