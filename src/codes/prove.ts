/**
 * A proof of the key: account details of the seller, and a known-valid code that is found.
 *
 * A wrong key, and the key of a user who sells nothing, get the same answers as questions about things that don't exist. So
 * what is known to exist is asked for before and after each denial that counts.
 */

import { meaningOf, messageOf, retryTimeOf } from '../marketplace/reply.js';
import type { ProofCodes } from './known-valid.js';
import type { AccountAnswer, Answer, CodeAnswer, ItemAnswer, Market } from './market.js';
import {
  type CodeCheck,
  type CodeResult,
  evidenceOf,
  type KnownValid,
  NO_CHANCE,
  resultOf,
} from './ledger.js';
import { type BadProof, type GoodProof, isChallenge } from './situation.js';

export type Proof = { readonly good: GoodProof } | { readonly bad: BadProof };

/** The seller's account, as far as it is known. */
type Account = string | null;

/**
 * Asks for account details, and once more at once if they are not the seller's: that may have been a moment's fault.
 * @param account user name of the seller's account; null: any is right
 */
export async function lookAtAccount(market: Market, account: Account): Promise<Proof> {
  const first = await market.account();
  const proof = accountProof(first, account);
  if ('good' in proof || isPause(first)) return proof;
  const second = accountProof(await market.account(), account);
  return 'good' in second ? second : { bad: { ...second.bad, isSure: true } };
}

function accountProof({ reply, sentAt, at }: AccountAnswer, account: Account): Proof {
  // Account details exist for every good key, so a denial is a refusal (API 7).
  if (reply.kind !== 'answered') return { bad: faultOf({ reply, at }, 'refused') };
  const { username } = reply.data.value;
  if (account !== null && !isSameAccount(username, account)) {
    const detail = `the API key opened the account "${username}"`;
    return { bad: { reason: 'another-account', reply: null, detail, at } };
  }
  return { good: { by: 'account', account: username, beganAt: sentAt, at } };
}

/** Proves the key. Records what it learns of known-valid codes. */
export async function prove(market: Market, codes: ProofCodes, account: Account): Promise<Proof> {
  const look = await lookAtAccount(market, account);
  return 'bad' in look ? look : await proveAgain(market, codes, look.good);
}

/**
 * The second half of a proof: what is known to exist is found.
 * @param look the account details, or an earlier proof
 */
export async function proveAgain(
  market: Market,
  codes: ProofCodes,
  look: GoodProof,
): Promise<Proof> {
  const denied: KnownDenial[] = [];
  const proof = await findKnown(market, codes, look, denied);
  if (denied.length > 0) await market.record(denied.flatMap((one) => joining(one, proof)));
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
  return [resultOf({ codeId }, { check, form, chance })];
}

async function findKnown(
  market: Market,
  codes: ProofCodes,
  look: GoodProof,
  denied: KnownDenial[],
): Promise<Proof> {
  let last: Answer | null = null;
  for (const code of codes.inTurn()) {
    const answer = await askTwice(market, () => code.form);
    const { reply, at } = answer;
    const { kind } = meaningOf(reply);
    if (kind === 'found') {
      codes.found(code.form, at);
      if (code.codeId !== null) await market.proven([{ codeId: code.codeId, at }]);
      return { good: { ...look, by: 'known-valid', at } };
    }
    if (kind !== 'denied') return { bad: faultOf(answer) };
    codes.denied(code.form);
    if (code.codeId !== null) codes.doubt(code.form);
    last = answer;
    denied.push({ code, check: evidenceOf(reply, at) });
  }
  if (codes.mayAskItems) return await findItem(market, codes, look);
  return { bad: allDenied(last, look.at) };
}

/** A live item stands for known-valid codes. Without any, account details must do. */
async function findItem(market: Market, codes: ProofCodes, look: GoodProof): Promise<Proof> {
  let last: ItemAnswer | null = null;
  for (const id of codes.items()) {
    const answer = await market.item(id);
    const { kind } = meaningOf(answer.reply);
    if (kind === 'found') return { good: { ...look, by: 'item', at: answer.at } };
    if (kind !== 'denied') return { bad: faultOf(answer) };
    last = answer;
  }
  return last === null ? { good: look } : { bad: allDenied(last, last.at) };
}

/**
 * Makes sure that a purchase of a strange item is the seller's: the key is proven, and the code asked again. Another
 * seller's key that is swapped in for some calls would have to be there twice, and not in between.
 * @returns the second answer, and the proof before it
 */
export async function askAgain(
  market: Market,
  { reply }: CodeAnswer,
  form: string,
  codes: ProofCodes,
  account: Account,
): Promise<
  { readonly good: GoodProof; readonly answer: CodeAnswer } | Extract<Proof, { bad: unknown }>
> {
  const proof = await prove(market, codes, account);
  if ('bad' in proof) return proof;
  const answer = await market.code(form);
  const item = codes.strangeItem(reply);
  if (item !== null && codes.strangeItem(answer.reply) === item) codes.trust(item);
  return { good: proof.good, answer };
}

/** Whether the marketplace asks for a pause. */
export function isPause({ reply }: Pick<Answer, 'reply'>): boolean {
  return reply.kind === 'limited' || retryTimeOf(reply) !== null || isChallenge(reply);
}

/** Asks about a code, and once more at once if the answer says nothing of it. */
export async function askTwice(market: Market, form: () => string): Promise<CodeAnswer> {
  const answer = await market.code(form());
  const isOdd = meaningOf(answer.reply).kind === 'silent' && !isPause(answer);
  return isOdd ? await market.code(form()) : answer;
}

/** Letter case differs between answers for the same account. */
function isSameAccount(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

/** An answer that says nothing about what was asked for, as a bad proof. @param denied what a denial means */
export function faultOf(
  { reply, at }: Pick<Answer, 'reply' | 'at'>,
  denied: 'refused' | 'unreadable' = 'unreadable',
): BadProof {
  const meaning = meaningOf(reply);
  const isFault = meaning.kind === 'doubt' || meaning.kind === 'silent';
  return { reason: isFault ? meaning.reason : denied, reply, detail: messageOf(reply), at };
}

/** All that is known to exist was denied. @param at when, if nothing was asked */
function allDenied(last: Answer | null, at: number): BadProof {
  const reply = last?.reply ?? null;
  const detail = reply && messageOf(reply);
  return { reason: 'known-valid-denied', reply, detail, at: last?.at ?? at };
}
