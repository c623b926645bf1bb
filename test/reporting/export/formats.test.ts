import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import pg from 'pg';
import { from } from 'pg-copy-streams';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { unescapeFormula } from '../../../src/domain/csv.js';
import { createTestDatabase, type TestDatabase } from '../../support/postgres.js';
import { folder, run } from '../../cli/support.js';

let database: TestDatabase;
let client: pg.Client;
const VALUES = `SELECT * FROM (VALUES
  (9007199254740993::bigint, 19.90::numeric(14,2), '2026-03-01 02:00:00.123456+00'::timestamptz,
   ARRAY['a', 'y,"z"', NULL, ''], '{"n": 12345678901234567890}'::jsonb, true, '2026-03-01'::date,
   E'=1+1\\n\\\\.\\n"ä"', ''::text, 123456789012345678901234567890.12::numeric(38,2), 0.1::numeric),
  (-1, -0.01, '1969-12-31 23:59:59.999999+00', '{}', '[]', false, '1969-12-31', '''=x', 'x', -1, -1e-9),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
) AS v (id, price, at, list, data, yes, day, text, "empty", large, digits)`;
beforeAll(async () => {
  database = await createTestDatabase();
  client = new pg.Client(database.url);
  await client.connect();
  // The server of the tests has it off.
  await client.query('SET array_nulls = on');
  await client.query(
    `CREATE VIEW reporting.kinds AS
     SELECT id, price::numeric(14,2) AS price, at, list, data, yes, day, text, "empty",
            large::numeric(38,2) AS large, digits FROM (${VALUES}) AS k;
     CREATE VIEW reporting.many AS
     SELECT n::bigint AS id, repeat('x', 100) || n AS text FROM generate_series(1, 50000) AS n`,
  );
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

/** Exports a view to a file, and reads it. */
async function exported(view: string, format: string, ...more: string[]): Promise<Buffer> {
  const out = join(folder(), `${view}.${format}`);
  const { code, stderr } = await run(['export', view, '--out', out, ...more], {
    DATABASE_URL: database.url,
  });
  expect(code, stderr).toBe(0);
  return readFileSync(out);
}

describe('an export', () => {
  it('in raw CSV is read unchanged by COPY, which distinguishes NULL from empty text', async () => {
    const bytes = await exported('kinds', 'csv', '--raw');
    await client.query('CREATE TEMP TABLE copied AS SELECT * FROM reporting.kinds WHERE false');
    const stream = client.query(from('COPY copied FROM STDIN WITH (FORMAT csv, HEADER)'));
    const end = new Promise((resolve, reject) => stream.on('finish', resolve).on('error', reject));
    stream.end(bytes);
    await end;
    const differences = await client.query(
      '(SELECT * FROM copied EXCEPT SELECT * FROM reporting.kinds) UNION ALL (SELECT * FROM reporting.kinds EXCEPT SELECT * FROM copied)',
    );
    expect(differences.rows).toEqual([]);
  });

  it('in CSV guards formulas in a way that can be undone', async () => {
    const bytes = await exported('kinds', 'csv');
    const text = bytes.toString('utf8');
    expect(text).toContain(`"'=1+1\n`);
    expect(text).toContain(`,''=x,`);
    expect(text).toContain('\r\n-1,-0.01,'); // numbers are not guarded
    expect([`'=1+1`, `''=x`].map(unescapeFormula)).toEqual(['=1+1', `'=x`]);
  });

  it('in NDJSON has every digit, and times with their zone', async () => {
    const [first, second, third] = (await exported('kinds', 'ndjson')).toString().split('\n');
    expect(first).toBe(
      `{"id":"9007199254740993","price":"19.90","at":"2026-03-01T02:00:00.123456Z","list":["a","y,\\"z\\"",null,""],"data":{"n": 12345678901234567890},"yes":true,"day":"2026-03-01","text":"=1+1\\n\\\\.\\n\\"ä\\"","empty":"","large":"123456789012345678901234567890.12","digits":"0.1"}`,
    );
    expect(JSON.parse(second ?? '')).toMatchObject({ price: '-0.01', list: [], empty: 'x' });
    expect(JSON.parse(third ?? '')).toMatchObject({ id: null, list: null, yes: null });
  });

  it('in Parquet has types that hold every value exactly', async () => {
    const bytes = await exported('kinds', 'parquet');
    const file = new Uint8Array(bytes).buffer;
    // Read the stored values, since a reader may round decimals and times.
    const parsers = {
      timestampFromMicroseconds: (micros: bigint) => micros,
      jsonFromBytes: (data: Uint8Array) => Buffer.from(data).toString('utf8'),
    };
    const rows = await parquetReadObjects({ file, parsers });
    expect(rows[0]).toMatchObject({
      id: 9007199254740993n,
      at: 1772330400123456n,
      yes: true,
      empty: '',
      list: ['a', 'y,"z"', null, ''],
      text: '=1+1\n\\.\n"ä"',
      digits: '0.1',
      data: '{"n": 12345678901234567890}',
      day: new Date('2026-03-01'),
    });
    expect(rows[1]).toMatchObject({ id: -1n, at: -1n, list: [], empty: 'x' });
    // This reader divides the stored hundredths.
    const hundredths = rows.map(({ price }) => Math.round(Number(price) * 100));
    expect(hundredths).toEqual([1990, -1, 0]);
    const { schema } = parquetMetadata(file);
    expect(schema.find(({ name }) => name === 'price')).toMatchObject({
      type: 'INT64',
      converted_type: 'DECIMAL',
      precision: 14,
      scale: 2,
    });
    expect(rows[2]).toMatchObject({ id: null, price: null, at: null, text: null, yes: null });
  });

  it('in Parquet has null for days and times outside the years 0 to 9999', async () => {
    await client.query(
      `CREATE VIEW reporting.eras AS
       SELECT day, day::timestamptz AS at
         FROM (VALUES ('12000-01-01'::date), ('0044-03-15 BC'), ('infinity'), ('9999-12-31')) AS v (day)`,
    );
    const bytes = await exported('eras', 'parquet');
    const rows = await parquetReadObjects({ file: new Uint8Array(bytes).buffer });
    const none = { day: null, at: null };
    const last = new Date('9999-12-31');
    expect(rows).toEqual([none, none, none, { day: last, at: last }]);
  });

  it('in Parquet has small row groups', async () => {
    const bytes = await exported('many', 'parquet');
    const rows = await parquetReadObjects({ file: new Uint8Array(bytes).buffer });
    expect(rows).toHaveLength(50_000);
    expect(rows.at(-1)).toEqual({ id: 50_000n, text: `${'x'.repeat(100)}50000` });
    expect(parquetMetadata(new Uint8Array(bytes).buffer).row_groups.length).toBeGreaterThan(2);
  });
});
