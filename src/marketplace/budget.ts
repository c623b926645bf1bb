import { BudgetPaused } from '../domain/budget.js';
import type { Budget, Priority } from './types.js';

/** One per cent slower than allowed, so that jitter on the network never puts too many into a window. */
const SLACK = 1.01;
const LONGEST_TIMER_MS = 2_147_483_647;

/** A budget without a limit. It ignores pauses too: each call waits for its own. */
export const unlimitedBudget: Budget = {
  acquire: (_priority, signal) =>
    signal.aborted ? Promise.reject(signal.reason as Error) : Promise.resolve(),
  pauseUntil: () => Promise.resolve(),
};

interface Waiter {
  readonly patienceMs: number;
  /** Ends the wait. @param refusal null: the request may be sent */
  readonly end: (refusal: Error | null) => void;
}

/**
 * A budget for one process: evenly spaced, never more than `requestsPerMinute` in any 60 s (field notes).
 * @throws RangeError when the number is not positive
 */
export function evenlySpacedBudget(requestsPerMinute: number): Budget {
  if (!(requestsPerMinute > 0)) {
    throw new RangeError('requestsPerMinute must be greater than 0');
  }
  return new EvenlySpacedBudget(requestsPerMinute);
}

class EvenlySpacedBudget implements Budget {
  readonly #spacingMs: number;
  readonly #waiting: Record<Priority, Set<Waiter>> = { mirror: new Set(), audit: new Set() };
  /** On the monotonic clock, so that setting the system's clock neither bursts nor blocks. */
  #nextAt = 0;
  #timer: NodeJS.Timeout | null = null;
  /** On the monotonic clock too. */
  #pausedUntil = 0;

  constructor(readonly requestsPerMinute: number) {
    this.#spacingMs = (60_000 / requestsPerMinute) * SLACK;
  }

  acquire(priority: Priority, signal: AbortSignal, patienceMs = Infinity): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const queue = this.#waiting[priority];
      const onAbort = (): void => waiter.end(signal.reason as Error);
      const waiter: Waiter = {
        patienceMs,
        end(refusal) {
          queue.delete(waiter);
          signal.removeEventListener('abort', onAbort);
          if (refusal === null) resolve();
          else reject(refusal);
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      queue.add(waiter);
      this.#refuseImpatient();
      this.#serve();
    });
  }

  pauseUntil(until: number): Promise<void> {
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + (until - Date.now()));
    this.#nextAt = Math.max(this.#nextAt, this.#pausedUntil);
    this.#refuseImpatient();
    this.#serve();
    return Promise.resolve();
  }

  #refuseImpatient(): void {
    const pauseMs = this.#pausedUntil - performance.now();
    for (const waiter of [...this.#waiting.mirror, ...this.#waiting.audit]) {
      if (pauseMs > waiter.patienceMs) waiter.end(new BudgetPaused(Date.now() + pauseMs));
    }
  }

  /** Grants what is due and sets the timer for the next. */
  #serve(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const queue = this.#waiting.mirror.size > 0 ? this.#waiting.mirror : this.#waiting.audit;
    const [first] = queue;
    if (first === undefined) return;
    const now = performance.now();
    if (now >= this.#nextAt) {
      this.#nextAt = now + this.#spacingMs;
      first.end(null);
      return this.#serve();
    }
    const wait = Math.min(Math.ceil(this.#nextAt - now), LONGEST_TIMER_MS);
    this.#timer = setTimeout(() => this.#serve(), wait);
  }
}
