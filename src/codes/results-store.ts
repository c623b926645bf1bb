import { readBatches } from '../db/batches.js';
import { DENIALS, HAS_UNKNOWN_ITEM, PURCHASE } from './codes-store.js';
import type { Db } from '../db/db.js';
import type { AuditResult } from './result.js';
import type { AuditProgress, UnprovenCount } from './types.js';

/** SQL of the proof of a verdict. An invalid code that was denied once more keeps the proof that it had. */
const PROOF = `coalesce(
  CASE WHEN c.verdict IN ('invalid', 'no_longer_valid') AND k.proof = 'none' THEN p.proof ELSE k.proof END, 'none')`;

/** SQL of why a code has its verdict: a code that is given up keeps the reason for that, whatever its last answer said. */
const REASON = `coalesce(
  CASE WHEN c.verdict = 'unproven' THEN coalesce(c.reason, k.reason) ELSE k.reason END, '')`;

/**
 * SQL of what an audit found about a code, as a `Finding`: for its rows c of `audit_codes`, p of `purchase_codes`, k of
 * `code_checks` and n, its `DENIALS`.
 * @param rejected SQL of why its line has no code; null: it has one
 */
export const findingOf = (rejected = 'NULL'): string => `
  CASE WHEN c.position IS NULL THEN 'rejected' ELSE coalesce(c.verdict::text, 'pending') END AS verdict,
  CASE WHEN c.position IS NULL THEN coalesce(${rejected}, 'it holds no code') ELSE ${REASON} END AS reason,
  CASE WHEN c.verdict IS NOT NULL THEN k.checked_at END AS "checkedAt", ${PROOF} AS proof,
  k.http_status AS "httpStatus", k.message, n.denials, ${PURCHASE} AS purchase,
  ${HAS_UNKNOWN_ITEM} AS "hasUnknownItem"`;

/**
 * `OFFSET 0` makes PostgreSQL look up the code of each record by its key. Without statistics of a new audit it would
 * expect a handful of codes, and compare each record with all of them.
 */
const RESULTS = `
  SELECT e.line, e.position, e.columns, coalesce(c.spelling, p.code) AS code, ${findingOf('e.rejected')}
    FROM mirror.audit_entries e
    LEFT JOIN LATERAL (
      SELECT * FROM mirror.audit_codes
       WHERE audit_id = e.audit_id AND position = e.position OFFSET 0) c ON true
    LEFT JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
    LEFT JOIN LATERAL (${DENIALS}) n ON c.verdict IN ('invalid', 'no_longer_valid')
   WHERE e.audit_id = $1 ORDER BY e.entry`;

type Row = Omit<AuditResult, 'listed' | 'seller'> & { readonly position: number | null };

/** Records fetched at once. */
const BATCH_ROWS = 1_000;

/** An audit, and whose. */
export type SellersAudit = Pick<AuditProgress, 'auditId' | 'sellerId'>;

/**
 * Yields the records of a list with their results, in list order and from one snapshot. If several sellers were asked, the
 * result of each record that says most.
 * @param parts the audit, whose records are read in bounded memory; if several sellers were asked, the audit of each
 */
export async function* readResults(
  db: Db,
  parts: readonly SellersAudit[],
): AsyncGenerator<AuditResult, void, undefined> {
  const [first, ...others] = parts;
  if (first === undefined) return;
  if (others.length === 0) {
    yield* resultsOf(db, first);
    return;
  }
  const best = new Map<number, AuditResult>();
  for (const part of parts) {
    for await (const result of resultsOf(db, part)) {
      const before = best.get(result.line);
      if (before === undefined || rankOf(result) < rankOf(before)) best.set(result.line, result);
    }
  }
  yield* [...best.values()].sort((a, b) => a.line - b.line);
}

/** With a seller who gave no answer, nobody knows that nobody sold a code. */
const MOST_FIRST: readonly string[] = [
  'valid',
  'unproven',
  'pending',
  'no_longer_valid',
  'invalid',
];

function rankOf({ verdict }: AuditResult): number {
  return MOST_FIRST.indexOf(verdict);
}

async function* resultsOf(
  db: Db,
  { auditId, sellerId }: SellersAudit,
): AsyncGenerator<AuditResult, void, undefined> {
  const repeated = await readRepeated(db, auditId);
  for await (const rows of readBatches<Row>(db, RESULTS, [auditId], BATCH_ROWS)) {
    for (const { position, ...row } of rows) {
      const listed = position === null ? null : (repeated.get(position) ?? 1);
      yield { ...row, listed, seller: row.verdict === 'valid' ? sellerId : null };
    }
  }
}

/** How often the list has each code that it repeats, by the code's position in the audit. */
async function readRepeated({ pool }: Db, auditId: bigint): Promise<Map<number, number>> {
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
