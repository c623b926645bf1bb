import type { Aborts } from './aborts.js';
import { TransportError } from './transport-error.js';

/** For whom time is kept at present. */
type Phase = 'theirs' | 'ours' | 'over';

/**
 * Keeps the time of one exchange and passes on the caller's abort: `onEnd` is called once for either,
 * and `explain` tells them apart afterwards.
 */
export class Watchdog {
  readonly #outer: AbortSignal;
  readonly #aborts: Aborts;
  readonly #onEnd: () => void;
  /** On the monotonic clock, milliseconds. */
  readonly #endsAt: number;
  #phase: Phase = 'ours';
  /** One timer for all: an exchange that goes well sets it once. */
  #timer: NodeJS.Timeout | null = null;
  #timedOut: string | null = null;

  /** @param totalMs bound of the whole exchange, milliseconds */
  constructor(totalMs: number, outer: AbortSignal, aborts: Aborts, onEnd: () => void) {
    this.#endsAt = performance.now() + totalMs;
    this.#outer = outer;
    this.#aborts = aborts;
    this.#onEnd = onEnd;
    aborts.add(outer, this.#onAbort);
  }

  /** From now on something must come within `ms`. */
  expect(ms: number): void {
    if (this.#phase === 'over') return;
    this.#phase = 'theirs';
    const leftMs = this.#endsAt - performance.now();
    this.#set(Math.min(ms, leftMs), ms < leftMs ? 'fell silent' : 'took too long');
  }

  /** It came, and it is our turn. */
  rest(): void {
    // The timer stays: it is set anew when it fires, and that hardly ever happens.
    if (this.#phase === 'theirs') this.#phase = 'ours';
    // Somebody who does not read on must not keep the process alive.
    this.#timer?.unref();
  }

  end(): void {
    this.#phase = 'over';
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#aborts.delete(this.#outer, this.#onAbort);
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

  #set(ms: number, how: string): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#expire(how), Math.max(0, ms));
  }

  #expire(how: string): void {
    const leftMs = this.#endsAt - performance.now();
    if (this.#phase === 'ours' && leftMs > 0) {
      this.#set(leftMs, 'took too long');
      this.#timer?.unref();
      return;
    }
    this.#timedOut = `the marketplace ${this.#phase === 'ours' ? 'took too long' : how}`;
    this.#onEnd();
  }

  readonly #onAbort = (): void => this.#onEnd();
}
