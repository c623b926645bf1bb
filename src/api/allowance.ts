/**
 * So many a minute, evenly, with a burst of a tenth of a minute's number. Kept in memory.
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
    this.#burstMs = Math.max(this.#spacingMs, 6_000 - this.#spacingMs);
  }

  /** Milliseconds until one may be taken. */
  get waitMs(): number {
    return Math.max(0, Math.ceil(this.#nextAt - this.now() - this.#burstMs));
  }

  /** Takes some, whether they may be taken or not. @param count less than 0: gives some back */
  charge(count = 1): void {
    this.#nextAt = Math.max(this.#nextAt, this.now()) + count * this.#spacingMs;
  }
}

/** Calls of a look-up, retries included. */
interface Calls {
  /** The look-ups of the day. */
  readonly auditId: bigint;
  readonly own: number;
  /** Of all look-ups of the day, in all processes. */
  readonly total: number;
}

/** The calls that look-ups at one marketplace may make: their share of the request budget. */
export class CallShare extends Allowance {
  readonly #last = new Map<string, Pick<Calls, 'auditId' | 'total'>>();

  /**
   * Charges what look-ups really cost, when one has ended that was charged as one call: its retries, the second checks
   * of denied codes, which a worker makes, and the calls of other processes that serve the API.
   */
  settle(sellerId: string, { auditId, own, total }: Calls): void {
    const last = this.#last.get(sellerId);
    if (last === undefined) {
      this.charge(own - 1);
    } else {
      const before = auditId === last.auditId ? last.total : 0;
      this.charge(Math.max(0, total - before) - 1);
      // Look-ups that end at the same time may come here in another order than they were recorded.
      if (auditId < last.auditId || total < before) return;
    }
    this.#last.set(sellerId, { auditId, total });
  }
}
