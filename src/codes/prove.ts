/**
 * A proof of the key: account details of the seller, and a known-valid code that is found.
 *
 * A wrong key, and the key of a user who sells nothing, get the same answers as questions about things that don't exist. So
 * what is known to exist is asked for before and after each denial that counts.
 */

import { meaningOf, messageOf, retryTimeOf, type Reply } from '../marketplace/reply.js';
import type { UnprovenReason } from './evidence.js';
import { evidenceOf, isChallenge, NO_CHANCE, NOTHING } from './judging.js';
import type { CodeCheck, CodeResult, KnownValid } from './results.js';
import { KNOWN_VALID_PER_PROOF, MAX_BAD_PROOFS } from './rules.js';
import type { GoodProof, Memory, Situation, Stop } from './situation.js';
import { askAccount, askForm, askItem, type Answer, type Talk } from './talk.js';

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
}

export type Proof = { readonly good: GoodProof } | { readonly bad: BadProof };

/** What proofs may ask for, while a piece of work is done. */
export class ProofCodes {
  readonly #codes: KnownValid[];
  readonly #items: number[];
  /** Denied as proofs meanwhile, and not found since. */
  readonly #doubtful = new Set<string>();

  constructor({ knownValid, liveItems }: Pick<Situation, 'knownValid' | 'liveItems'>) {
    this.#codes = [...knownValid];
    this.#items = [...liveItems];
  }

  /** Whether a proof can be more than account details. */
  get canFind(): boolean {
    return this.#codes.length > 0 || this.#items.length > 0;
  }

  /**
   * The codes that one proof may ask for, in turn: not used in this check before first, live items before removed ones, then
   * those found longest ago. Codes that were denied meanwhile are last. They are no proof at all if fewer than
   * three codes are known: then an item stands for them.
   */
  *inTurn(): Generator<KnownValid> {
    const isFew = this.#codes.length < KNOWN_VALID_PER_PROOF;
    const codes = this.#codes.filter(({ isDenied }) => !(isFew && isDenied));
    yield* codes.sort(byTurn).slice(0, KNOWN_VALID_PER_PROOF);
  }

  /** Whether every known-valid code may be denied and the key still good. */
  get mayAskItems(): boolean {
    return this.#codes.length < KNOWN_VALID_PER_PROOF;
  }

  /** Items to ask for in one proof, each proof beginning with another one. */
  *items(): Generator<number> {
    const items = this.#items.slice(0, KNOWN_VALID_PER_PROOF);
    const [first] = this.#items.splice(0, 1);
    if (first !== undefined) this.#items.push(first);
    yield* items;
  }

  /** Whether a code that was known to be valid was denied just now: nobody knows yet what that means. */
  get isAnyDoubtful(): boolean {
    return this.#doubtful.size > 0;
  }

  /** A code was found: as a proof, or by a check. */
  found(form: string, at: number): void {
    this.#doubtful.delete(form);
    const known = this.#take(form);
    const { codeId = null, isLive = false } = known ?? {};
    this.#codes.push({ codeId, form, foundAt: at, isLive, isUsed: true, isDenied: false });
  }

  /** A known-valid code was denied. */
  denied(form: string): void {
    const known = this.#take(form);
    if (known !== undefined) this.#codes.push({ ...known, isDenied: true });
  }

  /** It was denied as a proof. */
  doubt({ codeId, form }: KnownValid): void {
    if (codeId !== null) this.#doubtful.add(form);
  }

  /** A code turned out invalid. */
  drop(form: string): void {
    this.#doubtful.delete(form);
    this.#take(form);
  }

  #take(form: string): KnownValid | undefined {
    const place = this.#codes.findIndex((code) => code.form === form);
    return place < 0 ? undefined : this.#codes.splice(place, 1)[0];
  }
}

function byTurn(a: KnownValid, b: KnownValid): number {
  return (
    Number(a.isDenied) - Number(b.isDenied) ||
    Number(a.isUsed) - Number(b.isUsed) ||
    Number(b.isLive) - Number(a.isLive) ||
    a.foundAt - b.foundAt
  );
}

