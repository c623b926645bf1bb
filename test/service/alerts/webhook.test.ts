import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import fc from 'fast-check';
import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../../src/domain/secret.js';
import { createWebhook, replyOfStatus, CHAT_FORMATS } from '../../../src/service/alerts/webhook.js';
import { startServer, type Script } from '../../support/http-server.js';
import type { AlertMessage } from '../../../src/service/alerts/message.js';

const SECRET = `whsec_${Buffer.from('a secret of twenty-six bytes').toString('base64')}`;
const TOKEN = 'tok-5f1c9e7a';
const MESSAGE: AlertMessage = {
  id: 'msg_1',
  type: 'run.held',
  at: new Date('2026-11-21T02:00:07.123Z'),
  data: { seller: 'main', text: 'größer als „gedacht“' },
  title: 'main: a run waits for your decision',
  text: '30 of 40 items are no longer listed (1001 Foo & Bar)',
  remedy: 'if they are really gone, `seller-mirror sync --accept-removals 7` removes them',
  link: { url: 'https://mirror.example/runs/7', label: 'Look at the removals' },
  tone: 'warn',
};
const never = new AbortController().signal;

/** A port on which nobody listens. Not a low one: fetch refuses those. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function startReceiver(script: Script, timeoutMs = 5_000) {
  const server = await startServer(script);
  const url = new Secret(`${server.url.href}hooks/${TOKEN}?t=${TOKEN}`);
  return {
    server,
    webhook: createWebhook(
      { url, format: 'standard', secret: new Secret(SECRET) },
      Date.now,
      timeoutMs,
    ),
  };
}

describe('a message', () => {
  it('has a signature that the reference library accepts', async () => {
    const { server, webhook } = await startReceiver({ status: 204 });
    expect(await webhook.send(MESSAGE, never)).toEqual({ kind: 'delivered', status: 204 });
    const [request] = server.requests;
    const body = request?.body ?? '';
    expect(new Verifier(SECRET).verify(body, request?.headers ?? {})).toEqual({
      type: 'run.held',
      timestamp: '2026-11-21T02:00:07.123Z',
      data: MESSAGE.data,
    });
    expect(request?.method).toBe('POST');
    expect(request?.headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': 'seller-mirror',
      'webhook-id': 'msg_1',
    });
    const other = new Verifier(`whsec_${Buffer.alloc(24, 7).toString('base64')}`);
    expect(() => other.verify(body, request?.headers ?? {})).toThrow();
  });
});

describe('the receiver’s answer', () => {
  const now = Date.UTC(2026, 10, 21);

  it('means delivered for 2xx, give up for 410, and retry for anything else', () => {
    fc.assert(
      fc.property(fc.integer({ min: 200, max: 599 }), (status) => {
        const { kind } = replyOfStatus(status, {}, now);
        expect(kind).toBe(status < 300 ? 'delivered' : status === 410 ? 'give-up' : 'retry');
      }),
    );
  });

  it('sets the time of the retry by Retry-After, and by the receiver’s own clock if that is told', () => {
    const date = 'Thu, 24 Dec 2026 10:00:00 GMT';
    const later = 'Thu, 24 Dec 2026 10:05:00 GMT';
    for (const [headers, notBefore] of [
      [{ 'retry-after': '120' }, now + 120_000],
      [{ 'retry-after': 'soon' }, null],
      [{}, null],
      [{ date, 'retry-after': later }, now + 300_000],
    ] as const) {
      expect(replyOfStatus(503, headers, now)).toMatchObject({ kind: 'retry', notBefore });
    }
  });

  it('may be a redirect, which is not followed', async () => {
    const elsewhere = await startServer({ status: 200 });
    const { webhook } = await startReceiver({
      status: 307,
      headers: { location: elsewhere.url.href },
    });
    expect(await webhook.send(MESSAGE, never)).toMatchObject({
      kind: 'retry',
      problem: 'the webhook answered with HTTP 307, a redirect, which is not followed',
    });
    expect(elsewhere.requests).toEqual([]);
  });

  it('may have an endless body, which is not read', async () => {
    const { webhook } = await startReceiver({
      raw: (socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
        const flood = setInterval(() => socket.write(`10000\r\n${'x'.repeat(65_536)}\r\n`), 1);
        socket.on('close', () => clearInterval(flood));
      },
    });
    expect(await webhook.send(MESSAGE, never)).toEqual({ kind: 'delivered', status: 200 });
  });
});

describe('a receiver that does not answer', () => {
  it('is retried after a timeout', async () => {
    const { webhook } = await startReceiver({ raw: () => undefined }, 100);
    expect(await webhook.send(MESSAGE, never)).toEqual({
      kind: 'retry',
      problem: 'the webhook did not answer in time',
      notBefore: null,
    });
  });

  it('does not delay the stop of a worker', async () => {
    const stop = new AbortController();
    const { webhook } = await startReceiver({ raw: () => stop.abort(new Error('SIGTERM')) });
    await expect(webhook.send(MESSAGE, stop.signal)).rejects.toThrow('SIGTERM');
  });

  it('is reported by error code only, because the message names the host', async () => {
    const closed = await closedPort();
    for (const address of [`http://127.0.0.1:${closed}/${TOKEN}`, `http://${TOKEN}.invalid/`]) {
      const target = {
        url: new Secret(address),
        format: 'standard',
        secret: new Secret(SECRET),
      } as const;
      const webhook = createWebhook(target, Date.now);
      const reply = await webhook.send(MESSAGE, never);
      expect(reply).toMatchObject({ kind: 'retry', notBefore: null });
      expect(JSON.stringify(reply)).toMatch(/could not be reached \([A-Z_]+\)/);
      expect(JSON.stringify(reply)).not.toContain(TOKEN);
    }
  });
});

const FORMATS = ['slack', 'discord', 'ntfy', 'telegram'] as const;

/** Sends a message and returns the request that the receiver got. */
async function post(format: (typeof FORMATS)[number], message = MESSAGE) {
  const server = await startServer({ status: 200, body: 'ok' });
  const url = new Secret(`${server.url.href}hooks/my-topic?auth=t0ken`);
  const webhook = createWebhook({ url, format, secret: null }, Date.now);
  expect(await webhook.send(message, never)).toEqual({ kind: 'delivered', status: 200 });
  const [request] = server.requests;
  expect(request?.headers['content-type']).toBe('application/json');
  expect(request?.headers).not.toHaveProperty('webhook-signature');
  return { request, body: JSON.parse(request?.body ?? '') as unknown };
}

