import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import type { MarketplaceOptions } from '../../src/marketplace/types.js';
import { selfSigned } from '../support/certificate.js';
import { startServer, type Answer } from '../support/http-server.js';
import { accountBody, client, connectTo, head, KEY, raw, like } from './support.js';

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
const failed = (reason: string) => ({ kind: 'unavailable', reason });

describe('compressed responses', () => {
  it.each([
    ['gzip', gzipSync(BODY)],
    ['GZIP', gzipSync(BODY)],
    ['x-gzip', gzipSync(BODY)],
    ['br', brotliCompressSync(BODY)],
    ['identity', Buffer.from(BODY)],
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
    ['gzip', Buffer.from(BODY)],
  ])('are cut off if they end early or are damaged (%s)', async (encoding, body) => {
    expect(await ask(encoded(encoding, body))).toMatchObject(failed('cut-off'));
  });

  it('are unreadable in an encoding that was not requested', async () => {
    expect(await ask(encoded('zstd', Buffer.from(BODY)))).toMatchObject({ kind: 'unreadable' });
  });

  it.each([
    ['gzip', gzipSync(Buffer.alloc(64 * 1024 * 1024))],
    ['br', brotliCompressSync(Buffer.alloc(64 * 1024 * 1024))],
  ])('can’t exceed the size limit when decompressed (%s)', async (encoding, body) => {
    const reply = await ask(encoded(encoding, body), { maxReplyBytes: 1024 * 1024 });
    expect(reply).toMatchObject({ kind: 'unreadable', detail: like(/larger than/) });
  });
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

  it('is judged like an uncompressed one', async () => {
    const body = gzipSync('{"status":"error","msg":"Invalid request"}');
    const answer = { status: 401, headers: { 'content-encoding': 'gzip' }, body };
    expect(await ask(answer)).toMatchObject({ kind: 'refused', message: 'Invalid request' });
  });
});

describe('the size of a response', () => {
  it('is limited to the byte', async () => {
    const size = Buffer.byteLength(BODY);
    expect(await ask({ body: BODY }, { maxReplyBytes: size })).toMatchObject({ kind: 'answered' });
    expect(await ask({ body: BODY }, { maxReplyBytes: size - 1 })).toMatchObject({
      kind: 'unreadable',
    });
  });

  it('is not limited for an error, of which only the beginning is read', async () => {
    const body = '<html>'.padEnd(3 * 1024 * 1024, ' ');
    expect(await ask({ status: 404, body })).toMatchObject(failed('switched-off'));
  });

  it('is limited for headers too', async () => {
    const answer = raw(head(`x: ${'x'.repeat(100_000)}`, 'content-length: 0'));
    expect(await ask(answer)).toMatchObject(failed('network'));
  });
});

describe('incomplete responses', () => {
  it.each([
    ['a reset connection', raw('', 'reset'), 'network'],
    ['a closed connection', raw('', 'end'), 'network'],
    ['not HTTP', raw('hello\r\n\r\n'), 'network'],
    ['truncated headers', raw('HTTP/1.1 200 OK\r\ncontent-le'), 'network'],
    ['a body shorter than announced', raw(head('content-length: 500') + BODY), 'cut-off'],
    ['a body reset in the middle', raw(head('content-length: 500') + BODY, 'reset'), 'cut-off'],
    ['chunks without end', raw(`${head('transfer-encoding: chunked')}5\r\n{"sta\r\n`), 'cut-off'],
    ['a truncated chunk', raw(`${head('transfer-encoding: chunked')}ff\r\n{"sta`), 'cut-off'],
  ])('are unavailable, not unreadable: %s', async (_, answer, reason) => {
    expect(await ask(answer)).toMatchObject(failed(reason));
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
