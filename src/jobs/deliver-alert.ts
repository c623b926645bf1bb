import { createHash } from 'node:crypto';
import type { Store } from '../store/store.js';
import type { Webhook } from '../webhook/webhook.js';
import { messageOf } from './alert-message.js';
import type { Alert } from './alerts.js';
import { wordsOf } from './problem.js';

/** What became of an alert, as plain data. */
export type AlertOutcome =
  /** Delivered, or dropped since there is nothing to tell any more. */
  | {
      readonly kind: 'done';
      readonly result: { readonly delivered: number } | { readonly dropped: string };
    }
  /** It may work later, but not before `notBefore` (milliseconds since 1970). */
  | { readonly kind: 'retry'; readonly problem: string; readonly notBefore: number | null }
  | { readonly kind: 'give-up'; readonly problem: string }
  /** It was told to stop. */
  | { readonly kind: 'hand-back' };

/**
 * Tells people about something, in the words it deserves now. Never throws.
 * @param jobId of the job that delivers it: the receiver sees the same id at every repetition
 */
export async function deliverAlert(
  deps: { readonly store: Store; readonly webhook: Webhook },
  alert: Alert,
  jobId: string,
  signal: AbortSignal,
): Promise<AlertOutcome> {
  try {
    signal.throwIfAborted();
    const message = await messageOf(deps.store, alert, new Date());
    if ('dropped' in message) return { kind: 'done', result: message };
    const reply = await deps.webhook.send({ id: messageId(jobId), ...message }, signal);
    if (reply.kind !== 'delivered') return reply;
    return { kind: 'done', result: { delivered: reply.httpStatus } };
  } catch (error) {
    if (signal.aborted) return { kind: 'hand-back' };
    return { kind: 'retry', problem: wordsOf(error), notBefore: null };
  }
}

/** Job ids have dots, which the specification's signed text is divided by. */
function messageId(jobId: string): string {
  return `msg_${createHash('sha256').update(jobId).digest('base64url').slice(0, 27)}`;
}
