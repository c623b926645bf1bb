import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { CHAT_FORMATS } from '../../src/webhook/webhook.js';
import type { AlertMessage } from '../../src/webhook/message.js';
import { createWebhook } from '../../src/webhook/webhook.js';
import { startServer } from '../support/http-server.js';

const never = new AbortController().signal;
const FORMATS = ['slack', 'discord', 'ntfy'] as const;

const MESSAGE: AlertMessage = {
  ...{ id: 'msg_1', type: 'run.held', at: new Date('2026-11-21T02:00:07.123Z'), data: {} },
  title: 'main: a run waits for your decision',
  text: '30 of 40 items are no longer listed (1001 Foo & Bar)',
  remedy: 'if they are really gone, `seller-mirror runs approve 7` removes them',
  link: { url: 'https://mirror.example/runs/7/decide', label: 'Decide about run 7' },
  tone: 'warn',
};

/** What a receiver gets of a message. */
async function posted(format: (typeof FORMATS)[number], message: AlertMessage) {
  const server = await startServer({ status: 200, body: 'ok' });
  const url = new Secret(`${server.url.href}hooks/my-topic?auth=t0ken`);
  const webhook = createWebhook({ url, format, secret: null });
  expect(await webhook.send(message, never)).toEqual({ kind: 'delivered', status: 200 });
  const [request] = server.requests;
  expect(request?.headers['content-type']).toBe('application/json');
  expect(request?.headers).not.toHaveProperty('webhook-signature');
  return { request, body: JSON.parse(request?.body ?? '') as unknown };
}

describe('an alert says what happened, what to do, and carries a link', () => {
  it('in Slack', async () => {
    const { request, body } = await posted('slack', MESSAGE);
    expect(request?.url.pathname).toBe('/hooks/my-topic');
    const section = (text: string): object => ({
      ...{ type: 'section', text: { type: 'mrkdwn', verbatim: true, text } },
    });
    expect(body).toEqual({
      text: 'main: a run waits for your decision: 30 of 40 items are no longer listed (1001 Foo &amp; Bar)',
      blocks: [
        {
          type: 'header',
          text: { type: 'plain_text', emoji: false, text: 'main: a run waits for your decision' },
        },
        section('30 of 40 items are no longer listed (1001 Foo &amp; Bar)'),
        section(
          '*What to do:* if they are really gone, `seller-mirror runs approve 7` removes them',
        ),
        section('<https://mirror.example/runs/7/decide|Decide about run 7>'),
      ],
      ...{ parse: 'none', link_names: false, unfurl_links: false, unfurl_media: false },
    });
  });

  it('in Discord', async () => {
    const { body } = await posted('discord', MESSAGE);
    expect(body).toEqual({
      embeds: [
        {
          title: 'main\\: a run waits for your decision',
          description: [
            '30 of 40 items are no longer listed \\(1001 Foo \\& Bar\\)',
            '**What to do:** if they are really gone\\, `seller-mirror runs approve 7` removes them',
            '[Decide about run 7](https://mirror.example/runs/7/decide)',
          ].join('\n\n'),
          color: 0xb54708,
          timestamp: '2026-11-21T02:00:07.123Z',
        },
      ],
      allowed_mentions: { parse: [] },
    });
  });

  it('in ntfy, which gets its topic in the body and its token in the query', async () => {
    const { request, body } = await posted('ntfy', MESSAGE);
    expect(request?.url.pathname).toBe('/hooks/');
    expect(request?.url.search).toBe('?auth=t0ken');
    expect(body).toEqual({
      topic: 'my-topic',
      title: 'main: a run waits for your decision',
      message: `${MESSAGE.text}\n\nWhat to do: ${MESSAGE.remedy}`,
      priority: 4,
      click: 'https://mirror.example/runs/7/decide',
      actions: [
        {
          action: 'view',
          label: 'Decide about run 7',
          url: 'https://mirror.example/runs/7/decide',
        },
      ],
    });
  });

  it('but no link when nobody said where the dashboard is', async () => {
    for (const format of FORMATS) {
      const { request } = await posted(format, { ...MESSAGE, link: null });
      expect(request?.body).not.toContain('http');
    }
  });
});

const HOSTILE = [
  ...['<!channel> <!here> <@U123> <https://evil.example|log in here>', '@everyone @here'],
  ...[
    '[log in](https://evil.example)',
    '# big',
    '> quoted',
    '||hidden||',
    '\\[a](https://b.example)',
  ],
  ...['**bold** _under_ ~~gone~~ `code` ```block', 'https://evil.example/x', '<a:b:1> :bomb:'],
  ...['a\r\nb\u202ec\u200bd\u0000e\u001b[31m', '\ud800 half a character', 'x'.repeat(50_000)],
];

describe('a hostile text', () => {
  const hostile = (text: string): AlertMessage => ({ ...MESSAGE, title: text, text, remedy: text });

  it.each(HOSTILE)('mentions nobody, links nowhere and is no mark-up: %j', (text) => {
    const slack = CHAT_FORMATS.slack(hostile(text), 'https://hooks.example/x').body;
    // Only our own link has angle brackets.
    expect(slack.match(/<[^>]*>/g)).toEqual([
      '<https://mirror.example/runs/7/decide|Decide about run 7>',
    ]);
    const { description, title } = embedOf(CHAT_FORMATS.discord(hostile(text), '').body);
    for (const shown of [title, ...description.split('\n\n').slice(0, 2)]) {
      const own = shown.replace(/^\*\*What to do:\*\* /, '');
      // Each sign has its backslash: taken away in pairs, none is left but those of commands.
      const bare = own.replaceAll(/\\[!-/:-@[-`{-~]/g, '').replaceAll(/`[^`]*`/g, '');
      expect(bare).not.toMatch(/[!-/:-@[-`{-~]/);
    }
  });

  it.each(FORMATS)('hides nothing in %s, and is no longer than it takes', (format) => {
    for (const text of HOSTILE) {
      const { body } = CHAT_FORMATS[format](hostile(text), 'https://hooks.example/topic');
      expect(JSON.stringify(JSON.parse(body))).not.toMatch(
        /\\u(?:00|20|d8)|[\u200b-\u200f\u202a-\u202e]/,
      );
    }
  });

  it('never makes a message that a chat would refuse for its length', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 0, maxLength: 2_000, unit: 'binary' }), (text) => {
        const message = hostile(text);
        const slack = JSON.parse(CHAT_FORMATS.slack(message, 'https://a.example/x').body) as {
          blocks: { text: { type: string; text: string } }[];
        };
        for (const { text: shown } of slack.blocks) expect(shown.text.length).toBeLessThan(3_000);
        const { description, title } = embedOf(CHAT_FORMATS.discord(message, '').body);
        expect(title.length).toBeLessThanOrEqual(256);
        expect(description.length).toBeLessThanOrEqual(4_096);
        const ntfy = JSON.parse(CHAT_FORMATS.ntfy(message, 'https://a.example/x').body) as {
          message: string;
        };
        expect(Buffer.byteLength(ntfy.message)).toBeLessThanOrEqual(4_096);
      }),
    );
  });
});

function embedOf(body: string): { title: string; description: string } {
  const { embeds } = JSON.parse(body) as { embeds: { title: string; description: string }[] };
  const [embed] = embeds;
  if (embed === undefined) throw new Error('no embed');
  return embed;
}
