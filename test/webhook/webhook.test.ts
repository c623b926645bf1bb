import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { createWebhook, replyOfStatus } from '../../src/webhook/webhook.js';
import { startServer, type Script } from '../support/http-server.js';

const SECRET = `whsec_${Buffer.from('a secret of twenty-six bytes').toString('base64')}`;
const TOKEN = 'tok-5f1c9e7a';
const message = {
  id: 'msg_1',
  type: 'run.failed',
  at: new Date('2026-11-21T02:00:07.123Z'),
  data: { seller: 'main', text: 'größer als „gedacht“' },
  ...{ title: 'main: mirroring failed', text: 'the marketplace failed', remedy: null, link: null },
  tone: 'bad',
} as const;
const never = new AbortController().signal;

/** A port on which nobody listens; not one of the low ones, to which fetch does not go at all. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function receiver(script: Script, timeoutMs = 5_000) {
  const server = await startServer(script);
  const url = new Secret(`${server.url.href}hooks/${TOKEN}?t=${TOKEN}`);
  return {
    server,
    webhook: createWebhook({ url, format: 'standard', secret: new Secret(SECRET) }, timeoutMs),
  };
}

describe('a message', () => {
  it('is signed as the specification says, which the library’s own verification confirms', async () => {
    const { server, webhook } = await receiver({ status: 204 });
    expect(await webhook.send(message, never)).toEqual({ kind: 'delivered', status: 204 });
    const [request] = server.requests;
    const body = request?.body ?? '';
    expect(new Verifier(SECRET).verify(body, request?.headers ?? {})).toEqual({
      type: 'run.failed',
      timestamp: '2026-11-21T02:00:07.123Z',
      data: message.data,
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

  it('has the same id and a time of its own whenever it is sent again', async () => {
    const { server, webhook } = await receiver([{ status: 500 }, { status: 200 }]);
    await webhook.send(message, never);
    await webhook.send(message, never);
    expect(server.requests.map(({ headers }) => headers['webhook-id'])).toEqual(['msg_1', 'msg_1']);
    for (const { body, headers } of server.requests) new Verifier(SECRET).verify(body, headers);
  });
});

describe('the receiver’s answer', () => {
  const now = Date.UTC(2026, 10, 21);

  it('is a success only as 2xx, the end only as 410, and anything else is tried again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 200, max: 599 }), (status) => {
        const { kind } = replyOfStatus(status, null, now);
        expect(kind).toBe(status < 300 ? 'delivered' : status === 410 ? 'give-up' : 'retry');
      }),
    );
  });

  it.each([
    ['120', now + 120_000],
    ['0', now],
    ['Sat, 21 Nov 2026 01:00:00 GMT', now + 3_600_000],
    ['Sat, 21 Nov 2020 01:00:00 GMT', now],
    ['soon', null],
    ['-5', null],
    ['99999999999999', null],
    ['', null],
  ])('says when to come back: %j', (retryAfter, notBefore) => {
    expect(replyOfStatus(503, retryAfter, now)).toMatchObject({ kind: 'retry', notBefore });
  });

  it('may be a redirect, which is not followed: the message would go to who knows whom', async () => {
    const elsewhere = await startServer({ status: 200 });
    const { webhook } = await receiver({ status: 307, headers: { location: elsewhere.url.href } });
    expect(await webhook.send(message, never)).toMatchObject({
      kind: 'retry',
      problem: 'the webhook answered with HTTP 307, a redirect, which is not followed',
    });
    expect(elsewhere.requests).toEqual([]);
  });

  it('is not read: a body without end holds up nothing', async () => {
    const { webhook } = await receiver({
      raw: (socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
        const flood = setInterval(() => socket.write(`10000\r\n${'x'.repeat(65_536)}\r\n`), 1);
        socket.on('close', () => clearInterval(flood));
      },
    });
    expect(await webhook.send(message, never)).toEqual({ kind: 'delivered', status: 200 });
  });
});

describe('a receiver that does not answer', () => {
  it('is given up for this time', async () => {
    const { webhook } = await receiver({ raw: () => undefined }, 100);
    expect(await webhook.send(message, never)).toEqual({
      kind: 'retry',
      problem: 'the webhook did not answer in time',
      notBefore: null,
    });
  });

  it('holds up no worker that is to stop', async () => {
    const stop = new AbortController();
    const { webhook } = await receiver({ raw: () => stop.abort(new Error('SIGTERM')) });
    await expect(webhook.send(message, stop.signal)).rejects.toThrow('SIGTERM');
  });

  it('is told of by the code of the error only, since its words name the host', async () => {
    const closed = await closedPort();
    for (const address of [`http://127.0.0.1:${closed}/${TOKEN}`, `http://${TOKEN}.invalid/`]) {
      const webhook = createWebhook({
        ...{ url: new Secret(address), format: 'standard', secret: new Secret(SECRET) },
      });
      const reply = await webhook.send(message, never);
      expect(reply).toMatchObject({ kind: 'retry', notBefore: null });
      expect(JSON.stringify(reply)).toMatch(/could not be reached \([A-Z_]+\)/);
      expect(JSON.stringify(reply)).not.toContain(TOKEN);
    }
  });
});

describe('address and secret', () => {
  it('are not in a webhook that is printed', async () => {
    const { webhook } = await receiver({ status: 200 });
    expect(inspect(webhook, { depth: 9, showHidden: true })).not.toContain(TOKEN);
  });
});
