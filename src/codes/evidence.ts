import { moment } from '../domain/moment.js';
import { isSameCode, looksLikeCode } from '../marketplace/code.js';
import type { KnownPurchase } from './known-code.js';
import type { DoubtReason, SilenceReason } from '../marketplace/reply.js';
import { isInvalid, type Verdict } from './rules.js';

/** Why a code has no verdict. */
export type UnprovenReason =
  | SilenceReason
  | DoubtReason
  /** The settings name another marketplace than that of the seller's copy: no code is sent there. */
  | 'another-marketplace'
  /** Denied once. */
  | 'unconfirmed'
  /** Denied, but the key was not proven around the denial. */
  | 'key-not-proven'
  /** Denied, as was every code known to be valid. */
  | 'known-valid-denied'
  /** Denied by a marketplace that denies valid codes. */
  | 'contradicted'
  /** The marketplace finds random codes as well. */
  | 'finds-everything';

const KEY =
  'check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it';
const KEY_ON_PAGE = 'check the API key in the workspace settings of the marketplace';
const ADDRESS = 'check MARKETPLACE_URL, and that the API is switched on';
const ANSWERS = '`seller-mirror doctor` shows how the marketplace answers';
const ANSWERS_ON_PAGE = 'somebody must look on the server at how the marketplace answers';
const LATER = 'check again later';

interface Explanation {
  readonly why: string;
  readonly remedy: string;
  /** The remedy for somebody who looks at a page, where that is another. */
  readonly onPage?: string;
}

const REASONS: Readonly<Record<UnprovenReason, Explanation>> = {
  limited: {
    why: 'the marketplace said there were too many requests',
    remedy: 'wait a while; lower REQUESTS_PER_MINUTE if others share this address',
  },
  unavailable: { why: 'the marketplace was not available', remedy: LATER },
  unreadable: {
    why: 'the answer could not be understood',
    remedy: ANSWERS,
    onPage: ANSWERS_ON_PAGE,
  },
  refused: { why: 'the marketplace refused the API key', remedy: KEY, onPage: KEY_ON_PAGE },
  'no-api': { why: 'there was a web page in place of the API', remedy: ADDRESS },
  'another-account': {
    why: 'the API key opened another account',
    remedy: `find out whose API key it is; ${KEY}`,
    onPage: `find out whose API key it is, and ${KEY_ON_PAGE}`,
  },
  'another-marketplace': {
    why: 'this seller belongs to another marketplace',
    remedy:
      'set MARKETPLACE_URL back, or give the other marketplace a seller name of its own; if it has only moved, `seller-mirror sync account --accept-account`',
    onPage: 'correct the address of the marketplace in the settings',
  },
  'mixed-up': {
    why: 'the marketplace answered about another code',
    remedy: ANSWERS,
    onPage: ANSWERS_ON_PAGE,
  },
  unconfirmed: { why: 'denied once; a second denial must confirm it', remedy: 'check again' },
  'key-not-proven': {
    why: 'denied, but the API key was not proven around the denial',
    remedy: LATER,
  },
  'known-valid-denied': {
    why: 'denied, as was every code known to be valid',
    remedy: 'name a code that you know is valid with --known-valid CODE',
    onPage: 'check a code that you know is valid first, then check again',
  },
  contradicted: {
    why: 'denied, but this marketplace denied valid codes as well',
    remedy: LATER,
  },
  'finds-everything': {
    why: 'the marketplace finds random codes as well, so nothing it says can be proven',
    remedy: ANSWERS,
    onPage: ANSWERS_ON_PAGE,
  },
};

export function isReason(word: string): word is UnprovenReason {
  return Object.hasOwn(REASONS, word);
}

/** Explains a missing verdict. Text that is no reason is shown unchanged. */
export function whyUnproven(word: string): string {
  return isReason(word) ? REASONS[word].why : word;
}

export function unprovenRemedy(word: string): string {
  return isReason(word) ? REASONS[word].remedy : LATER;
}

/** What to do, for somebody who looks at a page. */
export function unprovenOnPage(word: string): string {
  return (isReason(word) ? REASONS[word].onPage : undefined) ?? unprovenRemedy(word);
}

/** The denials that made a code invalid. Times are milliseconds since 1970. */
export interface Denials {
  /** At least 1. */
  readonly times: number;
  readonly first: number;
  readonly last: number;
  /** When the key was proven before and after the last one; null: it was denied once more, and was invalid before. */
  readonly before: number | null;
  readonly after: number | null;
}

/** The outcome of a record of a list. */
export interface RecordFacts {
  /** As in the list; null for a rejected record. */
  readonly code: string | null;
  /** `rejected`: the record holds no code. `pending`: the code was not checked yet. */
  readonly verdict: Verdict | 'rejected' | 'pending';
  /** One word, for programs; for a rejected record, a sentence. */
  readonly reason: string;
  /** `purchase`, `known-valid`, `item`, `account` or `none`. */
  readonly proof: string;
  /** The denials that prove an invalid code; null if unknown. */
  readonly denials: Denials | null;
  /** The last known purchase. For a code that is no longer valid, it dates from when it was. */
  readonly purchase: KnownPurchase | null;
  readonly checkedAt: Date | null;
  /** True for a purchase of an item that the seller's catalogue never had: somebody else may have sold it. */
  readonly hasUnknownItem: boolean;
}