describe('an alert has event, remedy and link', () => {
  it('in Slack', async () => {
    const { request, body } = await post('slack');
    expect(request?.url.pathname).toBe('/hooks/my-topic');
    const section = (text: string): object => ({
      type: 'section',
      text: { type: 'mrkdwn', verbatim: true, text },
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
          '*What to do:* if they are really gone, `seller-mirror sync --accept-removals 7` removes them',
        ),
        section('<https://mirror.example/runs/7|Look at the removals>'),
      ],
      parse: 'none',
      link_names: false,
      unfurl_links: false,
      unfurl_media: false,
    });
  });

  it('in Discord', async () => {
    const { body } = await post('discord');
    expect(body).toEqual({
      embeds: [
        {
          title: 'main\\: a run waits for your decision',
          description: [
            '30 of 40 items are no longer listed \\(1001 Foo \\& Bar\\)',
            '**What to do:** if they are really gone\\, `seller-mirror sync --accept-removals 7` removes them',
            '[Look at the removals](https://mirror.example/runs/7)',
          ].join('\n\n'),
          color: 0xb54708,
          timestamp: '2026-11-21T02:00:07.123Z',
        },
      ],
      allowed_mentions: { parse: [] },
    });
  });

  it('in ntfy, with the topic in the body and the token in the query', async () => {
    const { request, body } = await post('ntfy');
    expect(request?.url.pathname).toBe('/hooks/');
    expect(request?.url.search).toBe('?auth=t0ken');
    expect(body).toEqual({
      topic: 'my-topic',
      title: 'main: a run waits for your decision',
      message: `${MESSAGE.text}\n\nWhat to do: ${MESSAGE.remedy}`,
      priority: 4,
      click: 'https://mirror.example/runs/7',
      actions: [
        {
          action: 'view',
          label: 'Look at the removals',
          url: 'https://mirror.example/runs/7',
        },
      ],
    });
  });

  it('in Telegram, with the chat in the body, and commands that can be copied', async () => {
    const { request, body } = await post('telegram');
    expect(request?.url.pathname).toBe('/hooks/my-topic');
    expect(request?.url.search).toBe('');
    const sent = body as {
      text: string;
      entities: { type: string; offset: number; length: number }[];
    };
    expect(sent).toMatchObject({ auth: 't0ken', disable_notification: false });
    const parts = sent.entities.map(({ type, offset, length, ...rest }) => {
      return { type, text: sent.text.slice(offset, offset + length), ...rest };
    });
    expect(parts).toEqual([
      { type: 'bold', text: 'main:\u0020a run waits for your decision' },
      { type: 'code', text: 'seller-mirror sync --accept-removals 7' },
      { type: 'text_link', text: 'Look at the removals', url: 'https://mirror.example/runs/7' },
    ]);
  });

  it('but no link if the dashboard’s address is not configured', async () => {
    for (const format of FORMATS) {
      const { request } = await post(format, { ...MESSAGE, link: null });
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

  it.each(HOSTILE)('makes no mention, link or mark-up: %j', (text) => {
    const slack = CHAT_FORMATS.slack(hostile(text), 'https://hooks.example/x').body;
    // Only the link to the dashboard has angle brackets.
    expect(slack.match(/<[^>]*>/g)).toEqual([
      '<https://mirror.example/runs/7|Look at the removals>',
    ]);
    const url = 'https://a.example/bot1/sendMessage?chat_id=7';
    const telegram = CHAT_FORMATS.telegram(hostile(text), url).body;
    const { text: sent, entities } = JSON.parse(telegram) as {
      text: string;
      entities: { type: string; offset: number; length: number }[];
    };
    // Telegram makes no links of code.
    const plain = entities
      .filter(({ type }) => type === 'code')
      .reduceRight(
        (all, { offset, length }) => all.slice(0, offset) + all.slice(offset + length),
        sent,
      );
    expect(plain).not.toMatch(/[@#/.]\w/);
    const { description, title } = embedOf(CHAT_FORMATS.discord(hostile(text), '').body);
    for (const shown of [title, ...description.split('\n\n').slice(0, 2)]) {
      const own = shown.replace(/^\*\*What to do:\*\* /, '');
      // Without escaped punctuation and commands, no punctuation is left.
      const bare = own.replaceAll(/\\[!-/:-@[-`{-~]/g, '').replaceAll(/`[^`]*`/g, '');
      expect(bare).not.toMatch(/[!-/:-@[-`{-~]/);
    }
  });

  it.each(FORMATS)('leaves no invisible character in %s', (format) => {
    for (const text of HOSTILE) {
      const { body } = CHAT_FORMATS[format](hostile(text), 'https://hooks.example/topic');
      expect(JSON.stringify(JSON.parse(body))).not.toMatch(
        /\\u(?:00|20|d8)|[\u200b-\u200f\u202a-\u202e]/,
      );
    }
  });

  // The characters that escapes make longest, and of several units and bytes.
  it.each(['&', '<', '_', '`', '\u{1f600}', '漢'])(
    'of many %s is cut to what each chat accepts',
    (letter) => {
      const message = hostile(letter.repeat(2_000));
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
    },
  );
});

function embedOf(body: string): { title: string; description: string } {
  const { embeds } = JSON.parse(body) as { embeds: { title: string; description: string }[] };
  const [embed] = embeds;
  if (embed === undefined) throw new Error('no embed');
  return embed;
}
