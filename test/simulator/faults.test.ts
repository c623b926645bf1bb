import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { Fault } from '../../src/simulator/index.js';
import { call, KEY, listed, seller, started } from './support.js';

test('a fault applies to the given number of requests of its operation, and to no others', async () => {
  const simulator = await started();
  simulator.faults.next('list', { kind: 'server-error' }, 2);
  simulator.faults.next('any', { kind: 'maintenance' });
  expect((await call(simulator, 'account')).status).toBe(503);
  const statuses = [];
  for (let n = 0; n < 3; n++) statuses.push((await call(simulator, 'list')).status);
  expect(statuses).toEqual([500, 500, 200]);
  simulator.faults.always('account', { kind: 'html' });
  for (let n = 0; n < 3; n++) expect((await call(simulator, 'account')).text).toContain('<h1>');
  expect((await call(simulator, 'list')).status).toBe(200);
  simulator.faults.clear();
  expect((await call(simulator, 'account')).json()['status']).toBe('success');
});

const html = { 'content-type': 'text/html; charset=UTF-8' };
const challenge = { 'cf-mitigated': 'challenge' };
const PAGE = /^<!DOCTYPE/;
const DEBUG = /"message":"SQLSTATE.*"exception".*"trace":\[/;
const WARNED = /^<br \/>\n<b>Warning[\s\S]*\{"status":"error"\}[\s\S]*\n\{"status":"success"/;

test.each<[Fault, status: number, headers: Record<string, string>, body: RegExp]>([
  [{ kind: 'rate-limited', retryAfter: 7 }, 429, { 'retry-after': '7' }, /^\{"message":"Too Many/],
  [{ kind: 'server-error' }, 500, {}, DEBUG],
  [{ kind: 'maintenance', retryAfter: 120 }, 503, { 'retry-after': '120' }, /Service Unavailable/],
  [{ kind: 'switched-off', body: 'json' }, 404, {}, /^\{"message":""\}$/],
  [{ kind: 'challenge' }, 403, challenge, /Just a moment/],
  [{ kind: 'html' }, 200, html, PAGE],
  [{ kind: 'empty' }, 200, { 'content-length': '0' }, /^$/],
  [
    { kind: 'reply', status: 418, headers: { 'x-a': 'b' }, body: 'tea' },
    418,
    { 'x-a': 'b' },
    /^tea$/,
  ],
  [{ kind: 'key-refused' }, 404, {}, /"No items found"/],
  [{ kind: 'translated', language: 'de' }, 200, {}, /^\{"status":"Erfolg","items"/],
  [{ kind: 'prefix', text: 'bom' }, 200, {}, /^\uFEFF\{"status"/],
  [{ kind: 'prefix', text: 'php-warnings' }, 200, {}, WARNED],
  [{ kind: 'prefix', text: { raw: ")]}'" } }, 200, {}, /^\)\]\}'\{"status"/],
  [{ kind: 'slow', chunkBytes: 500, pauseMs: 1 }, 200, {}, /^\{"status":"success","items".*\}$/],
])('%j looks real (servers: outages), and applies once', async (fault, status, headers, body) => {
  const simulator = await started();
  simulator.faults.next('list', fault);
  const reply = await call(simulator, 'list');
  expect(reply).toMatchObject({ status, headers, complete: true });
  expect(reply.text).toMatch(body);
  expect(await listed(simulator)).toHaveLength(10);
});

test.each<[Fault, number, string]>([
  [{ kind: 'redirect', to: 'https', port: 8443 }, 302, 'https://shop.example:8443/api/items/all?'],
  [
    { kind: 'redirect', to: 'trailing-slash', status: 308 },
    308,
    'http://shop.example/api/items/all/?',
  ],
  [
    { kind: 'redirect', to: 'origin', origin: 'https://evil.example', status: 301 },
    301,
    'https://evil.example/api/items/all?',
  ],
])('%j keeps the query', async (fault, status, target) => {
  const simulator = await started();
  simulator.faults.next('any', fault);
  const reply = await call(simulator, 'list', {}, { headers: { host: 'shop.example' } });
  expect([reply.status, reply.headers.location]).toEqual([status, `${target}api_key=${KEY}`]);
  simulator.faults.next('any', { kind: 'redirect', to: 'home' });
  expect((await call(simulator, 'list')).headers.location).toBe(`${simulator.url}/`);
});

test.each(['account', 'list'] as const)('%s can be truncated in three ways', async (operation) => {
  const simulator = await started();
  const whole = await call(simulator, operation);
  const cuts = { destroy: false, short: false, clean: true } as const;
  for (const [how, complete] of Object.entries(cuts)) {
    simulator.faults.next('any', { kind: 'truncate', how: how as keyof typeof cuts, bytes: 100 });
    const reply = await call(simulator, operation);
    expect(reply.text).toBe(whole.text.slice(0, 100));
    expect(reply.complete).toBe(complete);
    expect(simulator.log.at(-1)?.bytesSent).toBe(100);
    if (how === 'short') expect(reply.headers['content-length']).toBe(`${whole.bytes.length}`);
    else expect(reply.headers['transfer-encoding']).toBe('chunked');
  }
});

test('bodies are compressed if the client accepts it, or if a fault demands it', async () => {
  const simulator = await started({ compression: 'auto' });
  const plain = await call(simulator, 'list');
  expect(plain.headers).not.toHaveProperty('content-encoding');
  const accept = (value: string) =>
    call(simulator, 'list', {}, { headers: { 'accept-encoding': value } });
  const gzip = await accept('gzip, deflate');
  expect(gzip.headers['content-encoding']).toBe('gzip');
  expect(gunzipSync(gzip.bytes).toString()).toBe(plain.text);
  const br = await accept('gzip, br;q=1');
  expect(br.headers['content-encoding']).toBe('br');
  expect(brotliDecompressSync(br.bytes).toString()).toBe(plain.text);
  simulator.faults.next('list', { kind: 'encoding', encoding: 'gzip' });
  expect((await accept('identity')).headers['content-encoding']).toBe('gzip');
});

test('the limit is for all operations and keys of an address together (servers: limits)', async () => {
  let now = 1_700_000_000_500;
  const other = seller({ key: 'other', username: 'bob' });
  const simulator = await started({
    requestsPerMinute: 3,
    sellers: [seller(), other],
    now: () => now,
  });
  const replies = [
    await call(simulator, 'account'),
    await call(simulator, 'list', { api_key: 'other' }),
    await call(simulator, 'item', { item_id: '1' }),
    await call(simulator, 'account'),
  ];
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 404, 429]);
  const remaining = replies.map(({ headers }) => headers['x-ratelimit-remaining']);
  expect([remaining.join(), replies[0]?.headers['x-ratelimit-limit']]).toEqual(['2,1,0,0', '3']);
  expect(replies[2]?.headers).not.toHaveProperty('retry-after');
  expect(replies[3]?.headers).toMatchObject({
    'retry-after': '60',
    'x-ratelimit-reset': '1700000061',
  });
  expect(replies[3]?.json()).toEqual({ message: 'Too Many Attempts.' });
  now += 60_000;
  expect((await call(simulator, 'account')).status).toBe(200);
});
