import { gzipSync } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import type { Reply } from '../../src/marketplace/reply.js';
import type { ItemList, MarketplaceOptions } from '../../src/marketplace/types.js';
import { startServer, type Answer, type ScriptedServer } from '../support/http-server.js';
import { client, head, KEY, like, listBody, raw, texts, wireItem } from './support.js';

const MIB = 1024 * 1024;
const noItems = '"status":"error","msg":"No items found"';

async function open(answer: Answer, options: Partial<MarketplaceOptions> = {}) {
  const server = await startServer(answer);
  return client(server.url, options).items();
}

function listOf(reply: Reply<ItemList>): ItemList {
  if (reply.kind !== 'answered') throw new Error(`no list: ${JSON.stringify(reply)}`);
  return reply.data;
}

async function openList(answer: Answer, options?: Partial<MarketplaceOptions>): Promise<ItemList> {
  return listOf(await open(answer, options));
}

describe('the list', () => {
  it('has the records in the server’s order, byte for byte', async () => {
    const body = listBody(2_500);
    const list = await openList({ body });
    const expected = Array.from({ length: 2_500 }, (_, n) => JSON.stringify(wireItem(n + 1)));
    expect(texts(list)).toEqual(expected);
    expect(list).toMatchObject({ count: 2_500, bytes: Buffer.byteLength(body), tolerated: [] });
    expect(texts(list)).toEqual(expected);
  });

  const plain = '{"status":"success","items":[1,2]}';
  it.each([
    ['{"status":"success","items":{"0":1,"5":2}}', 'items-object'],
    ['{"status":"success","data":{"items":[1,2],"count":2}}', 'items-in-data'],
    ['{"items":[1,2],"status":"success"}', null],
    ['{"status":"Erfolg","items":[1,2]}', 'status'],
    [`\uFEFF${plain}`, 'bom'],
    [`<br/>\n<b>Warning</b> {x}\n${plain}\n`, 'preamble'],
    [`${plain}\0<b>Fatal error</b> in {closure} { x }`, 'trailer'],
    // PHP warnings that contain JSON.
    [`x = {"status":"error"}; {"a {"b" {"items" 1}\n${plain}`, 'preamble'],
  ])('is read from %s', async (body, quirk) => {
    const list = await openList({ body });
    expect(texts(list)).toEqual(['1', '2']);
    expect(list.tolerated).toEqual(quirk === null ? [] : [`envelope.${quirk}`]);
  });
});

describe('a reply without a list', () => {
  it.each([
    [404, `{${noItems}}`, { kind: 'denied', message: 'No items found' }],
    [200, '{"status":"error","msg":"No items found.","items":[]}', { kind: 'denied' }],
    [200, `{${noItems},"items":[1]}`, { kind: 'unreadable' }],
    [200, '{"status":"error","items":[1,2]}', { kind: 'unreadable' }],
    [200, `{${noItems},"items":[],"items":[1]}`, { kind: 'unreadable' }],
    [200, `{${noItems},"items":[`, { reason: 'cut-off' }],
    [200, '{"status":"error","msg":"Try later","items":[]}', { kind: 'unreadable' }],
    [200, '{"status":"success","items":null}', { kind: 'unreadable' }],
    [200, '{"status":"success","items":{"data":[]}}', { kind: 'unreadable' }],
    [200, '{"status":"success","data":{"status":"error","items":[1]}}', { kind: 'unreadable' }],
    [404, '{"status":"success","items":[]}', { reason: 'switched-off' }],
    [429, '<html>', { kind: 'limited' }],
    [200, '<!doctype html><script>x = {"items":[1,2]}</script>', { reason: 'html' }],
    [200, '<div>{"a":1}</div>', { reason: 'html' }],
    [200, '{"status":"success","ite', { reason: 'cut-off' }],
    [200, '\uFEFF<b>Warning</b> {', { reason: 'cut-off' }],
  ])('is judged like other replies: HTTP %i %s', async (status, body, expected) => {
    expect(await open({ status, body })).toMatchObject(expected);
  });

  it('is retried if it is cut off', async () => {
    const server = await startServer([
      raw(`${head('content-length: 99')}{"sta`),
      { body: listBody(3) },
    ]);
    const marketplace = client(server.url, { retry: { attempts: 2, baseMs: 1, maxMs: 1 } });
    expect(await marketplace.items()).toMatchObject({ kind: 'answered' });
    expect(server.requests).toHaveLength(2);
  });
});

