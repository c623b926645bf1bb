/** What people are told about a code: one sentence, a reply for the customer, and the steps of its proof. Pure. */

import { foundForm, isDenial, type RecordFacts, whyUnproven } from './evidence.js';
import type { KnownPurchase } from './known-code.js';
import { isInvalid } from './rules.js';
import type { StoredCheck } from './types.js';
import type { Tone } from '../listing/listing.js';

const DAY = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
});
const LONG_DAY = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'long',
  year: 'numeric',
  timeZone: 'UTC',
});

/** `2 May 2026`, in UTC. */
export function dayText(at: string | Date): string {
  // ICU writes `Sept`, as nobody else does.
  return DAY.format(new Date(at)).replace('Sept', 'Sep');
}

/** Names of checks that did not come as a file. */
const SOURCES: Readonly<Record<string, string>> = {
  arguments: 'Codes typed in',
  recheck: 'Known codes, checked again',
  stdin: 'List from a program',
  'pasted list': 'Pasted list',
};

/** Different lists share these names. */
export const NAMES_WITHOUT_FILE = Object.keys(SOURCES);

/** The name of a check that did not come as a file; null for the name of a file, which may hold a purchase code. */
export function sourceWords(source: string): string | null {
  return Object.hasOwn(SOURCES, source) ? (SOURCES[source] ?? null) : null;
}

/** A sentence about a code, whose first words are its verdict. */
export interface Sentence {
  readonly head: string;
  readonly rest: string;
}

/** Answers a customer’s question in one sentence. @param now for the support, milliseconds since 1970 */
export function verdictSentence(facts: RecordFacts, now: number): Sentence {
  const { verdict, purchase, reason } = facts;
  switch (verdict) {
    case 'valid': {
      const form = foundForm(facts) === null ? '' : ' The marketplace writes the code differently.';
      const own = facts.hasUnknownItem ? ' The item is not in your catalogue.' : '';
      const bought =
        purchase === null ? '' : `${boughtText(purchase)}, ${supportText(purchase, now)}.`;
      return { head: 'Valid.', rest: `${bought}${form}${own}`.trim() };
    }
    case 'no_longer_valid': {
      const when = purchase?.purchasedAt ?? null;
      const bought = when === null ? '' : `, bought ${dayText(when)}`;
      const was =
        purchase === null
          ? 'It was valid before'
          : `It was ${article(boughtText(purchase))}${bought}`;
      return { head: 'No longer valid.', rest: `${was}.` };
    }
    case 'invalid':
      return { head: 'Invalid.', rest: 'The marketplace does not know this code.' };
    case 'unproven':
      return { head: 'Unproven.', rest: sentence(whyUnproven(reason)) };
    case 'pending':
      return { head: 'Not checked yet.', rest: '' };
    case 'rejected':
      return { head: 'Not a code.', rest: sentence(reason) };
  }
}

