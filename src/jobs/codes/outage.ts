import type { Call } from '../../domain/codes/proof.js';
import type { Failure, Reply } from '../../domain/reply.js';
import type { Stop, StopReason } from './types.js';

/** Failed replies in a row before an outage is suspected. */
const SUSPICIOUS_FAILURES = 8;
/** Stop after this many challenges: more requests make it worse (servers: outages). */
const MAX_CHALLENGES = 2;

/**
 * Tells outages, limits and challenges from single codes on which the marketplace fails, such as those
 * of deleted items. A list may hold many such codes in a row. So a row of failures only raises a
 * suspicion; a canary or account details decide.
 */
export class OutageDetector {
  /** Failures since the last informative reply. */
  #failures: Failure[] = [];
  /** Send no code until a proof has shown whether this is an outage. */
  isSuspected = false;

  /**
   * @param hasCanary whether a valid code is known that could be sent
   * @param now milliseconds since 1970
   * @returns why the batch must stop; null: it goes on. It stops at once when the server names a time
   * to retry or reports too many requests, otherwise when a proof fails too.
   */
  recordReply(
    { kind, outcome }: Call,
    reply: Reply<unknown>,
    hasCanary: boolean,
    now: number,
  ): Stop | null {
    const isMixedUp = reply.kind === 'unreadable' && reply.isAboutAnother === true;
    if (reply.kind === 'answered' || (outcome.kind !== 'inconclusive' && !isMixedUp)) {
      // Account details don't clear answers that were about another code.
      const last = this.#failures.at(-1);
      if (kind === 'account' && last?.kind === 'unreadable' && last.isAboutAnother === true)
        return null;
      this.#failures = [];
      this.isSuspected = false;
      return null;
    }
    this.#failures.push(reply);
    const notBefore = 'retryAt' in reply ? reply.retryAt : null;
    const detail = 'detail' in reply ? reply.detail : null;
    const stop = (reason: StopReason): Stop => ({ reason, notBefore, detail });
    if (reply.kind === 'limited') return stop('limited');
    const challenges = this.#failures.filter(
      (failure) => 'reason' in failure && failure.reason === 'challenge',
    );
    if (challenges.length >= MAX_CHALLENGES) return stop('challenge');
    const outage = stop(reply.kind === 'unreadable' ? 'unreadable' : 'unavailable');
    if (notBefore !== null && notBefore > now) return outage;
    if (this.#failures.length < SUSPICIOUS_FAILURES) return null;
    if (kind !== 'code' || (isMixedUp && !hasCanary)) return outage;
    this.isSuspected = true;
    return null;
  }
}
