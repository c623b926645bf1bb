import { unavailable, type Failure, type Reply, type UnavailableReason } from '../domain/reply.js';

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
const TRANSIENT: ReadonlySet<UnavailableReason> = new Set([
  'network',
  'timeout',
  'server-error',
  'maintenance',
  'cut-off',
]);

export function isTransient(failure: Failure): boolean {
  return (
    failure.kind === 'limited' || (failure.kind === 'unavailable' && TRANSIENT.has(failure.reason))
  );
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

/**
 * Ends all calls that share it, and later ones, once none has been answered for `ms`. The clock starts with the
 * first open request and restarts with each answer. Retries and pauses do not stop it.
 */
export class Deadline {
  readonly #ms: number;
  readonly #expiry = new AbortController();
  readonly #timeout: Failure;
  #timer: NodeJS.Timeout | null = null;
  #openRequests = 0;
  #failure: Failure;
  #callerSignal: AbortSignal | null = null;
  #combined: AbortSignal = this.#expiry.signal;

  constructor(ms: number) {
    this.#ms = ms;
    this.#timeout = unavailable(null, 'timeout', `no answer came within ${ms} ms`);
    this.#failure = this.#timeout;
  }

  get isOver(): boolean {
    return this.#expiry.signal.aborted;
  }

  /** The latest failed reply since the last answer, or a timeout if there was none. */
  get failure(): Failure {
    return this.#failure;
  }

  /** A signal that aborts with the caller's signal or when time runs out. */
  combineWith(callerSignal: AbortSignal): AbortSignal {
    if (callerSignal !== this.#callerSignal) {
      this.#callerSignal = callerSignal;
      this.#combined = AbortSignal.any([callerSignal, this.#expiry.signal]);
    }
    return this.#combined;
  }

  requestSent(): void {
    this.#openRequests++;
    this.#start();
  }

  /** @param reply null when the request was aborted */
  requestEnded(reply: Reply<unknown> | null): void {
    this.#openRequests--;
    if (reply === null) return;
    if (reply.kind !== 'answered' && reply.kind !== 'denied' && reply.kind !== 'refused') {
      this.#failure = reply;
      return;
    }
    this.#failure = this.#timeout;
    this.stop();
    if (this.#openRequests > 0) this.#start();
  }

  /** Stops the clock until the next request is sent. */
  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #start(): void {
    if (this.#timer !== null || this.isOver || this.#ms > MAX_TIMER_MS) return;
    this.#timer = setTimeout(() => this.#expiry.abort(new Error('no answer in time')), this.#ms);
    // The open request keeps the process alive; this timer need not.
    this.#timer.unref();
  }
}
