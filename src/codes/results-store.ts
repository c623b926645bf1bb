import { readBatches } from '../db/batches.js';
import { DENIALS, HAS_UNKNOWN_ITEM, PURCHASE } from './codes-store.js';
import type { Db } from '../db/db.js';
import type { AuditResult, UnprovenCount } from './types.js';

/** SQL of the proof of a verdict. An invalid code that was denied once more keeps the proof that it had. */
const PROOF = `CASE WHEN c.verdict IN ('invalid', 'no_longer_valid') AND k.proof = 'none' THEN p.proof ELSE k.proof END`;

/** SQL of why a code has its verdict: a code that is given up keeps the reason for that, whatever its last answer said. */
const REASON = `CASE WHEN c.verdict = 'unproven' THEN coalesce(c.reason, k.reason) ELSE k.reason END`;

/**
 * SQL of what an audit found about a code, for its rows c of `audit_codes`, p of `purchase_codes`, k of `code_checks`
 * and n, its `DENIALS`.
 */
export const FINDING = `
  c.verdict, k.checked_at AS "checkedAt", ${PROOF} AS proof, ${REASON} AS reason,
  k.http_status AS "httpStatus", k.message, n.denials, ${PURCHASE} AS purchase,
  ${HAS_UNKNOWN_ITEM} AS "hasUnknownItem"`;

/**
 * `OFFSET 0` makes PostgreSQL look up the code of each record by its key. Without statistics of a new audit it would
 * expect a handful of codes, and compare each record with all of them.
 */
export const RESULTS = `
  SELECT e.line, e.position, e.columns, e.rejected, coalesce(c.spelling, p.code) AS code, coalesce(c.reused, false) AS reused, ${FINDING}
    FROM mirror.audit_entries e
    LEFT JOIN LATERAL (
      SELECT * FROM mirror.audit_codes
       WHERE audit_id = e.audit_id AND position = e.position OFFSET 0) c ON true
    LEFT JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
    LEFT JOIN LATERAL (${DENIALS}) n ON c.verdict IN ('invalid', 'no_longer_valid')
   WHERE e.audit_id = $1 ORDER BY e.entry`;

/** Records fetched at once. */
const BATCH_ROWS = 1_000;

/** Yields the records of an audit's list with their results, in list order, from one snapshot and in bounded memory. */
export async function* readAuditResults(
  db: Db,
  auditId: bigint,
): AsyncGenerator<AuditResult, void, undefined> {
  for await (const rows of readBatches<AuditResult>(db, RESULTS, [auditId], BATCH_ROWS)) {
    yield* rows;
  }
}

/** How often the list has each code that it repeats, by the code's position in the audit. */
export async function readRepeated({ pool }: Db, auditId: bigint): Promise<Map<number, number>> {
  const { rows } = await pool.query<{ position: number; times: number }>(
    `SELECT position, count(*)::int AS times FROM mirror.audit_entries
      WHERE audit_id = $1 AND position IS NOT NULL GROUP BY position HAVING count(*) > 1`,
    [auditId],
  );
  return new Map(rows.map(({ position, times }) => [position, times]));
}

/** Number of codes that the audit found invalid with account details as the only proof. */
export async function countAccountProven({ pool }: Db, auditId: bigint): Promise<number> {
  const { rows } = await pool.query<{ codes: number }>(
    `SELECT count(*)::int AS codes
       FROM mirror.audit_codes c JOIN mirror.code_checks k ON k.check_id = c.check_id
       JOIN mirror.purchase_codes p ON p.code_id = c.code_id
      WHERE c.audit_id = $1 AND c.verdict IN ('invalid', 'no_longer_valid')
        AND ${PROOF} = 'account'`,
    [auditId],
  );
  return rows[0]?.codes ?? 0;
}

/** Why codes of an audit have no verdict, most frequent reason first. */
export async function countUnproven({ pool }: Db, auditId: bigint): Promise<UnprovenCount[]> {
  const { rows } = await pool.query<UnprovenCount>(
    `SELECT ${REASON} AS reason, count(*)::int AS codes
       FROM mirror.audit_codes c LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
      WHERE c.audit_id = $1 AND (c.verdict = 'unproven' OR c.verdict IS NULL)
        AND coalesce(c.reason, k.reason) IS NOT NULL
      GROUP BY 1 ORDER BY codes DESC, 1`,
    [auditId],
  );
  return rows;
}
