import { shownTexts, type AlertMessage } from './message.js';

/** What is posted to a webhook. */
interface Post {
  readonly url: string;
  readonly body: string;
}

/** The bodies that chats and push services understand; `url` is the webhook's address. */
export const CHAT_FORMATS = { slack, discord, ntfy } as const;

/** Slack: blocks of text. Only `<`, `>` and `&` act there: mentions and links are between `<` and `>`. */
function slack(message: AlertMessage, url: string): Post {
  const { title, text, remedy, label } = shownTexts(message);
  const section = (words: string): object => ({
    type: 'section',
    // Verbatim: addresses and @names in it become no links.
    text: { type: 'mrkdwn', text: words, verbatim: true },
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
    // For notifications, and for clients without blocks.
    text: forSlack(`${title}: ${text}`),
    blocks,
    parse: 'none',
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
  };
  return { url, body: JSON.stringify(body) };
}

/** The three characters that Slack asks to be escaped, in this order. */
function forSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const DISCORD_COLOURS = { good: 0x0f766e, warn: 0xb54708, bad: 0xb42318 } as const;

/** Discord: an embed, which never mentions anybody; `allowed_mentions` says it once more. */
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

/** A backslash before each sign: none is mark-up then, and no address becomes a link. */
function forDiscord(text: string): string {
  return text.replace(/[!-/:-@[-`{-~]/g, '\\$&');
}

/** Leaves what stands between backticks as it is: nothing acts there, not even a backslash. */
function withCommands(text: string): string {
  const parts = text.split('`');
  // An odd one out begins no command.
  if (parts.length % 2 === 0) return forDiscord(text);
  return parts.map((part, n) => (n % 2 === 0 ? forDiscord(part) : `\`${part}\``)).join('');
}

const NTFY_PRIORITIES = { good: 3, warn: 4, bad: 5 } as const;

/** ntfy: JSON to the server's root, with the topic in it. It is plain text, so nothing acts in it. */
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
