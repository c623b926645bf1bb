import { randomBytes } from 'node:crypto';
import { createServer, request as forward } from 'node:http';
import { connect as netConnect, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  brotliCompressSync,
  constants,
  deflateRawSync,
  deflateSync,
  gzipSync,
  type InputType,
} from 'node:zlib';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { MarketplaceOptions } from '../../src/marketplace/types.js';
import { selfSigned } from '../support/certificate.js';
import { startServer, type Answer } from '../support/http-server.js';
import { ACCOUNT, accountBody, client, connectTo, head, KEY, raw, like } from './support.js';

const BODY = accountBody();

/** The reply to a request for account details that gets this response. */
async function ask(answer: Answer, options: Partial<MarketplaceOptions> = {}) {
  const server = await startServer(answer);
  const reply = await client(server.url, options).account();
  expect(JSON.stringify(reply)).not.toContain(KEY);
  return reply;
}

const encoded = (encoding: string, body: Buffer): Answer => ({
  headers: { 'content-encoding': encoding },
  body,
});
/** A copy whose byte at this place is changed. */
function damaged(bytes: Buffer, place: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt8((copy.at(place) as number) ^ 1, copy.length + place);
  return copy;
}
const failed = (reason: string) => ({ kind: 'unavailable', reason });

describe('compressed responses', () => {
  it.each([
    ['gzip', gzipSync(BODY)],
    ['br', brotliCompressSync(BODY)],
  ])('are decompressed: %s', async (encoding, body) => {
    expect(await ask(encoded(encoding, body))).toMatchObject({ kind: 'answered' });
  });

  it('may consist of several gzip members, as some proxies send them', async () => {
    const body = Buffer.concat([gzipSync(BODY.slice(0, 20)), gzipSync(BODY.slice(20))]);
    expect(await ask(encoded('gzip', body))).toMatchObject({ kind: 'answered' });
  });

  it.each([
    ['gzip', gzipSync(BODY).subarray(0, -9)],
    ['br', brotliCompressSync(BODY).subarray(0, -2)],
    ['gzip', damaged(gzipSync(BODY), -6)],
  ])('are cut off if they end early or are damaged (%s)', async (encoding, body) => {
    expect(await ask(encoded(encoding, body))).toMatchObject(failed('cut-off'));
  });

  it.each(['', 'UTF-8', 'gzip', 'br', 'gzip, br'])(
    'are read without decompression if they are text, whatever their header says: %j',
    async (encoding) => {
      expect(await ask(encoded(encoding, Buffer.from(BODY)))).toMatchObject({ kind: 'answered' });
    },
  );

  /** At a low quality: the best one takes two seconds for a long text, and its format is the same. */
  const brotli = (text: InputType): Buffer =>
    brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } });

  const long = JSON.stringify({
    status: 'success',
    data: ACCOUNT,
    x: randomBytes(400_000).toString('hex'),
  });

  it.each<[string, (text: string) => Buffer]>([
    ['', gzipSync],
    ['x', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['br', brotli],
    ['gzip, gzip', (text) => gzipSync(gzipSync(text))],
    ['br, gzip', (text) => gzipSync(brotli(text))],
  ])(
    'are read as their header says, and gzip by its first bytes: %j',
    async (encoding, compress) => {
      for (const text of [BODY, long, `<br />\n<b>Warnung</b> für x\n${BODY}`]) {
        expect(await ask(encoded(encoding, compress(text)))).toMatchObject({ kind: 'answered' });
      }
    },
  );

  it('may arrive byte by byte', async () => {
    const answer: Answer = {
      raw: (socket) => {
        socket.setNoDelay(true);
        socket.write(head('connection: close'));
        for (const byte of gzipSync(BODY)) socket.write(Buffer.of(byte));
        socket.end();
      },
    };
    expect(await ask(answer)).toMatchObject({ kind: 'answered' });
  });

  it.each([
    // Random bytes would hold the beginning of some JSON now and then.
    ['', Buffer.from(Array.from({ length: 5_000 }, (_, n) => 128 + ((n * 37) % 128)))],
    ['zstd', Buffer.from('28b52ffd0458', 'hex')],
  ])(
    'are unreadable if they are neither text nor compressed in a known way (%s)',
    async (encoding, body) => {
      expect(await ask(encoded(encoding, Buffer.concat([Buffer.of(0xff), body])))).toMatchObject({
        kind: 'unreadable',
      });
    },
  );
});

