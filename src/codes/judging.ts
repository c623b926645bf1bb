/** What an answer about a code says, as evidence. */

import { meaningOf, messageOf, type Reply } from '../marketplace/reply.js';
import type { CodeCheck, CodeResult, ProvenBetween } from './results.js';
import type { Chance } from './rules.js';
import type { CodeReply } from './requests.js';

export const NO_CHANCE: Chance = { calls: 0, denied: 0 };
export const NOTHING: CodeResult['adds'] = { attempts: 0, counted: 0, rounds: 0, uncounted: 0 };

export function addChance(a: Chance, b: Chance): Chance {
  return { calls: a.calls + b.calls, denied: a.denied + b.denied };
}

/**
 * The evidence that an answer gives about a code.
 * @param at when it came
 * @param proven the proofs around a denial that counts
 */
export function evidenceOf(
  reply: CodeReply,
  at: number,
  proven: ProvenBetween | null = null,
): CodeCheck {
  const { httpStatus } = reply;
  const evidence = { at, httpStatus, message: messageOf(reply), answer: null, proven: null };
  const meaning = meaningOf(reply);
  switch (meaning.kind) {
    case 'found':
      return {
        ...evidence,
        reason: 'answered',
        answer: reply.kind === 'answered' ? reply.data : null,
      };
    case 'denied':
      return { ...evidence, reason: 'denied', proven };
    case 'doubt':
    case 'silent':
      return { ...evidence, reason: meaning.reason };
  }
}

/** Bot protection: asking again makes it worse. */
export function isChallenge(reply: Reply<unknown>): boolean {
  return reply.kind === 'unavailable' && reply.reason === 'challenge';
}
