import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { Marketplace } from '../../src/index.js';
import { startServer, type Answer, type Recorded } from '../support/http-server.js';
import { accountBody, client, like, listBody, PURCHASE, wireItem } from './support.js';

const CODE = PURCHASE.purchase_code;
const VALID = JSON.stringify({ status: 'success', data: { purchase: PURCHASE } });
const BODIES: Readonly<Record<string, string>> = {
  '/api/account/details': accountBody(),
  '/api/items/all': listBody(2),
  '/api/items/item': JSON.stringify({ status: 'success', item: wireItem(7) }),
  '/api/purchases/validation': VALID,
};
const usual = ({ url }: Recorded): Answer => ({ body: BODIES[url.pathname] ?? '' });

const CALLS: readonly [string, (market: Marketplace) => Promise<{ readonly kind: string }>][] = [
  ['account', (market) => market.account()],
  ['list', (market) => market.items()],
  ['item', (market) => market.item(7)],
  ['validation', (market) => market.validate(CODE)],
];

describe('the random parameter', () => {
  it.each(['default', 'query', 'json'] as const)(
    'is in the query of every call, and differs each time, so that no cache answers (%s)',
    async (placement) => {
      const server = await startServer(usual);
      const market = client(server.url, { carriage: { placement, keyHeader: null } });
      for (const [, call] of [...CALLS, ...CALLS]) {
        expect(await call(market)).toMatchObject({ kind: 'answered' });
      }
      const values = server.requests.map(({ url }) => url.searchParams.get('_') ?? '');
      expect(values.every((value) => /^[0-9a-f]{32}$/.test(value))).toBe(true);
      expect(new Set(values).size).toBe(8);
    },
  );

  it('never brings key or code into the address of a validation', async () => {
    const server = await startServer(usual);
    await client(server.url).validate(CODE);
    expect(server.requests[0]?.url.search).toMatch(/^\?_=[0-9a-f]+$/);
  });

  const bare = ({ url }: Recorded): boolean => !url.searchParams.has('_');
  const toHome: Answer = { status: 302, headers: { location: '/' } };
  const toItself: Answer = { status: 301, headers: { location: '/api/account/details' } };
  const keyMissing = '{"status":"error","msg":"The api key field is required."}';

  it.each<[string, Answer]>([
    ['400', { status: 400, body: '{"message":"Bad Request"}' }],
    ['422', { status: 422, body: '{"message":"unknown parameter","errors":{"_":["no"]}}' }],
    ['a redirect to the home page', toHome],
    ['a redirect to the same address without it', toItself],
  ])(
    'is left out for a day if it gets %s, and the call without it succeeds',
    async (_, refusal) => {
      const server = await startServer((request) => (bare(request) ? usual(request) : refusal));
      const market = client(server.url);
      expect(await market.account()).toMatchObject({ kind: 'answered' });
      const before = server.requests.filter((request) => !bare(request)).length;
      expect(before).toBeGreaterThan(0);
      expect(await market.validate(CODE)).toMatchObject({ kind: 'answered' });
      expect(server.requests.filter((request) => !bare(request))).toHaveLength(before);
    },
  );

  it.each<[string, Answer]>([
    ['a denial', { status: 404, body: '{"status":"error","msg":"Invalid purchase code"}' }],
    [
      'a denial with 400',
      { status: 400, body: '{"status":"error","msg":"Invalid purchase code"}' },
    ],
    ['401', { status: 401, body: '{"status":"error","msg":"Invalid request"}' }],
    ['a refusal of the key with 400', { status: 400, body: keyMissing }],
    ['500', { status: 500 }],
  ])('stays after %s, whatever a cache answers without it', async (_, refusal) => {
    const server = await startServer((request) => (bare(request) ? usual(request) : refusal));
    const market = client(server.url);
    for (let time = 0; time < 3; time++) {
      expect(await market.validate(CODE)).not.toMatchObject({ kind: 'answered' });
    }
    expect(server.requests.filter(bare)).toEqual([]);
  });

  it('stays if the call without it fails as well, and is not tried without it again at once', async () => {
    const server = await startServer({ status: 400, body: '{"message":"Bad Request"}' });
    const market = client(server.url);
    for (let time = 0; time < 3; time++) expect((await market.account()).kind).toBe('unreadable');
    expect(server.requests.map(bare)).toEqual([false, true, false, false]);
  });

  it('costs one more request of the budget when it is tried without', async () => {
    let acquired = 0;
    const acquire = (): Promise<void> => Promise.resolve(void acquired++);
    const budget = { acquire, pauseUntil: () => Promise.resolve() };
    const server = await startServer((request) => (bare(request) ? usual(request) : toHome));
    await client(server.url, { budget }).account();
    expect(acquired).toBe(2);
  });
});

