import { LONGEST_RUN } from './verdict.js';

/** Silences up to this are none, milliseconds: a slow answer, a short pause of the server's. */
const LEAST_MS = 5_000;
/** Gaps that make up what is usual: those of two longest runs of denials with their proofs. */
const REMEMBERED = 2 * (LONGEST_RUN + 5);
/**
 * In a lull so many replies would usually have been heard. Where everybody pauses twice in what is
 * remembered, and so more often than denials could be proven between two lulls, pauses are usual.
 */
const REPLIES_MISSED = (2 * REMEMBERED) / 3;

/**
 * Listens for lulls: times in which nothing was heard of the marketplace that says anything of the
 * credential, longer than usual. Runs of denials are bounded by their calls, since for so many a key
 * would have to be bad; while nobody calls, it may be bad for as long as it likes. What is usual is
 * the mean of the last gaps, so that a small budget, a slow server or a pause every few calls makes
 * no lull of each gap.
 */
export class Pulse {
  readonly #gaps: number[] = [];
  #sum = 0;
  #next = 0;
  #last: number | null = null;

  /** Whether it would end a lull if something were heard now. @param at milliseconds since 1970 */
  isLull(at: number): boolean {
    const usual = this.#gaps.length === 0 ? 0 : this.#sum / this.#gaps.length;
    return this.#gapAt(at) > Math.max(LEAST_MS, REPLIES_MISSED * usual);
  }

  /** Something was heard; returns whether a lull came before it. @param at milliseconds since 1970 */
  hear(at: number): boolean {
    const isLull = this.isLull(at);
    if (this.#last !== null) this.#remember(this.#gapAt(at));
    this.#last = at;
    return isLull;
  }

  /** Clocks may be set back. */
  #gapAt(at: number): number {
    return this.#last === null ? 0 : Math.max(0, at - this.#last);
  }

  #remember(gap: number): void {
    this.#sum += gap - (this.#gaps[this.#next] ?? 0);
    this.#gaps[this.#next] = gap;
    this.#next = (this.#next + 1) % REMEMBERED;
  }
}
