/** What the plan knows: the situation of a piece of work, what it remembers between two, and what it waits for. */

import { retryTimeOf, type Reply } from '../marketplace/reply.js';
import type { UnprovenReason } from './evidence.js';
import type { Market } from './market.js';
import { MAX_BAD_PROOFS } from './rules.js';
import type { CodeResult, KnownValid, ProofBy } from './ledger.js';

/** What does not change while a piece of work is done. */
export interface Situation {
  readonly market: Market;
  /** User name of the seller's account; null: that of the first account details. */
  readonly account: string | null;
  /** From a denial to the next time that a code is asked, milliseconds: a column of the check. */
  readonly waitMs: number;
  /**
   * How long a due code waits for others to share its window, milliseconds. Infinity for a list: all its denied codes are due
   * `waitMs` after the first pass. About 2,000 for look-ups, where a caller waits and new ones come.
   */
  readonly gatherMs: number;
  /** No second check begins before: other sellers are asked about the codes. Milliseconds since 1970; 0: none. */
  readonly heldUntil: number;
  /**
   * How long good account details speak for purchases that are found after them, milliseconds. 0 for a list: a purchase waits
   * for the next look at the account. Ten minutes for look-ups, where a caller waits.
   */
  readonly vouchMs: number;
  /** Milliseconds that the budget puts between two calls; 0: unlimited. */
  readonly spacingMs: number;
  /** Codes of this check, at its beginning. */
  readonly codes: number;
  /**
   * Some 100 known-valid codes of the seller, in the order in which proofs use them (`ProofCodes`). A code that a person
   * named has `foundAt` 0.
   */
  readonly knownValid: readonly KnownValid[];
  /** Some live items of the catalogue, at most ten: they stand for known-valid codes where those are too few. */
  readonly liveItems: readonly number[];
  /** Whether the catalogue has or had this item. True for each if there is no catalogue. */
  readonly hadItem: (id: number) => boolean;
  /** Milliseconds since 1970, by the clock of the database. */
  readonly now: () => number;
  /** In [0, 1). */
  readonly dice: () => number;
  /** The work ends in order: no new code is asked, and what was answered is proven and recorded. */
  readonly isClosing: () => boolean;
}

/** Why work has to wait or to stop. */
export interface Stop {
  readonly reason: UnprovenReason | 'challenge';
  /** The server's or the client's words, redacted. */
  readonly detail: string | null;
}

const FOR_PERSONS = ['refused', 'another-account', 'another-marketplace'] as const;

/** Whether only a person can end it: the key or the address is wrong. */
export function isForPerson(reason: Stop['reason']): reason is (typeof FOR_PERSONS)[number] {
  return FOR_PERSONS.some((one) => one === reason);
}

/**
 * What the plan remembers between two steps: plain JSON. Kept with the check, without `found`, it serves whichever process
 * goes on; without it, work goes on as well, only slower.
 */
export interface Memory {
  /** User name of the account that the key opened, if the seller had none. */
  readonly account: string | null;
  /** The first pass has passed this position. */
  readonly after: number;
  /** Purchases that wait for a look at the account, while the marketplace asks for a pause. Without them they are asked again. */
  readonly found: readonly CodeResult[];
  /** Times that the open codes were gone through. */
  readonly passes: number;
  /** When open codes are tried again. */
  readonly retryAt: number;
  /** When the negative control was last denied, as it should be; null: never. */
  readonly controlAt: number | null;
  /** When account details were last good; null: never, or the key came into doubt since. */
  readonly lookedAt: number | null;
  /** Three random codes were found: nothing can be proven here. */
  readonly findsEverything: boolean;
  /**
   * Times from one good proof to a later one, with no bad proof in between: first and last time of each, the newest last.
   * Denials in them are samples of chance.
   */
  readonly good: readonly (readonly [number, number])[];
  /** The next good proof continues the newest of these times. */
  readonly isGood: boolean;
  /** The key came into doubt in this check, so that codes are asked more often. */
  readonly wasInDoubt: boolean;
  /** How often in a row the key could not be proven, for the same reason; null: it was proven last. */
  readonly bad: { readonly reason: Stop['reason']; readonly times: number } | null;
  /** The proof after the last window, which may serve before the next one. */
  readonly opening: GoodProof | null;
  /** Most codes of a window. It shrinks when windows take too long. */
  readonly windowCodes: number;
  /** Nothing is asked before `until`; null: a person must act. */
  readonly hold: { readonly stop: Stop; readonly until: number | null } | null;
}

export const FRESH_MEMORY: Memory = {
  account: null,
  after: -1,
  found: [],
  passes: 0,
  retryAt: 0,
  controlAt: null,
  lookedAt: null,
  findsEverything: false,
  good: [],
  isGood: false,
  wasInDoubt: false,
  bad: null,
  opening: null,
  windowCodes: 25,
  hold: null,
};

/** What lies ahead was remembered while a clock was wrong. Without it work goes on, only slower. */
export function pastOf(memory: Memory, now: number): Memory {
  const { controlAt, lookedAt, opening, good, retryAt } = memory;
  const moments = [
    controlAt ?? 0,
    lookedAt ?? 0,
    opening?.at ?? 0,
    good.at(-1)?.[1] ?? 0,
    retryAt - LONGEST_RETRY_MS,
  ];
  if (moments.every((at) => at <= now + CLOCKS_DIFFER_MS)) return memory;
  const { account, after, passes, bad, wasInDoubt, findsEverything } = memory;
  return { ...FRESH_MEMORY, account, after, passes, bad, wasInDoubt, findsEverything };
}

/** The clocks of two machines may differ by so much, milliseconds. */
const CLOCKS_DIFFER_MS = 60_000;
/** Codes without an answer wait no longer, milliseconds. */
const LONGEST_RETRY_MS = 120_000;

export interface GoodProof {
  readonly by: ProofBy;
  /** User name of the account that the key opened. */
  readonly account: string;
  /** When its first call was sent, and when it was complete. */
  readonly beganAt: number;
  readonly at: number;
}

export interface BadProof {
  readonly reason: Extract<
    UnprovenReason,
    | 'limited'
    | 'unavailable'
    | 'unreadable'
    | 'refused'
    | 'no-api'
    | 'another-account'
    | 'mixed-up'
    | 'known-valid-denied'
  >;
  readonly reply: Reply<unknown> | null;
  readonly detail: string | null;
  readonly at: number;
  /** Account details said so twice. */
  readonly isSure?: boolean;
}

/** Bot protection: asking again makes it worse. */
export function isChallenge(reply: Reply<unknown> | null): boolean {
  return isUnavailable(reply, 'challenge');
}

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
  const isBot = isChallenge(reply);
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
  if (isChallenge(reply)) return at + AFTER_CHALLENGE_MS;
  return at + (hasAnswers ? AFTER_BREAK_MS : AFTER_OUTAGE_MS);
}

function isUnavailable(reply: BadProof['reply'], reason: string): boolean {
  return reply?.kind === 'unavailable' && reply.reason === reason;
}
