/** What the plan remembers after a proof of the key, and how long it waits after a bad one. */

import { retryTimeOf } from '../marketplace/reply.js';
import { isChallenge } from './judging.js';
import { MAX_BAD_PROOFS } from './rules.js';
import type { BadProof, GoodProof, Memory } from './situation.js';

const SECOND_MS = 1_000;
/** A bad key is proven again after this time, in case it was a moment's fault. */
const PROVE_AGAIN_AFTER_MS = 2 * SECOND_MS;
const AFTER_LIMIT_MS = 60 * SECOND_MS;
const AFTER_CHALLENGE_MS = 600 * SECOND_MS;
/** After an outage that let some answers through, and after one that did not. */
const AFTER_BREAK_MS = 15 * SECOND_MS;
const AFTER_OUTAGE_MS = 180 * SECOND_MS;
/** Times that are remembered: more bad proofs than this are a check without chance. */
const GOOD_TIMES = 20;

/** What the plan remembers after a good proof. @param since when the key was first seen to be good before it */
export function afterGood(memory: Memory, proof: GoodProof, since = proof.beganAt): Memory {
  const account = memory.account ?? proof.account;
  const [from] = (memory.isGood ? memory.good.at(-1) : undefined) ?? [since];
  const earlier = memory.isGood ? memory.good.slice(0, -1) : memory.good;
  const good = [...earlier, [from, proof.at] as const].slice(-GOOD_TIMES);
  return { ...memory, account, lookedAt: proof.beganAt, bad: null, good, isGood: true };
}

/** Whether both proofs around this time were good. */
export function isProven({ good }: Memory, at: number): boolean {
  return good.some(([from, to]) => from <= at && at <= to);
}

/**
 * What the plan remembers after a bad proof: nothing that was asked since the last good one is a sample of chance.
 * @param hasAnswers whether the marketplace answered something before
 */
export function afterBad(
  memory: Memory,
  bad: BadProof,
  waitMs: number,
  hasAnswers: boolean,
): Memory {
  const { reason } = bad;
  const times = memory.bad?.reason === reason ? memory.bad.times + 1 : 1;
  const isGood = memory.isGood && isOutage(bad);
  const held = holdAfter(memory, bad, waitMs, hasAnswers);
  const wasInDoubt = memory.wasInDoubt || !isOutage(bad);
  return { ...held, isGood, wasInDoubt, lookedAt: null, opening: null, bad: { reason, times } };
}

/** What the plan remembers when the marketplace asks for a pause, or gives no answers, between two proofs. */
export function holdAfter(
  memory: Memory,
  bad: BadProof,
  waitMs: number,
  hasAnswers: boolean,
): Memory {
  const { reason, reply, detail } = bad;
  const times = memory.bad?.reason === reason ? memory.bad.times + 1 : 1;
  const isBot = reply !== null && isChallenge(reply);
  const until = holdUntil(bad, times, waitMs, hasAnswers);
  return { ...memory, hold: { stop: { reason: isBot ? 'challenge' : reason, detail }, until } };
}

/** Whether a bad proof, or an answer about a code, says nothing about the key. */
export function isOutage({ reason }: Pick<BadProof, 'reason'>): boolean {
  return reason === 'limited' || reason === 'unavailable';
}

/** @returns null: a person must act */
function holdUntil(
  { reason, reply, at, isSure = false }: BadProof,
  times: number,
  waitMs: number,
  hasAnswers: boolean,
): number | null {
  const retryAt = reply === null ? null : retryTimeOf(reply);
  const unless = (isEnough: boolean, ms: number): number | null => (isEnough ? null : at + ms);
  switch (reason) {
    case 'limited':
      return retryAt ?? at + AFTER_LIMIT_MS;
    case 'known-valid-denied':
    case 'unreadable':
      return unless(times >= MAX_BAD_PROOFS, waitMs);
    case 'refused':
    case 'no-api':
    case 'another-account':
    case 'mixed-up':
      // A page may be an outage: only the words of the API, or their absence, speak of the key.
      if (isUnavailable(reply, 'html')) break;
      return unless(isSure || times >= 2, Math.min(waitMs, PROVE_AGAIN_AFTER_MS));
    case 'unavailable':
      if (isUnavailable(reply, 'cache')) return unless(times >= MAX_BAD_PROOFS, waitMs);
  }
  if (retryAt !== null) return retryAt;
  if (reply !== null && isChallenge(reply)) return at + AFTER_CHALLENGE_MS;
  return at + (hasAnswers ? AFTER_BREAK_MS : AFTER_OUTAGE_MS);
}

function isUnavailable(reply: BadProof['reply'], reason: string): boolean {
  return reply?.kind === 'unavailable' && reply.reason === reason;
}
