import type { Account, Purchase } from '../item.js';
import type { Failure, Reply } from '../reply.js';
import { isSameCode } from './code.js';

/**
 * What the reply to one call tells about the code and about the API key. It is plain data, so that a
 * process can judge calls that another process made.
 */
type CallOutcome =
  /** The requested data: the key was good then. */
  | { readonly kind: 'success' }
  /** An error envelope that answers the question. A bad key gets the same one. */
  | { readonly kind: 'denied' }
  /** A sign that the key or the API is bad, or that the server mixes up answers. */
  | { readonly kind: 'suspect'; readonly reason: SuspectReason }
  /** Tells nothing about code or key. */
  | {
      readonly kind: 'inconclusive';
      readonly reason: InconclusiveReason;
      /** When the server allows a retry, milliseconds since 1970; null if it did not say. */
      readonly retryAt: number | null;
    };

export type SuspectReason =
  | 'refused'
  | 'switched-off'
  /** To an address that must not get the key. */
  | 'redirect'
  /** The answer is about another code. */
  | 'another-code';

export type InconclusiveReason =
  | 'limited'
  | 'unavailable'
  | 'unreadable'
  /** The answer has no data of a purchase, at most the code itself. */
  | 'no-purchase';

export interface Evidence {
  /** Null without an answer. */
  readonly httpStatus: number | null;
  /** The server's or the client's error message, redacted and shortened; null for an answer with data. */
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

/** Denied account details mean a refused key (API 7). `account` is null without an answer. */
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
 * Forks may leave the code out of the answer (servers: shapes), so a missing code is accepted and another code
 * is not. An answer without any data of a purchase is inconclusive, even if it repeats the code.
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
      // An outage tells nothing about the key. A missing API or a redirect casts doubt on the address.
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

/** True for a denial that counts but needs another one before the code is invalid. */
export function isUnconfirmedDenial(check: { verdict: string; reason: string | null }): boolean {
  return check.verdict === 'unproven' && check.reason === 'unconfirmed';
}

const KEY =
  'check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it';
const ADDRESS = 'check MARKETPLACE_URL, and that the API is switched on';
const ANSWERS = '`seller-mirror doctor` shows how the marketplace answers';
const CANARY = 'name a code that you know is valid with --canary CODE';
const SHARED = 'wait a while; lower REQUESTS_PER_MINUTE if others share this address';

interface Unproven {
  /** When another round may help: at once, once the cause is gone, or hardly ever. */
  readonly retry: 'now' | 'later' | 'pointless';
  /** Another try in the same batch may help, too. */
  readonly inBatch?: true;
  readonly why: string;
  /** What to do if a retry is not enough. */
  readonly remedy?: string;
}

const REASONS: Readonly<Record<UnprovenReason, Unproven>> = {
  limited: {
    retry: 'later',
    why: 'the marketplace said there were too many requests',
    remedy: SHARED,
  },
  unavailable: { retry: 'later', inBatch: true, why: 'the marketplace was not available' },
  unreadable: { retry: 'pointless', why: 'the answer could not be understood', remedy: ANSWERS },
  'no-purchase': {
    retry: 'pointless',
    why: 'the answer holds no data of a purchase',
    remedy: ANSWERS,
  },
  refused: {
    retry: 'later',
    inBatch: true,
    why: 'the marketplace refused the API key',
    remedy: KEY,
  },
  'switched-off': {
    retry: 'later',
    inBatch: true,
    why: 'there was no API at the address',
    remedy: ADDRESS,
  },
  redirect: {
    retry: 'later',
    inBatch: true,
    why: 'the marketplace sent the request to another address',
    remedy: ADDRESS,
  },
  // Not in the same batch: each such answer costs the denials around it their proof.
  'another-code': { retry: 'now', why: 'the answer is about another code', remedy: ANSWERS },
  'account-changed': {
    retry: 'later',
    why: 'the API key opened another account',
    remedy: `find out whose API key it is; ${KEY}`,
  },
  'no-account-before': { retry: 'now', inBatch: true, why: 'denied before the API key was proven' },
  'no-account-after': { retry: 'later', why: 'denied, and the API key was not proven afterwards' },
  'no-canary-before': {
    retry: 'now',
    inBatch: true,
    why: 'denied before any code known to be valid was found',
    remedy: CANARY,
  },
  'no-canary-after': {
    retry: 'later',
    why: 'denied, and no code known to be valid was found afterwards',
  },
  'no-canary': {
    retry: 'later',
    why: 'denied, as was every code known to be valid',
    remedy: CANARY,
  },
  'proof-failed': {
    retry: 'now',
    inBatch: true,
    why: 'denied while a proof of the API key failed',
  },
  gap: {
    retry: 'now',
    inBatch: true,
    why: 'denied, and the API key was not proven within two minutes',
  },
  'row-too-long': {
    retry: 'now',
    inBatch: true,
    why: 'one of too many denials in a row without a valid code between them',
  },
  unconfirmed: { retry: 'now', why: 'denied, but not often enough to be called invalid' },
};

/** Null for a reason that an older version stored. */
function reasonOf(word: string): UnprovenReason | null {
  return Object.hasOwn(REASONS, word) ? (word as UnprovenReason) : null;
}

/** Explains a missing verdict. A reason from an older version is shown unchanged. */
export function whyUnproven(word: string): string {
  const reason = reasonOf(word);
  return reason === null ? word : REASONS[reason].why;
}

/** The remedy for a missing verdict. An unknown reason gets that of an outage. */
export function unprovenRemedy(word: string): string {
  const { retry, remedy } = REASONS[reasonOf(word) ?? 'unavailable'];
  return remedy ?? (retry === 'now' ? 'check again' : 'check again later');
}

export function retryOf(reason: UnprovenReason): Unproven['retry'] {
  return REASONS[reason].retry;
}

/** Whether another try in the same batch may help. */
export function isRetriedInBatch(reason: UnprovenReason): boolean {
  return REASONS[reason].inBatch === true;
}
