import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { Fault } from '../../src/simulator/index.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, call, listed, seller, started } from './support.js';

test('a fault meets as many requests of its operation as it is told to, and no others', async () => {
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

const replies: [string, Fault, number, Record<string, unknown>, RegExp][] = [
  [
    '429 with seconds',
    { kind: 'rate-limited', retryAfter: 7 },
    429,
    { 'retry-after': '7' },
    /^\{"message":"Too Many Attempts\."\}$/,
  ],
  [
    '429 with a date',
    { kind: 'rate-limited', retryAfter: 7, form: 'date', body: 'html' },
    429,
    { 'retry-after': expect.stringMatching(/GMT$/) },
    /^<!DOCTYPE/,
  ],
  [
    'a Laravel 500',
    { kind: 'server-error' },
    500,
    {},
    /"message":"SQLSTATE.*"exception".*"trace":\[/,
  ],
  ['a 502 page', { kind: 'server-error', status: 502, body: 'html' }, 502, {}, /^<!DOCTYPE/],
  [
    'maintenance',
    { kind: 'maintenance', retryAfter: 120 },
    503,
    { 'retry-after': '120' },
    /Service Unavailable/,
  ],
  [
    'maintenance by redirect',
    { kind: 'maintenance-redirect' },
    302,
    { location: expect.stringMatching(/\/maintenance$/) },
    /Redirecting/,
  ],
  [
    'switched off, HTML',
    { kind: 'switched-off', body: 'html' },
    404,
    { 'content-type': expect.stringMatching(/html/) },
    /Not Found/,
  ],
  ['switched off, JSON', { kind: 'switched-off', body: 'json' }, 404, {}, /^\{"message":""\}$/],
  ['a challenge', { kind: 'challenge' }, 403, { 'cf-mitigated': 'challenge' }, /Just a moment/],
  [
    'a challenge at 503',
    { kind: 'challenge', status: 503 },
    503,
    { 'cf-mitigated': 'challenge' },
    /^<!DOCTYPE/,
  ],
  [
    'HTML at 200',
    { kind: 'html' },
    200,
    { 'content-type': expect.stringMatching(/html/) },
    /^<!DOCTYPE/,
  ],
  ['an empty body', { kind: 'empty' }, 200, { 'content-length': '0' }, /^$/],
  ['an array', { kind: 'wrong-type', json: 'array' }, 200, {}, /^\[\]$/],
  ['a string', { kind: 'wrong-type', json: 'string' }, 200, {}, /^"success"$/],
  ['null', { kind: 'wrong-type', json: 'null' }, 200, {}, /^null$/],
  [
    'any reply',
    { kind: 'reply', status: 418, headers: { 'x-a': 'b' }, body: 'tea' },
    418,
    { 'x-a': 'b' },
    /^tea$/,
  ],
  ['a refused key', { kind: 'key-refused' }, 404, {}, /"No items found"/],
  ['a BOM', { kind: 'prefix', text: 'bom' }, 200, {}, /^\uFEFF\{"status"/],
  ['white space', { kind: 'prefix', text: 'whitespace' }, 200, {}, /^\s+\{"status"/],
  [
    'PHP warnings with braces',
    { kind: 'prefix', text: 'php-warnings' },
    200,
    {},
    /^<br \/>\n<b>Warning[\s\S]*\{"status":"error"\}[\s\S]*\n\{"status":"success"/,
  ],
  ['own text before', { kind: 'prefix', text: { raw: ")]}'" } }, 200, {}, /^\)\]\}'\{"status"/],
];

test.each(replies)(
  'the fault "%s" is sent as the field notes describe it',
  async (_, fault, status, headers, body) => {
    const simulator = await started();
    simulator.faults.next('list', fault);
    const got = await call(simulator, 'list');
    expect(got.status).toBe(status);
    expect(got.headers).toMatchObject(headers);
    expect(got.text).toMatch(body);
    expect(got.complete).toBe(true);
    expect(await listed(simulator)).toHaveLength(10);
  },
);

test('a 429 without a time to come back leaves the client to guess', async () => {
  const simulator = await started();
  simulator.faults.next('any', { kind: 'rate-limited' });
  expect((await call(simulator, 'account')).headers).not.toHaveProperty('retry-after');
});

test('an error body may echo the URL and the input with the key, for redaction to prove itself', async () => {
  const simulator = await started();
  simulator.faults.next('any', { kind: 'server-error', echo: true });
  expect((await call(simulator, 'account')).json()['url']).toContain(`api_key=${KEY}`);
  simulator.faults.next('any', { kind: 'server-error', echo: true, body: 'html' });
  const got = await call(simulator, 'validate', { purchase_code: 'c' });
  expect(got.text).toContain(`"api_key":"${KEY}"`);
});

test('a translated reply speaks another language once', async () => {
  const simulator = await started();
  simulator.faults.next('list', { kind: 'translated', language: 'de' });
  expect((await call(simulator, 'list')).text).toMatch(/^\{"status":"Erfolg","items"/);
  expect((await call(simulator, 'list')).text).toMatch(/^\{"status":"success","items"/);
});

test.each(['account', 'list'] as const)(
  '%s can be cut off after so many bytes in three ways',
  async (operation) => {
    const simulator = await started();
    const whole = await call(simulator, operation);
    const cuts = { destroy: false, short: false, clean: true } as const;
    for (const [how, complete] of Object.entries(cuts)) {
      simulator.faults.next('any', { kind: 'truncate', how: how as keyof typeof cuts, bytes: 100 });
      const got = await call(simulator, operation);
      expect(got.text).toBe(whole.text.slice(0, 100));
      expect(got.complete).toBe(complete);
      expect(simulator.log.at(-1)?.bytesSent).toBe(100);
      if (how === 'short') expect(got.headers['content-length']).toBe(String(whole.bytes.length));
      else expect(got.headers['transfer-encoding']).toBe('chunked');
    }
  },
);

test('a list can be cut off at any tenth of its bytes, of which it knows the number', async () => {
  const catalogue = seededCatalogue({ seed: 1, count: 300 });
  const simulator = await started({ sellers: [seller({ catalogue })] });
  const whole = (await call(simulator, 'list')).bytes;
  for (let tenth = 0; tenth < 10; tenth++) {
    simulator.faults.next('list', { kind: 'truncate', how: 'clean', fraction: tenth / 10 });
    const got = await call(simulator, 'list');
    expect(got.bytes.equals(whole.subarray(0, Math.floor((whole.length * tenth) / 10)))).toBe(true);
  }
});

test('a connection can be reset before the headers and in the middle of the body', async () => {
  const simulator = await started();
  simulator.faults.next('any', { kind: 'reset' });
  await expect(call(simulator, 'list')).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(simulator.log[0]).toMatchObject({ status: 0, finished: false });
  simulator.faults.next('any', { kind: 'reset', afterBytes: 50 });
  const cut = await call(simulator, 'list').catch((error: unknown) => error);
  expect(cut).toSatisfy(
    (got: unknown) => got instanceof Error || !(got as { complete: boolean }).complete,
  );
  expect(simulator.log[1]).toMatchObject({ status: 200, bytesSent: 50, finished: false });
});

test('a slow body comes in pieces of the given size, whole in the end', async () => {
  const simulator = await started();
  const whole = await call(simulator, 'account');
  simulator.faults.next('any', { kind: 'slow', chunkBytes: 100, pauseMs: 1 });
  const got = await call(simulator, 'account');
  expect(got.text).toBe(whole.text);
});

test('a stalled answer comes late and well', async () => {
  const simulator = await started();
  simulator.faults.next('any', { kind: 'stall', ms: 20 });
  expect((await call(simulator, 'account')).status).toBe(200);
});

test('faults of one request add up: always and next together', async () => {
  const simulator = await started();
  simulator.faults.always('any', { kind: 'prefix', text: 'bom' });
  simulator.faults.next('list', { kind: 'translated', language: 'EN' });
  expect((await call(simulator, 'list')).text).toMatch(/^\uFEFF\{"status":"SUCCESS"/);
});

test('bodies are compressed as the client accepts and the server is set, and never otherwise', async () => {
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