function article(text: string): string {
  return `${/^[aeiou]/i.test(text) ? 'an' : 'a'} ${text}`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** `Regular licence for Aurora` */
function boughtText(purchase: KnownPurchase): string {
  const item = purchase.item?.name ?? purchase.item?.id ?? null;
  return `${licenceOf(purchase)}${item === null ? '' : ` for ${item}`}`;
}

/** `Regular licence`: the marketplace’s word, which may say `licence` itself. */
function licenceOf({ licenseType }: KnownPurchase): string {
  if (licenseType === null) return 'Licence';
  return /li[cz]en/i.test(licenseType) ? licenseType : `${licenseType} licence`;
}

/** `support until 1 Feb 2027` */
function supportText(
  { supportedUntil, isSupportUnknown }: KnownPurchase,
  now: number,
  day = dayText,
): string {
  if (isSupportUnknown) return 'with an unknown end of support';
  if (supportedUntil === null) return 'without support';
  return Date.parse(supportedUntil) > now
    ? `support until ${day(supportedUntil)}`
    : `support ended on ${day(supportedUntil)}`;
}

interface ReplyFacts extends Pick<RecordFacts, 'code' | 'purchase'> {
  /** Null: the list names nobody. */
  readonly firstName: string | null;
  /** When the code was last known to be valid; null: unknown. */
  readonly lastValidAt: Date | null;
}

/**
 * Fills a reply to a customer. What is not known is left out: `Hello {name},` becomes `Hello,`.
 * @param now for the support, milliseconds since 1970
 */
export function replyText(
  template: string,
  { firstName, code, purchase, lastValidAt }: ReplyFacts,
  now: number,
): string {
  const day = (at: string | Date): string => LONG_DAY.format(new Date(at));
  const until = purchase?.supportedUntil ?? null;
  const support = purchase === null ? '' : supportText(purchase, now, day);
  const values: Readonly<Record<string, string | null>> = {
    name: firstName,
    item: purchase?.item?.name ?? 'the item',
    licence: purchase === null ? 'licence' : licenceOf(purchase),
    support: support
      .replace(/^support until/, 'with support until')
      .replace(/^support ended/, 'whose support ended'),
    until: until === null ? null : day(until),
    last_valid: lastValidAt === null ? 'before' : day(lastValidAt),
    code,
  };
  return template
    .replaceAll('\\n', '\n')
    .replaceAll('until {last_valid}', lastValidAt === null ? 'before' : 'until {last_valid}')
    .replaceAll(/ ?\{(\w+)\}/g, (whole, name: string) => {
      const value = values[name];
      if (value === undefined) return whole;
      return value === null ? '' : `${whole.startsWith(' ') ? ' ' : ''}${value}`;
    });
}

/** One line of a code’s story. */
export interface Step {
  readonly tone: Tone;
  readonly at: Date;
  /** Several checks said the same; `at` is the oldest one. */
  readonly isSince: boolean;
  readonly text: string;
}

/**
 * The checks of a code as a story, the newest first. The denials of one check of a list are one line, and older lines
 * that say the same are folded.
 * @param checks newest first
 */
export function storyOf(checks: readonly StoredCheck[]): Step[] {
  const told = denialsTogether(checks).map(tellCheck);
  const [newest, ...older] = told;
  const steps: (Step & { readonly word: string; readonly times: number })[] = [];
  for (const one of older) {
    const last = steps.at(-1);
    if (last?.word === one.word)
      steps.splice(-1, 1, { ...last, at: one.at, times: last.times + 1 });
    else steps.push({ ...one, times: 1 });
  }
  return [
    ...(newest === undefined ? [] : [newest]),
    ...steps.map(({ word, times, ...step }) =>
      times === 1
        ? step
        : { ...step, isSince: true, text: `${times} earlier checks, all ${word}.` },
    ),
  ];
}

/** The checks, with the denials of one check of a list in one group. */
function denialsTogether(checks: readonly StoredCheck[]): readonly (readonly StoredCheck[])[] {
  const groups: StoredCheck[][] = [];
  for (const check of checks) {
    const last = groups.at(-1);
    const isSame =
      last?.[0] !== undefined &&
      isDenied(check) &&
      isDenied(last[0]) &&
      last[0].auditId === check.auditId;
    if (isSame) last.push(check);
    else groups.push([check]);
  }
  return groups;
}

function tellCheck(group: readonly StoredCheck[]): Step & { readonly word: string } {
  const [newest] = group as [StoredCheck];
  const { checkedAt: at, verdict, reason } = newest;
  const step = { at, isSince: false };
  if (verdict === 'valid') {
    return {
      ...step,
      tone: 'good',
      word: 'valid',
      text: 'Valid. The marketplace answered with the purchase.',
    };
  }
  if (!isDenied(newest)) {
    return { ...step, tone: 'warn', word: 'unproven', text: `Unproven: ${whyUnproven(reason)}.` };
  }
  const isProven = group.some(({ provenBefore }) => provenBefore !== null);
  const times =
    group.length === 1
      ? 'Denied.'
      : `Denied ${group.length === 2 ? 'twice' : `${group.length} times`}.`;
  const key = isProven ? ' Your key worked before and after.' : '';
  return { ...step, tone: 'bad', word: 'denied', text: `${times}${key}` };
}

function isDenied(check: Pick<StoredCheck, 'verdict' | 'reason'>): boolean {
  return isDenial(check) || isInvalid(check.verdict);
}

/**
 * The proof of a verdict, step by step, the oldest first: the code’s last good check, then each denial of this check
 * with the tests of the API key around it.
 * @param checks of the code, newest first
 * @param show hides what a viewer may not see in the marketplace’s message
 */
export function proofOf(
  checks: readonly StoredCheck[],
  auditId: bigint,
  show: (message: string) => string,
): Step[] {
  const step = (tone: Tone, at: Date, text: string): Step => ({ tone, at, isSince: false, text });
  const own = checks.filter((check) => check.auditId === auditId).toReversed();
  const [first] = own;
  const earlier = checks.filter(
    ({ checkId, verdict }) =>
      verdict === 'valid' && (first === undefined || checkId < first.checkId),
  );
  const before = earlier[0];
  const times = earlier.length > 1 ? `, for the ${ordinal(earlier.length)} time` : '';
  const steps = before === undefined ? [] : [step('good', before.checkedAt, `Found valid${times}`)];
  let denials = 0;
  let proven: number | null = null;
  for (const check of own) {
    const { provenBefore, provenAfter, message, checkedAt } = check;
    if (check.verdict === 'valid') {
      steps.push(step('good', checkedAt, 'Found: the marketplace answered with the purchase'));
    } else if (isDenied(check)) {
      if (provenBefore !== null && provenBefore.getTime() !== proven) {
        steps.push(step('good', provenBefore, 'Your key works'));
        proven = provenBefore.getTime();
      }
      const said = message === null || message === '' ? '' : `: “${show(message)}”`;
      steps.push(step('bad', checkedAt, denials === 0 ? `Denied${said}` : 'Denied again'));
      denials += 1;
      if (provenAfter !== null && provenAfter.getTime() !== proven) {
        steps.push(step('good', provenAfter, 'Your key still works'));
        proven = provenAfter.getTime();
      }
    } else steps.push(step('warn', checkedAt, sentence(whyUnproven(check.reason)).slice(0, -1)));
  }
  return steps;
}

function ordinal(n: number): string {
  const end = n % 100 > 10 && n % 100 < 14 ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th');
  return `${n}${end}`;
}