describe('a compressed error', () => {
  const page = '<html>'.padEnd(3 * 1024 * 1024, ' ');

  it.each([
    ['gzip', gzipSync(page)],
    ['br', brotliCompressSync(page)],
    ['gzip', gzipSync(Buffer.concat([Buffer.from(page), randomBytes(3 * 1024 * 1024)]))],
  ])('is read only at its beginning, whatever follows (%s)', async (encoding, body) => {
    const answer = { status: 404, headers: { 'content-encoding': encoding }, body };
    expect(await ask(answer)).toMatchObject(failed('switched-off'));
  });
});

describe('a head that is not HTTP', () => {
  const ok = 'HTTP/1.1 200 OK';
  const length = `content-length: ${BODY.length}`;

  it.each([
    ['lines that end with LF alone', `${ok}\n${length}\n\n${BODY}`, /Missing expected CR/],
    ['a length and chunks', head(length, 'transfer-encoding: chunked') + BODY, /Content-Length/],
    ['oversized headers', head(`x: ${'x'.repeat(100_000)}`, length) + BODY, /too large/],
    [
      'an answer to no question',
      `HTTP/1.1 100 Continue\r\n\r\n${head(length)}${BODY}`,
      /below 200/,
    ],
    ['the body alone', BODY, /begins with "\{"status":"success"/],
    ['the key', `${KEY}\r\n`, /begins with "\[secret\]"/],
  ])('shows that the host answered, and with what: %s', async (_, bytes, what) => {
    const reply = await ask(raw(bytes));
    expect(reply).toMatchObject({
      ...failed('malformed'),
      detail: like(/^127\.0\.0\.1:\d+ answered, but not in valid HTTP: /),
    });
    expect(reply).toMatchObject({ detail: like(what) });
  });

  it('is not one if bytes follow a complete body', async () => {
    const answer = raw(`${head(length)}${BODY}<!-- served from cache -->`);
    expect(await ask(answer)).toMatchObject({ kind: 'answered' });
  });
});

describe('incomplete responses', () => {
  it.each([
    ['a closed connection', raw('', 'end'), 'network'],
    ['truncated headers', raw('HTTP/1.1 200 OK\r\ncontent-le'), 'network'],
    ['a body shorter than announced', raw(head('content-length: 500') + BODY), 'cut-off'],
    ['a body reset in the middle', raw(head('content-length: 500') + BODY, 'reset'), 'cut-off'],
    ['chunks without end', raw(`${head('transfer-encoding: chunked')}5\r\n{"sta\r\n`), 'cut-off'],
  ])('are unavailable, not unreadable: %s', async (_, answer, reason) => {
    expect(await ask(answer)).toMatchObject(failed(reason));
  });

  it.each([
    ['', /closed the connection without an answer/],
    ['HTTP/1.1 200 OK\r\ncontent-le', /closed the connection in the middle of the headers/],
  ])('say how far they got: %j', async (bytes, detail) => {
    expect(await ask(raw(bytes))).toMatchObject({ detail: like(detail) });
  });

  it('name the host if it can’t be reached', async () => {
    const reply = await client(new URL('http://127.0.0.1:1')).account();
    expect(reply).toMatchObject({
      ...failed('network'),
      httpStatus: null,
      detail: like('127.0.0.1:1'),
    });
    expect(JSON.stringify(reply)).not.toContain(KEY);
  });
});

describe('a timeout', () => {
  const [headers, body] = [{ headersTimeoutMs: 50 }, { bodyTimeoutMs: 50 }];

  it.each([
    ['no headers arrive', raw('', 'stall'), headers],
    ['the headers stop half-way', raw('HTTP/1.1 200 OK\r\nx', 'stall'), headers],
    ['the body never begins', raw(head('content-length: 9'), 'stall'), body],
    ['the body stops half-way', raw(`${head('content-length: 9')}{"a`, 'stall'), body],
  ])('ends the request if %s', async (_, answer, options) => {
    const server = await startServer(answer);
    expect(await client(server.url, options).account()).toMatchObject(failed('timeout'));
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });

  it('ends the request if the body trickles in forever', async () => {
    const server = await startServer({
      raw: (socket) => {
        socket.write(head('transfer-encoding: chunked'));
        const drip = setInterval(() => socket.write('1\r\n \r\n'), 10);
        socket.on('close', () => clearInterval(drip));
      },
    });
    const reply = await client(server.url, { replyTimeoutMs: 200 }).account();
    expect(reply).toMatchObject(failed('timeout'));
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });
});

describe('an abort', () => {
  const reason = new Error('the user has gone');

  it.each([
    ['for the headers', raw('', 'stall')],
    ['for the body', raw(`${head('content-length: 9')}{"a`, 'stall')],
    ['for a compressed body', raw(head('content-encoding: gzip'), 'stall')],
  ])('ends the wait %s with its reason and closes the connection', async (_, answer) => {
    const server = await startServer(answer);
    const abort = new AbortController();
    const reply = client(server.url).account({ signal: abort.signal });
    await vi.waitFor(() => expect(server.requests).toHaveLength(1));
    await sleep(20);
    abort.abort(reason);
    await expect(reply).rejects.toBe(reason);
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });

  it('before the call keeps it from being sent', async () => {
    const server = await startServer({ body: BODY });
    const reply = client(server.url).account({ signal: AbortSignal.abort(reason) });
    await expect(reply).rejects.toBe(reason);
    expect(server.connections()).toBe(0);
  });

  it('ends the pause before the next attempt', async () => {
    const server = await startServer({ status: 500 });
    const abort = new AbortController();
    const retry = { attempts: 2, baseMs: 3_600_000, maxMs: 3_600_000 };
    const marketplace = client(server.url, { retry }, { random: () => 1 });
    const reply = marketplace.account({ signal: abort.signal });
    await vi.waitFor(() => expect(server.requests).toHaveLength(1));
    await sleep(20);
    abort.abort(reason);
    await expect(reply).rejects.toBe(reason);
  });
});

describe('https', () => {
  const certificate = selfSigned(['shop.test']);
  const address = new URL('https://shop.test');

  it('works with a server whose certificate is trusted', async () => {
    const { port } = await startServer({ body: BODY }, certificate);
    const connect = connectTo({ 'https://shop.test': { port, ca: certificate.cert } });
    expect(await client(address, {}, { connect }).account()).toMatchObject({ kind: 'answered' });
  });

  it('sends nothing to a server whose certificate is not trusted', async () => {
    const server = await startServer({ body: BODY }, certificate);
    const connect = connectTo({ 'https://shop.test': { port: server.port } });
    const reply = await client(address, {}, { connect }).account();
    expect(reply).toMatchObject({ ...failed('network'), detail: like('SELF_SIGNED') });
    expect(server.requests).toHaveLength(0);
  });

  it('to a port of plain http fails with an error that says so', async () => {
    const server = await startServer({ body: BODY });
    const reply = await client(new URL(`https://127.0.0.1:${server.port}`)).account();
    expect(reply).toMatchObject({
      ...failed('plain-http'),
      detail: like('this port speaks plain http'),
    });
  });
});

describe('a proxy of the environment', () => {
  /** A proxy that passes everything on to a server on this machine, and says where it should have gone. */
  async function startProxy(port: number, refusal?: string) {
    const targets: string[] = [];
    const proxy = createServer((request, response) => {
      targets.push(new URL(request.url ?? '').host);
      const { method, headers } = request;
      const { pathname, search } = new URL(request.url ?? '');
      const onward = forward({ port, method, headers, path: pathname + search }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      request.pipe(onward);
    });
    proxy.on('connect', ({ url = '' }, socket) => {
      targets.push(url);
      if (refusal !== undefined) return void socket.end(`HTTP/1.1 ${refusal}\r\n\r\n`);
      const onward = netConnect(port, '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      proxy.closeAllConnections();
      proxy.close();
    });
    return { targets, url: `http://me:pa55@127.0.0.1:${(proxy.address() as AddressInfo).port}` };
  }

  afterEach(() => void vi.unstubAllEnvs());

  it('is used, except for hosts of NO_PROXY', async () => {
    const server = await startServer({ body: BODY });
    const proxy = await startProxy(server.port);
    vi.stubEnv('HTTP_PROXY', proxy.url);
    vi.stubEnv('NO_PROXY', '127.0.0.1');
    const there = client(new URL('http://shop.test'), { allowPlainHttp: true });
    expect(await there.account()).toMatchObject({ kind: 'answered' });
    expect(proxy.targets).toEqual([expect.stringMatching(/^shop\.test(?::80)?$/)]);
    expect(await client(server.url).account()).toMatchObject({ kind: 'answered' });
    expect(proxy.targets).toHaveLength(1);
  });

  it('that refuses is named, without its password', async () => {
    const proxy = await startProxy(1, '407 Proxy Authentication Required');
    vi.stubEnv('HTTPS_PROXY', proxy.url);
    const reply = await client(new URL('https://shop.test')).account();
    expect(reply).toMatchObject({
      ...failed('network'),
      detail: like(/^the proxy .* \(HTTP 407\)$/),
    });
    expect(JSON.stringify(reply)).not.toContain('pa55');
  });
});
