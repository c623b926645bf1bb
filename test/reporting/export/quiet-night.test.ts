import { expect, it } from 'vitest';
import { useMirror } from '../../support/mirror.js';
import { exportView, linesOf, type Export } from './support.js';

const mirror = useMirror();
const CODES = 20_000;

/** Rows of purchase codes read so far. Waits for the exports' sessions, which report their statistics at their end. */
async function codesRead(): Promise<number> {
  const { pool } = mirror();
  const sessions = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'seller-mirror export'`;
  while ((await pool.query(sessions)).rowCount !== 0);
  const [row] = await mirror().rows<{ n: string }>(
    `SELECT seq_tup_read + idx_tup_fetch AS n FROM pg_stat_user_tables
      WHERE schemaname = 'mirror' AND relname = 'purchase_codes'`,
  );
  return Number(row?.n);
}

async function exportAfter({ cursor }: Export): Promise<{ exported: Export; read: number }> {
  const before = await codesRead();
  const exported = await exportView(mirror().databaseUrl, 'purchases', cursor);
  return { exported, read: (await codesRead()) - before };
}

it('an export reads only purchases that changed or whose support has ended, not every code', async () => {
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
  const quiet = await exportAfter(await exportView(url, 'purchases', null));
  expect({ lines: linesOf(quiet.exported), read: quiet.read }).toEqual({ lines: [], read: 0 });

  await mirror().rows(`UPDATE mirror.purchase_codes SET price = 5 WHERE code = 'code 7'`);
  const changed = await exportAfter(quiet.exported);
  expect(linesOf(changed.exported).join()).toContain('"code":"code 7"');
  expect(changed.read).toBeLessThan(10);

  // Pretend that the export was 2.5 days ago: support of one code has ended since, without a write.
  const { seq = 0n } = changed.exported.cursor ?? {};
  const at = new Date(Date.now() - 2.5 * 86_400_000).toISOString();
  const ended = await exportAfter({ ...changed.exported, cursor: { seq, at } });
  expect(linesOf(ended.exported)).toEqual([expect.stringContaining('"code":"code 2"')]);
  expect(ended.read).toBeLessThan(10);
});
