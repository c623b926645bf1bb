import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Budget, CallRecord, Priority } from '../../src/marketplace/types.js';
import { selfSigned } from '../support/certificate.js';
import { startServer, type Answer } from '../support/http-server.js';
import { accountBody, client, connectTo, KEY, PURCHASE, wireItem, like } from './support.js';

const OK: Answer = { body: accountBody() };
const VALID: Answer = { body: JSON.stringify({ status: 'success', data: { purchase: PURCHASE } }) };
const moved = (location: string, status = 301): Answer => ({ status, headers: { location } });

/** Path and query, without the random parameter. */
function withoutRandom(url: URL | undefined): string {
  return `${url?.pathname}${url?.search.replace(/[?&]_=\w+$/, '')}`;
}

/** A server that redirects to the same path with a trailing slash and answers there. */
const startSlashServer = (answer: Answer = OK) =>
  startServer(({ url }) => (url.pathname.endsWith('/') ? answer : moved(`${url.pathname}/`)));

/** A budget that records its calls. */
function recordingBudget(): Budget & { acquired: Priority[]; pauses: number[] } {
  const acquired: Priority[] = [];
  const pauses: number[] = [];
  return {
    acquired,
    pauses,
    acquire: (priority) => Promise.resolve(void acquired.push(priority)),
    pauseUntil: (until) => Promise.resolve(void pauses.push(until)),
  };
}

describe('the four operations', () => {
  it('send the documented requests, including the key', async () => {
    const server = await startServer(OK);
    const marketplace = client(server.url);
    await marketplace.account();
    await marketplace.items();
    await marketplace.item(7);
    await marketplace.validate('C0DE-1');
    const sent = server.requests.map(({ method, url, body }) => [method, withoutRandom(url), body]);
    expect(sent).toEqual([
      ['GET', `/api/account/details?api_key=${KEY}`, ''],
      ['GET', `/api/items/all?api_key=${KEY}`, ''],
      ['GET', `/api/items/item?item_id=7&api_key=${KEY}`, ''],
      ['POST', '/api/purchases/validation', `purchase_code=C0DE-1&api_key=${KEY}`],
    ]);
    expect(server.requests[0]?.headers).toMatchObject({ accept: 'application/json' });
  });

  it('append their path to that of the base address', async () => {
    const server = await startServer(OK);
    for (const path of ['/shop', '/a/b//']) await client(new URL(path, server.url)).account();
    const paths = server.requests.map(({ url }) => url.pathname);
    expect(paths).toEqual(['/shop/api/account/details', '/a/b/api/account/details']);
  });

  it('return decoded data together with the raw record and the hash of the whole body', async () => {
    const body = JSON.stringify({ status: 'success', item: { ...wireItem(7), fork: 1 } });
    const server = await startServer({ body });
    expect(await client(server.url).item(7)).toMatchObject({
      kind: 'answered',
      httpStatus: 200,
      data: {
        value: { id: 7, priceRegular: '19.90' },
        extra: { fork: 1 },
        raw: { id: 7, fork: 1 },
        sha256: hash('sha256', body),
      },
    });
  });

  it('throw once the client is closed', async () => {
    const marketplace = client(new URL('http://127.0.0.1:1'));
    await marketplace.close();
    await expect(marketplace.account()).rejects.toThrow(/closed/);
  });
});

describe('partial content', () => {
  const body = JSON.stringify({ status: 'success', items: [wireItem(1)] });

  it.each<[status: number, range: string | null]>([
    [206, null],
    [200, 'bytes 0-99/250'],
    [200, 'items 25-49/50'],
    [200, 'items */50'],
  ])('is never taken for a list: HTTP %i, Content-Range %j', async (status, range) => {
    const headers: Record<string, string> = range === null ? {} : { 'content-range': range };
    const server = await startServer({ status, headers, body });
    expect(await client(server.url).items()).toMatchObject({
      kind: 'unavailable',
      reason: 'cut-off',
      httpStatus: status,
      detail: like('only part'),
    });
  });

  it.each(['items 0-24/25', 'items */0', 'items 0-0/0'])(
    'is complete if the range covers everything: %s',
    async (range) => {
      const server = await startServer({ headers: { 'content-range': range }, body });
      expect(await client(server.url).items()).toMatchObject({ kind: 'answered' });
    },
  );
});

