import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { type Fault, type LogEntry, appendToLog } from '../../src/simulator/index.js';
import { Limits } from '../../src/simulator/limits.js';
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
  [{ kind: 'rate-limited', body: 'html' }, 429, html, PAGE],
  [{ kind: 'server-error' }, 500, {}, DEBUG],
  [{ kind: 'server-error', status: 502, body: 'html' }, 502, html, PAGE],
  [{ kind: 'maintenance', retryAfter: 120 }, 503, { 'retry-after': '120' }, /Service Unavailable/],
  [{ kind: 'maintenance-redirect' }, 302, html, /Redirecting/],
  [{ kind: 'switched-off', body: 'html' }, 404, html, /Not Found/],
  [{ kind: 'switched-off', body: 'json' }, 404, {}, /^\{"message":""\}$/],
  [{ kind: 'challenge' }, 403, challenge, /Just a moment/],
  [{ kind: 'challenge', status: 503 }, 503, challenge, PAGE],
  [{ kind: 'html' }, 200, html, PAGE],
  [{ kind: 'empty' }, 200, { 'content-length': '0' }, /^$/],
  [{ kind: 'wrong-type', json: 'array' }, 200, {}, /^\[\]$/],
  [{ kind: 'wrong-type', json: 'string' }, 200, {}, /^"success"$/],
  [{ kind: 'wrong-type', json: 'null' }, 200, {}, /^null$/],
  [
    { kind: 'reply', status: 418, headers: { 'x-a': 'b' }, body: 'tea' },
    418,
    { 'x-a': 'b' },
    /^tea$/,
  ],
  [{ kind: 'key-refused' }, 404, {}, /"No items found"/],
  [{ kind: 'translated', language: 'de' }, 200, {}, /^\{"status":"Erfolg","items"/],
  [{ kind: 'prefix', text: 'bom' }, 200, {}, /^\uFEFF\{"status"/],
  [{ kind: 'prefix', text: 'whitespace' }, 200, {}, /^\s+\{"status"/],
  [{ kind: 'prefix', text: 'php-warnings' }, 200, {}, WARNED],
  [{ kind: 'prefix', text: { raw: ")]}'" } }, 200, {}, /^\)\]\}'\{"status"/],
  [{ kind: 'stall', ms: 20 }, 200, {}, /^\{"status":"success","items"/],
  [{ kind: 'slow', chunkBytes: 500, pauseMs: 1 }, 200, {}, /^\{"status":"success","items".*\}$/],
])('%j looks real (servers: outages), and applies once', async (fault, status, headers, body) => {
  const simulator = await started();
  simulator.faults.next('list', fault);
  const reply = await call(simulator, 'list');
  expect(reply).toMatchObject({ status, headers, complete: true });
  expect(reply.text).toMatch(body);
  expect(await listed(simulator)).toHaveLength(10);
});

test('a 429 may have a Retry-After date, or no Retry-After', async () => {
  const simulator = await started();
  simulator.faults.next('any', { kind: 'rate-limited', retryAfter: 7, form: 'date' });
  expect((await call(simulator, 'account')).headers['retry-after']).toMatch(/GMT$/);
  simulator.faults.next('any', { kind: 'rate-limited' });
  expect((await call(simulator, 'account')).headers).not.toHaveProperty('retry-after');
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

test('an error may echo the URL and the input, including the key', async () => {
  const simulator = await started();
  simulator.faults.next('any', { kind: 'server-error', echo: true });
  expect((await call(simulator, 'account')).json()['url']).toContain(`api_key=${KEY}`);
  simulator.faults.next('any', { kind: 'server-error', echo: true, body: 'html' });
  const reply = await call(simulator, 'validate', { purchase_code: 'c' });
  expect(reply.text).toContain(`"api_key":"${KEY}"`);
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

test('a connection can be reset before the headers or within the body', async () => {
  const simulator = await started();
  simulator.faults.next('any', { kind: 'reset' });
  await expect(call(simulator, 'list')).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(simulator.log[0]).toMatchObject({ status: 0, finished: false });
  simulator.faults.next('any', { kind: 'reset', afterBytes: 50 });
  const isComplete = await call(simulator, 'list').then(
    ({ complete }) => complete,
    () => false,
  );
  expect(isComplete).toBe(false);
  expect(simulator.log[1]).toMatchObject({ status: 200, bytesSent: 50, finished: false });
});

test('`always` and `next` faults combine', async () => {
  const simulator = await started();
  simulator.faults.always('any', { kind: 'prefix', text: 'bom' });
  simulator.faults.next('list', { kind: 'translated', language: 'EN' });
  expect((await call(simulator, 'list')).text).toMatch(/^\uFEFF\{"status":"SUCCESS"/);
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

test('a 429 may be HTML with an HTTP date, which is rounded up', async () => {
  const now = 1_700_000_000_500;
  const limit = { retryAfter: 'date', body: 'html', windowMs: 10_000 } as const;
  const simulator = await started({ requestsPerMinute: 1, limit, now: () => now });
  await call(simulator, 'account');
  const reply = await call(simulator, 'account');
  expect(reply.status).toBe(429);
  expect(Date.parse(reply.headers['retry-after'] ?? '')).toBe(1_700_000_011_000);
  expect(reply.text).toMatch(/^<!DOCTYPE html>/);
});

test('other clients behind the same address use up the same limit', async () => {
  const simulator = await started({ requestsPerMinute: 60 });
  simulator.limits.spend(59);
  expect((await call(simulator, 'account')).headers['x-ratelimit-remaining']).toBe('0');
  expect((await call(simulator, 'account')).status).toBe(429);
  simulator.limits.set({ requestsPerMinute: 0 });
  const unlimited = await call(simulator, 'account');
  expect(unlimited.status).toBe(200);
  expect(unlimited.headers).not.toHaveProperty('x-ratelimit-limit');
});

test('each address has its own window, which begins with its first request', () => {
  let now = 0;
  const limits = new Limits({ requestsPerMinute: 1 }, () => now);
  expect(limits.take('a').limited).toBeNull();
  now = 30_000;
  expect(limits.take('b').limited).toBeNull();
  expect(limits.take('a')).toMatchObject({ limited: 'json', headers: { 'Retry-After': '30' } });
  now = 60_000;
  expect(limits.take('a').limited).toBeNull();
  expect(limits.take('b').limited).toBe('json');
  limits.reset();
  expect(limits.take('b').limited).toBeNull();
});

test('the log keeps about the last 100,000 requests', () => {
  const log: LogEntry[] = [];
  for (let at = 1; at <= 250_000; at++) appendToLog(log, { at } as LogEntry);
  expect(log.length).toBeGreaterThanOrEqual(100_000);
  expect(log.length).toBeLessThan(110_000);
  expect(log.at(-1)?.at).toBe(250_000);
  expect(log[0]?.at).toBe(250_000 - log.length + 1);
});
