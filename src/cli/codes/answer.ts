import { describeDenials } from '../../domain/codes/second-look.js';
import { supportAt } from '../../domain/codes/purchase.js';
import type { Purchase, PurchasedItem } from '../../domain/item.js';
import { moment } from '../../domain/moment.js';
import { age, paint, pairs, safeLine, type Look, type TableCell } from '../output/index.js';
import { resultOf, type CodeFacts, type Result } from './result-row.js';
import { unprovenRemedy, whyUnproven } from './unproven-text.js';

/** A code with what came of asking for it, the server's words included. */
export interface Answer extends CodeFacts {
  readonly code: string;
  readonly httpStatus: number | null;
  readonly message: string | null;
}

const MARKS = { valid: ['✓', 'green'], invalid: ['✗', 'red'], unproven: ['?', 'yellow'] } as const;

/** The answer about one code, whole, as lines for a person who asked for it. */
export function answerLines(answer: Answer, now: Date, look: Look): string {
  const { verdict, code } = answer;
  const [mark, colour] = MARKS[verdict];
  const head = `${paint(colour, mark, look)} ${safeLine(code)} · ${paint(colour, verdict, look)}\n`;
  const details = pairs(
    detailsOf(answer, now).filter(([, value]) => value !== null),
    look,
    '  ',
  );
  return head + details;
}

function detailsOf(answer: Answer, now: Date): (readonly [string, TableCell])[] {
  const { verdict, reason, purchase, checkedAt } = answer;
  const checked: [string, TableCell] = [
    'checked',
    checkedAt === null ? null : `${moment(checkedAt)}, ${age(checkedAt, now)}`,
  ];
  if (verdict === 'unproven') {
    return [
      ['why', `${whyUnproven(reason)}${saidBy(answer)}`],
      ['what to do', unprovenRemedy(reason)],
      checked,
    ];
  }
  const invalid = verdict === 'invalid';
  const known = purchase === null ? [] : purchaseLines(purchase, invalid, now);
  return [
    ...(invalid && known.length > 0
      ? [['was', 'valid before; probably refunded or cancelled'] as const]
      : []),
    ...known,
    ['proof', proofText(answer)],
    checked,
  ];
}

function purchaseLines(
  purchase: Purchase,
  invalid: boolean,
  now: Date,
): (readonly [string, TableCell])[] {
  const { licenseType, item, price, currency, purchasedAt, downloaded } = purchase;
  return [
    ['licence', licenseType],
    ['item', item === null ? null : itemText(item)],
    ['price', price === null ? null : [price, currency].filter((text) => text !== null).join(' ')],
    ['purchased', purchasedAt === null ? null : moment(new Date(purchasedAt))],
    ['support', invalid ? null : supportText(purchase, now)],
    ['downloaded', downloaded === null ? null : downloaded ? 'yes' : 'no'],
  ];
}

/** What tells the item, by its address only where nothing better does. */
function itemText({ id, name, url }: PurchasedItem): string | null {
  const parts = [id, name].filter((part) => part !== null);
  return parts.length === 0 ? url : parts.join(' · ');
}

function supportText(purchase: Purchase, now: Date): string {
  const { supportedUntil } = purchase;
  const state = supportAt(purchase, now.getTime());
  if (supportedUntil === null) return state;
  const until = new Date(supportedUntil);
  const verb = state === 'active' ? 'until' : 'since';
  return `${state} ${verb} ${moment(until)}, ${age(until, now)}`;
}

function proofText(answer: Answer): string {
  const { denials } = answer;
  const denied = `${denials === null ? 'denied' : describeDenials(denials)}${saidBy(answer)}`;
  switch (answer.proof) {
    case 'purchase':
      return 'the marketplace answered with the purchase';
    case 'canary':
      return `${denied}, while the API key opened the account and found a valid code before and after`;
    case 'account':
      return `${denied}, while the API key opened the account before and after; a code known to be valid (--canary) would prove more`;
    default:
      return answer.proof;
  }
}

/** ` (404 "Invalid purchase code")`. */
function saidBy({ httpStatus, message }: Answer): string {
  const parts = [
    httpStatus === null ? '' : String(httpStatus),
    message === null || message === '' ? '' : JSON.stringify(message),
  ].filter((part) => part !== '');
  return parts.length === 0 ? '' : ` (${parts.join(' ')})`;
}

/** The answer for scripts: the columns of a result, the proof in one word, and what the server said. */
export function answerJson(answer: Answer, now: Date): object {
  const { code, reason, httpStatus, message, proof, denials } = answer;
  const result: Result = { ...resultOf(answer, now.getTime()), proof };
  const evidence = denials === null ? null : describeDenials(denials);
  return { code, ...result, reason, evidence, http_status: httpStatus, message };
}