/** The seller's account, as far as it is known. */
type Account = string | null;

/**
 * Asks for account details. An odd answer is asked for once more at once: it says nothing about the key.
 * @param account user name of the seller's account; null: any is right
 */
export function* lookAtAccount(account: Account): Talk<Proof> {
  let answer = yield* askAccount();
  if (isOdd(answer)) answer = yield* askAccount();
  const { reply, sentAt, at } = answer;
  if (reply.kind !== 'answered') {
    const meaning = meaningOf(reply);
    // Account details exist for every good key, so a denial is a refusal (API 7).
    const reason =
      meaning.kind === 'denied' || meaning.kind === 'found' ? 'refused' : meaning.reason;
    return badProof(reason, reply, at);
  }
  const { username } = reply.data.value;
  if (account !== null && !isSameAccount(username, account)) {
    const detail = `the API key opened the account "${username}"`;
    return { bad: { ...badProof('another-account', null, at).bad, detail } };
  }
  return { good: { by: 'account', account: username, beganAt: sentAt, at } };
}

/** Proves the key. Records what it learns of known-valid codes. */
export function* prove(codes: ProofCodes, account: Account): Talk<Proof> {
  const look = yield* lookAtAccount(account);
  return 'bad' in look ? look : yield* proveAgain(codes, look.good);
}

/**
 * The second half of a proof: what is known to exist is found.
 * @param look the account details, or an earlier proof
 */
export function* proveAgain(codes: ProofCodes, look: GoodProof): Talk<Proof> {
  const denied: KnownDenial[] = [];
  const proof = yield* findKnown(codes, look, denied);
  if (denied.length > 0)
    yield { kind: 'record', results: denied.flatMap((one) => joining(one, proof)) };
  return proof;
}

/** A known-valid code that was denied as a proof. */
interface KnownDenial {
  readonly code: KnownValid;
  readonly check: CodeCheck;
}

/** It joins the codes of the second check. If this check has found it before, chance has denied it. */
function joining({ code, check }: KnownDenial, proof: Proof): readonly CodeResult[] {
  const { codeId, form, isUsed } = code;
  if (codeId === null) return [];
  const chance = 'good' in proof && isUsed ? { calls: 1, denied: 1 } : NO_CHANCE;
  return [{ of: { codeId }, check, form, verdict: null, reason: null, adds: NOTHING, chance }];
}

function* findKnown(codes: ProofCodes, look: GoodProof, denied: KnownDenial[]): Talk<Proof> {
  let last: Answer | null = null;
  for (const code of codes.inTurn()) {
    let answer = yield* askForm(code.form);
    if (isOdd(answer)) answer = yield* askForm(code.form);
    const { reply, at } = answer;
    const meaning = meaningOf(reply);
    if (meaning.kind === 'found') {
      codes.found(code.form, at);
      if (code.codeId !== null) yield { kind: 'proven', found: [{ codeId: code.codeId, at }] };
      return { good: { ...look, by: 'known-valid', at } };
    }
    if (meaning.kind !== 'denied') return badProof(meaning.reason, reply, at);
    codes.denied(code.form);
    codes.doubt(code);
    last = answer;
    denied.push({ code, check: evidenceOf(reply, at) });
  }
  if (!codes.mayAskItems)
    return badProof('known-valid-denied', last?.reply ?? null, last?.at ?? look.at);
  return yield* findItem(codes, look);
}

/** A live item stands for known-valid codes. Without any, account details must do. */
function* findItem(codes: ProofCodes, look: GoodProof): Talk<Proof> {
  let last: (Answer & { kind: 'item' }) | null = null;
  for (const id of codes.items()) {
    const answer = yield* askItem(id);
    const { reply, at } = answer;
    const meaning = meaningOf(reply);
    if (meaning.kind === 'found') return { good: { ...look, by: 'item', at } };
    if (meaning.kind !== 'denied') return badProof(meaning.reason, reply, at);
    last = answer;
  }
  if (last !== null) return badProof('known-valid-denied', last.reply, last.at);
  return { good: look };
}

