import { expect, it } from 'vitest';
import { RESULTS } from '../../src/codes/results-store.js';
import { READ } from '../../src/codes/look-up-store.js';
import { useMirror } from '../support/mirror.js';
import { enterSeller, load } from './store-support.js';

const mirror = useMirror();

/** The plan of a statement that is read through a cursor, as results are. */
async function planOf(sql: string, value: bigint): Promise<string> {
  const client = await mirror().pool.connect();
  try {
    await client.query('BEGIN');
    const text = sql.replaceAll('$1', String(value));
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN DECLARE streamed NO SCROLL CURSOR FOR ${text}`,
    );
    await client.query('ROLLBACK');
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  } finally {
    client.release();
  }
}

it.each(['right after a load', 'of an audit that is newer than the statistics'])(
  'results are looked up by key %s (comparing each of 30,000 records with each code took four minutes)',
  async (when) => {
    const db = await enterSeller(mirror());
    const codes = Array.from({ length: 30_000 }, (_, n) => `code ${n}`);
    let { auditId } = await load(db, codes);
    if (when !== 'right after a load') {
      await mirror().rows('ANALYZE');
      ({ auditId } = await load(db, codes));
    }
    const plan = await planOf(RESULTS, auditId);
    expect(plan).toContain('audit_codes');
    expect(plan).not.toMatch(/Join Filter: .*position/);
    expect(plan).toMatch(/Index Cond: \(\(audit_id = .*\) AND \("?position"? = .*\)\)/);
  },
);

it('a look-up finds its denial by an index, however many codes today’s look-ups have (each answer read all of them)', async () => {
  const db = await enterSeller(mirror());
  const { auditId } = await load(
    db,
    Array.from({ length: 20_000 }, (_, n) => `code ${n}`),
  );
  await mirror().rows(`UPDATE mirror.audits SET is_look_ups = true`);
  await mirror().rows(
    `UPDATE mirror.audit_codes SET denied_at = now() WHERE audit_id = ${auditId} AND position % 50 = 0`,
  );
  await mirror().rows('ANALYZE');
  const plan = await mirror().rows(
    `EXPLAIN ${READ.text.replaceAll('$1', "'main'").replaceAll('$2', "'code 50'")}`,
  );
  const text = plan.map((row) => String(row['QUERY PLAN'])).join('\n');
  expect(text).toContain('audit_codes_code_id_idx');
  expect(text).not.toContain('Seq Scan on audit_codes');
});
