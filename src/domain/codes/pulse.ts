import { LONGEST_RUN } from './verdict.js';

/** How fast replies are to come. */
export interface Pace {
  /** Most validations under way at the same time. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests; 0: unlimited, or not known. */
  readonly spacingMs: number;
}

/** Silences up to this are none, milliseconds: a slow answer, a short pause of the server's. */
const LEAST_MS = 5_000;
/** Gaps that make up what is usual. */
const REMEMBERED = 60;
/**
 * Replies that earn another lull: more than a longest run of denials with its proofs, since where
 * everybody pauses more often, denials could never be proven between two lulls.
 */
const REPLIES_A_LULL = LONGEST_RUN + 15;
/** Lulls that may follow one another at once. */
const MOST_IN_A_ROW = 2;

/** Silences whose distance is remembered: a limit that others use too leaves now more, now fewer replies. */
const STRETCHES = 4;

/** Replies between two silences that are few: more, and they are not worth proofs that nobody else needs. */
const FEW = 200;

/**
 * Silences of so many usual gaps are none. A slow server that is asked for several codes at once lets
 * as many gaps pass before it answers them together: twice that, and some for gaps that differ.
 */
const usualGaps = (concurrency: number): number => 4 + 2 * concurrency;

/**
 * Listens for lulls: times in which nothing was heard of the credential, much longer than usual. Runs
 * of denials are bounded by their calls, since for so many a key would have to be bad; while nobody
 * calls, it may be bad for as long as it likes. What is usual is the mean of the last gaps, but no
 * less than the budget makes it: so neither a small budget nor a slow server makes a lull of every
 * gap. A gap longer than usual counts there for no more than the longest that is usual, so that one
 * long pause does not hide the next, while one that comes again and again becomes usual by and by.
 */
export class Pulse {
  readonly #pace: Pace;
  readonly #factor: number;
  readonly #leastMs: number;
  #gaps: number[] = [];
  #oldest = 0;
  #last: number | null = null;
  /** Replies since the last silence. */
  #stretch = 0;
  /** How many came before the last silences, each since the one before. */
  #stretches: readonly number[] = [];
  #lullsLeft = MOST_IN_A_ROW;

  constructor(pace: Pace) {
    this.#pace = pace;
    this.#factor = usualGaps(pace.concurrency);
    this.#leastMs = Math.max(LEAST_MS, this.#factor * pace.spacingMs);
  }

  /** Goes on from what was heard up to now. */
  copy(): Pulse {
    const copy = new Pulse(this.#pace);
    copy.#gaps = [...this.#gaps];
    copy.#oldest = this.#oldest;
    copy.#last = this.#last;
    copy.#stretch = this.#stretch;
    copy.#stretches = this.#stretches;
    copy.#lullsLeft = this.#lullsLeft;
    return copy;
  }

  /** Whether what was heard last is too old to begin with. @param at milliseconds since 1970 */
  isStale(at: number): boolean {
    return this.#gapAt(at) > this.#leastMs;
  }

  /** Listens from here on, whatever time has passed. @param at milliseconds since 1970 */
  begin(at: number): void {
    if (this.#stretch > 0) this.#endStretch();
    this.#last = at;
  }

  /**
   * How many replies are to come before the next silence, if as many come as before one of the last, of
   * those the soonest: marketplaces that allow fewer requests than the budget does answer so many, and
   * then none for a while. Infinity when nothing tells.
   */
  get repliesLeft(): number {
    const now = this.#stretch;
    return this.#stretches.reduce(
      (least, one) => (one < now ? least : Math.min(least, one - now)),
      Infinity,
    );
  }

  /** Whether silences come after few replies. */
  get isInterrupted(): boolean {
    return this.#stretch <= FEW && this.#stretches.some((one) => one <= FEW);
  }

  /** Something was heard; returns whether a lull came before it. @param at milliseconds since 1970 */
  hear(at: number): boolean {
    const gap = this.#gapAt(at);
    const longest = this.#longestUsual;
    if (gap > longest) this.#endStretch();
    this.#stretch++;
    const isLull = gap > longest && this.#lullsLeft >= 1;
    if (isLull) this.#lullsLeft--;
    this.#lullsLeft = Math.min(MOST_IN_A_ROW, this.#lullsLeft + 1 / REPLIES_A_LULL);
    if (this.#last !== null) this.#remember(Math.min(gap, longest));
    this.#last = at;
    return isLull;
  }

  #endStretch(): void {
    this.#stretches = [this.#stretch, ...this.#stretches].slice(0, STRETCHES);
    this.#stretch = 0;
  }

  get #longestUsual(): number {
    const sum = this.#gaps.reduce((total, gap) => total + gap, 0);
    return Math.max(this.#leastMs, (this.#factor * sum) / Math.max(1, this.#gaps.length));
  }

  /** Clocks may be set back. */
  #gapAt(at: number): number {
    return this.#last === null ? 0 : Math.max(0, at - this.#last);
  }

  #remember(gap: number): void {
    this.#gaps[this.#oldest] = gap;
    this.#oldest = (this.#oldest + 1) % REMEMBERED;
  }
}