function badProof(
  reason: BadProof['reason'],
  reply: Reply<unknown> | null,
  at: number,
): { readonly bad: BadProof } {
  const detail = reply === null ? null : messageOf(reply);
  return { bad: { reason, reply, detail, at } };
}

/** Whether an answer says nothing, and the marketplace names no time to ask again. */
function isOdd({ reply }: Pick<Answer, 'reply'>): boolean {
  const meaning = meaningOf(reply);
  if (meaning.kind !== 'silent' || meaning.reason === 'limited') return false;
  return retryTimeOf(reply) === null && !isChallenge(reply);
}

/** Letter case differs between answers for the same account. */
function isSameAccount(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
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
  return { ...memory, account, bad: null, good, isGood: true };
}

/** Whether both proofs around this time were good. */
export function isProven({ good }: Memory, at: number): boolean {
  return good.some(([from, to]) => from <= at && at <= to);
}

/**
 * What the plan remembers after a bad proof, and how long it waits. Nothing that was asked until then is a sample of chance.
 * @param hasAnswers whether the marketplace answered something before
 */
export function afterBad(
  memory: Memory,
  { reason, reply, detail, at }: BadProof,
  waitMs: number,
  hasAnswers: boolean,
): Memory {
  const times = memory.bad?.reason === reason ? memory.bad.times + 1 : 1;
  const stop: Stop = {
    reason: reply !== null && isChallenge(reply) ? 'challenge' : reason,
    detail,
  };
  const retryAt = reply === null ? null : retryTimeOf(reply);
  const until = holdUntil({ reason, reply }, times, { at, retryAt, waitMs, hasAnswers });
  return {
    ...memory,
    isGood: memory.isGood && isOutage({ reason }),
    opening: null,
    bad: { reason, times },
    hold: { stop, until },
  };
}

/** Whether a bad proof, or an answer about a code, says nothing about the key. */
export function isOutage({ reason }: Pick<BadProof, 'reason'>): boolean {
  return reason === 'limited' || reason === 'unavailable';
}

interface When {
  readonly at: number;
  readonly retryAt: number | null;
  readonly waitMs: number;
  readonly hasAnswers: boolean;
}

/** @returns null: a person must act */
function holdUntil(
  { reason, reply }: Pick<BadProof, 'reason' | 'reply'>,
  times: number,
  { at, retryAt, waitMs, hasAnswers }: When,
): number | null {
  // A page may be an outage: only the words of the API, or their absence, speak of the key.
  const isPage = reply?.kind === 'unavailable' && reply.reason === 'html';
  switch (reason) {
    case 'known-valid-denied':
      return times >= MAX_BAD_PROOFS ? null : at + waitMs;
    case 'limited':
      return retryAt ?? at + AFTER_LIMIT_MS;
    case 'unreadable':
      return times >= MAX_BAD_PROOFS ? null : at + waitMs;
    case 'unavailable':
      break;
    case 'refused':
    case 'no-api':
    case 'another-account':
    case 'mixed-up':
      if (!isPage) return times >= 2 ? null : at + Math.min(waitMs, PROVE_AGAIN_AFTER_MS);
  }
  if (retryAt !== null) return retryAt;
  if (reply !== null && isChallenge(reply)) return at + AFTER_CHALLENGE_MS;
  const isCache = reply?.kind === 'unavailable' && (reply.reason as string) === 'cache';
  if (isCache) return times >= MAX_BAD_PROOFS ? null : at + waitMs;
  return at + (hasAnswers ? AFTER_BREAK_MS : AFTER_OUTAGE_MS);
}

/** The same for an answer about a code that asks for a pause, or an outage. */
export function holdFor(
  memory: Memory,
  answer: Answer,
  waitMs: number,
  hasAnswers: boolean,
): Memory {
  const { reply, at } = answer;
  const meaning = meaningOf(reply);
  const reason =
    meaning.kind === 'silent' || meaning.kind === 'doubt' ? meaning.reason : 'unavailable';
  const detail = messageOf(reply);
  const { hold } = afterBad(memory, { reason, reply, detail, at }, waitMs, hasAnswers);
  return { ...memory, hold };
}
