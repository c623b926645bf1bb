import { once } from 'node:events';
import fc from 'fast-check';
import { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { expect, it, onTestFinished } from 'vitest';
import { BinaryRows, COPY_HEADER, COPY_TRAILER } from '../../src/db/binary-rows.js';
import { testServer } from '../support/postgres.js';

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
});

it('encodes every value so that PostgreSQL reads the same value', async () => {
  const client = new Client({ connectionString: testServer.adminUrl });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(`CREATE TEMP TABLE typed (
    n serial, a text, b bigint, c text[], d numeric(14,2), e timestamptz, f jsonb, g bytea)`);
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 20 }), async (rows) => {
      await client.query('TRUNCATE typed');
      const out = new BinaryRows(64); // small, so that it has to grow
      for (const one of rows) {
        out.startRow(7);
        out.text(one.a);
        out.bigint(one.b);
        out.textArray(one.c);
        out.money(one.d);
        out.timestamp(one.e);
        out.jsonb(Buffer.from(JSON.stringify(one.f)));
        out.bytes(one.g);
      }
      const stream = client.query(
        copyFrom('COPY typed (a, b, c, d, e, f, g) FROM STDIN (FORMAT binary)'),
      );
      const finished = once(stream, 'finish');
      stream.end(Buffer.concat([COPY_HEADER, out.data(), COPY_TRAILER]));
      await finished;
      const read = await client.query<Record<string, unknown>>(
        `SELECT a, b, c, d::text, to_char(e AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS e, f::text, g FROM typed ORDER BY n`,
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