describe('an answer that is older than its question', () => {
  const headers: readonly Readonly<Record<string, string>>[] = [
    { age: '600' },
    { age: '600, 3' },
    { 'x-cache': 'HIT' },
    { 'x-cache': 'RefreshHit from cloudfront' },
    { 'x-cache': 'MISS, HIT' },
    { 'cf-cache-status': 'STALE' },
    { 'cache-status': 'ExampleCache; hit; ttl=30' },
  ];

  it.each(headers)('is no purchase, no proof, no list and no item: %j', async (header) => {
    const server = await startServer((request) => ({ ...usual(request), headers: header }));
    const market = client(server.url);
    for (const [, call] of CALLS) {
      expect(await call(market)).toMatchObject({ kind: 'unavailable', reason: 'cache' });
    }
  });

  it('is no denial and no refusal', async () => {
    const answers: Answer[] = [404, 401].map((status) => ({
      status,
      headers: { 'x-cache': 'HIT' },
      body: '{"status":"error","msg":"Invalid purchase code"}',
    }));
    const market = client((await startServer(answers)).url);
    expect(await market.validate(CODE)).toMatchObject({ reason: 'cache', detail: like('x-cache') });
    expect(await market.account()).toMatchObject({ reason: 'cache' });
  });

  it.each([
    { age: '0' },
    { 'x-cache': 'MISS' },
    { 'x-cache': 'hit-for-pass' },
    { 'cf-cache-status': 'DYNAMIC' },
    { 'cache-status': 'ExampleCache; fwd=miss; stored' },
    { 'cache-control': 'max-age=600, stale-if-error=60' },
  ])('is not one with %j', async (header: Readonly<Record<string, string>>) => {
    const server = await startServer((request) => ({ ...usual(request), headers: header }));
    expect(await client(server.url).validate(CODE)).toMatchObject({ kind: 'answered' });
  });

  it('may be a redirect, which is followed all the same', async () => {
    const server = await startServer((request) =>
      request.url.pathname.endsWith('/')
        ? { body: VALID }
        : { status: 301, headers: { location: `${request.url.pathname}/`, 'x-cache': 'HIT' } },
    );
    expect(await client(server.url).validate(CODE)).toMatchObject({ kind: 'answered' });
  });
});

it('the largest answer is bounded after decompression: 4 MiB for an item, else 1 MiB', async () => {
  const MIB = 1024 * 1024;
  const padded = (body: string, size: number): string =>
    `${body.slice(0, -1)}${' '.repeat(size - body.length)}}`;
  const encodings = { identity: (text: string) => text, gzip: gzipSync };
  for (const [encoding, encode] of Object.entries(encodings)) {
    for (const [name, call] of CALLS.filter(([name]) => name !== 'list')) {
      for (const more of [0, 1]) {
        const size = (name === 'item' ? 4 : 1) * MIB + more;
        const server = await startServer(({ url }) => ({
          headers: { 'content-encoding': encoding },
          body: encode(padded(BODIES[url.pathname] ?? '', size)),
        }));
        const kind = more === 0 ? 'answered' : 'unreadable';
        expect(await call(client(server.url))).toMatchObject({ kind });
      }
    }
  }
});

it('an answer whose compressed bytes stand for nothing is bounded, too', async () => {
  // Empty blocks of deflate without end.
  const blocks = Buffer.alloc(5 * 1024 * 1024, Buffer.from([0, 0, 0, 0xff, 0xff]));
  const headers = { 'content-encoding': 'deflate' };
  const server = await startServer({ headers, body: blocks });
  expect(await client(server.url).account()).toMatchObject({ flaw: 'too-large' });
});
