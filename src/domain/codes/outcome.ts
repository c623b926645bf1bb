import type { Account, Purchase } from '../item.js';
import type { Failure, Reply, Unavailable } from '../reply.js';
import { isSameCode } from './code.js';

/**
 * What the reply to one call says of the question and of the credential. Plain data, so that it can
 * be recorded with the call, and a chunk be judged by a process that did not make its calls.
 */
export type CallOutcome =
  /** The data asked for: the credential was good then. */
  | { readonly kind: 'affirmed' }
  /** An error envelope that answers, and that a bad key is given all the same. */
  | { readonly kind: 'denied' }
  /** Says of the credential or the API that it is not good, or that answers get mixed up. */
  | { readonly kind: 'doubtful'; readonly reason: DoubtReason }
  /** Says nothing of either. */
  | {
      readonly kind: 'silent';
      readonly reason: SilenceReason;
      /** When the server says to come back, milliseconds since 1970; null when it did not say. */
      readonly retryAt: number | null;
    };

export type DoubtReason =
  | 'refused'
  | 'switched-off'
  /** To somewhere the key may not go. */
  | 'redirect'
  /** The answer is about another code. */
  | 'another-code';

export type SilenceReason =
  | 'limited'
  | 'unavailable'
  | 'unreadable'
  /** An answer that holds nothing of a purchase; a mere echo of the code is none. */
  | 'no-purchase';

/** What of a reply is kept as evidence. */
export interface Evidence {
  /** Null when no answer came. */
  readonly httpStatus: number | null;
  /** What the server or the client said of it, redacted and bounded; null for an answer with data. */
  readonly message: string | null;
}

/** An outcome with its evidence. */
export interface Heard {
  readonly outcome: CallOutcome;
  readonly evidence: Evidence;
}

/** Reads the reply to a validation of `code`, be it one of the chunk's or a canary. */
export function hearCode(code: string, reply: Reply<{ readonly value: Purchase }>): Heard {
  if (reply.kind !== 'answered') return { outcome: outcomeOf(reply), evidence: evidenceOf(reply) };
  const outcome = answerTo(code, reply.data.value);
  return { outcome, evidence: { httpStatus: reply.httpStatus, message: null } };
}

/**
 * Reads the reply to account details. A denial is a refusal there: account details has no other
 * (spec 7). `account` is the user name, null when there was no answer.
 */
export function hearAccount(
  reply: Reply<{ readonly value: Pick<Account, 'username'> }>,
): Heard & { readonly account: string | null } {
  if (reply.kind === 'answered') {
    const evidence = { httpStatus: reply.httpStatus, message: null };
    return { outcome: { kind: 'affirmed' }, evidence, account: reply.data.value.username };
  }
  const outcome: CallOutcome =
    reply.kind === 'denied' ? { kind: 'doubtful', reason: 'refused' } : outcomeOf(reply);
  return { outcome, evidence: evidenceOf(reply), account: null };
}

/**
 * An answer counts when it is about the code asked for. Forks may leave the code out of it or rename
 * the field (field notes: extra fields); then it is taken for what it was sent in reply to. What
 * holds no fact of a purchase says nothing, whether it repeats the code or not.
 */
function answerTo(code: string, purchase: Purchase): CallOutcome {
  const { purchaseCode, item, licenseType, price, purchasedAt } = purchase;
  if (purchaseCode !== null && !isSameCode(purchaseCode, code)) {
    return { kind: 'doubtful', reason: 'another-code' };
  }
  const facts = [item, licenseType, price, purchasedAt];
  return facts.some((fact) => fact !== null)
    ? { kind: 'affirmed' }
    : { kind: 'silent', reason: 'no-purchase', retryAt: null };
}

function outcomeOf(failure: Failure): CallOutcome {
  switch (failure.kind) {
    case 'denied':
      return { kind: 'denied' };
    case 'refused':
      return { kind: 'doubtful', reason: 'refused' };
    case 'limited':
      return { kind: 'silent', reason: 'limited', retryAt: failure.retryAt };
    case 'unavailable':
      return unavailableOutcome(failure);
    case 'unreadable':
      return failure.isAboutAnother === true
        ? { kind: 'doubtful', reason: 'another-code' }
        : { kind: 'silent', reason: 'unreadable', retryAt: null };
  }
}

/** Weather says nothing of the key; an API that is not there may not be asked through it either. */
function unavailableOutcome({ reason, retryAt }: Unavailable): CallOutcome {
  return reason === 'switched-off' || reason === 'redirect'
    ? { kind: 'doubtful', reason }
    : { kind: 'silent', reason: 'unavailable', retryAt };
}

function evidenceOf(failure: Failure): Evidence {
  const { httpStatus } = failure;
  if (failure.kind === 'limited') return { httpStatus, message: null };
  const { kind } = failure;
  const message = kind === 'denied' || kind === 'refused' ? failure.message : failure.detail;
  return { httpStatus, message };
}
