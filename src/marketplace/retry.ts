import { unavailable, type Failure, type Reply, type UnavailableReason } from '../domain/reply.js';

/** How calls are retried after transient failures. All four operations are reads, so all may be. */
export interface RetryPolicy {
  /** Attempts in all, the first included; default 4. */
  readonly attempts: number;
  /** First pause, milliseconds; doubles each time, with full jitter; default 500. */
  readonly baseMs: number;
  /** Longest pause, milliseconds; default 120,000. When the server asks for more, its reply is returned. */
  readonly maxMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { attempts: 4, baseMs: 500, maxMs: 120_000 };

/** Not `challenge`: retrying makes it worse (field notes: limits and weather). */
const PASSING: ReadonlySet<UnavailableReason> = new Set([
  'network',
  'timeout',
  'server-error',
  'maintenance',
  'cut-off',
]);

export function isTransient(failure: Failure): boolean {
  return (
    failure.kind === 'limited' || (failure.kind === 'unavailable' && PASSING.has(failure.reason))
  );
}

/**
 * Exponential backoff with full jitter, or as long as the server said. Times in milliseconds.
 * @param attempt number of the attempt that had this reply, from 1 @param random in [0, 1)
 * @returns null when the reply is final, or the server asks for more than `maxMs`
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

/** Node's timers fire at once when given more. */
const LONGEST_TIMER_MS = 2_147_483_647;

/**
 * Ends calls that go without any answer for too long, and later ones, with a failure. The clock starts when a
 * request is sent while no other is awaited; an answer restarts it; retries and pauses do not stop it.
 */
export class Deadline {
  readonly #ms: number;
  readonly #end = new AbortController();
  readonly #timedOut: Failure;
  #timer: NodeJS.Timeout | null = null;
  #open = 0;
  #failure: Failure;
  #given: AbortSignal | null = null;
  #signal: AbortSignal = this.#end.signal;

  constructor(ms: number) {
    this.#ms = ms;
    this.#timedOut = unavailable(null, 'timeout', `no answer came within ${ms} ms`);
    this.#failure = this.#timedOut;
  }

  get isOver(): boolean {
    return this.#end.signal.aborted;
  }

  /** The last failed reply since the last answer; a time-out when there was none. */
  get failure(): Failure {
    return this.#failure;
  }

  /** A signal that aborts with the given one and when the time runs out. */
  with(given: AbortSignal): AbortSignal {
    if (given !== this.#given) {
      this.#given = given;
      this.#signal = AbortSignal.any([given, this.#end.signal]);
    }
    return this.#signal;
  }

  sent(): void {
    this.#open++;
    this.#start();
  }

  /** A request that was sent has ended. @param reply null when it was cut off */
  ended(reply: Reply<unknown> | null): void {
    this.#open--;
    if (reply === null) return;
    if (reply.kind !== 'answered' && reply.kind !== 'denied' && reply.kind !== 'refused') {
      this.#failure = reply;
      return;
    }
    this.#failure = this.#timedOut;
    this.stop();
    if (this.#open > 0) this.#start();
  }

  /** Stops the clock until the next request is sent. */
  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #start(): void {
    if (this.#timer !== null || this.isOver || this.#ms > LONGEST_TIMER_MS) return;
    this.#timer = setTimeout(() => this.#end.abort(new Error('no answer in time')), this.#ms);
    // The open request keeps the process alive, not this timer.
    this.#timer.unref();
  }
}
