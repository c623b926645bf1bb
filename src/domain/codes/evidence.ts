import type { Purchase } from '../item.js';
import { moment } from '../moment.js';
import { whyUnproven } from './outcome.js';
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
