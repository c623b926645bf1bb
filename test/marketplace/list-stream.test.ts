import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Reply } from '../../src/marketplace/reply.js';
import { ListBroken } from '../../src/marketplace/types.js';
import type { ItemList, MarketplaceOptions } from '../../src/marketplace/types.js';
import { startServer, type Answer } from '../support/http-server.js';
import { client, drain, head, KEY, like, listBody, raw, texts, wireItem } from './support.js';

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

/** The failure of a reply, or of the list that it opened. */
const failureOf = async (reply: Reply<ItemList>): Promise<unknown> =>
  reply.kind !== 'answered'
    ? reply
    : drain(reply.data).then(
        () => 'ended normally',
        (error: unknown) => (error instanceof ListBroken ? error.failure : error),
      );

describe('the list', () => {
  it('yields the records in the server’s order, byte for byte', async () => {
    const body = listBody(2_500);
    const list = await openList({ body });
    expect(await texts(list)).toEqual(
      Array.from({ length: 2_500 }, (_, n) => JSON.stringify(wireItem(n + 1))),
    );
    expect(list.bytes()).toBe(Buffer.byteLength(body));
    expect(list.tolerated()).toEqual([]);
  });

  it('yields batches of at most 1,000 records and about 1 MiB', async () => {
    const many = await openList({ body: `{"items":[${'1,'.repeat(5_500)}1]}` });
    const sizes: number[] = [];
    for await (const batch of many.batches) sizes.push(batch.length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000);
    expect(sizes.reduce((a, b) => a + b)).toBe(5_501);

    const record = JSON.stringify({ id: 1, description: 'x'.repeat(300_000) });
    const large = await openList({ body: `{"items":[${Array(20).fill(record).join(',')}]}` });
    for await (const batch of large.batches) expect(batch.length).toBeLessThanOrEqual(4);
  });

  const plain = '{"status":"success","items":[1,2]}';
  it.each([
    ['{"status":"success","items":{"0":1,"5":2}}', 'items-object'],
    ['{"items":[1,2],"status":"success"}', null],
    ['{"status":"Erfolg","items":[1,2]}', 'status'],
    [`\uFEFF${plain}`, 'bom'],
    [`<br/>\n<b>Warning</b> {x}\n${plain}\n`, 'preamble'],
    [`${plain}\0<b>Fatal error</b> in {closure} { x }`, 'trailer'],
    // PHP warnings that contain JSON.
    [`x = {"status":"error"}; {"a {"b" {"items" 1}\n${plain}`, 'preamble'],
  ])('is read from %s', async (body, quirk) => {
    const list = await openList({ body });
    expect(await texts(list)).toEqual(['1', '2']);
    expect(list.tolerated()).toEqual(quirk === null ? [] : [`envelope.${quirk}`]);
  });

  it('may be compressed, and larger than the limit of a single reply', async () => {
    const body = gzipSync(listBody(5_000));
    const list = await openList({ headers: { 'content-encoding': 'gzip' }, body });
    expect(await drain(list)).toHaveLength(5_000);
  });

  it('may contain a record of many megabytes', async () => {
    const record = JSON.stringify({ id: 1, description: 'é"'.repeat(6 * MIB) });
    expect(await texts(await openList({ body: `{"items":[${record},2]}` }))).toEqual([record, '2']);
  });

  it('marks a record that is too large, and continues after it', async () => {
    const body = JSON.stringify({ items: [{ id: 1 }, { id: 2, x: 'x'.repeat(5_000) }, { id: 3 }] });
    const elements = await drain(await openList({ body }, { maxRecordBytes: 1_000 }));
    expect(elements.map(({ idHint, unfit }) => [idHint, unfit === null])).toEqual([
      [1, true],
      [2, false],
      [3, true],
    ]);
  });

  it('never contains the key, whatever its notation in a record', async () => {
    const key = `"${KEY}/"`;
    const clean = JSON.stringify(wireItem(1));
    const items = `${clean},{"id":2,"u":${JSON.stringify(`?k=${KEY}`)}},{"id":3,"${KEY}":bad},${clean}`;
    const list = await openList({ body: `{"status":"success","items":[${items}],"x":${key}}` });
    expect(await texts(list)).toEqual([
      clean,
      '{"id":2,"u":"?k=[secret]"}',
      '{"id":3,"[secret]":bad}',
      clean,
    ]);
  });
});

