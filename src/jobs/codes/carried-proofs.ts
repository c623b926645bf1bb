import type { Carried } from './journal.js';
import type { AskReport } from './types.js';

/** Lost canaries that are remembered: a key that is bad for days loses one after another. */
const MOST_LOST = 100;

interface Known {
  readonly carried: Carried;
  readonly lost: ReadonlySet<string>;
}

/**
 * What the last chunk of each seller told of the credential, so that the next one of this process
 * need not begin with proofs of its own, nor with canaries that were denied.
 */
export class CarriedProofs {
  readonly #bySeller = new Map<string, Known>();

  /** What the last chunk carried over; null when there was none. */
  last(sellerId: string): Carried | null {
    return this.#bySeller.get(sellerId)?.carried ?? null;
  }

  /** Canaries that were denied. */
  lost(sellerId: string): readonly string[] {
    return [...(this.#bySeller.get(sellerId)?.lost ?? [])];
  }

  put(sellerId: string, { carried, lostCanaries }: AskReport): void {
    const before = this.#bySeller.get(sellerId)?.lost ?? [];
    const lost = new Set([...before, ...lostCanaries].slice(-MOST_LOST));
    this.#bySeller.set(sellerId, { carried, lost });
  }
}
