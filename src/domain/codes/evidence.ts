import type { Purchase } from '../item.js';
import { moment } from '../moment.js';
import { whyUnproven } from './outcome.js';
import { describeDenials, type Denials } from './second-look.js';

/** The outcome of a record of a list. */
export interface RecordFacts {
  /** `rejected`: the record holds no code. `pending`: the code was not asked yet. */
  readonly verdict: 'valid' | 'invalid' | 'unproven' | 'rejected' | 'pending';
  /** One word, for programs; for a rejected record, a sentence. */
  readonly reason: string;
  /** `purchase`, `canary`, `account` or `none`. */
  readonly proof: string;
  /** The denials that prove an invalid code; null if unknown. */
  readonly denials: Denials | null;
  /** The last known purchase. For an invalid code, it dates from when the code was valid. */
  readonly purchase: Purchase | null;
  readonly checkedAt: Date | null;
}

/** Explains a verdict, or why there is none, in one sentence. Times are in UTC. */
export function describeVerdict(facts: Omit<RecordFacts, 'purchase'>): string {
  const { verdict, reason, proof, denials, checkedAt } = facts;
  if (verdict === 'rejected') return reason;
  if (verdict === 'pending') return 'it was not checked yet';
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
