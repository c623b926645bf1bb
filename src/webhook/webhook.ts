import { Webhook as Signer } from 'standardwebhooks';
import type { Json } from '../domain/item.js';
import type { Secret } from '../domain/secret.js';
import { judgeStatus, noAnswer, type WebhookReply } from './judge.js';

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

/** An address that takes messages. */
export interface Webhook {
  /**
   * Sends a message once. Whatever the receiver does, or fails to do, is a reply.
   * @throws the signal's reason when it ends first
   */
  send(message: WebhookMessage, signal: AbortSignal): Promise<WebhookReply>;
}

export interface WebhookOptions {
  /** Where messages go. A secret, since such addresses often contain a token. */
  readonly url: Secret;
  /** `whsec_` and 24 to 64 bytes in base64. */
  readonly secret: Secret;
  /** Bound of one exchange; default 20 seconds (the specification recommends 15 to 30). */
  readonly timeoutMs?: number;
  readonly userAgent?: string;
}

/** The address or the secret of a webhook can't be used. The message shows neither. */
export class WebhookOptionsError extends Error {
  override readonly name = 'WebhookOptionsError';
}

const TIMEOUT_MS = 20_000;

/**
 * Sends messages signed as the Standard Webhooks specification says: headers `webhook-id`,
 * `webhook-timestamp` and `webhook-signature`, and a JSON body with `type`, `timestamp`, `data`.
 * @throws {WebhookOptionsError} when address or secret can't be used
 */
export function createWebhook(options: WebhookOptions): Webhook {
  const { timeoutMs = TIMEOUT_MS, userAgent = 'seller-mirror' } = options;
  const url = addressOf(options.url);
  const signer = signerOf(options.secret);
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
        const response = await fetch(url, {
          ...request,
          signal: AbortSignal.any([signal, deadline]),
        });
        // The status says it all: not a byte of the body is waited for.
        response.body?.cancel().catch(() => undefined);
        return judgeStatus(response.status, response.headers.get('retry-after'), Date.now());
      } catch (error) {
        signal.throwIfAborted();
        return noAnswer(error, deadline.aborted);
      }
    },
  };
}

function addressOf(url: Secret): URL {
  const text = url.reveal();
  const address = URL.canParse(text) ? new URL(text) : null;
  if (address === null || !/^https?:$/.test(address.protocol)) {
    throw new WebhookOptionsError('the address of the webhook is no http or https address');
  }
  if (address.username !== '' || address.password !== '') {
    throw new WebhookOptionsError('the address of the webhook must not hold a user or password');
  }
  return address;
}

function signerOf(secret: Secret): Signer {
  try {
    return new Signer(secret.reveal());
  } catch {
    // The library's own words might quote the secret.
    throw new WebhookOptionsError(
      'the secret of the webhook can’t be used: it is `whsec_` and 24 to 64 bytes in base64',
    );
  }
}
