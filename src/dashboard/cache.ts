import { setTimeout as wait } from 'node:timers/promises';

/** How long a page waits for a new value before it shows the old one (ms). */
const WAIT_MS = 25;
/** Time until a failed value is computed again (ms). */
const RETRY_MS = 5_000;
/** No value is shown longer than this without a new one being computed (ms). */
const MAX_FRESH_MS = 60_000;
/** Values kept, the least recently computed dropped first. */
const MAX_KEPT = 20;

interface Entry<Value> {
  value: Promise<Value>;
  /** When it is computed again (by `performance.now()`). */
  expiresAt: number;
}

interface CacheOptions {
  /** A value is computed again after this time (ms). */
  readonly freshMs: number;
  /** Or after this many times as long as it took. */
  readonly freshFactor?: number;
}

/** Keeps values that take a while to compute. While a new one is computed, everybody gets the old one. */
export class Cache<Key, Value> {
  readonly #compute: (key: Key) => Promise<Value>;
  readonly #options: CacheOptions;
  readonly #entries = new Map<Key, Entry<Value>>();

  constructor(compute: (key: Key) => Promise<Value>, options: CacheOptions) {
    this.#compute = compute;
    this.#options = options;
  }

  get(key: Key): Promise<Value> {
    const old = this.#entries.get(key);
    if (old !== undefined && performance.now() < old.expiresAt) return old.value;
    const fresh = this.#compute(key);
    // Other requests start no second computation meanwhile.
    const entry = { value: old?.value ?? fresh, expiresAt: Infinity };
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MAX_KEPT && oldest !== undefined) this.#entries.delete(oldest);
    void this.#store(entry, fresh);
    if (old === undefined) return fresh;
    return Promise.race([fresh, wait(WAIT_MS).then(() => old.value)]);
  }

  async #store(entry: Entry<Value>, fresh: Promise<Value>): Promise<void> {
    const { freshMs, freshFactor = 0 } = this.#options;
    const startedAt = performance.now();
    try {
      await fresh;
      entry.value = fresh;
      const tookMs = performance.now() - startedAt;
      const keptMs = Math.min(MAX_FRESH_MS, Math.max(freshMs, freshFactor * tookMs));
      entry.expiresAt = performance.now() + keptMs;
    } catch {
      // The requests that wait for `fresh` get its error.
      entry.expiresAt = performance.now() + RETRY_MS;
    }
  }
}
