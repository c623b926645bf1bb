/**
 * A proof of the key: account details of the seller, and a known-valid code that is found.
 *
 * A wrong key, and the key of a user who sells nothing, get the same answers as questions about things that don't exist. So
 * what is known to exist is asked for before and after each denial that counts.
 */

import { meaningOf, messageOf, retryTimeOf, type Reply } from '../marketplace/reply.js';
import { evidenceOf, isChallenge, NO_CHANCE, NOTHING } from './judging.js';
import type { ProofCodes } from './known-valid.js';
import type { CodeCheck, CodeResult, KnownValid } from './results.js';
import type { BadProof, GoodProof } from './situation.js';
import {
  askAccount,
  askForm,
  askItem,
  type Answer,
  type CodeAnswer,
  type Requests,
} from './requests.js';

export type Proof = { readonly good: GoodProof } | { readonly bad: BadProof };

/** The seller's account, as far as it is known. */
type Account = string | null;

/**
 * Asks for account details, and once more at once if they are not the seller's: that may have been a moment's fault.
 * @param account user name of the seller's account; null: any is right
 */
export function* lookAtAccount(account: Account): Requests<Proof> {
  const first = yield* askAccount();
  const proof = accountProof(first, account);
  if ('good' in proof || isPause(first)) return proof;
  const second = accountProof(yield* askAccount(), account);
  return 'good' in second ? second : { bad: { ...second.bad, isSure: true } };
}

function accountProof(
  { reply, sentAt, at }: Answer & { readonly kind: 'account' },
  account: Account,
): Proof {
  if (reply.kind !== 'answered') {
    const meaning = meaningOf(reply);
    // Account details exist for every good key, so a denial is a refusal (API 7).
    const isFault = meaning.kind === 'doubt' || meaning.kind === 'silent';
    return badProof(isFault ? meaning.reason : 'refused', reply, at);
  }
  const { username } = reply.data.value;
  if (account !== null && !isSameAccount(username, account)) {
    const detail = `the API key opened the account "${username}"`;
    return { bad: { ...badProof('another-account', null, at).bad, detail } };
  }
  return { good: { by: 'account', account: username, beganAt: sentAt, at } };
}

/** Proves the key. Records what it learns of known-valid codes. */
export function* prove(codes: ProofCodes, account: Account): Requests<Proof> {
  const look = yield* lookAtAccount(account);
  return 'bad' in look ? look : yield* proveAgain(codes, look.good);
}

/**
 * The second half of a proof: what is known to exist is found.
 * @param look the account details, or an earlier proof
 */
export function* proveAgain(codes: ProofCodes, look: GoodProof): Requests<Proof> {
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

function* findKnown(codes: ProofCodes, look: GoodProof, denied: KnownDenial[]): Requests<Proof> {
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
    if (code.codeId !== null) codes.doubt(code.form);
    last = answer;
    denied.push({ code, check: evidenceOf(reply, at) });
  }
  if (!codes.mayAskItems)
    return badProof('known-valid-denied', last?.reply ?? null, last?.at ?? look.at);
  return yield* findItem(codes, look);
}

/** A live item stands for known-valid codes. Without any, account details must do. */
function* findItem(codes: ProofCodes, look: GoodProof): Requests<Proof> {
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

/**
 * Makes sure that a purchase of a strange item is the seller's: the key is proven, and the code asked again. Another
 * seller's key that is swapped in for some calls would have to be there twice, and not in between.
 * @returns the second answer, and the proof before it
 */
export function* askAgain(
  { reply }: CodeAnswer,
  form: string,
  codes: ProofCodes,
  account: Account,
): Requests<
  { readonly good: GoodProof; readonly answer: CodeAnswer } | Extract<Proof, { bad: unknown }>
> {
  const proof = yield* prove(codes, account);
  if ('bad' in proof) return proof;
  const answer = yield* askForm(form);
  const item = codes.strangeItem(reply);
  if (item !== null && codes.strangeItem(answer.reply) === item) codes.trust(item);
  return { good: proof.good, answer };
}

function badProof(
  reason: BadProof['reason'],
  reply: Reply<unknown> | null,
  at: number,
): { readonly bad: BadProof } {
  const detail = reply === null ? null : messageOf(reply);
  return { bad: { reason, reply, detail, at } };
}

/** Whether the marketplace asks for a pause. */
export function isPause({ reply }: Pick<Answer, 'reply'>): boolean {
  return reply.kind === 'limited' || retryTimeOf(reply) !== null || isChallenge(reply);
}

/** Whether an answer says nothing about the code: it is asked for once more at once. */
function isOdd(answer: Answer): boolean {
  return meaningOf(answer.reply).kind === 'silent' && !isPause(answer);
}

/** Letter case differs between answers for the same account. */
function isSameAccount(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

/** An answer that says nothing about its code, as a bad proof. */
export function faultOf({ reply, at }: Pick<Answer, 'reply' | 'at'>): BadProof {
  const meaning = meaningOf(reply);
  const isFault = meaning.kind === 'doubt' || meaning.kind === 'silent';
  return { reason: isFault ? meaning.reason : 'unreadable', reply, detail: messageOf(reply), at };
}
