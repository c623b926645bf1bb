import { Webhook as Signer } from 'standardwebhooks';
import { errorCode } from '../../domain/error-code.js';
import { type HeaderMap, retryAt } from '../../marketplace/rate-limit.js';
import type { Secret } from '../../domain/secret.js';
import {
  type AlertChannel,
  type AlertMessage,
  type AlertReply,
  shownTexts,
  spansOf,
} from './message.js';

interface WebhookTarget {
  /** http or https. A secret, because such URLs often contain a token. */
  readonly url: Secret;
  readonly format: 'standard' | keyof typeof CHAT_FORMATS;
  /** `whsec_` and 24 to 64 bytes in base64. Only `standard` is signed. */
  readonly secret: Secret | null;
}

/** Timeout of one request. The specification recommends 15 to 30 seconds. */
const TIMEOUT_MS = 20_000;

/**
 * Posts alerts. Format `standard` follows the Standard Webhooks specification: headers `webhook-id`,
 * `webhook-timestamp` and `webhook-signature`, and a JSON body with `type`, `timestamp` and `data`.
 * The other formats are for chats and push services, which check no signature.
 * @param now the time, which receivers compare with their own (ms since 1970)
 */
export function createWebhook(
  target: WebhookTarget,
  now: () => number,
  timeoutMs = TIMEOUT_MS,
): AlertChannel {
  const request = requestsTo(target, now);
  return {
    async send(message, signal) {
      signal.throwIfAborted();
      const { url, headers, body } = request(message);
      const deadline = AbortSignal.timeout(timeoutMs);
      try {
        const response = await fetch(url, {
          method: 'POST',
          headers: {
            ...headers,
            'content-type': 'application/json',
            'user-agent': 'seller-mirror',
          },
          body,
          redirect: 'manual',
          signal: AbortSignal.any([signal, deadline]),
        });
        // The status is enough, so the body is not read.
        response.body?.cancel().catch(() => undefined);
        return replyOfStatus(response.status, Object.fromEntries(response.headers), now());
      } catch (error) {
        signal.throwIfAborted();
        const why = deadline.aborted
          ? 'did not answer in time'
          : `could not be reached${codeOf(error)}`;
        return { kind: 'retry', problem: `the webhook ${why}`, notBefore: null };
      }
    },
  };
}

interface Post {
  readonly url: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Returns a function that builds the request for a message. */
function requestsTo(
  { url, format, secret }: WebhookTarget,
  now: () => number,
): (message: AlertMessage) => Post {
  if (format !== 'standard') return (message) => CHAT_FORMATS[format](message, url.reveal());
  if (secret === null) throw new TypeError('standard alerts are never sent unsigned');
  const signer = new Signer(secret.reveal());
  return ({ id, type, at, data }) => {
    const body = JSON.stringify({ type, timestamp: at.toISOString(), data });
    const sent = new Date(now());
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(sent.getTime() / 1_000)),
      'webhook-signature': signer.sign(id, sent, body),
    };
    return { url: url.reveal(), headers, body };
  };
}

/**
 * Interprets an HTTP status (Standard Webhooks, "Status codes"). Success: 2xx. Give up: 410. Retry:
 * everything else, also the other 4xx. A receiver that is being set up answers 404, and one whose secret
 * is being changed 401. Redirects are not followed.
 * @param now milliseconds since 1970
 */
export function replyOfStatus(httpStatus: number, headers: HeaderMap, now: number): AlertReply {
  if (httpStatus >= 200 && httpStatus < 300) return { kind: 'delivered', status: httpStatus };
  const answered = `the webhook answered with HTTP ${httpStatus}`;
  if (httpStatus === 410) {
    return { kind: 'give-up', problem: `${answered}: it wants no more alerts` };
  }
  const redirect = httpStatus >= 300 && httpStatus < 400;
  return {
    kind: 'retry',
    problem: redirect ? `${answered}, a redirect, which is not followed` : answered,
    notBefore: retryAt(headers, now),
  };
}

/** The code of a network error. The message is not shown, because it contains the host. */
function codeOf(error: unknown): string {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  const code = errorCode(cause);
  return /^\w{1,60}$/.test(code) ? ` (${code})` : '';
}

/** Formats of chats and push services. */
export const CHAT_FORMATS = { slack, discord, ntfy, telegram } as const;

