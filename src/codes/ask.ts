import { plainForm } from '../marketplace/code.js';
import type { Purchase } from '../domain/item.js';
import type { Reply } from '../marketplace/reply.js';
import { meaningOf, messageOf } from '../marketplace/reply-meaning.js';
import type { CallOptions, Marketplace, Sourced } from '../marketplace/types.js';
import type { CodeCheck, ProvenBetween } from './ledger.js';

export type CodeMarket = Pick<Marketplace, 'account' | 'validate'>;
export type CodeReply = Reply<Sourced<Purchase>>;

/**
 * Asks the marketplace about a code. If it is denied and has look-alike characters, its plain form is tried too. The
 * purchase then has that form as its code, also if the marketplace left the code out.
 */
export async function askCode(
  market: Pick<CodeMarket, 'validate'>,
  code: string,
  options: CallOptions,
): Promise<CodeReply> {
  const reply = await market.validate(code, options);
  const plain = reply.kind === 'denied' ? plainForm(code) : null;
  if (plain === null) return reply;
  const second = await market.validate(plain, options);
  if (second.kind !== 'answered') return second;
  const { value } = second.data;
  const purchaseCode = value.purchaseCode ?? plain;
  return { ...second, data: { ...second.data, value: { ...value, purchaseCode } } };
}

/**
 * The evidence that a reply gives about a code.
 * @param at when it came, milliseconds since 1970
 * @param proven the proofs around a denial that counts
 */
export function checkOf(
  code: string,
  reply: CodeReply,
  at: number,
  proven: ProvenBetween | null = null,
): CodeCheck {
  const { httpStatus } = reply;
  const nothing = { at, httpStatus, message: messageOf(reply), answer: null, proven: null };
  if (reply.kind === 'answered') {
    const { purchaseCode } = reply.data.value;
    const isSame =
      purchaseCode === null || purchaseCode.trim().toLowerCase() === code.toLowerCase();
    const message = isSame ? null : `found as ${purchaseCode}`;
    return { ...nothing, outcome: 'found', reason: 'answered', message, answer: reply.data };
  }
  const meaning = meaningOf(reply);
  if (meaning.kind === 'denied') return { ...nothing, outcome: 'denied', reason: 'denied', proven };
  const reason = meaning.kind === 'found' ? 'unreadable' : meaning.reason;
  return { ...nothing, outcome: 'unanswered', reason };
}
