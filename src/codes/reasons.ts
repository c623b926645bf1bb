import type { DoubtReason, SilenceReason } from '../marketplace/reply-meaning.js';

/** Why a code has no verdict. */
export type UnprovenReason =
  | SilenceReason
  | DoubtReason
  /** Denied once. */
  | 'unconfirmed'
  /** Denied, but the key was not proven around the denial. */
  | 'key-not-proven'
  /** Denied, as was every code known to be valid. */
  | 'known-valid-denied'
  /** Denied by a marketplace that denies valid codes. */
  | 'contradicted';

const KEY =
  'check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it';
const ADDRESS = 'check MARKETPLACE_URL, and that the API is switched on';
const ANSWERS = '`seller-mirror doctor` shows how the marketplace answers';
const LATER = 'check again later';

const REASONS: Readonly<Record<UnprovenReason, { readonly why: string; readonly remedy: string }>> =
  {
    limited: {
      why: 'the marketplace said there were too many requests',
      remedy: 'wait a while; lower REQUESTS_PER_MINUTE if others share this address',
    },
    unavailable: { why: 'the marketplace was not available', remedy: LATER },
    unreadable: { why: 'the answer could not be understood', remedy: ANSWERS },
    refused: { why: 'the marketplace refused the API key', remedy: KEY },
    'no-api': { why: 'there was a web page in place of the API', remedy: ADDRESS },
    'another-account': {
      why: 'the API key opened another account',
      remedy: `find out whose API key it is; ${KEY}`,
    },
    'mixed-up': { why: 'the marketplace answered about another code', remedy: ANSWERS },
    unconfirmed: { why: 'denied once; a second denial must confirm it', remedy: 'check again' },
    'key-not-proven': {
      why: 'denied, but the API key was not proven around the denial',
      remedy: LATER,
    },
    'known-valid-denied': {
      why: 'denied, as was every code known to be valid',
      remedy: 'name a code that you know is valid with --known-valid CODE',
    },
    contradicted: {
      why: 'denied, but this marketplace denied valid codes as well',
      remedy: LATER,
    },
  };

function isReason(word: string): word is UnprovenReason {
  return Object.hasOwn(REASONS, word);
}

/** Explains a missing verdict. Text that is no reason is shown unchanged. */
export function whyUnproven(word: string): string {
  return isReason(word) ? REASONS[word].why : word;
}

export function unprovenRemedy(word: string): string {
  return isReason(word) ? REASONS[word].remedy : LATER;
}
