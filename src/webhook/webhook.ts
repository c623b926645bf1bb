import { Webhook as Signer } from 'standardwebhooks';
import type { Json } from '../domain/item.js';
import type { Secret } from '../domain/secret.js';

/** What is told to a webhook. */
export interface WebhookMessage {
  /** The same whenever the same message is sent again, so that the receiver can tell. */
  readonly id: string;
  /** Words with dots between them, such as `run.failed`. */
  readonly type: string;
  /** When it happened. */
  readonly at: Date;
  readonly data: Json;
}

/** What became of a message. The sentences name neither the address nor the secret. */
export type WebhookReply =
  | { readonly kind: 'delivered'; readonly httpStatus: number }
  /** It may be taken later, but not before `notBefore` (milliseconds since 1970). */
  | { readonly kind: 'retry'; readonly problem: string; readonly notBefore: number | null }
  /** The receiver wants no more of them. */
  | { readonly kind: 'give-up'; readonly problem: string };

/** An address that takes messages. */
export interface Webhook {
  /**
   * Sends a message once. Whatever the receiver does, or fails to do, is a reply.
   * @throws the signal's reason when it ends first
   */
  send(message: WebhookMessage, signal: AbortSignal): Promise<WebhookReply>;
}

export interface WebhookOptions {
  /** Where messages go, http or https. A secret, since such addresses often contain a token. */
  readonly url: Secret;
  /** `whsec_` and 24 to 64 bytes in base64. */
  readonly secret: Secret;
  /** Longest time for one request; default 20 seconds (the specification recommends 15 to 30). */
  readonly timeoutMs?: number;
  readonly userAgent?: string;
}

const TIMEOUT_MS = 20_000;

/**
 * Sends messages signed as the Standard Webhooks specification says: headers `webhook-id`,
 * `webhook-timestamp` and `webhook-signature`, and a JSON body with `type`, `timestamp`, `data`.
 */
export function createWebhook(options: WebhookOptions): Webhook {
  const { timeoutMs = TIMEOUT_MS, userAgent = 'seller-mirror' } = options;
  const signer = new Signer(options.secret.reveal());
  return {
    async send({ id, type, at, data }, signal) {
      signal.throwIfAborted();
      const body = JSON.stringify({ type, timestamp: at.toISOString(), data });
      const sent = new Date();
      const headers = {
        'content-type': 'application/json',
        'user-agent': userAgent,
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(sent.getTime() / 1_000)),
        'webhook-signature': signer.sign(id, sent, body),
      };
      const request = { method: 'POST', headers, body, redirect: 'manual' } as const;
      const deadline = AbortSignal.timeout(timeoutMs);
      try {
        const response = await fetch(options.url.reveal(), {
          ...request,
          signal: AbortSignal.any([signal, deadline]),
        });
        // The status says it all: not a byte of the body is waited for.
        response.body?.cancel().catch(() => undefined);
        return replyOfStatus(response.status, response.headers.get('retry-after'), Date.now());
      } catch (error) {
        signal.throwIfAborted();
        return replyOfError(error, deadline.aborted);
      }
    },
  };
}

/**
 * What an HTTP status means (Standard Webhooks, "Status codes"): only 2xx is a success, only 410
 * says that nothing must come any more, and everything else is a failure to be repeated. That holds
 * for the other 4xx too: a receiver that is being set up answers 404, one that changes its secret
 * 401, and alerts are few. Redirects are not followed.
 * @param now milliseconds since 1970
 */
export function replyOfStatus(
  httpStatus: number,
  retryAfter: string | null,
  now: number,
): WebhookReply {
  if (httpStatus >= 200 && httpStatus < 300) return { kind: 'delivered', httpStatus };
  const answered = `the webhook answered with HTTP ${httpStatus}`;
  if (httpStatus === 410) {
    return { kind: 'give-up', problem: `${answered}: it wants no more alerts` };
  }
  const redirect = httpStatus >= 300 && httpStatus < 400;
  return {
    kind: 'retry',
    problem: redirect ? `${answered}, a redirect, which is not followed` : answered,
    notBefore: retryTime(retryAfter, now),
  };
}

/** `Retry-After`: seconds or an HTTP date; null when there is none that can be read. */
function retryTime(retryAfter: string | null, now: number): number | null {
  const text = retryAfter?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return now + Number(text) * 1_000;
  const date = /[a-z]/i.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(date) ? null : Math.max(date, now);
}

/** The receiver could not be asked, or said nothing in time. */
function replyOfError(error: unknown, timedOut: boolean): WebhookReply {
  const why = timedOut ? 'did not answer in time' : `could not be reached${codeOf(error)}`;
  return { kind: 'retry', problem: `the webhook ${why}`, notBefore: null };
}

/** The code of a network error. Its words are not shown, since they name the host. */
function codeOf(error: unknown): string {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  if (cause instanceof AggregateError) return codeOf(new Error('', { cause: cause.errors[0] }));
  const code = cause instanceof Error && 'code' in cause ? cause.code : null;
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? ` (${code})` : '';
}
