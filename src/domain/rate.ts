/** Bounds of the averaging window in milliseconds. */
const MIN_WINDOW_MS = 10_000;
const MAX_WINDOW_MS = 120_000;
/** Between the bounds, the window is this share of the time so far. */
const WINDOW_SHARE = 1 / 4;

/**
 * The current rate of work: an exponential moving average. It is updated only by progress, so that large
 * steps give a steady rate too. Times are milliseconds of any one clock.
 */
export class Rate {
  #done: number;
  /** When `#done` was reached, or the last pause ended. */
  #at: number;
  #isUnderWay: boolean;
  #steps = 0;
  #lastStepMs = 0;
  #totalMs = 0;
  /** Recent work and the time it took, weighted by age. */
  #recent = { done: 0, ms: 0 };

  /**
   * @param done work done at the start
   * @param at time of the start
   * @param isUnderWay somebody watches from here on, so nobody knows when the first step began: it does not count
   */
  constructor(done: number, at: number, isUnderWay = false) {
    this.#done = done;
    this.#at = at;
    this.#isUnderWay = isUnderWay;
  }

  /** Records how much is done. Less than before means that other work has begun. */
  note(done: number, at: number): void {
    if (done === this.#done) return;
    const [step, ms] = [done - this.#done, at - this.#at];
    this.#done = done;
    this.#at = at;
    if (this.#isUnderWay) {
      this.#isUnderWay = false;
      return;
    }
    if (step < 0) {
      this.#steps = 0;
      this.#totalMs = 0;
      this.#recent = { done: 0, ms: 0 };
      return;
    }
    this.#totalMs += ms;
    const window = Math.min(MAX_WINDOW_MS, Math.max(MIN_WINDOW_MS, this.#totalMs * WINDOW_SHARE));
    // The first step does not count: it includes preparations, such as opening connections.
    const weight = this.#steps === 1 ? 0 : Math.exp(-ms / window);
    this.#steps++;
    this.#lastStepMs = ms;
    const recent = this.#recent;
    this.#recent = { done: recent.done * weight + step, ms: recent.ms * weight + ms };
  }

  /** Excludes the time since the last progress or the last call of this method. */
  pause(at: number): void {
    this.#at = at;
  }

  /** Work per millisecond; 0 while unknown. */
  perMs(at: number): number {
    // A step that takes longer than the last one lowers the rate before it ends.
    const lateMs = Math.max(0, at - this.#at - this.#lastStepMs);
    const ms = this.#recent.ms + lateMs;
    return ms > 0 ? this.#recent.done / ms : 0;
  }
}
