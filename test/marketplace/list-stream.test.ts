import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { ListBroken } from '../../src/marketplace/types.js';
import type { ItemList, ListElement, MarketplaceOptions } from '../../src/marketplace/types.js';
import { startServer, type Answer } from '../support/http-server.js';
import { client, drain, head, KEY, like, listBody, raw, wireItem } from './support.js';

const MIB = 1024 * 1024;
const noItems = '"status":"error","msg":"No items found"';

async function open(answer: Answer, options: Partial<MarketplaceOptions> = {}) {
  const server = await startServer(answer);
  return client(server.url, options).items();
}

async function openList(
  answer: Answer,
  options: Partial<MarketplaceOptions> = {},
): Promise<ItemList> {
  const reply = await open(answer, options);
  if (reply.kind !== 'answered') throw new Error(`no list: ${JSON.stringify(reply)}`);
  return reply.data;
}

const broken = async (list: ItemList): Promise<unknown> =>
  drain(list).then(
    () => 'ended normally',
    (error: unknown) => (error instanceof ListBroken ? error.failure : error),
  );

describe('the list', () => {
  it('comes as the records of the server, in its order, byte for byte', async () => {
    const body = listBody(2_500);
    const list = await openList({ body });
    const records = await drain(list);
    expect(records).toEqual(
      Array.from({ length: 2_500 }, (_, n) => JSON.stringify(wireItem(n + 1))),
    );
    expect(list.bytes()).toBe(Buffer.byteLength(body));
    expect(list.tolerated()).toEqual([]);
  });

  it('comes in batches of at most 1,000 records and about 1 MiB', async () => {
    const many = await openList({ body: `{"items":[${'1,'.repeat(5_500)}1]}` });
    const sizes: number[] = [];
    for await (const batch of many.batches) sizes.push(batch.length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000);
    expect(sizes.reduce((a, b) => a + b)).toBe(5_501);

    const record = JSON.stringify({ id: 1, description: 'x'.repeat(300_000) });
    const large = await openList({ body: `{"items":[${Array(20).fill(record).join(',')}]}` });
    for await (const batch of large.batches) {
      expect(batch.length).toBeLessThanOrEqual(4);
    }
  });

  const plain = '{"status":"success","items":[1,2]}';
  it.each([
    ['{"status":"success","items":{"0":1,"5":2}}', 'items-object'],
    ['{"items":[1,2],"status":"success"}', null],
    ['{"status":"Erfolg","items":[1,2]}', 'status'],
    ['{"status":"error","items":[1,2]}', 'status'],
    [`\uFEFF${plain}`, 'bom'],
    [`<br/>\n<b>Warning</b> {x}\n${plain}\n`, 'preamble'],
    // Warnings that hold JSON themselves.
    [`x = {"status":"error"}; {"a {"b" {"items" 1}\n${plain}`, 'preamble'],
  ])('is taken in the form of %s', async (body, quirk) => {
    const list = await openList({ body });
    expect(await drain(list)).toEqual(['1', '2']);
    expect(list.tolerated()).toEqual(quirk === null ? [] : [`envelope.${quirk}`]);
  });

  it('is read compressed too, larger than any single reply may be', async () => {
    const body = gzipSync(listBody(5_000));
    const list = await openList(
      { headers: { 'content-encoding': 'gzip' }, body },
      { maxReplyBytes: 10 },
    );
    expect(await drain(list)).toHaveLength(5_000);
  });

  it('holds a record of many megabytes', async () => {
    const record = JSON.stringify({ id: 1, description: 'é"'.repeat(6 * MIB) });
    expect(await drain(await openList({ body: `{"items":[${record},2]}` }))).toEqual([record, '2']);
  });

  it('goes on behind a record that is too large, which is marked', async () => {
    const body = JSON.stringify({ items: [{ id: 1 }, { id: 2, x: 'x'.repeat(5_000) }, { id: 3 }] });
    const list = await openList({ body }, { maxRecordBytes: 1_000 });
    const all: ListElement[] = [];
    for await (const batch of list.batches) all.push(...batch);
    expect(all.map(({ idHint, unfit }) => [idHint, unfit === null])).toEqual([
      [1, true],
      [2, false],
      [3, true],
    ]);
  });

  it('never holds the key, whatever spelling a record has it in', async () => {
    const key = `"${KEY}/"`;
    const clean = JSON.stringify(wireItem(1));
    const items = `${clean},{"id":2,"u":${JSON.stringify(`?k=${KEY}`)}},{"id":3,"${KEY}":bad},${clean}`;
    const list = await openList({ body: `{"status":"success","items":[${items}],"x":${key}}` });
    const records = await drain(list);
    expect(records.join('')).not.toContain(KEY);
    expect(records).toEqual([
      clean,
      '{"id":2,"u":"?k=[secret]"}',
      '{"id":3,"[secret]":bad}',
      clean,
    ]);
  });
});

