import { setMaxListeners } from 'node:events';

/**
 * Passes aborts on to any number of calls with one listener for each signal: adding and removing one
 * for every call takes longer than the rest of watching over it.
 */
export class Aborts {
  readonly #calls = new WeakMap<AbortSignal, Set<() => void>>();

  /** `onAbort` is called when the signal is aborted, unless it was deleted before. */
  add(signal: AbortSignal, onAbort: () => void): void {
    const known = this.#calls.get(signal);
    if (known !== undefined) {
      known.add(onAbort);
      return;
    }
    const calls = new Set([onAbort]);
    this.#calls.set(signal, calls);
    // Each client has a listener; Node would warn of a leak from the eleventh on.
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
