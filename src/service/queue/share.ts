/** How often jobs of one host that is over its share are looked at again, milliseconds. */
const LOOK_EVERY_MS = 100;
/** Shortest delay of one job (ms). */
const SHORTEST_DELAY_MS = 1_000;
/** Longest delay of one job (ms), however many wait. */
const LONGEST_DELAY_MS = 60_000;

/** A slot of a worker, or how long a job must wait for one, whole milliseconds. */
export type Admission = { readonly free: () => void } | { readonly delayMs: number };

/**
 * Shares a worker's slots between marketplace hosts: none has more than half of them, so that one whose answers take
 * for ever does not stop the sellers of all others. A single host may have all slots, and each may have one.
 */
export class HostShare {
  readonly #hosts = new Map<string, { taken: number; nextLookAt: number }>();
  readonly #atMost: number;

  /** @param slots jobs that the worker runs at the same time */
  constructor(slots: number) {
    this.#atMost = Math.max(1, Math.floor(slots / 2));
  }

  /**
   * Takes a slot for a job of a host. Jobs that get none come back one after another, however many they are.
   * @param isAlone no other host is configured
   * @param now milliseconds on any clock
   */
  admit(host: string, isAlone: boolean, now: number): Admission {
    const state = this.#hosts.get(host) ?? { taken: 0, nextLookAt: -Infinity };
    this.#hosts.set(host, state);
    if (isAlone || state.taken < this.#atMost) {
      state.taken += 1;
      return { free: () => (state.taken -= 1) };
    }
    const soonest = now + SHORTEST_DELAY_MS;
    const next = Math.max(soonest, state.nextLookAt + LOOK_EVERY_MS);
    state.nextLookAt = Math.min(next, now + LONGEST_DELAY_MS);
    return { delayMs: Math.ceil(state.nextLookAt - now) };
  }
}
