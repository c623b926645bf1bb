import {
  BudgetPaused,
  LEFT_OUT_HOURS,
  spacingOf,
  type Budget,
  type Priority,
  type RandomParameter,
} from '../domain/budget.js';
import { MAX_TIMER_MS } from './reply.js';

/** The random parameter of one client, without a store: it is tried again by the next process. */
export function ownRandomParameter(): RandomParameter {
  let leftOutUntil = -Infinity;
  return {
    isSent: () => Promise.resolve(performance.now() >= leftOutUntil),
    leaveOut: () => {
      leftOutUntil = performance.now() + LEFT_OUT_HOURS * 3_600_000;
      return Promise.resolve();
    },
  };
}

/** A budget without a limit. It ignores pauses too: each call backs off on its own. */
export const unlimitedBudget: Budget = {
  acquire: (_priority, signal) =>
    signal.aborted ? Promise.reject(signal.reason as Error) : Promise.resolve(),
  pauseUntil: () => Promise.resolve(),
};

interface Waiter {
  readonly patienceMs: number;
  /** Ends the wait. @param error why the request may not be sent; null if it may */
  readonly end: (error: Error | null) => void;
}

/**
 * A budget for one process: evenly spaced, at most `requestsPerMinute` in any 60 s (servers: limits).
 * @throws {RangeError} when the number is not positive
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
  // Both times are on the monotonic clock: changing the system clock must neither burst nor block.
  #nextAt = 0;
  #pausedUntil = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(readonly requestsPerMinute: number) {
    this.#spacingMs = spacingOf(requestsPerMinute);
  }

  acquire(priority: Priority, signal: AbortSignal, patienceMs = Infinity): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const queue = this.#waiting[priority];
      const onAbort = (): void => waiter.end(signal.reason as Error);
      const waiter: Waiter = {
        patienceMs,
        end(error) {
          queue.delete(waiter);
          signal.removeEventListener('abort', onAbort);
          if (error === null) resolve();
          else reject(error);
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      queue.add(waiter);
      this.#rejectImpatient();
      this.#grantNext();
    });
  }

  pauseUntil(until: number): Promise<void> {
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + (until - Date.now()));
    this.#nextAt = Math.max(this.#nextAt, this.#pausedUntil);
    this.#rejectImpatient();
    this.#grantNext();
    return Promise.resolve();
  }

  /** Rejects waiters that would not wait as long as the current pause. */
  #rejectImpatient(): void {
    const pauseMs = this.#pausedUntil - performance.now();
    for (const waiter of [...this.#waiting.mirror, ...this.#waiting.audit]) {
      if (pauseMs > waiter.patienceMs) waiter.end(new BudgetPaused(Date.now() + pauseMs));
    }
  }

  /** Grants the next request if it is due, otherwise sets the timer for it. */
  #grantNext(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const queue = this.#waiting.mirror.size > 0 ? this.#waiting.mirror : this.#waiting.audit;
    const [first] = queue;
    if (first === undefined) return;
    const now = performance.now();
    if (now >= this.#nextAt) {
      this.#nextAt = now + this.#spacingMs;
      first.end(null);
      return this.#grantNext();
    }
    const wait = Math.min(Math.ceil(this.#nextAt - now), MAX_TIMER_MS);
    this.#timer = setTimeout(() => this.#grantNext(), wait);
  }
}
