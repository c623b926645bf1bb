import { setTimeout as wait } from 'node:timers/promises';
import type { ReportFigures } from '../reporting/reports.js';

/** Figures expire after this time (ms), or after this many times as long as they took to compute. */
const MIN_FRESH_MS = 2_000;
const FRESH_FACTOR = 50;
/** How long a page waits for new figures before it shows the old ones (ms). */
const WAIT_MS = 25;
/** Time until failed figures are computed again (ms). */
const RETRY_MS = 5_000;
/** Sellers whose figures are cached. */
const MAX_CACHED = 20;

interface Entry {
  figures: Promise<ReportFigures>;
  /** When they are computed again (by `performance.now()`). */
  expiresAt: number;
}

/** Caches report figures by seller: summing all purchases can take a second. */
export class FigureCache {
  readonly #compute: (sellerId: string | null) => Promise<ReportFigures>;
  /** Least recently computed first. */
  readonly #entries = new Map<string | null, Entry>();

  constructor(compute: (sellerId: string | null) => Promise<ReportFigures>) {
    this.#compute = compute;
  }

  /** Returns a seller's figures, or those of all sellers for null. */
  get(sellerId: string | null): Promise<ReportFigures> {
    const old = this.#entries.get(sellerId);
    if (old !== undefined && performance.now() < old.expiresAt) return old.figures;
    const fresh = this.#compute(sellerId);
    // While they are computed, other requests get the old figures and start no second computation.
    const entry = { figures: old?.figures ?? fresh, expiresAt: Infinity };
    this.#entries.delete(sellerId);
    this.#entries.set(sellerId, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MAX_CACHED && oldest !== undefined) this.#entries.delete(oldest);
    void this.#store(entry, fresh);
    if (old === undefined) return fresh;
    return Promise.race([fresh, wait(WAIT_MS).then(() => old.figures)]);
  }

  async #store(entry: Entry, fresh: Promise<ReportFigures>): Promise<void> {
    const startedAt = performance.now();
    try {
      await fresh;
      entry.figures = fresh;
      const tookMs = performance.now() - startedAt;
      entry.expiresAt = performance.now() + Math.max(MIN_FRESH_MS, FRESH_FACTOR * tookMs);
    } catch {
      // The requests that wait for `fresh` get its error.
      entry.expiresAt = performance.now() + RETRY_MS;
    }
  }
}
