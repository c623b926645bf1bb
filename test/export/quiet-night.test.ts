import { expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { linesOf, take, type Taken } from './support.js';

const mirror = useMirror();
const CODES = 20_000;

/** How many purchase codes PostgreSQL was ever told to read from the table. A session counts at its end. */
async function codesRead(): Promise<number> {
  const { pool } = mirror();
  const OTHERS = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'seller-mirror export'`;
  while ((await pool.query(OTHERS)).rowCount !== 0);
  const [row] = await mirror().rows<{ n: string }>(
    `SELECT seq_tup_read + idx_tup_fetch AS n FROM pg_stat_user_tables
      WHERE schemaname = 'mirror' AND relname = 'purchase_codes'`,
  );
  return Number(row?.n);
}

async function takeAfter({ cursor }: Taken): Promise<{ taken: Taken; read: number }> {
  const before = await codesRead();
  const taken = await take(mirror().databaseUrl, 'purchases', cursor);
  return { taken, read: (await codesRead()) - before };
}

it('reads of all purchases those that changed, or whose support has ended: a night without any read every code', async () => {
  const { databaseUrl: url } = mirror();
  await mirror().rows(
    `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'market.example')`,
  );
  await mirror().rows(
    `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, purchase_seen_at, supported_until)
     SELECT 'main', 'code ' || n, 'valid', now(), now() + interval '1 day' * CASE WHEN n % 2 = 0 THEN -n ELSE n END
       FROM generate_series(1, ${CODES}) AS n`,
  );
  await mirror().rows('ANALYZE mirror.purchase_codes');
  const night = await takeAfter(await take(url, 'purchases', null));
  expect({ lines: linesOf(night.taken), read: night.read }).toEqual({ lines: [], read: 0 });

  await mirror().rows(`UPDATE mirror.purchase_codes SET price = 5 WHERE code = 'code 7'`);
  const changed = await takeAfter(night.taken);
  expect(linesOf(changed.taken).join()).toContain('"code":"code 7"');
  expect(changed.read).toBeLessThan(10);

  // As if the export had been two days ago: the support of one code has ended since, with nothing written.
  const { seq = 0n } = changed.taken.cursor ?? {};
  const at = new Date(Date.now() - 2.5 * 86_400_000).toISOString();
  const ended = await takeAfter({ ...changed.taken, cursor: { seq, at } });
  expect(linesOf(ended.taken)).toHaveLength(1);
  expect(linesOf(ended.taken).join()).toContain('"code":"code 2"');
  expect(ended.read).toBeLessThan(10);
});
