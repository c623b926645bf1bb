import type { Call } from '../../domain/codes/proof.js';
import type { Failure, Reply } from '../../domain/reply.js';
import type { Stop, StopReason } from './types.js';

/** Replies in a row that tell nothing before an outage is suspected. */
const SUSPICIOUS = 8;
/** BatchValidator hard makes a challenge worse (field notes: limits and weather). */
const CHALLENGES = 2;

/**
 * Tells outages, limits and challenges from codes on which the marketplace fails. It fails on single
 * codes too, such as those of deleted items, and a list may hold many of them in a row: so a row of
 * failures is only suspicious, and a canary or account details are to tell.
 */
export class OutageDetector {
  /** Failures since the last reply that told something. */
  #row: Failure[] = [];
  /** True while no code may be asked for: a proof must show first whether this is an outage. */
  isSuspected = false;

  /**
   * Takes in a reply.
   * @param hasCanary whether a code known to be valid can be asked for
   * @param now milliseconds since 1970
   * @returns why to stop asking: at once when the server says when to come back or that there were too
   * many requests, else when a proof fails too; null when there is no reason
   */
  hear(
    { kind, outcome }: Call,
    reply: Reply<unknown>,
    hasCanary: boolean,
    now: number,
  ): Stop | null {
    const isMixedUp = reply.kind === 'unreadable' && reply.isAboutAnother === true;
    if (reply.kind === 'answered' || (outcome.kind !== 'inconclusive' && !isMixedUp)) {
      // Account details say nothing of answers that are about another code.
      const last = this.#row.at(-1);
      if (kind === 'account' && last?.kind === 'unreadable' && last.isAboutAnother === true)
        return null;
      this.#row = [];
      this.isSuspected = false;
      return null;
    }
    this.#row.push(reply);
    const notBefore = 'retryAt' in reply ? reply.retryAt : null;
    const detail = 'detail' in reply ? reply.detail : null;
    const stop = (reason: StopReason): Stop => ({ reason, notBefore, detail });
    if (reply.kind === 'limited') return stop('limited');
    const challenges = this.#row.filter((one) => 'reason' in one && one.reason === 'challenge');
    if (challenges.length >= CHALLENGES) return stop('challenge');
    const outage = stop(reply.kind === 'unreadable' ? 'unreadable' : 'unavailable');
    if (notBefore !== null && notBefore > now) return outage;
    if (this.#row.length < SUSPICIOUS) return null;
    if (kind !== 'code' || (isMixedUp && !hasCanary)) return outage;
    this.isSuspected = true;
    return null;
  }
}
