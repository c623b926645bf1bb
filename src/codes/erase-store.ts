import { UserError } from '../domain/user-error.js';
import { inTransaction, type Db } from '../db/db.js';
import { codesLock } from './codes-store.js';

/** What erasing a code removed. */
export interface Erased {
  readonly sellerId: string;
  readonly codeId: bigint;
  /** Lines of lists whose own columns were emptied. */
  readonly lines: number;
  /** Uploaded workbooks with the code, which were deleted: their results are made as plain lists from now on. */
  readonly workbooks: number;
}

/** SQL of the rows of a code: $2 as a list or the marketplace spells it, and all its other spellings. */
const ROWS = `
  WITH named AS (
    SELECT coalesce(merged_into, code_id) AS code_id FROM mirror.purchase_codes
     WHERE seller_id = $1 AND (code = $2 OR answered_code = $2)
  )
  SELECT DISTINCT p.code_id AS "codeId", coalesce(p.merged_into, p.code_id) AS "ownId"
    FROM mirror.purchase_codes p JOIN named n ON n.code_id IN (p.code_id, p.merged_into)
   WHERE p.seller_id = $1`;

/**
 * Erases the text of a code, in all its spellings, and the own columns of the lines of lists that have it: a
 * customer's wish. Its verdicts, prices and dates stay, so that sums stay right. It is never asked about again,
 * unless a list brings it again. Uploaded lists whose checks were not started are deleted, whatever they hold.
 * @returns null if the seller's store does not have the code
 * @throws {UserError} while a check of it is running
 */
export async function eraseCode(db: Db, sellerId: string, code: string): Promise<Erased | null> {
  return inTransaction(db, async (client) => {
    await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
      codesLock(sellerId),
    ]);
    const { rows } = await client.query<{ codeId: string; ownId: string }>(ROWS, [sellerId, code]);
    const [first] = rows;
    if (first === undefined) return null;
    const ids = rows.map(({ codeId }) => codeId);
    const { rows: running } = await client.query<{ audit: string }>(
      `SELECT min(a.audit_id)::text AS audit FROM mirror.audits a JOIN mirror.audit_codes c USING (audit_id)
        WHERE c.code_id = ANY($1) AND a.state = 'running' HAVING count(*) > 0`,
      [ids],
    );
    if (running[0] !== undefined) {
      const { audit } = running[0];
      throw new UserError(
        `check ${audit} of this code is running`,
        `wait, or press Cancel on the page of the check; \`seller-mirror audits cancel ${audit}\` does the same`,
        'FAILED',
      );
    }
    // Without the time of a check, no proof and no re-check chooses the code.
    await client.query(
      `UPDATE mirror.purchase_codes
          SET code = 'erased ' || code_id, answered_code = NULL, found_form = NULL, raw = NULL,
              last_checked_at = NULL
        WHERE code_id = ANY($1)`,
      [ids],
    );
    await client.query(
      'UPDATE mirror.code_checks SET message = NULL, raw_hash = NULL WHERE code_id = ANY($1)',
      [ids],
    );
    await client.query(
      'UPDATE mirror.audits SET known_valid = NULL WHERE seller_id = $1 AND known_valid = $2',
      [sellerId, code],
    );
    const lines = await client.query(
      `UPDATE mirror.audit_entries e
          SET columns = array_fill(''::text, ARRAY[cardinality(e.columns)])
         FROM mirror.audit_codes c
        WHERE c.code_id = ANY($1) AND e.audit_id = c.audit_id AND e.position = c.position`,
      [ids],
    );
    const workbooks = await client.query(
      `DELETE FROM mirror.audit_workbooks w USING mirror.audit_codes c
        WHERE c.code_id = ANY($1) AND w.audit_id = c.audit_id`,
      [ids],
    );
    await client.query(
      'UPDATE mirror.audit_codes SET spelling = NULL, denied_form = NULL WHERE code_id = ANY($1)',
      [ids],
    );
    await client.query(`DELETE FROM mirror.audits WHERE seller_id = $1 AND state = 'draft'`, [
      sellerId,
    ]);
    const [rowsOfLines, files] = [lines.rowCount ?? 0, workbooks.rowCount ?? 0];
    return { sellerId, codeId: BigInt(first.ownId), lines: rowsOfLines, workbooks: files };
  });
}