describe('redirects', () => {
  const certificate = selfSigned(['shop.test', 'www.shop.test']);

  it.each([302, 308])(
    'keep method and body over HTTP %i to https and www, and are remembered',
    async (status) => {
      const path = '/api/purchases/validation';
      const plain = await startServer(moved(`https://www.shop.test${path}?x=1`, status));
      const secure = await startServer(VALID, certificate);
      const connect = connectTo({
        'http://shop.test': { port: plain.port },
        'https://www.shop.test': { port: secure.port, ca: certificate.cert },
      });
      const marketplace = client(
        new URL('http://shop.test'),
        { allowPlainHttp: true },
        { connect },
      );
      expect(await marketplace.validate('C0DE-1')).toMatchObject({ kind: 'answered' });
      expect(await marketplace.validate('C0DE-1')).toMatchObject({ kind: 'answered' });
      expect(plain.requests).toHaveLength(1);
      const carried = { method: 'POST', body: `purchase_code=C0DE-1&api_key=${KEY}` };
      expect(secure.requests).toMatchObject([carried, carried]);
      expect(withoutRandom(secure.requests[0]?.url)).toBe(path);
      expect(marketplace.host).toBe('shop.test');
    },
  );

  it.each([
    [{ status: 503 }, 1],
    [{ status: 401, body: '{"status":"error","msg":"Invalid request"}' }, 1],
    [{ status: 404, body: '{"status":"error","msg":"Item Not Found"}' }, 0],
    [{ body: accountBody() }, 0],
  ])(
    'are remembered only if the API answers there, not an outage: after %j the old address gets %i more requests',
    async (answer: Answer, more) => {
      const server = await startSlashServer(answer);
      const marketplace = client(server.url);
      await marketplace.item(7);
      await marketplace.item(7);
      const old = server.requests.filter(({ url }) => !url.pathname.endsWith('/'));
      expect(old).toHaveLength(1 + more);
    },
  );

  it.each([
    ['another host', 'https://evil.test/api/account/details'],
    ['plain http', 'http://shop.test/api/account/details'],
    ['a host named after the key', `https://${KEY}.evil.test/?${KEY}`],
  ])('to %s are not followed, and the key is neither sent nor shown', async (_, location) => {
    const secure = await startServer(moved(location), certificate);
    const requested: string[] = [];
    const connect = connectTo(
      { 'https://shop.test': { port: secure.port, ca: certificate.cert } },
      requested,
    );
    const reply = await client(new URL('https://shop.test'), {}, { connect }).account();
    expect(reply).toMatchObject({ kind: 'unavailable', reason: 'redirect', httpStatus: 301 });
    expect(new Set(requested)).toEqual(new Set(['https://shop.test']));
    expect(JSON.stringify(reply)).not.toContain(KEY);
  });

  it('that form a loop are given up', async () => {
    const server = await startServer(({ url }) =>
      moved(url.pathname.endsWith('/') ? url.pathname.slice(0, -1) : `${url.pathname}/`),
    );
    const reply = await client(server.url).account();
    expect(reply).toMatchObject({ reason: 'redirect', detail: like(/loop/) });
    // Once more without the random parameter.
    expect(server.requests).toHaveLength(4);
  });

  it('with HTTP 304 are not followed', async () => {
    const server = await startServer({
      status: 304,
      headers: { location: '/api/account/details/' },
    });
    expect(await client(server.url).account()).toMatchObject({ reason: 'redirect' });
  });

  it('cost one request each from the budget, and are counted', async () => {
    const server = await startSlashServer();
    const budget = recordingBudget();
    const calls: CallRecord[] = [];
    const marketplace = client(server.url, { budget, onCall: (call) => calls.push(call) });
    await marketplace.account();
    expect(budget.acquired).toEqual(['mirror', 'mirror']);
    const { origin } = server.url;
    expect(calls).toMatchObject([
      { redirects: 1, attempt: 1, outcome: 'answered', server: { origin } },
    ]);
  });
});

