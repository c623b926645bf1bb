import type { ChunkCall } from '../../domain/codes/timeline.js';
import type { AskReport } from './types.js';

/** Older proofs prove nothing for a chunk that begins now. */
const LONGEST_MS = 60_000;

interface Carried {
  readonly calls: readonly ChunkCall[];
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly lost: ReadonlySet<string>;
}

/**
 * What the last chunk of each seller told of the credential, so that the next one of this process
 * need not begin with proofs of its own, nor with canaries that were denied.
 */
export class CarriedProofs {
  readonly #bySeller = new Map<string, Carried>();

  /** Proofs that still count. @param now milliseconds since 1970 */
  calls(sellerId: string, now: number): readonly ChunkCall[] {
    const carried = this.#bySeller.get(sellerId);
    return carried === undefined || now - carried.at > LONGEST_MS ? [] : carried.calls;
  }

  /** The canaries, those that were lost behind the others. */
  order(sellerId: string, canaries: readonly string[]): readonly string[] {
    const lost = this.#bySeller.get(sellerId)?.lost ?? new Set();
    return [...canaries].sort((a, b) => Number(lost.has(a)) - Number(lost.has(b)));
  }

  put(sellerId: string, { carried, lostCanaries }: AskReport, now: number): void {
    const before = this.#bySeller.get(sellerId)?.lost ?? [];
    const lost = new Set([...before, ...lostCanaries]);
    this.#bySeller.set(sellerId, { calls: carried, at: now, lost });
  }
}
