/**
 * Checks of one list with several sellers: an audit each. All are asked in a first pass before any second check, and a
 * code that one has sold leaves the audits of the others.
 */

import { inTransaction, type Db } from '../db/db.js';

/** For each of these codes that was valid when it was last checked: the first of the sellers who sold it. */
export async function readHomes(
  { pool }: Pick<Db, 'pool'>,
  sellerIds: readonly string[],
  codes: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await pool.query<{ code: string; seller: string }>(
    `SELECT DISTINCT ON (s.code) s.code, s.seller_id AS seller
       FROM mirror.purchase_codes s JOIN mirror.purchase_codes p ON p.code_id = coalesce(s.merged_into, s.code_id)
      WHERE s.seller_id = ANY($1) AND s.code = ANY($2) AND p.verdict = 'valid'
      ORDER BY s.code, array_position($1, s.seller_id)`,
    [sellerIds, codes],
  );
  return new Map(rows.map(({ code, seller }) => [code, seller]));
}

/** Lets no second check of these audits begin for so long, milliseconds; 0: it may begin. */
export async function holdAudits(
  { pool }: Pick<Db, 'pool'>,
  auditIds: readonly bigint[],
  ms: number,
): Promise<void> {
  await pool.query(
    `UPDATE mirror.audits SET held_until = clock_timestamp() + $2::float8 * interval '1 ms' WHERE audit_id = ANY($1)`,
    [auditIds, ms],
  );
}

/** The lines of an audit's list whose code is valid. */
export async function readFoundLines(
  { pool }: Pick<Db, 'pool'>,
  auditId: bigint,
): Promise<readonly number[]> {
  const { rows } = await pool.query<{ line: number }>(
    `SELECT e.line FROM mirror.audit_entries e JOIN mirror.audit_codes c USING (audit_id, position)
      WHERE e.audit_id = $1 AND c.verdict = 'valid'`,
    [auditId],
  );
  return rows.map(({ line }) => line);
}

/** Takes the codes of these lines out of an audit, as far as they have no verdict. Their denials were only calls. */
export async function withdrawLines(
  db: Db,
  auditId: bigint,
  lines: readonly number[],
): Promise<void> {
  await inTransaction(db, (client) =>
    client.query(
      `WITH gone AS (
         DELETE FROM mirror.audit_codes
          WHERE audit_id = $1 AND verdict IS NULL
            AND position IN (SELECT position FROM mirror.audit_entries WHERE audit_id = $1 AND line = ANY($2))
         RETURNING position, code_id, denied_at
       ), own_lines AS (
         DELETE FROM mirror.audit_entries e USING gone g WHERE e.audit_id = $1 AND e.position = g.position RETURNING 1
       ), checks AS (
         DELETE FROM mirror.code_checks k USING gone g WHERE k.audit_id = $1 AND k.code_id = g.code_id
       )
       UPDATE mirror.audits a
          SET lines = a.lines - n.lines, codes = a.codes - n.codes, pending = a.pending - n.codes,
              denied = a.denied - n.denied
         FROM (SELECT count(*)::int AS codes, count(denied_at)::int AS denied,
                      (SELECT count(*)::int FROM own_lines) AS lines FROM gone) n
        WHERE a.audit_id = $1`,
      [auditId, lines],
    ),
  );
}
