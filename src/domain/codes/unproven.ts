import type { DoubtReason, SilenceReason } from './outcome.js';

/** Why a denial is not believed. */
export type DenialFault =
  | 'account-changed'
  | 'no-account-before'
  | 'no-account-after'
  | 'no-canary-before'
  | 'no-canary-after'
  | 'no-canary'
  | 'proof-failed'
  | 'gap'
  | 'row-too-long'
  | 'unconfirmed';

/** Why a code has no verdict. */
export type UnprovenReason = SilenceReason | DoubtReason | DenialFault;

/** When asking again may help: at once, when the cause is gone, or hardly ever. */
export type AskAgain = 'now' | 'later' | 'hardly';

const REASONS: Readonly<Record<UnprovenReason, readonly [AskAgain, string]>> = {
  limited: ['later', 'the marketplace said there were too many requests'],
  unavailable: ['later', 'the marketplace was not available'],
  unreadable: ['hardly', 'the answer could not be understood'],
  'no-purchase': ['hardly', 'the answer holds nothing of a purchase'],
  refused: ['later', 'the marketplace refused the API key'],
  'switched-off': ['later', 'there was no API at the address'],
  redirect: ['later', 'the marketplace sent the request to another address'],
  'another-code': ['now', 'the answer is about another code'],
  'account-changed': ['later', 'the API key opened another account'],
  'no-account-before': ['now', 'denied before the API key was proven'],
  'no-account-after': ['later', 'denied, and the API key was not proven afterwards'],
  'no-canary-before': ['now', 'denied before any code known to be valid was found'],
  'no-canary-after': ['later', 'denied, and no code known to be valid was found afterwards'],
  'no-canary': ['later', 'denied, as was every code that was known to be valid'],
  'proof-failed': ['now', 'denied while a proof of the API key failed'],
  gap: ['now', 'denied, and the API key was not proven within two minutes'],
  'row-too-long': ['now', 'one of too many denials in a row without a valid code between them'],
  unconfirmed: ['now', 'denied, and not asked for as often as it takes to call it invalid'],
};

/** Whether a stored word is one of the reasons of this version. */
export function isUnprovenReason(word: string): word is UnprovenReason {
  return Object.hasOwn(REASONS, word);
}

/** The reason as the middle of a sentence for a person. */
export function describeUnproven(reason: UnprovenReason): string {
  return REASONS[reason][1];
}

/** When it is of use to ask again for a code that is unproven for this reason. */
export function askAgain(reason: UnprovenReason): AskAgain {
  return REASONS[reason][0];
}
