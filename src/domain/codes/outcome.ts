import type { Account, Purchase } from '../item.js';
import type { Failure, Reply } from '../reply.js';
import { isSameCode } from './code.js';

/**
 * What the reply to one call says of the question and of the credential. Plain data, so that it can
 * be recorded with the call, and a chunk be judged by a process that did not make its calls.
 */
type CallOutcome =
  /** The data asked for: the credential was good then. */
  | { readonly kind: 'success' }
  /** An error envelope that answers, and that a bad key is given all the same. */
  | { readonly kind: 'denied' }
  /** Says of the credential or the API that it is not good, or that answers get mixed up. */
  | { readonly kind: 'suspect'; readonly reason: SuspectReason }
  /** Says nothing of either. */
  | {
      readonly kind: 'inconclusive';
      readonly reason: InconclusiveReason;
      /** When the server says to come back, milliseconds since 1970; null when it did not say. */
      readonly retryAt: number | null;
    };

export type SuspectReason =
  | 'refused'
  | 'switched-off'
  /** To somewhere the key may not go. */
  | 'redirect'
  /** The answer is about another code. */
  | 'another-code';

export type InconclusiveReason =
  | 'limited'
  | 'unavailable'
  | 'unreadable'
  /** An answer that holds nothing of a purchase; a mere echo of the code is none. */
  | 'no-purchase';

export interface Evidence {
  /** Null when no answer came. */
  readonly httpStatus: number | null;
  /** What the server or the client said of it, redacted and bounded; null for an answer with data. */
  readonly message: string | null;
}

export interface CallResult {
  readonly outcome: CallOutcome;
  readonly evidence: Evidence;
}

export function readCodeReply(
  code: string,
  reply: Reply<{ readonly value: Purchase }>,
): CallResult {
  if (reply.kind !== 'answered') return { outcome: outcomeOf(reply), evidence: evidenceOf(reply) };
  const { httpStatus, data } = reply;
  return { outcome: answerTo(code, data.value), evidence: { httpStatus, message: null } };
}

/** A denial of account details is a refusal (spec 7). `account` is null when there was no answer. */
export function readAccountReply(
  reply: Reply<{ readonly value: Pick<Account, 'username'> }>,
): CallResult & { readonly account: string | null } {
  if (reply.kind === 'answered') {
    const evidence = { httpStatus: reply.httpStatus, message: null };
    return { outcome: { kind: 'success' }, evidence, account: reply.data.value.username };
  }
  const outcome = reply.kind === 'denied' ? REFUSED : outcomeOf(reply);
  return { outcome, evidence: evidenceOf(reply), account: null };
}

const REFUSED: CallOutcome = { kind: 'suspect', reason: 'refused' };
const ANOTHER_CODE: CallOutcome = { kind: 'suspect', reason: 'another-code' };

/**
 * An answer counts when it is about the code asked for; forks may leave the code out of it (field notes).
 * What holds no fact of a purchase says nothing, whether it repeats the code or not.
 */
function answerTo(code: string, purchase: Purchase): CallOutcome {
  const { purchaseCode, item, licenseType, price, purchasedAt } = purchase;
  if (purchaseCode !== null && !isSameCode(purchaseCode, code)) return ANOTHER_CODE;
  const facts = [item, licenseType, price, purchasedAt];
  return facts.some((fact) => fact !== null)
    ? { kind: 'success' }
    : { kind: 'inconclusive', reason: 'no-purchase', retryAt: null };
}

function outcomeOf(failure: Failure): CallOutcome {
  switch (failure.kind) {
    case 'denied':
      return { kind: 'denied' };
    case 'refused':
      return REFUSED;
    case 'limited':
      return { kind: 'inconclusive', reason: 'limited', retryAt: failure.retryAt };
    case 'unavailable': {
      // An outage says nothing of the key; an API that is not there may not be asked through it either.
      const { reason, retryAt } = failure;
      return reason === 'switched-off' || reason === 'redirect'
        ? { kind: 'suspect', reason }
        : { kind: 'inconclusive', reason: 'unavailable', retryAt };
    }
    case 'unreadable':
      return failure.isAboutAnother === true
        ? ANOTHER_CODE
        : { kind: 'inconclusive', reason: 'unreadable', retryAt: null };
  }
}

