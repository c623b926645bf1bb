/**
 * So many a minute, evenly, with a burst of a tenth of a minute's number. Kept in memory: each process that serves
 * the API allows as many.
 */
export class Allowance {
  readonly #spacingMs: number;
  readonly #burstMs: number;
  /** When the next one would be due if all were evenly spaced, by `performance.now()`. */
  #nextAt = -Infinity;

  /** @param perMinute more than 0; Infinity: no limit */
  constructor(
    perMinute: number,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#spacingMs = 60_000 / perMinute;
    this.#burstMs = this.#spacingMs * Math.max(1, perMinute / 10 - 1);
  }

  /** Takes some. @returns 0, or the milliseconds to wait because they were not taken */
  take(count = 1): number {
    const now = this.now();
    const nextAt = Math.max(this.#nextAt, now);
    const waitMs = nextAt - now - this.#burstMs;
    if (waitMs > 0) return Math.ceil(waitMs);
    this.#nextAt = nextAt + count * this.#spacingMs;
    return 0;
  }
}