describe('a reply that is no list', () => {
  it.each([
    [404, `{${noItems}}`, { kind: 'denied', message: 'No items found' }],
    [200, `{${noItems}}`, { kind: 'denied' }],
    [200, '{"status":"error","msg":"No items found.","items":[]}', { kind: 'denied' }],
    [200, '{"items":{},"status":"error","msg":"no items found"}', { kind: 'denied' }],
    [200, `{${noItems},"items":[1]}`, { kind: 'unreadable' }],
    [200, `{${noItems},"items":[],"items":[1]}`, { kind: 'unreadable' }],
    [200, `{${noItems},"items":[`, { reason: 'cut-off' }],
    [200, '{"status":"error","msg":"Try later","items":[]}', { kind: 'unreadable' }],
    [200, '{"status":"error","msg":"Try later"}', { kind: 'unreadable' }],
    [401, '{"status":"error","msg":"Invalid request"}', { kind: 'refused' }],
    [400, '{"status":"error","msg":"The api key field is required."}', { kind: 'refused' }],
    [200, '{"status":"fehler","msg":"Keine"}', { kind: 'unreadable' }],
    [200, '{"status":"success","items":null}', { kind: 'unreadable' }],
    [200, '{"status":"success","items":{"data":[]}}', { kind: 'unreadable' }],
    [200, '{"status":oops,"items":[]}', { kind: 'unreadable' }],
    [200, '{"status":"success","data":{"items":[]}}', { kind: 'unreadable' }],
    [200, '[{"id":1}]', { kind: 'unreadable' }],
    [200, 'null', { kind: 'unreadable' }],
    [200, '{}', { kind: 'unreadable' }],
    [200, '', { kind: 'unreadable' }],
    [200, 'oops', { kind: 'unreadable' }],
    [404, '{"status":"success","items":[]}', { reason: 'switched-off' }],
    [404, '<html>', { reason: 'switched-off' }],
    [429, '<html>', { kind: 'limited' }],
    [503, '', { reason: 'maintenance' }],
    [500, '{"message":"one broken item"}', { reason: 'server-error' }],
    [200, '<!doctype html><script>x = {"items":[1,2]}</script>', { reason: 'html' }],
    [200, '<div>{"a":1}</div>', { reason: 'html' }],
    [200, '{"status":"success","ite', { reason: 'cut-off' }],
    [200, '\uFEFF<b>Warning</b> {', { reason: 'cut-off' }],
  ])('is judged like any other: HTTP %i %s', async (status, body, expected) => {
    expect(await open({ status, body })).toMatchObject(expected);
  });

  it.each([
    ['{"status":"error","msg":"No items found","items":[', '{"id":1}]}', 'unreadable'],
    ['{"items":[', '],"status":"error","msg":"No items found"}', 'denied'],
  ])('is judged alike when it comes in pieces: %s then %s', async (first, second, expected) => {
    const reply = await open({
      raw: (socket) => {
        socket.setNoDelay(true);
        socket.write(`${head('connection: close')}${first}`, () => {
          setTimeout(() => socket.end(second), 50);
        });
      },
    });
    expect(reply).toMatchObject({ kind: expected });
  });

  it('is asked for again when it breaks off before the list has begun', async () => {
    const server = await startServer([
      raw(`${head('content-length: 99')}{"sta`),
      { body: listBody(3) },
    ]);
    const marketplace = client(server.url, { retry: { attempts: 2, baseMs: 1, maxMs: 1 } });
    expect(await marketplace.items()).toMatchObject({ kind: 'answered' });
    expect(server.requests).toHaveLength(2);
  });
});

