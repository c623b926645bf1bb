import { TransportError } from './transport-error.js';

/**
 * Keeps the time of one exchange and passes on the caller's abort: `signal` fires for either, and
 * `explain` tells them apart afterwards.
 */
export class Watchdog {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal;
  readonly #total: NodeJS.Timeout;
  readonly #onAbort = (): void => this.#controller.abort();
  #phase: NodeJS.Timeout | null = null;
  #timedOut: string | null = null;

  /** @param totalMs bound of the whole exchange, milliseconds */
  constructor(totalMs: number, outer: AbortSignal) {
    this.#outer = outer;
    this.#total = setTimeout(() => this.#expire('took too long'), totalMs);
    // A list that nobody reads on must not keep the process alive.
    this.#total.unref();
    outer.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** From now on something must come within `ms`. */
  expect(ms: number): void {
    this.rest();
    this.#phase = setTimeout(() => this.#expire('fell silent'), ms);
  }

  /** It came, and it is our turn. */
  rest(): void {
    if (this.#phase !== null) clearTimeout(this.#phase);
    this.#phase = null;
  }

  end(): void {
    this.rest();
    clearTimeout(this.#total);
    this.#outer.removeEventListener('abort', this.#onAbort);
  }

  /** What to throw for an error: the caller's reason, the time-out, or else what `otherwise` says. */
  explain(httpStatus: number | null, otherwise: () => TransportError): unknown {
    if (this.#outer.aborted) return this.#outer.reason;
    if (this.#timedOut === null) return otherwise();
    return new TransportError({
      kind: 'unavailable',
      httpStatus,
      reason: 'timeout',
      detail: this.#timedOut,
      retryAt: null,
    });
  }

  #expire(how: string): void {
    this.#timedOut = `the marketplace ${how}`;
    this.#controller.abort();
  }
}
