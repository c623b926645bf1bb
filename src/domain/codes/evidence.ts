import type { Purchase } from '../item.js';
import { moment } from '../moment.js';
import { askAgain, describeUnproven, isUnprovenReason, type UnprovenReason } from './outcome.js';
import { describeDenials, type Denials } from './second-look.js';

/** The outcome of a record of a list. */
export interface RecordFacts {
  /** `rejected`: the record holds no code. `pending`: it was not asked for yet. */
  readonly verdict: 'valid' | 'invalid' | 'unproven' | 'rejected' | 'pending';
  /** One word, for programs; of a rejected record, a sentence. */
  readonly reason: string;
  /** `purchase`, `canary`, `account` or `none`. */
  readonly proof: string;
  /** The denials that prove an invalid code; null where they are not known. */
  readonly denials: Denials | null;
  /** The last known purchase; that of an invalid code is from when it was valid. */
  readonly purchase: Purchase | null;
  readonly checkedAt: Date | null;
}

/** Explains a verdict, or why there is none, in one sentence with times in UTC. */
export function describeVerdict(facts: Omit<RecordFacts, 'purchase'>): string {
  const { verdict, reason, proof, denials, checkedAt } = facts;
  if (verdict === 'rejected') return reason;
  if (verdict === 'pending') return 'it was not asked for yet';
  if (verdict === 'unproven') return whyUnproven(reason);
  if (proof === 'purchase') {
    const at = checkedAt === null ? '' : ` at ${moment(checkedAt)}`;
    return `the marketplace answered with the purchase${at}`;
  }
  const denied = denials === null ? 'denied' : describeDenials(denials);
  if (proof === 'canary') {
    return `${denied}, while the API key opened the account and found a valid code before and after`;
  }
  if (proof === 'account') {
    return `${denied}, while the API key opened the account before and after; no valid code was known to try`;
  }
  return proof;
}

/** Says why there is no verdict; a reason of an older version is shown as it is. */
export function whyUnproven(reason: string): string {
  return isUnprovenReason(reason) ? describeUnproven(reason) : reason;
}

const KEY =
  'check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it';
const ADDRESS = 'check MARKETPLACE_URL, and that the API is switched on';
const ANSWERS = '`seller-mirror doctor` shows how the marketplace answers';
const CANARY = 'name a code that you know is valid with --canary CODE';

const REMEDIES: Partial<Record<UnprovenReason, string>> = {
  limited: 'wait a while; lower REQUESTS_PER_MINUTE if others share this address',
  refused: KEY,
  'account-changed': `find out whose API key it is; ${KEY}`,
  'switched-off': ADDRESS,
  redirect: ADDRESS,
  'no-canary': CANARY,
  'no-canary-before': CANARY,
  unreadable: ANSWERS,
  'no-purchase': ANSWERS,
  'another-code': ANSWERS,
};

/** Says what to do about a missing verdict, as the end of a line. */
export function unprovenRemedy(reason: string): string {
  if (!isUnprovenReason(reason)) return 'ask again later';
  return REMEDIES[reason] ?? (askAgain(reason) === 'now' ? 'ask again' : 'ask again later');
}