describe('a broken list', () => {
  it('never ends normally, wherever it is cut, with or without a content length', async () => {
    const body = `{"status":"success","items":[{"id":1,"name":"a \\\\\\""},2],"x":{"y":[1]}}`;
    for (const header of ['connection: close', `content-length: ${body.length}`]) {
      const server = await startServer((_, index) => raw(head(header) + body.slice(0, index)));
      const marketplace = client(server.url);
      for (let length = 0; length < body.length; length++) {
        const isEmpty = length === 0 && header === 'connection: close';
        expect(await marketplace.items()).toMatchObject({
          kind: isEmpty ? 'unreadable' : 'unavailable',
        });
      }
    }
  });

  const begun = (bytes: string, then?: 'reset' | 'stall') =>
    raw(`${head('content-length: 999')}${bytes}`, then);
  const gzip = gzipSync(listBody(9_000)).subarray(0, -200);

  it.each([
    ['a reset', begun('{"items":[1,', 'reset'), { reason: 'cut-off' }],
    ['a stall', begun('{"items":[1,', 'stall'), { reason: 'timeout' }],
    ['a stall after the end', begun('{"items":[1]}', 'stall'), { reason: 'timeout' }],
    ['bad framing', { body: '{"items":[1,2}}' }, { kind: 'unreadable' }],
    ['more JSON after the end', { body: '{"items":[1,2]}{"a":1}' }, { kind: 'unreadable' }],
    [
      'an error',
      { body: '{"items":[1],"status":"Error","msg":"Oops"}' },
      { detail: like(/"Oops"/) },
    ],
    ['"no items"', { body: `{"items":[1],${noItems}}` }, { kind: 'unreadable' }],
    ['a member that is not JSON', { body: '{"items":[1],"status":oops}' }, { kind: 'unreadable' }],
    ['damage', { headers: { 'content-encoding': 'gzip' }, body: gzip }, { reason: 'cut-off' }],
  ])('fails with the right reason: %s', async (_, answer: Answer, expected) => {
    // Long for all other cases: a busy machine stalls by itself.
    const isStall = 'reason' in expected && expected.reason === 'timeout';
    const reply = await open(answer, { bodyTimeoutMs: isStall ? 50 : 30_000 });
    expect(reply).toMatchObject(expected);
  });

  it('is one that exceeds the size limit', async () => {
    const reply = await open({ body: listBody(5_000) }, { maxListBytes: MIB });
    expect(reply).toMatchObject({
      kind: 'unreadable',
      flaw: 'too-large',
      detail: like('larger than 1 MB'),
    });
  });

  it('never shows the key', async () => {
    const failure = await open({ body: `{"items":[1] "${KEY}"` });
    expect(failure).toMatchObject({ kind: 'unreadable' });
    expect(JSON.stringify(failure)).not.toContain(KEY);
  });
});

describe('a list that says that it is only a part', () => {
  const ITEMS = [wireItem(1), wireItem(2), wireItem(3)];
  const whole = { status: 'success', msg: 'ok' };
  const MARKS: readonly object[] = [
    { meta: { current_page: 5, last_page: 5, total: 15 } },
    { meta: { pagination: { total: 15, count: 3, total_pages: 5, links: { next: 'https://x' } } } },
    { pagination: { page: 1, pages: '5' } },
    { next_page_url: 'https://market.test/api/items/all?page=2' },
    { links: { next: 'https://market.test/api/items/all?page=2', prev: null } },
    {
      links: [
        { rel: 'self', href: '/1' },
        { rel: 'next', href: '/2' },
      ],
    },
    { _links: { next: { href: '/2' } } },
    { next_cursor: 'abc' },
    { hasMore: 'true' },
    { paging: { has_next_page: 1 } },
    { is_last_page: false },
    { total: '15' },
  ];
  it.each(MARKS)('is refused in one sentence: %j', async (mark) => {
    const body = JSON.stringify({ ...whole, items: ITEMS, ...mark });
    expect(await open({ body })).toMatchObject({
      ...{ kind: 'unreadable', flaw: 'part-of-list' },
      detail: like(/^the list of 3 items says that it is only a part of all \(\w[^)]*\)$/),
    });
    expect(await open({ body }, { listMarks: 'ignore' })).toMatchObject({ kind: 'answered' });
  });

  it('may say so before the list, beside it in data, or around data', async () => {
    const mark = { last_page: 5 };
    for (const envelope of [
      { ...mark, items: ITEMS },
      { data: { items: ITEMS }, ...mark },
      { data: { ...mark, items: ITEMS } },
    ]) {
      const body = JSON.stringify({ ...whole, ...envelope });
      expect(await open({ body })).toMatchObject({ flaw: 'part-of-list' });
    }
  });

  it.each([
    { link: '<https://market.test/api/items/all?page=2>; rel="next"' },
    { 'x-total-count': '4' },
    { 'x-total-pages': '2' },
    { 'x-next-page': '2' },
  ])('may say so in a header: %j', async (headers: Readonly<Record<string, string>>) => {
    const body = JSON.stringify({ ...whole, items: ITEMS });
    expect(await open({ headers, body })).toMatchObject({ flaw: 'part-of-list' });
  });

  it.each([
    { total: 3, meta: { current_page: 1, last_page: 1 } },
    { total: 'many' },
    { total: { count: 15 } },
    { per_page: 100, current_page: 1, from: 1, to: 3, path: 'x' },
    { next_page_url: null, prev_page_url: 'https://x', has_more: false, next: '' },
    { links: [{ url: null, label: 'Next &raquo;', active: false }] },
    { statistics: { total: 15, has_more: true } },
    { seller: { next: 'Anna', pages: 9 } },
  ])('is not one with %j', async (beside) => {
    const body = JSON.stringify({ ...whole, items: ITEMS, ...beside });
    expect(await open({ body })).toMatchObject({ kind: 'answered' });
  });

  it('counts records that can’t be read, and looks into no record', async () => {
    const items = [...ITEMS, { id: 'bad', total: 99, has_more: true, meta: { last_page: 7 } }];
    const body = JSON.stringify({ ...whole, items, total: 4 });
    expect(await open({ body })).toMatchObject({ kind: 'answered' });
  });
});

