import { unavailable, type Failure, type Reply, type UnavailableReason } from '../domain/reply.js';
import type { RetryPolicy } from './types.js';

export const DEFAULT_RETRY: RetryPolicy = { attempts: 4, baseMs: 500, maxMs: 120_000 };

/** Clock, random numbers and waiting; tests replace them. */
export interface Timing {
  /** Milliseconds since 1970. */
  now(): number;
  /** At least 0 and less than 1. */
  random(): number;
  /** Rejects with the signal's reason when it is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** Not `challenge`: retrying makes it worse (field notes: limits and weather). */
const PASSING: ReadonlySet<UnavailableReason> = new Set([
  'network',
  'timeout',
  'server-error',
  'maintenance',
  'cut-off',
]);

/** True when a retry may be answered. */
export function isTransient(failure: Failure): boolean {
  return (
    failure.kind === 'limited' || (failure.kind === 'unavailable' && PASSING.has(failure.reason))
  );
}

/**
 * The wait before the next attempt: exponential backoff with full jitter, or as long as the server
 * said.
 * @param attempt number of the attempt that had this reply, from 1
 * @returns milliseconds; null when the reply is final, or the server asks for more than `maxMs`
 */
export function pauseAfter(
  reply: Reply<unknown>,
  attempt: number,
  policy: RetryPolicy,
  timing: Pick<Timing, 'now' | 'random'>,
): number | null {
  if (reply.kind === 'answered' || attempt >= policy.attempts || !isTransient(reply)) return null;
  const backoff = timing.random() * Math.min(policy.maxMs, policy.baseMs * 2 ** (attempt - 1));
  const at = 'retryAt' in reply ? reply.retryAt : null;
  if (at === null) return backoff;
  const wait = at - timing.now();
  return wait > policy.maxMs ? null : Math.max(wait, backoff);
}

/** Node's timers fire at once when given more. */
const LONGEST_TIMER_MS = 2_147_483_647;

/**
 * Limits how long the calls that share it go without any answer. The clock starts when a request is
 * sent while no other is awaited; an answer restarts it. Time-outs, retries and pauses do not stop
 * it. When it runs out, all these calls and later ones end with a failure.
 */
export class Deadline {
  readonly #ms: number;
  readonly #end = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #open = 0;
  readonly #timedOut: Failure;
  #failure: Failure;
  #given: AbortSignal | null = null;
  #signal: AbortSignal = this.#end.signal;

  constructor(ms: number) {
    this.#ms = ms;
    const detail = `no answer came within ${ms} ms`;
    this.#timedOut = unavailable(null, 'timeout', detail);
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

  /** A request is sent. */
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

/** Repeats a call until its reply is final. All four operations are reads, so each may be repeated. */
export async function withRetries<T>(
  policy: RetryPolicy,
  timing: Timing,
  signal: AbortSignal,
  ask: (attempt: number) => Promise<Reply<T>>,
): Promise<Reply<T>> {
  for (let attempt = 1; ; attempt++) {
    const reply = await ask(attempt);
    const pause = pauseAfter(reply, attempt, policy, timing);
    if (pause === null) return reply;
    await timing.sleep(pause, signal);
  }
}