/** Of a valid code that stays valid, but may not be one of the seller's. */
const UNKNOWN_ITEM = 'an item that is not in your catalogue';

/** Explains a verdict, or why there is none, in one sentence. Times are in UTC. */
export function describeVerdict(facts: Omit<RecordFacts, 'code' | 'purchase'>): string {
  const { verdict, reason, proof, denials, checkedAt, hasUnknownItem } = facts;
  if (verdict === 'rejected') return reason;
  if (verdict === 'pending') return 'it was not checked yet';
  if (verdict === 'unproven') return whyUnproven(reason);
  if (proof === 'purchase') {
    const at = checkedAt === null ? '' : ` at ${moment(checkedAt)}`;
    return `${ANSWERED}${hasUnknownItem ? ` of ${UNKNOWN_ITEM}` : ''}${at}`;
  }
  const denied = denials === null ? 'denied' : describeDenials(denials);
  if (proof === 'item') return `${denied}; an item of yours was tried in place of a valid code`;
  return proof === 'account' ? `${denied}; no valid code was known to try` : denied;
}

/** The note on valid codes of a check, and the reason of each that needs no other. */
export const ANSWERED = 'the marketplace answered with the purchase';

/**
 * Why a record has its verdict, and for a rejected one what to do: for a cell of a result and of the page of a check.
 * @param show how a code is written: whole, or masked
 */
export function shortReason(facts: RecordFacts, show = (code: string): string => code): string {
  const { code, verdict, reason, purchase, hasUnknownItem } = facts;
  const found = foundForm(facts);
  switch (verdict) {
    case 'valid':
      if (found !== null) return `valid as ${show(found)}`;
      return hasUnknownItem ? `a purchase of ${UNKNOWN_ITEM}` : ANSWERED;
    case 'invalid':
      return code === null || looksLikeCode(code)
        ? 'unknown to the marketplace'
        : 'does not look like a code';
    case 'no_longer_valid': {
      const bought = purchase?.purchasedAt?.slice(0, 10) ?? null;
      return bought === null ? 'was valid before' : `was valid, bought ${bought}`;
    }
    case 'pending':
      return reason === '' ? 'not checked yet' : whyUnproven(reason);
    case 'unproven':
      return whyUnproven(reason);
    case 'rejected':
      return reason;
  }
}

/** The form in which a code is valid, if that is not the one that was given: see `plainForm`. */
export function foundForm({
  code,
  verdict,
  purchase,
}: Pick<RecordFacts, 'code' | 'verdict' | 'purchase'>): string | null {
  const found = purchase?.purchaseCode ?? null;
  const isAnother =
    verdict === 'valid' && code !== null && found !== null && !isSameCode(found, code);
  return isAnother ? found : null;
}

/**
 * Describes when a code was denied: `denied at 2026-11-25 10:00:02Z and again at 10:01:04Z; your API key was tested
 * before and after (10:01:03Z, 10:01:06Z)`.
 */
function describeDenials({ times, first, last, before, after }: Denials): string {
  const start = moment(new Date(first));
  const day = start.slice(0, 'YYYY-MM-DD '.length);
  const time = (ms: number): string => moment(new Date(ms)).replace(day, '');
  const tested =
    before === null || after === null
      ? ''
      : `; your API key was tested before and after (${time(before)}, ${time(after)})`;
  if (times < 2) return `denied at ${start}${tested === '' ? ', as before' : tested}`;
  const again =
    times === 2 ? `again at ${time(last)}` : `${times - 1} more times until ${time(last)}`;
  return `denied at ${start} and ${again}${tested}`;
}

interface CheckFacts {
  readonly verdict: RecordFacts['verdict'];
  readonly reason: string;
  readonly proof: string;
  readonly checkedAt: Date;
  readonly provenBefore: Date | null;
  readonly provenAfter: Date | null;
}

/** True for a denial that did not decide on a verdict by itself. */
export function isDenial({ verdict, reason }: Pick<CheckFacts, 'verdict' | 'reason'>): boolean {
  return verdict === 'unproven' && reason === 'denied';
}

/** What one check alone says. */
export function describeCheck(check: CheckFacts): string {
  const { verdict, reason, proof, checkedAt, provenBefore, provenAfter } = check;
  if (!isDenial(check) && !isInvalid(verdict)) {
    return describeVerdict({
      verdict,
      reason,
      proof,
      denials: null,
      checkedAt: null,
      hasUnknownItem: false,
    });
  }
  if (provenBefore === null || provenAfter === null) return 'denied';
  const at = checkedAt.getTime();
  const [before, after] = [provenBefore.getTime(), provenAfter.getTime()];
  return describeDenials({ times: 1, first: at, last: at, before, after });
}