describe('a list that breaks', () => {
  it('anywhere never ends normally, whether the connection tells or not', async () => {
    const body = `{"status":"success","items":[{"id":1,"name":"a \\\\\\""},2],"x":{"y":[1]}}`;
    const silent = await startServer((_, index) =>
      raw(head('connection: close') + body.slice(0, index)),
    );
    const telling = await startServer((_, index) =>
      raw(head(`content-length: ${body.length}`) + body.slice(0, index)),
    );
    for (const server of [silent, telling]) {
      const marketplace = client(server.url);
      for (let length = 0; length < body.length; length++) {
        const reply = await marketplace.items();
        const failure = reply.kind === 'answered' ? await broken(reply.data) : reply;
        expect(failure).toMatchObject({
          kind: length === 0 && server === silent ? 'unreadable' : 'unavailable',
        });
      }
    }
  });

  const begun = (bytes: string, then?: 'reset' | 'stall') =>
    raw(`${head('content-length: 999')}${bytes}`, then);
  const gzip = gzipSync(listBody(9_000)).subarray(0, -200);

  it.each([
    ['a reset', begun('{"items":[1,', 'reset'), { reason: 'cut-off' }],
    ['silence', begun('{"items":[1,', 'stall'), { reason: 'timeout' }],
    ['silence behind the end', begun('{"items":[1]}', 'stall'), { reason: 'timeout' }],
    ['bad framing', { body: '{"items":[1,2}}' }, { kind: 'unreadable' }],
    ['more behind the end', { body: '{"items":[1,2]}<b>Fatal</b>' }, { kind: 'unreadable' }],
    [
      'an error',
      { body: '{"items":[1],"status":"Error","msg":"Oops"}' },
      { detail: like(/"Oops"/) },
    ],
    ['"no items"', { body: `{"items":[1],${noItems}}` }, { kind: 'unreadable' }],
    ['a member that is not JSON', { body: '{"items":[1],"status":oops}' }, { kind: 'unreadable' }],
    ['damage', { headers: { 'content-encoding': 'gzip' }, body: gzip }, { reason: 'cut-off' }],
  ])('is told as such: %s', async (_, answer: Answer, expected) => {
    // Short where silence is what is tested; a busy machine makes silences of its own.
    const isSilence = 'reason' in expected && expected.reason === 'timeout';
    const reply = await open(answer, { bodyTimeoutMs: isSilence ? 50 : 30_000 });
    expect(reply.kind === 'answered' ? await broken(reply.data) : reply).toMatchObject(expected);
  });

  it('is one that is larger than allowed', async () => {
    const list = await openList({ body: listBody(5_000) }, { maxListBytes: MIB });
    expect(await broken(list)).toMatchObject({ kind: 'unreadable' });
  });

  it('shows no key', async () => {
    const failure = await open({ body: `{"items":[1] "${KEY}"` });
    expect(failure).toMatchObject({ kind: 'unreadable' });
    expect(JSON.stringify(failure)).not.toContain(KEY);
  });
});

describe('reading a list slowly', () => {
  /** Sends records without end, and notes how much left the server. */
  function endless(): { answer: Answer; sent: () => number } {
    const record = Buffer.from(`${JSON.stringify(wireItem(1))},`.repeat(100));
    let sent = 0;
    const write = (socket: Socket): void => {
      while (!socket.destroyed && socket.write(record)) sent += record.length;
    };
    return {
      sent: () => sent,
      answer: {
        raw: (socket) => {
          socket.write(`${head('connection: close')}{"items":[`);
          socket.on('drain', () => write(socket));
          write(socket);
        },
      },
    };
  }

  it('slows the server down instead of filling the memory', async () => {
    const { answer, sent } = endless();
    const list = await openList(answer);
    const reader = list.batches[Symbol.asyncIterator]();
    await reader.next();
    let before = -1;
    await vi.waitFor(
      () => {
        const now = sent();
        const still = now === before;
        before = now;
        expect(still).toBe(true);
      },
      { interval: 100, timeout: 5_000 },
    );
    expect(list.bytes()).toBeLessThan(4 * MIB);
    expect(sent()).toBeLessThan(64 * MIB);
    await reader.return?.();
  });

  it('is no silence of the server: only its own pauses count', async () => {
    const server = await startServer({ body: listBody(20_000) });
    const reply = await client(server.url, { bodyTimeoutMs: 50 }).items();
    if (reply.kind !== 'answered') throw new Error('no list');
    let records = 0;
    for await (const batch of reply.data.batches) {
      if (records === 0) await new Promise((resolve) => setTimeout(resolve, 200));
      records += batch.length;
    }
    expect(records).toBe(20_000);
  });

  it.each([
    [
      'tells its length',
      (body: string) => head('connection: close', `content-length: ${body.length}`),
    ],
    ['tells no length', () => head('connection: close')],
  ])('has all of it when the server %s and closes the connection meanwhile', async (_, headOf) => {
    // One of these lengths ends where as much waits as may.
    const counts = Array.from({ length: 24 }, (_, n) => 1_100 + 100 * n);
    const read = counts.map(async (count) => {
      const body = listBody(count);
      const list = await openList(raw(headOf(body) + body));
      await sleep(100);
      return (await drain(list)).length;
    });
    expect(await Promise.all(read)).toEqual(counts);
  });

  it('closes the connection when the reader leaves early', async () => {
    const server = await startServer(endless().answer);
    const reply = await client(server.url).items();
    if (reply.kind !== 'answered') throw new Error('no list');
    for await (const _ of reply.data.batches) break;
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });

  it('ends with the reason of the signal, and closes the connection', async () => {
    const server = await startServer(endless().answer);
    const abort = new AbortController();
    const reply = await client(server.url).items({ signal: abort.signal });
    if (reply.kind !== 'answered') throw new Error('no list');
    const reader = reply.data.batches[Symbol.asyncIterator]();
    await reader.next();
    abort.abort(new Error('stop now'));
    await expect(reader.next()).rejects.toThrow('stop now');
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });

  it('ends at the bound for the whole list', async () => {
    const server = await startServer(endless().answer);
    const reply = await client(server.url, { listTimeoutMs: 300 }).items();
    if (reply.kind !== 'answered') throw new Error('no list');
    expect(await broken(reply.data)).toMatchObject({ reason: 'timeout' });
  });
});
