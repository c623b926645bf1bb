import { once } from 'node:events';
import fc from 'fast-check';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BinaryRows, COPY_HEADER, COPY_TRAILER, CopyIn } from '../../src/db/copy.js';
import { openTextCursor } from '../../src/db/text-cursor.js';
import { DbClient } from '../../src/db/connection.js';
import { createTestDatabase } from '../support/postgres.js';

let pool: pg.Pool;
let client: pg.PoolClient;
let drop: () => Promise<void>;

beforeEach(async () => {
  const database = await createTestDatabase({ empty: true });
  drop = () => database.drop();
  pool = new pg.Pool({ Client: DbClient, connectionString: database.url });
  pool.on('error', () => undefined);
  client = await pool.connect();
  client.on('error', () => undefined);
  await client.query('CREATE TABLE t (id bigint PRIMARY KEY, text text)');
});
afterEach(async () => {
  client.release(true);
  await pool.end();
  await drop();
});

function rowsOf(ids: readonly number[], text: string): BinaryRows {
  const rows = new BinaryRows();
  for (const id of ids) {
    rows.startRow(2);
    rows.bigint(id);
    rows.text(text);
  }
  return rows;
}

async function count(): Promise<number> {
  const { rows } = await client.query<{ count: string }>('SELECT count(*) FROM t');
  return Number(rows[0]?.count);
}

const ids = Array.from({ length: 1000 }, (_, i) => i);

it('lets the caller reuse the buffer after each write, however much is still unsent', async () => {
  const copy = new CopyIn(client, 't (id, text)');
  const rows = new BinaryRows();
  for (let turn = 0; turn < 20; turn++) {
    rows.clear();
    for (const id of ids) {
      rows.startRow(2);
      rows.bigint(turn * ids.length + id);
      rows.text(String(turn).repeat(1000));
    }
    await copy.write(rows.data());
    rows.data().fill(0xff);
  }
  await copy.end();
  const { rows: texts } = await client.query<{ right: boolean; count: string }>(
    `SELECT text = repeat((id / 1000)::text, 1000) AS right, count(*) FROM t GROUP BY 1`,
  );
  expect(texts).toEqual([{ right: true, count: '20000' }]);
});

it('fails on a row that violates a constraint, and leaves the connection usable', async () => {
  const copy = new CopyIn(client, 't (id, text)');
  await copy.write(rowsOf([1, 1], 'twice').data());
  await expect(copy.end()).rejects.toThrow('duplicate key');
  await expect(copy.write(rowsOf([2], 'late').data())).rejects.toThrow('duplicate key');
  await expect(copy.end()).rejects.toThrow('duplicate key');
  copy.abandon();
  expect(await count()).toBe(0);
});

it('fails all later writes after an error, and never hangs', async () => {
  const copy = new CopyIn(client, 't (id, text)');
  const writing = async (): Promise<void> => {
    // How much is sent before the server reports the error depends on the machine.
    for (;;) await copy.write(rowsOf(ids, 'x'.repeat(1000)).data());
  };
  await expect(writing()).rejects.toThrow('duplicate key');
  expect(await count()).toBe(0);
});

it('writes nothing after abandon(), and leaves the connection usable', async () => {
  const copy = new CopyIn(client, 't (id, text)');
  await copy.write(rowsOf(ids, 'x').data());
  copy.abandon();
  expect(await count()).toBe(0);
});

it('fails when the connection is lost, since a waiting run would hold its lock for ever', async () => {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const copy = new CopyIn(client, 't (id, text)');
  await copy.write(rowsOf(ids, 'x').data());
  await pool.query('SELECT pg_terminate_backend($1, 10000)', [rows[0]?.pid]);
  // The error depends on whether the server's message or the end of the connection arrives first.
  await expect(copy.end()).rejects.toThrow();
  copy.abandon();
});

/** Neither text nor jsonb of PostgreSQL holds NUL or half a character. */
const storableText = (text: string): string => text.replaceAll('\0', ' ').toWellFormed();

/** JSON that jsonb can hold. */
function storable(json: unknown): unknown {
  if (typeof json === 'string') return storableText(json);
  if (Array.isArray(json)) return json.map(storable);
  if (typeof json !== 'object' || json === null) return json;
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => [storableText(name), storable(value)]),
  );
}

const text = fc.string({ unit: 'binary' }).map(storableText);
const money = fc.maxSafeInteger().map((n) => (n % 99_999_999_999_999) / 100);
const moment = fc.date({
  min: new Date('0001-01-01T00:00:00Z'),
  max: new Date('9999-12-31T23:59:59Z'),
  noInvalidDate: true,
});
const row = fc.record({
  a: fc.option(text),
  b: fc.maxSafeInteger(),
  c: fc.array(text, { maxLength: 4 }),
  d: fc.option(money.map((n) => n.toFixed(2).replace('-0.00', '0.00'))),
  e: fc.option(moment.map((date) => date.toISOString())),
  f: fc.jsonValue().map((json) => storable(json)),
  g: fc.uint8Array(),
  h: fc.boolean(),
});

it('encodes every value so that PostgreSQL reads the same value', async () => {
  await client.query(`CREATE TEMP TABLE typed (
    n serial, a text, b bigint, c text[], d numeric(14,2), e timestamptz, f jsonb, g bytea, h boolean)`);
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 20 }), async (rows) => {
      await client.query('TRUNCATE typed');
      const out = new BinaryRows(64); // small, so that it has to grow
      for (const one of rows) {
        out.startRow(8);
        out.text(one.a);
        out.bigint(one.b);
        out.textArray(one.c);
        out.money(one.d);
        out.timestamp(one.e);
        out.jsonb(Buffer.from(JSON.stringify(one.f)));
        out.bytes(one.g);
        out.boolean(one.h);
      }
      const stream = client.query(
        copyFrom('COPY typed (a, b, c, d, e, f, g, h) FROM STDIN (FORMAT binary)'),
      );
      const finished = once(stream, 'finish');
      stream.end(Buffer.concat([COPY_HEADER, out.data(), COPY_TRAILER]));
      await finished;
      const read = await client.query<Record<string, unknown>>(
        `SELECT a, b, c, d::text, to_char(e AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS e, f::text, g, h FROM typed ORDER BY n`,
      );
      const expected = await client.query<Record<string, unknown>>(
        `SELECT v::text AS f FROM unnest($1::jsonb[]) WITH ORDINALITY AS u (v, n) ORDER BY n`,
        [rows.map((one) => JSON.stringify(one.f))],
      );
      expect(read.rows).toEqual(
        rows.map((one, i) => ({
          ...one,
          b: String(one.b),
          f: expected.rows[i]?.['f'],
          g: Buffer.from(one.g),
        })),
      );
    }),
    { numRuns: 60 },
  );
});

it('reads smaller batches of larger rows', async () => {
  const cursor = await openTextCursor(
    client,
    `SELECT repeat('x', CASE WHEN n BETWEEN 1001 AND 2000 THEN 100000 ELSE 10 END), n
       FROM generate_series(1, 5000) n`,
  );
  const sizes: number[] = [];
  const seen: number[] = [];
  for await (const rows of cursor.batches) {
    sizes.push(rows.reduce((sum, row) => sum + (row[0]?.length ?? 0), 0));
    seen.push(...rows.map(([, n]) => Number(n)));
  }
  expect(seen).toEqual(Array.from({ length: 5000 }, (_, n) => n + 1));
  // One batch may be too large: the one in which the first large rows appear.
  expect(sizes.filter((size) => size > 10_000_000).length).toBeLessThanOrEqual(1);
  expect(sizes.length).toBeLessThan(80);
});
