import { unavailable, type Failure, type Reply } from '../marketplace/reply.js';
import { MAX_TIMER_MS } from '../marketplace/retry.js';
import type { CallOptions } from '../marketplace/types.js';

/**
 * Ends all calls made through it, and later ones, once none has been answered for `ms`. The clock starts with the
 * first open request and restarts with each answer. Retries and pauses do not stop it.
 */
export class Deadline {
  readonly #ms: number;
  readonly #expiry = new AbortController();
  readonly #timeout: Failure;
  #timer: NodeJS.Timeout | null = null;
  #openRequests = 0;
  /** The latest failed reply since the last answer, or a timeout if there was none. */
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

  /** Makes a call. Returns the latest failure when time runs out. @throws as the call does */
  async limit<T>(
    call: (options: CallOptions) => Promise<Reply<T>>,
    options: CallOptions = {},
  ): Promise<Reply<T>> {
    const { signal: callerSignal = new AbortController().signal } = options;
    const signal = this.#combineWith(callerSignal);
    try {
      return await call({ ...options, signal, onRequest: () => this.#requestSent() });
    } catch (error) {
      // Not by its reason: a budget of the caller may reject with an error of its own.
      if (this.isOver && !callerSignal.aborted) return this.#failure;
      throw error;
    }
  }

  /** Stops the clock until the next request is sent. */
  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** A signal that aborts with the caller's signal or when time runs out. */
  #combineWith(callerSignal: AbortSignal): AbortSignal {
    if (callerSignal !== this.#callerSignal) {
      this.#callerSignal = callerSignal;
      this.#combined = AbortSignal.any([callerSignal, this.#expiry.signal]);
    }
    return this.#combined;
  }

  #requestSent(): (reply: Reply<unknown> | null) => void {
    this.#openRequests++;
    this.#start();
    return (reply) => this.#requestEnded(reply);
  }

  #requestEnded(reply: Reply<unknown> | null): void {
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

  #start(): void {
    if (this.#timer !== null || this.isOver || this.#ms > MAX_TIMER_MS) return;
    this.#timer = setTimeout(() => this.#expiry.abort(new Error('no answer in time')), this.#ms);
    // The open request keeps the process alive; this timer need not.
    this.#timer.unref();
  }
}