describe('a reply without a list', () => {
  it.each([
    [404, `{${noItems}}`, { kind: 'denied', message: 'No items found' }],
    [200, `{${noItems}}`, { kind: 'denied' }],
    [200, '{"status":"error","msg":"No items found.","items":[]}', { kind: 'denied' }],
    [200, '{"items":{},"status":"error","msg":"no items found"}', { kind: 'denied' }],
    [200, `{${noItems},"items":[1]}`, { kind: 'unreadable' }],
    [200, '{"status":"error","items":[1,2]}', { kind: 'unreadable' }],
    [200, '{"status":false,"items":[]}', { kind: 'unreadable' }],
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
  ])('is judged like other replies: HTTP %i %s', async (status, body, expected) => {
    expect(await open({ status, body })).toMatchObject(expected);
  });

  it.each([
    ['{"status":"error","msg":"No items found","items":[', '{"id":1}]}', 'unreadable'],
    ['{"items":[', '],"status":"error","msg":"No items found"}', 'denied'],
  ])('is judged the same if it arrives in pieces: %s then %s', async (first, second, expected) => {
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

  it('is retried if it is cut off before the list begins', async () => {
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
        expect(await failureOf(await marketplace.items())).toMatchObject({
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
    expect(await failureOf(reply)).toMatchObject(expected);
  });

  it('is one that exceeds the size limit', async () => {
    const reply = await open({ body: listBody(5_000) }, { maxListBytes: MIB });
    expect(await failureOf(reply)).toMatchObject({ kind: 'unreadable' });
  });

  it('never shows the key', async () => {
    const failure = await open({ body: `{"items":[1] "${KEY}"` });
    expect(failure).toMatchObject({ kind: 'unreadable' });
    expect(JSON.stringify(failure)).not.toContain(KEY);
  });
});

describe('a slow reader', () => {
  /** Sends records without end, and counts the bytes sent. */
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

  it('slows the server down instead of filling memory', async () => {
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

  it('causes no timeout: only the server’s own pauses count', async () => {
    const list = await openList({ body: listBody(20_000) }, { bodyTimeoutMs: 50 });
    let records = 0;
    for await (const batch of list.batches) {
      if (records === 0) await sleep(200);
      records += batch.length;
    }
    expect(records).toBe(20_000);
  });

  it.each([
    [
      'with a content length',
      (body: string) => head('connection: close', `content-length: ${body.length}`),
    ],
    ['without a content length', () => head('connection: close')],
  ])('gets everything if the server closes the connection meanwhile, %s', async (_, headOf) => {
    const uncaught: Error[] = [];
    const onUncaught = (error: Error): void => void uncaught.push(error);
    process.on('uncaughtException', onUncaught);
    onTestFinished(() => void process.off('uncaughtException', onUncaught));
    // With some of these lengths, the last bytes fill the buffer: undici is paused when the connection ends.
    for (let count = 1_000; count <= 1_200; count += 20) {
      const body = listBody(count);
      const list = await openList(raw(headOf(body) + body));
      await sleep(30);
      expect(await drain(list)).toHaveLength(count);
    }
    expect(uncaught).toEqual([]);
  });

  it('closes the connection by leaving early', async () => {
    const server = await startServer(endless().answer);
    const list = listOf(await client(server.url).items());
    for await (const _ of list.batches) break;
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });

  it('gets the reason of an abort, which closes the connection', async () => {
    const server = await startServer(endless().answer);
    const abort = new AbortController();
    const list = listOf(await client(server.url).items({ signal: abort.signal }));
    const reader = list.batches[Symbol.asyncIterator]();
    await reader.next();
    abort.abort(new Error('stop now'));
    await expect(reader.next()).rejects.toThrow('stop now');
    await vi.waitFor(() => expect(server.connections()).toBe(0));
  });

  it('is ended by the time limit of the whole list', async () => {
    const reply = await open(endless().answer, { listTimeoutMs: 300 });
    expect(await failureOf(reply)).toMatchObject({ reason: 'timeout' });
  });
});
