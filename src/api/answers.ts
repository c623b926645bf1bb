import { supportAt } from '../codes/known-code.js';
import type { LookUp } from '../codes/look-up.js';
import { whyUnproven } from '../codes/evidence.js';
import type { Answer } from './schemas.js';

const NOTHING = {
  reason: null,
  again_after: null,
  item_id: null,
  item_name: null,
  item_matches: null,
  license_type: null,
  purchased_at: null,
  support: null,
  supported_until: null,
  downloaded: null,
  checked_at: null,
  age_s: null,
  stale: false,
  seller: null,
} as const;

/**
 * The answer to a program.
 * @param item id that the program asked for; null: any
 * @param now milliseconds since 1970
 */
export function answerOf(lookUp: LookUp, item: number | null, now: number): Answer {
  switch (lookUp.kind) {
    case 'pending':
      return {
        ...NOTHING,
        verdict: 'pending',
        again_after: lookUp.againAfterS,
        explanation: `The marketplace does not know this code. We check it again in about ${lookUp.againAfterS} seconds, to be sure.`,
      };
    case 'unproven':
      return unproven(
        whyUnproven(lookUp.reason),
        lookUp.retryAt === null ? null : Math.max(1, Math.ceil((lookUp.retryAt - now) / 1000)),
      );
    case 'known':
      return knownAnswer(lookUp, item, now);
  }
}

/** There is no verdict, and none of before either. @param why completes "because", for developers */
export function unproven(why: string, againAfterS: number | null): Answer {
  return {
    ...NOTHING,
    verdict: 'unproven',
    reason: why,
    again_after: againAfterS,
    explanation:
      'This code can’t be checked right now. Nothing is wrong with it as far as we know.',
  };
}

/** @param why says what is wrong with the text */
export function noCode(why: string): Answer {
  return {
    ...NOTHING,
    verdict: 'unproven',
    reason: `the code ${why}`,
    explanation: `The code ${why}. Please copy it again.`,
  };
}

function knownAnswer(
  { known, stale, againAfterS }: Extract<LookUp, { kind: 'known' }>,
  item: number | null,
  now: number,
): Answer {
  const { verdict, purchase, checkedAt } = known;
  const itemId = purchase?.item?.id ?? null;
  const itemName = purchase?.item?.name ?? null;
  const support = purchase === null ? null : supportAt(purchase, now);
  const matches = item === null || itemId === null ? null : item === itemId;
  const common = {
    ...NOTHING,
    item_id: itemId,
    item_name: itemName,
    item_matches: matches,
    license_type: purchase?.licenseType ?? null,
    purchased_at: purchase?.purchasedAt ?? null,
    support,
    supported_until: purchase?.supportedUntil ?? null,
    checked_at: new Date(checkedAt).toISOString(),
    age_s: Math.max(0, Math.round((now - checkedAt) / 1000)),
    stale,
    again_after: againAfterS,
    downloaded: purchase?.downloaded ?? null,
  };
  if (verdict === 'invalid') {
    return {
      ...common,
      verdict: 'invalid',
      explanation: 'The marketplace does not know this code. Please check it for typing errors.',
    };
  }
  if (verdict === 'no_longer_valid') {
    return {
      ...common,
      verdict: 'no_longer_valid',
      explanation:
        'This code was valid and no longer is: the purchase was refunded or reversed, or the buyer’s account is closed.',
    };
  }
  const of = itemName === null ? '' : ` for ${itemName}`;
  const end = purchase?.supportedUntil?.slice(0, 10);
  const aboutSupport =
    support === 'active'
      ? ` Support lasts until ${end}.`
      : support === 'expired'
        ? ` Support ended on ${end}.`
        : '';
  return {
    ...common,
    verdict: 'valid',
    explanation:
      matches === false
        ? `This code is valid, but${of === '' ? ' for another item' : of}.${aboutSupport}`
        : `This code is valid${of}.${aboutSupport}`,
  };
}