describe('the time for a list', () => {
  const drip: Answer = {
    raw: (socket) => {
      socket.write(`${head('transfer-encoding: chunked')}1\r\n{\r\n`);
      const timer = setInterval(() => socket.write('1\r\n \r\n'), 10);
      socket.on('close', () => clearInterval(timer));
    },
  };

  it('is limited in all, its further attempts included, whatever drips in', async () => {
    const server = await startServer(drip);
    const retry = { attempts: 4, baseMs: 1, maxMs: 1 };
    const reply = await client(server.url, { listTimeoutMs: 200, retry }).items();
    expect(reply).toMatchObject({ reason: 'timeout', detail: like('took too long') });
    expect(server.requests).toHaveLength(1);
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });
});

describe('a list beyond 32 MiB', () => {
  const record = JSON.stringify({ ...wireItem(1), description: 'x'.repeat(MIB) });
  const body = `{"items":[${Array(34).fill(record).join(',')}]}`;

  /** The second request has come, and its connection was closed. */
  const isWaiting = async (server: ScriptedServer): Promise<void> => {
    await vi.waitFor(
      () => {
        expect(server.requests).toHaveLength(2);
        expect(server.connections()).toBe(0);
      },
      { timeout: 30_000 },
    );
  };

  it('waits until the one before it is released, then is asked for again; one that is no list gives its place up', async () => {
    const damaged = await startServer({ body: `${body.slice(0, -2)}}` });
    expect(await client(damaged.url).items()).toMatchObject({ kind: 'unreadable' });
    const server = await startServer({ body });
    const market = client(server.url);
    const first = listOf(await market.items());
    const second = market.items();
    expect((await openList({ body: listBody(3) })).count).toBe(3);
    await isWaiting(server);
    expect(texts(first)).toHaveLength(34);
    first.release();
    first.release();
    const list = listOf(await second);
    expect(server.requests).toHaveLength(3);
    expect(texts(list)).toHaveLength(34);
    list.release();
  });

  it('does not keep the place if its caller goes while it waits', async () => {
    const server = await startServer({ body });
    const market = client(server.url);
    const first = listOf(await market.items());
    const abort = new AbortController();
    const second = market.items({ signal: abort.signal });
    await isWaiting(server);
    abort.abort(new Error('gone'));
    await expect(second).rejects.toThrow('gone');
    first.release();
    listOf(await market.items()).release();
  });
});

it.each([
  [
    'with a content length',
    (text: string) => head('connection: close', `content-length: ${text.length}`),
  ],
  ['without a content length', () => head('connection: close')],
])('a list is whole if the server closes the connection right after it, %s', async (_, headOf) => {
  for (let count = 1_000; count <= 1_100; count += 50) {
    const text = listBody(count);
    expect((await openList(raw(headOf(text) + text))).count).toBe(count);
  }
});
