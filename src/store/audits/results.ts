import type { Pool, QueryResult } from 'pg';
import { type LockPools, openLong } from '../locks.js';
import {
  DENIALS_COLUMNS,
  type DenialsRow,
  LEDGER_DENIALS,
  PURCHASE,
  withDenials,
} from './columns.js';
import type { AuditResult, UnprovenCount } from './types.js';

/**
 * The last check of an invalid code only says that it was denied once more.
 *
 * `OFFSET 0` makes PostgreSQL look up the code of each record by its key. Of an audit whose figures it
 * has not gathered yet it expects a handful of codes, and would compare each record with all of them.
 */
export const RESULTS = `
  SELECT e.line, e.columns, e.rejected, p.code, c.verdict, coalesce(c.reused, false) AS reused,
         k.checked_at AS "checkedAt", k.proof,
         CASE WHEN c.verdict = 'invalid' THEN 'denied' ELSE k.reason END AS reason,
         ${DENIALS_COLUMNS}, ${PURCHASE} AS purchase
    FROM mirror.audit_entries e
    LEFT JOIN LATERAL (
      SELECT * FROM mirror.audit_codes
       WHERE audit_id = e.audit_id AND position = e.position OFFSET 0) c ON true
    LEFT JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
    LEFT JOIN LATERAL (${LEDGER_DENIALS}) n ON c.verdict = 'invalid'
   WHERE e.audit_id = $1 ORDER BY e.entry`;

type Row = Omit<AuditResult, 'denials'> & DenialsRow;

/** Records of one portion; the next one is fetched while the caller is at work on this one. */
const PORTION = 1_000;

/**
 * The records of an audit's list in their order with what came of them, in bounded memory: all as of the
 * moment of the first. Whoever reads may take any time, on a connection of its own.
 */
export async function* auditResults(
  pools: LockPools,
  auditId: bigint,
): AsyncGenerator<AuditResult, void, undefined> {
  const { client, release } = await openLong(pools);
  let isDone = false;
  const fetch = (): Promise<QueryResult<Row>> => {
    const portion = client.query<Row>(`FETCH ${PORTION} FROM results`);
    // Told when it is waited for; a caller that turns away does not wait for it.
    portion.catch(() => undefined);
    return portion;
  };
  try {
    await client.query('BEGIN TRANSACTION READ ONLY');
    await client.query(`DECLARE results NO SCROLL CURSOR FOR ${RESULTS}`, [auditId]);
    let portion = fetch();
    for (;;) {
      const { rows } = await portion;
      if (rows.length === 0) break;
      portion = fetch();
      yield* rows.map(withDenials);
    }
    await client.query('COMMIT');
    isDone = true;
  } finally {
    // Of a caller that turned away, the connection may be in the middle of an answer.
    release(isDone);
  }
}

/** How many codes the audit found invalid with no other proof than account details. */
export async function accountProven(pool: Pool, auditId: bigint): Promise<number> {
  const { rows } = await pool.query<{ codes: number }>(
    `SELECT count(*)::int AS codes
       FROM mirror.audit_codes c JOIN mirror.code_checks k ON k.check_id = c.check_id
      WHERE c.audit_id = $1 AND c.verdict = 'invalid' AND k.proof = 'account'`,
    [auditId],
  );
  return rows[0]?.codes ?? 0;
}

/** Why codes of an audit have no verdict, the most frequent reason first. */
export async function unprovenCounts(pool: Pool, auditId: bigint): Promise<UnprovenCount[]> {
  const { rows } = await pool.query<UnprovenCount>(
    `SELECT k.reason, count(*)::int AS codes
       FROM mirror.audit_codes c JOIN mirror.code_checks k ON k.check_id = c.check_id
      WHERE c.audit_id = $1 AND (c.verdict = 'unproven' OR c.verdict IS NULL)
      GROUP BY k.reason ORDER BY codes DESC, k.reason`,
    [auditId],
  );
  return rows;
}