/** Slack: blocks of text. Mentions and links need `<` and `>`, so escaping `<`, `>` and `&` is enough. */
function slack(message: AlertMessage, url: string): Post {
  const { title, text, remedy, label } = shownTexts(message);
  const section = (mrkdwn: string): object => ({
    type: 'section',
    // Verbatim: Slack makes no links of URLs and @names.
    text: { type: 'mrkdwn', text: mrkdwn, verbatim: true },
  });
  const blocks = [
    { type: 'header', text: { type: 'plain_text', text: forSlack(title), emoji: false } },
    section(forSlack(text)),
    ...(remedy === null ? [] : [section(`*What to do:* ${forSlack(remedy)}`)]),
    ...(message.link === null
      ? []
      : [section(`<${forSlack(message.link.url)}|${forSlack(label)}>`)]),
  ];
  const body = {
    // Shown in notifications, and by clients that don't support blocks.
    text: forSlack(`${title}: ${text}`),
    blocks,
    parse: 'none',
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
  };
  return { url, body: JSON.stringify(body) };
}

/** Escapes the three characters that Slack's documentation names, `&` first. */
function forSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const DISCORD_COLOURS = { good: 0x0f766e, warn: 0xb54708, bad: 0xb42318 } as const;

/** Discord: an embed. Embeds never notify anybody, and `allowed_mentions` makes sure of it. */
function discord(message: AlertMessage, url: string): Post {
  const { title, text, remedy, label } = shownTexts(message);
  const lines = [
    forDiscord(text),
    ...(remedy === null ? [] : [`**What to do:** ${withCommands(remedy)}`]),
    ...(message.link === null ? [] : [`[${forDiscord(label)}](${message.link.url})`]),
  ];
  const body = {
    embeds: [
      {
        title: forDiscord(title),
        description: lines.join('\n\n'),
        color: DISCORD_COLOURS[message.tone],
        timestamp: message.at.toISOString(),
      },
    ],
    allowed_mentions: { parse: [] },
  };
  return { url, body: JSON.stringify(body) };
}

/** Puts a backslash before all ASCII punctuation, so that nothing becomes mark-up or a link. */
function forDiscord(text: string): string {
  return text.replace(/[!-/:-@[-`{-~]/g, '\\$&');
}

/** Escapes a text but for its commands, where Discord interprets nothing. */
function withCommands(remedy: string): string {
  return spansOf(remedy)
    .map(({ text, isCommand }) => (isCommand ? `\`${text}\`` : forDiscord(text)))
    .join('');
}

const NTFY_PRIORITIES = { good: 3, warn: 4, bad: 5 } as const;

/** ntfy: JSON, posted to the server's root, with the topic in the body. ntfy shows it as plain text. */
function ntfy(message: AlertMessage, url: string): Post {
  const { title, text, remedy, label } = shownTexts(message);
  const server = new URL(url);
  const topic = server.pathname.replace(/\/$/, '').split('/').at(-1) ?? '';
  server.pathname = server.pathname.replace(/[^/]*\/?$/, '');
  const { link } = message;
  const body = {
    topic,
    title,
    message: remedy === null ? text : `${text}\n\nWhat to do: ${remedy}`,
    priority: NTFY_PRIORITIES[message.tone],
    ...(link === null
      ? {}
      : { click: link.url, actions: [{ action: 'view', label, url: link.url }] }),
  };
  return { url: server.href, body: JSON.stringify(body) };
}

/** Makes Telegram show a part of the text in another way. Offset and length count UTF-16 units. */
interface Entity {
  readonly type: 'bold' | 'code' | 'text_link';
  readonly offset: number;
  readonly length: number;
  readonly url?: string;
}

/**
 * Telegram: plain text, with entities that say what is bold, a command or a link, so that no text is mark-up. The
 * parameters of the address, such as `chat_id`, go into the body.
 */
function telegram(message: AlertMessage, url: string): Post {
  const { title, text, remedy, label } = shownTexts(message);
  const address = new URL(url);
  const parameters = Object.fromEntries(address.searchParams);
  address.search = '';
  let shown = '';
  const entities: Entity[] = [];
  const add = (part: string, entity?: Pick<Entity, 'type' | 'url'>): void => {
    const length = part.length;
    if (entity !== undefined && length > 0) {
      entities.push({ ...entity, offset: shown.length, length });
    }
    shown += part;
  };
  add(forTelegram(title), { type: 'bold' });
  add(`\n\n${forTelegram(text)}`);
  if (remedy !== null) {
    add('\n\nWhat to do: ');
    for (const span of spansOf(remedy)) {
      if (span.isCommand) add(span.text, { type: 'code' });
      else add(forTelegram(span.text));
    }
  }
  if (message.link !== null) {
    add('\n\n');
    add(forTelegram(label), { type: 'text_link', url: message.link.url });
  }
  const body = {
    ...parameters,
    text: shown,
    entities,
    link_preview_options: { is_disabled: true },
    disable_notification: message.tone === 'good',
  };
  return { url: address.href, body: JSON.stringify(body) };
}

/** Telegram makes links of @names, #tags, /commands and addresses in plain text, but not around a word joiner. */
function forTelegram(text: string): string {
  return text.replaceAll(/[@#$/.:](?=\S)/g, '$&\u2060');
}