describe('the wait for the budget', () => {
  it('is reported apart from the duration of the call, also for redirects', async () => {
    const server = await startSlashServer();
    let waitedMs = 0;
    const acquire = async (): Promise<void> => {
      const from = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 200));
      waitedMs += performance.now() - from;
    };
    const budget = { acquire, pauseUntil: () => Promise.resolve() };
    const calls: CallRecord[] = [];
    const from = performance.now();
    await client(server.url, { budget, onCall: (call) => calls.push(call) }).account();
    const tookMs = performance.now() - from;
    expect(calls[0]?.waitedMs).toBeGreaterThanOrEqual(waitedMs);
    expect(calls[0]?.durationMs).toBeGreaterThan(0);
    expect(calls[0]?.durationMs).toBeLessThanOrEqual(tookMs - waitedMs);
  });
});

describe('a retry', () => {
  const retry = { attempts: 4, baseMs: 100, maxMs: 60_000 };

  it('follows transient failures, with growing pauses, and every attempt is reported', async () => {
    const server = await startServer([
      { status: 500 },
      { status: 502 },
      { raw: (socket) => socket.resetAndDestroy() },
      VALID,
    ]);
    const pauses: number[] = [];
    const calls: CallRecord[] = [];
    const budget = recordingBudget();
    const marketplace = client(
      server.url,
      { retry, budget, onCall: (call) => calls.push(call) },
      { random: () => 1, sleep: (ms) => Promise.resolve(void pauses.push(ms)) },
    );
    expect(await marketplace.validate('C0DE-1')).toMatchObject({ kind: 'answered' });
    expect(pauses).toEqual([100, 200, 400]);
    expect(budget.acquired).toEqual(['audit', 'audit', 'audit', 'audit']);
    expect(calls).toMatchObject([
      { attempt: 1, outcome: 'unavailable', httpStatus: 500 },
      { attempt: 2, outcome: 'unavailable', httpStatus: 502 },
      { attempt: 3, outcome: 'unavailable', httpStatus: null },
      { attempt: 4, outcome: 'answered', httpStatus: 200 },
    ]);
    expect(JSON.stringify(calls)).not.toContain(KEY);
  });
});

describe('the budget', () => {
  const now = 1_700_000_000_000;

  const none = { 'x-ratelimit-remaining': '0' };
  const noneOf = (limit: string) => ({ ...none, 'x-ratelimit-limit': limit });

  it.each([
    [429, { 'retry-after': '7' }, undefined, 7_000],
    [429, {}, undefined, 60_000],
    [200, { ...none, 'x-ratelimit-reset': '9' }, undefined, 9_000],
    // A limit has no window of two hours: the time is wrong.
    [200, { ...none, 'x-ratelimit-reset': '7200' }, undefined, 60_000],
    [429, { 'x-ratelimit-reset': '7200' }, undefined, 7_200_000],
    [301, { ...none, location: 'https://evil.test' }, undefined, 60_000],
    [200, { 'x-ratelimit-remaining': '10' }, undefined, null],
    // An evenly spaced budget uses up the window just as it ends, so it continues.
    [200, noneOf('60'), 60, null],
    [200, noneOf('30'), 60, 60_000],
    [200, noneOf('60'), 0, 60_000],
  ])(
    'after HTTP %i with %j, at %s requests a minute, pauses for %s ms',
    async (status, headers: Record<string, string>, requestsPerMinute, pauseMs) => {
      const server = await startServer({ status, headers, body: accountBody() });
      const recording = recordingBudget();
      const budget =
        requestsPerMinute === undefined ? recording : { ...recording, requestsPerMinute };
      await client(server.url, { budget }, { now: () => now }).account();
      // After a redirect, once more without the random parameter.
      expect([...new Set(recording.pauses)]).toEqual(pauseMs === null ? [] : [now + pauseMs]);
    },
  );

  it('gets the priority that the caller chose, else that of the operation', async () => {
    const server = await startServer(OK);
    const budget = recordingBudget();
    const marketplace = client(server.url, { budget });
    await marketplace.item(7);
    await marketplace.validate('x');
    await marketplace.item(7, { priority: 'audit' });
    expect(budget.acquired).toEqual(['mirror', 'audit', 'audit']);
  });
});