function evidenceOf(failure: Failure): Evidence {
  const message =
    'detail' in failure ? failure.detail : 'message' in failure ? failure.message : null;
  return { httpStatus: failure.httpStatus, message };
}

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

export type UnprovenReason = InconclusiveReason | SuspectReason | DenialFault;

/** Whether a check is one denial of several, on which a verdict rests together. */
export function isUnconfirmedDenial({
  verdict,
  reason,
}: {
  verdict: string;
  reason: string | null;
}): boolean {
  return verdict === 'unproven' && reason === 'unconfirmed';
}

/** When asking again may help: at once, when the cause is gone, or hardly ever. */
type AskAgain = 'now' | 'later' | 'pointless';

const KEY =
  'check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it';
const ADDRESS = 'check MARKETPLACE_URL, and that the API is switched on';
const ANSWERS = '`seller-mirror doctor` shows how the marketplace answers';
const CANARY = 'name a code that you know is valid with --canary CODE';
const SHARED = 'wait a while; lower REQUESTS_PER_MINUTE if others share this address';

/** When to ask again, why there is no verdict, and what to do where that is more than asking again. */
const REASONS: Readonly<Record<UnprovenReason, readonly [AskAgain, string, string?]>> = {
  limited: ['later', 'the marketplace said there were too many requests', SHARED],
  unavailable: ['later', 'the marketplace was not available'],
  unreadable: ['pointless', 'the answer could not be understood', ANSWERS],
  'no-purchase': ['pointless', 'the answer holds no data of a purchase', ANSWERS],
  refused: ['later', 'the marketplace refused the API key', KEY],
  'switched-off': ['later', 'there was no API at the address', ADDRESS],
  redirect: ['later', 'the marketplace sent the request to another address', ADDRESS],
  'another-code': ['now', 'the answer is about another code', ANSWERS],
  'account-changed': [
    ...(['later', 'the API key opened another account'] as const),
    `find out whose API key it is; ${KEY}`,
  ],
  'no-account-before': ['now', 'denied before the API key was proven'],
  'no-account-after': ['later', 'denied, and the API key was not proven afterwards'],
  'no-canary-before': ['now', 'denied before any code known to be valid was found', CANARY],
  'no-canary-after': ['later', 'denied, and no code known to be valid was found afterwards'],
  'no-canary': ['later', 'denied, as was every code that was known to be valid', CANARY],
  'proof-failed': ['now', 'denied while a proof of the API key failed'],
  gap: ['now', 'denied, and the API key was not proven within two minutes'],
  'row-too-long': ['now', 'one of too many denials in a row without a valid code between them'],
  unconfirmed: ['now', 'denied, and not asked for as often as it takes to call it invalid'],
};

/** A stored word as a reason; null for one of an older version. */
function reasonOf(word: string): UnprovenReason | null {
  return Object.hasOwn(REASONS, word) ? (word as UnprovenReason) : null;
}

/** Says why there is no verdict; a reason of an older version is shown as it is. */
export function whyUnproven(word: string): string {
  const reason = reasonOf(word);
  return reason === null ? word : REASONS[reason][1];
}

/** Says what to do about a missing verdict, as the end of a line; as in an outage where the reason is not known. */
export function unprovenRemedy(word: string): string {
  const [ask, , remedy] = REASONS[reasonOf(word) ?? 'unavailable'];
  return remedy ?? (ask === 'now' ? 'ask again' : 'ask again later');
}

export function askAgain(reason: UnprovenReason): AskAgain {
  return REASONS[reason][0];
}
