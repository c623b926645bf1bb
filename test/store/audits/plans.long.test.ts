import pg from 'pg';
import { expect, it } from 'vitest';
import { openStore, type Store } from '../../../src/store/store.js';
import { useMirror } from '../../support/mirror.js';
import { at, enterSeller, invalid, load, purchaseOf, SELLER, unproven, valid } from './support.js';

const mirror = useMirror();

const CODES = 200_000;

/** Tables with a row for each code of a list, or for each chunk. */
const LARGE = [
  ...['audit_chunks', 'audit_codes', 'audit_entries', 'code_checks', 'code_transitions'],
  'purchase_codes',
];

/** How often each of the large tables was read from end to end. */
async function scans(): Promise<Record<string, number>> {
  const rows = await mirror().rows<{ relname: string; scans: number }>(
    `SELECT relname, seq_scan::int AS scans FROM pg_stat_user_tables
      WHERE schemaname = 'mirror' AND relname = ANY($1) ORDER BY relname`,
    [LARGE],
  );
  return Object.fromEntries(rows.map((row) => [row.relname, row.scans]));
}

/** Does something in sessions of their own, and waits for their ends, at which they tell what they read. */
async function within<T>(work: (store: Store, pool: pg.Pool) => Promise<T>): Promise<T> {
  const name = 'plans';
  const store = openStore(mirror().databaseUrl, name);
  const pool = new pg.Pool({ connectionString: mirror().databaseUrl, application_name: name });
  const close = (): Promise<unknown> => Promise.all([store.close(), pool.end()]);
  const done = await work(store, pool).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  await close();
  const open = (): Promise<unknown> =>
    mirror().rows(
      `SELECT count(*)::int AS open FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = $1`,
      [name],
    );
  await expect.poll(open, { timeout: 30_000 }).toEqual([{ open: 0 }]);
  return done;
}

/** A list, every third code of which was proven by an earlier audit. */
function loadMany(): Promise<bigint> {
  const codes = Array.from({ length: CODES }, (_, n) => `code ${n}`);
  return within(async ({ audits }, pool) => {
    const { auditId } = await load(audits, codes, { chunkSize: 20 });
    await pool.query(
      `INSERT INTO mirror.code_checks (seller_id, code_id, checked_at, verdict, reason, proof)
       SELECT seller_id, code_id, $1, 'valid', 'answered', 'purchase'
         FROM mirror.purchase_codes WHERE code_id % 3 = 0`,
      [at(0)],
    );
    await pool.query(
      `UPDATE mirror.purchase_codes SET verdict = 'valid', last_checked_at = $1, proof = 'purchase'
        WHERE code_id % 3 = 0`,
      [at(0)],
    );
    return auditId;
  });
}

/** All that workers and watchers do while an audit runs. */
async function workOn({ audits }: Store, auditId: bigint, round: number): Promise<void> {
  const minute = 10 * round;
  const [chunk = -1] = await audits.nextChunks(auditId, 2_000 * round, 1);
  await audits.withChunk(auditId, chunk, async () => {
    const [first, second, ...rest] = await audits.pendingOf(auditId, chunk);
    if (first === undefined || second === undefined) throw new Error('nothing is pending');
    for (const n of [1, 2, 3]) await audits.record(auditId, [unproven(second, at(minute + n))], 1);
    const found = valid(first, at(minute), purchaseOf(first.code));
    await audits.record(auditId, [found, ...rest.map((code) => invalid(code, at(minute)))], 50);
    await audits.checksOf(first.codeId, 10);
    await audits.knownCodes(SELLER, [first.code, second.code]);
  });
  await audits.canariesOf(SELLER, 3);
  await audits.get(auditId);
  await audits.list({ limit: 20 });
  await audits.list({ sellerIds: [SELLER], limit: 20 });
}

it(`nothing that is done while an audit runs reads all of ${CODES} codes, with figures of the tables or without`, async () => {
  await enterSeller(mirror());
  const auditId = await loadMany();
  for (const [index, hasFigures] of [false, true].entries()) {
    if (hasFigures) await within((_, pool) => pool.query('ANALYZE'));
    const before = await scans();
    await within((store) => workOn(store, auditId, index + 1));
    expect(await scans()).toEqual(before);
  }
});
