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

/** Whether a stop for the weather is but a guess from several replies that told nothing. */
export function isOutage({ reason, notBefore }: Stop): boolean {
  return (reason === 'unavailable' || reason === 'unreadable') && notBefore === null;
}

/**
 * Which proof keeps denials from being proven: another account, the last proof of the key, or else the
 * last canary; null when none failed.
 */
export function failedProof({ account, calls }: Timeline): Stop | null {
  const accounts = calls.filter((call) => call.kind === 'account');
  const stranger = accounts.find(
    (call) => call.account !== null && account !== null && !isSameAccount(call.account, account),
  );
  if (stranger !== undefined) {
    const detail = `the API key opened the account "${stranger.account}"`;
    return { reason: 'account-changed', notBefore: null, detail };
  }
  const canary = calls.findLast(({ kind }) => kind === 'canary');
  const failed = [accounts[accounts.length - 1], canary].find(
    (call) => call !== undefined && call.outcome.kind !== 'affirmed',
  );
  if (failed === undefined) return null;
  const { outcome, evidence } = failed;
  if (!('reason' in outcome) || outcome.reason === 'another-code') return CANARY_LOST;
  const notBefore = outcome.kind === 'silent' ? outcome.retryAt : null;
  return { reason: outcome.reason, notBefore, detail: evidence.message };
}

export const CANARY_LOST: Stop = { reason: 'canary-lost', notBefore: null, detail: null };
