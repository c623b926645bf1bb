import { isSameAccount, type Timeline } from '../../domain/codes/timeline.js';
import type { Failure } from '../../domain/reply.js';
import type { Stop, StopReason } from './types.js';

/** Replies in a row that tell nothing before it counts as an outage. */
const OUTAGE_RUN = 8;
/** Asking hard makes a challenge worse (field notes: limits and weather). */
const CHALLENGE_RUN = 2;

/**
 * Whether to stop asking because of the weather: at once when the server says when to come back, or
 * that there were too many requests; else after several replies in a row that tell nothing.
 * @param row failures since the last reply that told something, the newest last, at least one
 * @param now milliseconds since 1970
 */
export function stopForWeather(row: readonly Failure[], now: number): Stop | null {
  const last = row[row.length - 1] as Failure;
  const notBefore = 'retryAt' in last ? last.retryAt : null;
  const stop = (reason: StopReason): Stop => ({
    reason,
    notBefore,
    detail: 'detail' in last ? last.detail : null,
  });
  if (last.kind === 'limited') return stop('limited');
  const challenges = row.filter((one) => 'reason' in one && one.reason === 'challenge').length;
  if (challenges >= CHALLENGE_RUN) return stop('challenge');
  const isTold = notBefore !== null && notBefore > now;
  if (!isTold && row.length < OUTAGE_RUN) return null;
  return stop(last.kind === 'unreadable' ? 'unreadable' : 'unavailable');
}

/** Why a plan says that nothing denied from here on could be proven. */
export function stopOfPlan({ account, calls }: Timeline): Stop {
  const proofs = calls.filter((call) => call.kind === 'account');
  const stranger = proofs.find(
    (call) => call.account !== null && account !== null && !isSameAccount(call.account, account),
  );
  if (stranger !== undefined) {
    const detail = `the API key opened the account "${stranger.account}"`;
    return { reason: 'account-changed', notBefore: null, detail };
  }
  const last = proofs[proofs.length - 1];
  if (last === undefined || last.outcome.kind === 'affirmed') {
    return { reason: 'canary-lost', notBefore: null, detail: null };
  }
  const { outcome, evidence } = last;
  const reason =
    'reason' in outcome && outcome.reason !== 'another-code' ? outcome.reason : 'refused';
  const notBefore = outcome.kind === 'silent' ? outcome.retryAt : null;
  return { reason, notBefore, detail: evidence.message };
}
