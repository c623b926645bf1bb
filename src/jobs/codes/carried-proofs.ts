import type { ChunkCall } from '../../domain/codes/timeline.js';
import type { AskReport } from './types.js';

interface Carried {
  readonly calls: readonly ChunkCall[];
  readonly lost: ReadonlySet<string>;
}

/**
 * What the last chunk of each seller told of the credential, so that the next one of this process
 * need not begin with proofs of its own, nor with canaries that were denied.
 */
export class CarriedProofs {
  readonly #bySeller = new Map<string, Carried>();

  /** What proved the credential at the end of the last chunk. */
  calls(sellerId: string): readonly ChunkCall[] {
    return this.#bySeller.get(sellerId)?.calls ?? [];
  }

  /** The canaries, those that were lost behind the others. */
  order(sellerId: string, canaries: readonly string[]): readonly string[] {
    const lost = this.#bySeller.get(sellerId)?.lost ?? new Set();
    return [...canaries].sort((a, b) => Number(lost.has(a)) - Number(lost.has(b)));
  }

  put(sellerId: string, { carried, lostCanaries }: AskReport): void {
    const before = this.#bySeller.get(sellerId)?.lost ?? [];
    const lost = new Set([...before, ...lostCanaries]);
    this.#bySeller.set(sellerId, { calls: carried, lost });
  }
}
