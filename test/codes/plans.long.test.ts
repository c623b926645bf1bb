import pg from 'pg';
import { expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { type Db, openDb } from '../../src/db/db.js';
import { readCodeChecks, readCodeState, readCanaries } from '../../src/codes/codes-store.js';
import { getAudit, listAudits } from '../../src/codes/audits-store.js';
import { DbClient } from '../../src/db/connection.js';
import { StoredLedger } from '../../src/codes/ledger-store.js';
import {
  at,
  denied,
  enterSeller,
  load,
  purchaseOf,
  recordResults,
  SELLER,
  unproven,
  valid,
} from './store-support.js';

const mirror = useMirror();

const CODES = 200_000;

/** Tables with a row for each code of a list. */
const LARGE = [
  ...['audit_codes', 'audit_entries', 'code_checks', 'code_transitions'],
  'purchase_codes',
];

/** The number of sequential scans of each large table. */
async function scans(): Promise<Record<string, number>> {
  const rows = await mirror().rows<{ relname: string; scans: number }>(
    `SELECT relname, seq_scan::int AS scans FROM pg_stat_user_tables
      WHERE schemaname = 'mirror' AND relname = ANY($1) ORDER BY relname`,
    [LARGE],
  );
  return Object.fromEntries(rows.map((row) => [row.relname, row.scans]));
}

/** Works in new sessions and waits until they have ended, since sessions report their statistics at their end. */
async function inNewSessions<T>(work: (db: Db, pool: pg.Pool) => Promise<T>): Promise<T> {
  const name = 'plans';
  const db = openDb(mirror().databaseUrl, name);
  const pool = new pg.Pool({
    Client: DbClient,
    connectionString: mirror().databaseUrl,
    application_name: name,
  });
  let result: T;
  try {
    result = await work(db, pool);
  } finally {
    await Promise.all([db.close(), pool.end()]);
  }
  const open = (): Promise<unknown> =>
    mirror().rows(
      `SELECT count(*)::int AS open FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = $1`,
      [name],
    );
  await expect.poll(open, { timeout: 30_000 }).toEqual([{ open: 0 }]);
  return result;
}

/** Loads a list of which every third code is known to be valid. */
function loadMany(): Promise<bigint> {
  const codes = Array.from({ length: CODES }, (_, n) => `code ${n}`);
  return inNewSessions(async (db, pool) => {
    const { auditId } = await load(db, codes);
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

/** Calls what workers and commands call while an audit runs. */
async function workOn(db: Db, auditId: bigint, round: number): Promise<void> {
  const minute = 10 * round;
  const options = { auditId, sellerId: SELLER, knownValid: null, callCount: () => 0 };
  const ledger = new StoredLedger(db, options);
  const [first, second, ...rest] = await ledger.open(40_000 * round, 20);
  if (first === undefined || second === undefined) throw new Error('nothing is open');
  for (const n of [1, 2, 3]) {
    await recordResults(db, auditId, [unproven(second, at(minute + n))], 1);
  }
  const found = valid(first, at(minute), purchaseOf(first.code));
  const denials = rest.map((code) => denied(code, at(minute)));
  await recordResults(db, auditId, [found, ...denials], 50);
  await ledger.counts();
  const state = await readCodeState(db, SELLER, first.code);
  await readCodeChecks(db, state?.codeId ?? 0n, 10);
  await readCanaries(db, SELLER, 3);
  await getAudit(db, auditId);
  await listAudits(db, { limit: 20 });
  await listAudits(db, { sellerIds: [SELLER], limit: 20 });
}

it(`no statement of a running audit scans all of ${CODES} codes, with or without table statistics`, async () => {
  await enterSeller(mirror());
  const auditId = await loadMany();
  for (const [index, hasStatistics] of [false, true].entries()) {
    if (hasStatistics) await inNewSessions((_, pool) => pool.query('ANALYZE'));
    const before = await scans();
    await inNewSessions((db) => workOn(db, auditId, index + 1));
    expect(await scans()).toEqual(before);
  }
});
