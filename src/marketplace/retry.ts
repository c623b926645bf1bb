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

/** Longer delays fire at once. */
const LONGEST_TIMER_MS = 2_147_483_647;

/**
 * Bounds how long calls that share it wait for any answer. The clock starts when a request is sent
 * and none is awaited yet; an answer restarts it. Time-outs, repetitions and pauses do not stop it.
 * When it runs out, all these calls end with their failure, now and later.
 */
export class Deadline {
  readonly #ms: number;
  readonly #end = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #awaited = 0;
  readonly #silence: Failure;
  #failure: Failure;
  #given: AbortSignal | null = null;
  #signal: AbortSignal = this.#end.signal;

  constructor(ms: number) {
    this.#ms = ms;
    const detail = `no answer came within ${ms} ms`;
    const reason = 'timeout';
    this.#silence = { kind: 'unavailable', httpStatus: null, reason, detail, retryAt: null };
    this.#failure = this.#silence;
  }

  get isOver(): boolean {
    return this.#end.signal.aborted;
  }

  /** The last failed reply since an answer; a time-out when there was none. */
  get failure(): Failure {
    return this.#failure;
  }

  /** A signal that is aborted with the given one, and when the time runs out. */
  with(given: AbortSignal): AbortSignal {
    if (given !== this.#given) {
      this.#given = given;
      this.#signal = AbortSignal.any([given, this.#end.signal]);
    }
    return this.#signal;
  }

  /** A request is sent. */
  sent(): void {
    this.#awaited++;
    this.#start();
  }

  /** A request that was sent has ended. @param reply null when it was cut off */
  ended(reply: Reply<unknown> | null): void {
    this.#awaited--;
    if (reply === null) return;
    if (reply.kind !== 'answered' && reply.kind !== 'denied' && reply.kind !== 'refused') {
      this.#failure = reply;
      return;
    }
    this.#failure = this.#silence;
    this.stop();
    if (this.#awaited > 0) this.#start();
  }

  /** Stops the clock until the next request is sent. */
  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #start(): void {
    if (this.#timer !== null || this.isOver || this.#ms > LONGEST_TIMER_MS) return;
    this.#timer = setTimeout(() => this.#end.abort(new Error('no answer in time')), this.#ms);
    // What is waited for keeps the process alive, not the wait.
    this.#timer.unref();
  }
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
