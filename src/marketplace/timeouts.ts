import { setMaxListeners } from 'node:events';
import { unavailable } from '../domain/reply.js';
import { TransportError } from './response.js';

/** Who is to act next: the server, or the reader on our side. */
type Phase = 'server' | 'reader' | 'over';

/**
 * Ends one request on a time-out or when the caller aborts: `onEnd` is called once for either, and
 * `explain` says which it was. Time in which our reader is slow counts only towards the total.
 */
export class Watchdog {
  readonly #outer: AbortSignal;
  readonly #aborts: AbortListeners;
  readonly #onEnd: () => void;
  /** On the monotonic clock, milliseconds. */
  readonly #endsAt: number;
  #phase: Phase = 'reader';
  /** The only timer: a request without trouble sets it once. */
  #timer: NodeJS.Timeout | null = null;
  #timedOut: string | null = null;

  /** @param totalMs bound of the whole request, milliseconds */
  constructor(totalMs: number, outer: AbortSignal, aborts: AbortListeners, onEnd: () => void) {
    this.#endsAt = performance.now() + totalMs;
    this.#outer = outer;
    this.#aborts = aborts;
    this.#onEnd = onEnd;
    aborts.add(outer, this.#onAbort);
  }

  /** The server must send something within `ms`. */
  expect(ms: number): void {
    if (this.#phase === 'over') return;
    this.#phase = 'server';
    const leftMs = this.#endsAt - performance.now();
    this.#set(Math.min(ms, leftMs), ms < leftMs ? 'fell silent' : 'took too long');
  }

  /** The server has sent something; the reader is next. */
  rest(): void {
    // The timer stays and is set again when it fires, which is rare.
    if (this.#phase === 'server') this.#phase = 'reader';
    // A reader that stops reading must not keep the process alive.
    this.#timer?.unref();
  }

  end(): void {
    this.#phase = 'over';
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#aborts.delete(this.#outer, this.#onAbort);
  }

  /** The error to throw: the caller's abort reason, the time-out, or else that of `otherwise`. */
  explain(httpStatus: number | null, otherwise: () => TransportError): unknown {
    if (this.#outer.aborted) return this.#outer.reason;
    if (this.#timedOut === null) return otherwise();
    return new TransportError(unavailable(httpStatus, 'timeout', this.#timedOut));
  }

  #set(ms: number, how: string): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#expire(how), Math.max(0, ms));
  }

  #expire(how: string): void {
    const leftMs = this.#endsAt - performance.now();
    if (this.#phase === 'reader' && leftMs > 0) {
      this.#set(leftMs, 'took too long');
      this.#timer?.unref();
      return;
    }
    this.#timedOut = `the marketplace ${this.#phase === 'reader' ? 'took too long' : how}`;
    this.#onEnd();
  }

  readonly #onAbort = (): void => this.#onEnd();
}

/**
 * Calls any number of handlers when a signal aborts, with one listener for each signal: adding and
 * removing a listener for every request takes longer than the rest of the watchdog.
 */
export class AbortListeners {
  readonly #calls = new WeakMap<AbortSignal, Set<() => void>>();

  /** Calls `onAbort` when the signal aborts, unless it was deleted before. */
  add(signal: AbortSignal, onAbort: () => void): void {
    const known = this.#calls.get(signal);
    if (known !== undefined) {
      known.add(onAbort);
      return;
    }
    const calls = new Set([onAbort]);
    this.#calls.set(signal, calls);
    // Each client adds a listener; Node warns of a leak from the eleventh on.
    setMaxListeners(0, signal);
    const passOn = (): void => {
      for (const call of calls) call();
    };
    signal.addEventListener('abort', passOn, { once: true });
  }

  delete(signal: AbortSignal, onAbort: () => void): void {
    this.#calls.get(signal)?.delete(onAbort);
  }
}
