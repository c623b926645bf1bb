/** Shortest time over which the rate is taken, milliseconds. */
const SHORTEST_MS = 10_000;
/** Longest time: after it, work that has become slower or faster is known to have. */
const LONGEST_MS = 120_000;
/** Between these, the rate is that of the last part of the time so far. */
const PART = 1 / 4;

/**
 * How fast work gets on at present: an average in which what was done lately weighs most. It knows
 * progress only, so that work in large steps has a steady rate too. Times are in milliseconds, of any
 * one clock.
 */
export class Rate {
  #done: number;
  /** When `done` was reached, or the last pause ended. */
  #at: number;
  #steps = 0;
  #lastStepMs = 0;
  #allMs = 0;
  /** What was done lately and the time it took, both weighted by age. */
  #recent = { done: 0, ms: 0 };

  /** @param done before the work begins @param at when it begins */
  constructor(done: number, at: number) {
    this.#done = done;
    this.#at = at;
  }

  /** Takes in how much is done. Less than before is another piece of work. */
  note(done: number, at: number): void {
    if (done === this.#done) return;
    const [step, ms] = [done - this.#done, at - this.#at];
    this.#done = done;
    this.#at = at;
    if (step < 0) {
      this.#steps = 0;
      this.#allMs = 0;
      this.#recent = { done: 0, ms: 0 };
      return;
    }
    this.#allMs += ms;
    const window = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, this.#allMs * PART));
    // The first step took what came before the work too, such as opening connections.
    const weight = this.#steps === 1 ? 0 : Math.exp(-ms / window);
    this.#steps++;
    this.#lastStepMs = ms;
    const recent = this.#recent;
    this.#recent = { done: recent.done * weight + step, ms: recent.ms * weight + ms };
  }

  /** Nothing could be done since the last progress, or the last call of this: that time does not count. */
  pause(at: number): void {
    this.#at = at;
  }

  /** What is done in a millisecond; 0 while nobody knows. */
  perMs(at: number): number {
    // A step that takes longer than the last one did makes the work slower before it ends.
    const lateMs = Math.max(0, at - this.#at - this.#lastStepMs);
    const ms = this.#recent.ms + lateMs;
    return ms > 0 ? this.#recent.done / ms : 0;
  }
}
