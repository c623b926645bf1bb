import { describeVerdict, unprovenRemedy, whyUnproven } from '../../domain/codes/evidence.js';
import { supportAt } from '../../domain/codes/known-code.js';
import type { Purchase, PurchasedItem } from '../../domain/item.js';
import { moment } from '../../domain/moment.js';
import { resultOf, type Answer } from '../../jobs/codes/audit-result.js';
import type { UnprovenCount } from '../../store/audits/types.js';
import { pairs, type TableCell } from '../output/table.js';
import { age, type Look, paint, plural, safeLine } from '../output/text.js';

const MARKS = { valid: ['✓', 'green'], invalid: ['✗', 'red'], unproven: ['?', 'yellow'] } as const;

/** Formats the answer about one code for a person. */
export function answerLines(answer: Answer, now: Date, look: Look): string {
  const { verdict, code } = answer;
  const [mark, colour] = MARKS[verdict];
  const head = `${paint(colour, mark, look)} ${safeLine(code)} · ${paint(colour, verdict, look)}\n`;
  return head + pairs(detailsOf(answer, now), look, '  ');
}

/** Formats an answer for `--json`: the columns of a result, reason, evidence, the server's answer. */
export function answerJson(answer: Answer, now: Date): object {
  const { code, reason, httpStatus, message, proof, denials } = answer;
  const evidence = denials === null ? null : describeVerdict(answer);
  const result = { ...resultOf(answer, now.getTime()), proof };
  return { code, ...result, reason, evidence, http_status: httpStatus, message };
}

function detailsOf(answer: Answer, now: Date): (readonly [string, TableCell])[] {
  const { verdict, reason, purchase, checkedAt } = answer;
  const bought = purchase === null ? [] : purchaseDetails(purchase, verdict, now);
  const isLost = verdict === 'invalid' && bought.length > 0;
  const why: (readonly [string, TableCell])[] =
    verdict === 'unproven'
      ? [
          ['why', `${whyUnproven(reason)}${saidBy(answer)}`],
          ['what to do', unprovenRemedy(reason)],
        ]
      : [
          ['was', isLost ? 'valid before; probably refunded or cancelled' : null],
          ...bought,
          ['proof', `${describeVerdict(answer)}${verdict === 'invalid' ? saidBy(answer) : ''}`],
          ['note', answer.proof === 'account' ? WEAK_PROOF : null],
        ];
  const checked = checkedAt === null ? null : `${moment(checkedAt)}, ${age(checkedAt, now)}`;
  return [...why, ['checked', checked] as const].filter(([, value]) => value !== null);
}

function purchaseDetails(
  purchase: Purchase,
  verdict: Answer['verdict'],
  now: Date,
): (readonly [string, TableCell])[] {
  const { licenseType, item, price, currency, purchasedAt, downloaded } = purchase;
  return [
    ['licence', licenseType],
    ['item', item === null ? null : itemText(item)],
    ['price', price === null ? null : [price, currency].filter((text) => text !== null).join(' ')],
    ['purchased', purchasedAt === null ? null : moment(new Date(purchasedAt))],
    ['support', verdict === 'invalid' ? null : supportText(purchase, now)],
    ['downloaded', downloaded === null ? null : downloaded ? 'yes' : 'no'],
  ];
}

/** The item's id and name, or its address where both are missing. */
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

const WEAK_PROOF = 'a code known to be valid (--canary) would prove more';

/** ` (404 "Invalid purchase code")`. */
function saidBy({ httpStatus, message }: Answer): string {
  const said = message === null || message === '' ? null : JSON.stringify(message);
  const parts = [httpStatus, said].filter((part) => part !== null);
  return parts.length === 0 ? '' : ` (${parts.join(' ')})`;
}

/** Why codes have no verdict, and what to do about it; the most frequent reason first. */
export function unprovenLines(groups: readonly UnprovenCount[]): readonly string[] {
  return [...groups]
    .sort((a, b) => b.codes - a.codes)
    .map(
      ({ reason, codes }) =>
        `${plural(codes, 'code')}: ${safeLine(whyUnproven(reason))} → ${unprovenRemedy(reason)}`,
    );
}
