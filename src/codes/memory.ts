import { MAX_WINDOW_CHECKS } from '../marketplace/proven-window.js';
import type { GoodProof } from '../marketplace/prove-key.js';
import { Canaries } from './canaries.js';
import type { CodeResult, DeniedCode } from './ledger.js';
import { pauseBeforeConfirm } from './rules.js';

/** What a process remembers of a list between two pieces of work. Without it, work goes on, only slower. */
export class WorkMemory {
  readonly canaries = new Canaries();
  /** Purchases found since account details last showed the seller's account; not recorded yet. */
  readonly found: CodeResult[] = [];
  hasKnownValid = false;
  /** User name of the account that the key opened. */
  account: string | null = null;
  /** The caller has just proven the key, so the next piece of the sweep need not. */
  isProven = false;
  /** The sweep has passed this position. */
  after = -1;
  /** Times that the list was gone through. */
  passes = 0;
  /** When codes without an answer are tried again, by `performance.now()`. */
  retryAt = 0;
  /** Replies of two calls were swapped, so only one call is made at a time. */
  isSerial = false;
  /** Most checks in a window. It shrinks when windows take too long. */
  windowChecks = MAX_WINDOW_CHECKS;
  opening: GoodProof | null = null;
  /** Windows in a row whose proof was bad. */
  badProofs = 0;
  /** Times that every code known to be valid was denied. */
  lostCanaries = 0;
  /** When the last denial of the sweep, and the last counted one, came, by `performance.now()`. */
  #sweptAt = performance.now();
  #countedAt = performance.now();

  noteDenial(isCounted: boolean): void {
    if (isCounted) this.#countedAt = performance.now();
    else this.#sweptAt = performance.now();
  }

  /**
   * Milliseconds until a denied code may be checked again. The clock of the machine may be set back: the wait is never
   * longer than if the denial had just come.
   * @param confirmAfterMs from the denial of the sweep to the check that confirms it
   */
  waitFor({ counted, deniedAt }: DeniedCode, confirmAfterMs: number): number {
    const pauseMs = pauseBeforeConfirm(confirmAfterMs, counted);
    const since = performance.now() - (counted === 0 ? this.#sweptAt : this.#countedAt);
    const now = Date.now();
    const byClock = deniedAt > now ? pauseMs : deniedAt + pauseMs - now;
    return Math.max(0, Math.min(byClock, pauseMs - since));
  }
}
