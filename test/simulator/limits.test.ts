import { expect, test } from 'vitest';
import { Limits } from '../../src/simulator/limits.js';
import { record } from '../../src/simulator/server.js';
import type { LogEntry } from '../../src/simulator/server.js';
import { call, seller, started } from './support.js';

test('the limit counts all operations and keys of an address together (field notes: limits)', async () => {
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
  expect(replies.map(({ headers }) => headers['x-ratelimit-remaining'])).toEqual([
    '2',
    '1',
    '0',
    '0',
  ]);
  expect(replies.map(({ headers }) => headers['x-ratelimit-limit'])).toEqual(['3', '3', '3', '3']);
  expect(replies[2]?.headers).not.toHaveProperty('retry-after');
  expect(replies[3]?.headers).toMatchObject({
    'retry-after': '60',
    'x-ratelimit-reset': '1700000061',
  });
  expect(replies[3]?.json()).toEqual({ message: 'Too Many Attempts.' });
  now += 60_000;
  expect((await call(simulator, 'account')).status).toBe(200);
});

test('a 429 may be HTML with an HTTP date, which never invites too early', async () => {
  const now = 1_700_000_000_500;
  const limit = { retryAfter: 'date', body: 'html', windowMs: 10_000 } as const;
  const simulator = await started({ requestsPerMinute: 1, limit, now: () => now });
  await call(simulator, 'account');
  const got = await call(simulator, 'account');
  expect(got.status).toBe(429);
  expect(Date.parse(got.headers['retry-after'] ?? '')).toBe(1_700_000_011_000);
  expect(got.text).toMatch(/^<!DOCTYPE html>/);
});

test('others behind the same address use up the same budget', async () => {
  const simulator = await started({ requestsPerMinute: 60 });
  simulator.limits.spend(59);
  expect((await call(simulator, 'account')).headers['x-ratelimit-remaining']).toBe('0');
  expect((await call(simulator, 'account')).status).toBe(429);
  simulator.limits.set({ requestsPerMinute: 0 });
  const unlimited = await call(simulator, 'account');
  expect(unlimited.status).toBe(200);
  expect(unlimited.headers).not.toHaveProperty('x-ratelimit-limit');
});

test('every address has a window of its own, open from its first request', () => {
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

test('the log keeps the last 100,000 requests and no more, or a long bench would fill memory', () => {
  const log: LogEntry[] = [];
  for (let at = 1; at <= 250_000; at++) record(log, { at } as LogEntry);
  expect(log.length).toBeGreaterThanOrEqual(100_000);
  expect(log.length).toBeLessThan(110_000);
  expect(log.at(-1)?.at).toBe(250_000);
  expect(log[0]?.at).toBe(250_000 - log.length + 1);
});
