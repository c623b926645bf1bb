import type { PoolClient } from 'pg';
import type { SecondLookPlan } from '../../domain/codes/second-look.js';
import { PENDING_COLUMNS } from './chunks.js';
import { addCounts } from './record.js';
import { checkpointColumns, LONGEST_TEXT, storable } from './columns.js';
import { type Db, inTransaction } from '../db.js';
import type { DeniedCanary, DeniedCodes, PendingCode } from './types.js';

/** Counts that the plan of the second look needs, or null if there is no such audit. */
export async function readDeniedCodes({ pool }: Db, auditId: bigint): Promise<DeniedCodes | null> {
  const { rows } = await pool.query<DeniedCodes>(
    `SELECT confirm, codes - reused AS checked, denied, valid, overturned, pending - denied AS open
       FROM mirror.audits WHERE audit_id = $1`,
    [auditId],
  );
  return rows[0] ?? null;
}

/**
 * Denied codes of an audit to check again, by position: one pseudo-random code of every `oneIn` (always the same one),
 * and all codes that were valid before.
 */
export async function findCodesToLookAt(
  { pool }: Db,
  auditId: bigint,
  { denials, oneIn }: Extract<SecondLookPlan, { kind: 'look' }>,
  limit: number,
): Promise<PendingCode[]> {
  const { rows } = await pool.query<PendingCode>(
    `WITH waiting AS (
       SELECT *, (row_number() OVER (ORDER BY position) - 1) / $2::int AS block
         FROM mirror.audit_codes WHERE audit_id = $1 AND verdict IS NULL AND denials > 0
     ), drawn AS (
       SELECT *, row_number() OVER (PARTITION BY block ORDER BY md5($1::text || '/' || position)) AS lot
         FROM waiting
     )
     SELECT ${PENDING_COLUMNS}
       FROM drawn a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
      WHERE a.denials < $3::int AND (a.lot = 1 OR (p.verdict = 'valid' AND $3::int > 1))
      ORDER BY a.position LIMIT $4`,
    [auditId, oneIn, denials, limit],
  );
  return rows;
}

/** Codes settled in one transaction. */
const PER_TRANSACTION = 5_000;

/** Gives every denied code of an audit its verdict. @returns the number of codes */
export async function settleDenied(
  db: Db,
  auditId: bigint,
  verdict: 'invalid' | 'unproven',
): Promise<number> {
  for (let total = 0; ;) {
    const settled = await inTransaction(db, (client) => settleSome(client, auditId, verdict));
    total += settled;
    if (settled < PER_TRANSACTION) return total;
  }
}

/**
 * Settles some denied codes, those with the fewest denials first, so that an interruption leaves the codes that
 * were checked again. Locks rows in the same order as `record`.
 */
async function settleSome(
  client: PoolClient,
  auditId: bigint,
  verdict: 'invalid' | 'unproven',
): Promise<number> {
  const { rows } = await client.query<{ settled: number }>(
    `WITH picked AS MATERIALIZED (
       SELECT a.position, a.code_id, a.check_id, p.verdict AS was, k.checked_at, k.proof, p.last_checked_at
         FROM (SELECT audit_id, position FROM mirror.audit_codes
                WHERE audit_id = $1 AND verdict IS NULL AND denials > 0
                ORDER BY denials, position LIMIT $3) chosen
         JOIN mirror.audit_codes a USING (audit_id, position)
         JOIN mirror.purchase_codes p ON p.code_id = a.code_id
         JOIN mirror.code_checks k ON k.check_id = a.check_id
        WHERE a.verdict IS NULL
        ORDER BY p.code_id FOR NO KEY UPDATE OF p, a
     ), newly_invalid AS (
       SELECT * FROM picked
        WHERE $2 = 'invalid' AND (last_checked_at IS NULL OR last_checked_at <= checked_at)
     ), codes AS (
       UPDATE mirror.purchase_codes p
          SET verdict = 'invalid', proof = n.proof, last_checked_at = n.checked_at,
              last_check_id = n.check_id, changed_seq = nextval('mirror.item_changes_seq_seq'),
              verdict_since = CASE WHEN p.verdict = 'invalid' THEN p.verdict_since ELSE n.checked_at END,
              first_checked_at = coalesce(p.first_checked_at, n.checked_at), denied_at = NULL
         FROM newly_invalid n WHERE p.code_id = n.code_id
     ), transitions AS (
       INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
       SELECT a.seller_id, n.code_id, n.check_id, n.checked_at, 'became-invalid', 'valid', 'invalid'
         FROM newly_invalid n JOIN mirror.audits a ON a.audit_id = $1
        WHERE n.was = 'valid' ORDER BY n.position
     ), audit_codes AS (
       UPDATE mirror.audit_codes a SET verdict = $2::mirror.code_verdict
         FROM picked WHERE a.audit_id = $1 AND a.position = picked.position
     )
     SELECT count(*)::int AS settled FROM picked`,
    [auditId, verdict, PER_TRANSACTION],
  );
  const settled = rows[0]?.settled ?? 0;
  const none = { valid: 0, invalid: 0, unproven: 0, apiCalls: 0, overturned: 0 };
  await addCounts(client, auditId, { ...none, [verdict]: settled, denied: -settled }, []);
  return settled;
}

