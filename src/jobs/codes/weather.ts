import type { Failure, Reply } from '../../domain/reply.js';
import { isOutage, stopForWeather } from './stop.js';
import type { TimedCall } from './journal.js';
import type { Stop } from './types.js';

/** Watches replies for outages, limits and challenges. */
export class Weather {
  readonly #tryCanary: () => boolean;
  /** Failures since the last reply that told something. */
  #row: Failure[] = [];
  #isDoubtful = false;
  /** The last of these failures was an answer about another code. */
  #isMixedUp = false;

  /**
   * Marketplaces fail on single codes too, such as those of deleted items, and lists may hold many of
   * them in a row: that a code known to be valid gets no answer either makes it an outage.
   * @param tryCanary asks for such a code, unless one is asked for already; false when none is known
   */
  constructor(tryCanary: () => boolean) {
    this.#tryCanary = tryCanary;
  }

  /** It looks like an outage, and a canary is to tell; no code is to be asked for until it has. */
  get isDoubtful(): boolean {
    return this.#isDoubtful;
  }

  /** Takes notice of a reply; returns why to stop asking, null when there is no reason. */
  hear({ kind, outcome, at }: TimedCall, reply: Reply<unknown>): Stop | null {
    const isMixedUp = reply.kind === 'unreadable' && reply.isAboutAnother === true;
    if (reply.kind === 'answered' || (outcome.kind !== 'silent' && !isMixedUp)) {
      // Account details are asked for after each answer about another code, and say nothing of those.
      if (kind === 'account' && this.#isMixedUp) return null;
      if (this.#row.length > 0) this.#row = [];
      this.#isDoubtful = this.#isMixedUp = false;
      return null;
    }
    this.#row.push(reply);
    this.#isMixedUp = isMixedUp;
    const stop = stopForWeather(this.#row, at);
    if (stop === null || kind !== 'code' || !isOutage(stop) || !this.#tryCanary()) return stop;
    this.#isDoubtful = true;
    return null;
  }
}
