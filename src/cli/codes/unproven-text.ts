import {
  askAgain,
  describeUnproven,
  isUnprovenReason,
  type UnprovenReason,
} from '../../domain/codes/outcome.js';

const KEY =
  'check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it';
const ADDRESS = 'check MARKETPLACE_URL, and that the API is switched on';
const ANSWERS = '`seller-mirror doctor` shows how the marketplace answers';

const REMEDIES: Partial<Record<UnprovenReason, string>> = {
  limited: 'wait a while; lower REQUESTS_PER_MINUTE if others share this address',
  refused: KEY,
  'account-changed': `find out whose API key it is; ${KEY}`,
  'switched-off': ADDRESS,
  redirect: ADDRESS,
  'no-canary': 'name a code that you know is valid with --canary CODE',
  'no-canary-before': 'name a code that you know is valid with --canary CODE',
  unreadable: ANSWERS,
  'no-purchase': ANSWERS,
  'another-code': ANSWERS,
};

/** Why there is no verdict, in words; a reason that nobody knows any more as it is. */
export function whyUnproven(reason: string): string {
  return isUnprovenReason(reason) ? describeUnproven(reason) : reason;
}

/** What to do about it, as the end of a line. */
export function unprovenRemedy(reason: string): string {
  if (!isUnprovenReason(reason)) return 'ask again later';
  return REMEDIES[reason] ?? (askAgain(reason) === 'now' ? 'ask again' : 'ask again later');
}