/**
 * Records counted denials of valid codes that served as canaries. A code becomes invalid at a second denial at least
 * `afterMs` after the first one.
 * @param found codes that were denied before and are found now
 */
export async function recordDeniedCanaries(
  { pool }: Db,
  sellerId: string,
  canaries: readonly DeniedCanary[],
  found: readonly string[],
  afterMs: number,
): Promise<void> {
  if (found.length > 0) {
    await pool.query(
      `UPDATE mirror.purchase_codes SET denied_at = NULL
        WHERE seller_id = $1 AND code = ANY($2::text[]) AND denied_at IS NOT NULL`,
      [sellerId, found],
    );
  }
  if (canaries.length === 0) return;
  const rows = canaries.map(({ code, checkedAt, checkpoints, proof, httpStatus, message }) => ({
    code,
    checked_at: checkedAt,
    proof,
    http_status: httpStatus,
    message: message === null ? null : storable(message, LONGEST_TEXT),
    ...checkpointColumns(checkpoints),
  }));
  await pool.query(
    `WITH incoming AS (
       SELECT p.code_id, c.*, p.denied_at,
              p.denied_at IS NOT NULL AND c.checked_at - p.denied_at >= $3::int * interval '1 ms' AS confirmed
         FROM json_to_recordset($2) AS c (
           code text, checked_at timestamptz, proof text, http_status int, message text,
           checkpoint_before timestamptz, checkpoint_after timestamptz)
         JOIN mirror.purchase_codes p ON p.seller_id = $1 AND p.code = c.code
        WHERE p.verdict = 'valid' AND p.last_checked_at < c.checked_at
        ORDER BY p.code_id FOR NO KEY UPDATE OF p
     ), checks AS (
       INSERT INTO mirror.code_checks (seller_id, code_id, audit_id, checked_at, verdict, reason, proof,
                                       http_status, message, checkpoint_before, checkpoint_after)
       SELECT $1, code_id, NULL, checked_at,
              (CASE WHEN confirmed THEN 'invalid' ELSE 'unproven' END)::mirror.code_verdict,
              CASE WHEN confirmed THEN 'denied' ELSE 'unconfirmed' END, proof, http_status, message,
              checkpoint_before, checkpoint_after
         FROM incoming
       RETURNING check_id, code_id
     ), transitions AS (
       INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
       SELECT $1, i.code_id, k.check_id, i.checked_at, 'became-invalid', 'valid', 'invalid'
         FROM incoming i JOIN checks k USING (code_id) WHERE i.confirmed ORDER BY k.check_id
     ), invalid AS (
       UPDATE mirror.purchase_codes p
          SET verdict = 'invalid', proof = i.proof, verdict_since = i.checked_at,
              last_checked_at = i.checked_at, last_check_id = k.check_id, denied_at = NULL,
              changed_seq = nextval('mirror.item_changes_seq_seq')
         FROM incoming i JOIN checks k USING (code_id) WHERE p.code_id = i.code_id AND i.confirmed
     )
     UPDATE mirror.purchase_codes p SET denied_at = coalesce(i.denied_at, i.checked_at)
       FROM incoming i WHERE p.code_id = i.code_id AND NOT i.confirmed`,
    [sellerId, JSON.stringify(rows), afterMs],
  );
}

/** Valid codes that were denied as canaries at least `afterMs` ago, and not found since. */
export async function readDeniedCanaries(
  { pool }: Db,
  sellerId: string,
  afterMs: number,
  limit: number,
): Promise<readonly string[]> {
  const { rows } = await pool.query<{ code: string }>(
    `SELECT code FROM mirror.purchase_codes
      WHERE seller_id = $1 AND denied_at <= now() - $2::int * interval '1 ms'
      ORDER BY denied_at LIMIT $3`,
    [sellerId, afterMs, limit],
  );
  return rows.map(({ code }) => code);
}
