import { inTransaction, type Db } from '../db/db.js';
import type { StoredCheck, CodeState } from './types.js';

/** SQL of a time in UTC as ISO 8601 to the microsecond, whatever the session's settings. Omits a zero fraction. */
const utc = (column: string): string =>
  `regexp_replace(to_char(p.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '\\.?0*$', '') || 'Z'`;

/** SQL of a `KnownPurchase` as JSON, from row `p` of `mirror.purchase_codes`; null if no purchase was ever seen. */
export const PURCHASE = `
  CASE WHEN p.purchase_seen_at IS NOT NULL THEN json_build_object(
    'purchaseCode', p.answered_code, 'licenseType', p.license_type, 'price', p.price::text,
    'currency', p.currency, 'supportedUntil', ${utc('supported_until')},
    'downloaded', p.downloaded, 'purchasedAt', ${utc('purchased_at')},
    'item', CASE WHEN coalesce(p.item_id::text, p.item_name, p.item_url) IS NOT NULL THEN json_build_object(
      'id', p.item_id, 'name', p.item_name, 'url', p.item_url, 'previewImageUrl', p.item_preview_url,
      'full', p.item_full) END) END`;

/**
 * SQL: whether row `p` is a valid code of an item that the seller's catalogue never had. False while the catalogue is
 * empty: it was not mirrored yet.
 */
export const HAS_UNKNOWN_ITEM = `
  (p.verdict IS NOT DISTINCT FROM 'valid' AND p.item_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM mirror.items i WHERE i.seller_id = p.seller_id AND i.item_id = p.item_id)
   AND EXISTS (SELECT FROM mirror.items i WHERE i.seller_id = p.seller_id))`;

/** SQL of a time as milliseconds since 1970. */
export const MS = (time: string): string => `floor(extract(epoch FROM ${time}) * 1000)::float8`;

/** SQL of a `KnownCode` as JSON, from row `p`; null if the code was never proven. */
export const KNOWN = `
  CASE WHEN p.verdict IS NOT NULL AND p.last_checked_at IS NOT NULL THEN json_build_object(
    'verdict', p.verdict, 'purchase', ${PURCHASE},
    'checkedAt', ${MS('p.last_checked_at')}) END`;

/**
 * SQL of the `Denials` that made code `p` invalid with check `k`, as JSON, or null: all of the same audit up to `k`.
 * The last one that counts is the one between two proofs.
 */
export const DENIALS = `
  SELECT CASE WHEN count(*) > 0 THEN json_build_object(
           'times', count(*), 'first', ${MS('min(checked_at)')}, 'last', ${MS('max(checked_at)')},
           'before', ${MS('max(proven_before)')}, 'after', ${MS('max(proven_after)')}) END AS denials
    FROM mirror.code_checks d
   WHERE d.code_id = k.code_id AND d.check_id <= k.check_id AND d.audit_id = k.audit_id AND d.reason = 'denied'`;

/** SQL of the id of the code that $2 spells for seller $1, null if no list ever had it. */
export const CODE_ID = `coalesce(
  (SELECT coalesce(merged_into, code_id) FROM mirror.purchase_codes WHERE seller_id = $1 AND code = $2),
  (SELECT min(code_id) FROM mirror.purchase_codes
    WHERE seller_id = $1 AND answered_code = $2 AND answered_code <> code))`;

/**
 * Makes one row of each code that the marketplace answered in the same spelling, whatever lists call it.
 * @param codeIds codes that were found
 */
export async function mergeSpellings(
  db: Db,
  sellerId: string,
  codeIds: readonly bigint[],
): Promise<void> {
  if (codeIds.length === 0) return;
  const same = `
    SELECT array_agg(code_id ORDER BY code_id) AS ids FROM mirror.purchase_codes
     WHERE seller_id = $1 AND merged_into IS NULL
       AND (code = ANY($2) OR answered_code = ANY($2) AND answered_code <> code)
     GROUP BY coalesce(answered_code, code) HAVING count(*) > 1`;
  const found = await db.pool.query<{ key: string }>(
    `SELECT DISTINCT coalesce(answered_code, code) AS key FROM mirror.purchase_codes WHERE code_id = ANY($1)`,
    [codeIds],
  );
  const values = [sellerId, found.rows.map(({ key }) => key)];
  if ((await db.pool.query(same, values)).rows.length === 0) return;
  await inTransaction(db, async (client) => {
    await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
      codesLock(sellerId),
    ]);
    await client.query(`SELECT mirror.merge_codes(ids[1], ids[2:]) FROM (${same}) s`, values);
  });
}

/** Name of the lock that whoever adds codes of a seller takes, so that no code gets two rows. */
export function codesLock(sellerId: string): string {
  return `seller-mirror/codes/${sellerId}`;
}

/** Number of running audits on a marketplace, over all sellers. @param marketplace host with port */
export async function countRunningAudits({ pool }: Db, marketplace: string): Promise<number> {
  const { rows } = await pool.query<{ running: number }>(
    `SELECT count(*)::int AS running FROM mirror.audits a JOIN mirror.sellers s USING (seller_id)
      WHERE a.state = 'running' AND s.marketplace = $1`,
    [marketplace],
  );
  return rows[0]?.running ?? 0;
}

/** What is known about a code, however it is spelled; null if it was never in a list, and never asked. */
export async function readCodeState(
  { pool }: Db,
  sellerId: string,
  code: string,
): Promise<CodeState | null> {
  const { rows } = await pool.query<CodeState>(
    `SELECT p.code_id AS "codeId", p.code, ${KNOWN} AS known, p.proof, p.last_check_id AS "lastCheckId",
            p.verdict_since AS "verdictSince", p.first_checked_at AS "firstCheckedAt",
            n.denials, ${HAS_UNKNOWN_ITEM} AS "hasUnknownItem"
       FROM mirror.purchase_codes p
       LEFT JOIN mirror.code_checks k ON k.check_id = p.last_check_id
       LEFT JOIN LATERAL (${DENIALS}) n ON p.verdict IN ('invalid', 'no_longer_valid')
      WHERE p.code_id = ${CODE_ID}`,
    [sellerId, code],
  );
  return rows[0] ?? null;
}

/** The checks of a code, newest first. */
export async function readCodeChecks(
  { pool }: Db,
  codeId: bigint,
  limit: number,
): Promise<StoredCheck[]> {
  const { rows } = await pool.query<StoredCheck>(
    `SELECT check_id AS "checkId", audit_id AS "auditId", checked_at AS "checkedAt", verdict, reason,
            proof, http_status AS "httpStatus", message, proven_before AS "provenBefore",
            proven_after AS "provenAfter", encode(raw_hash, 'hex') AS "rawHash"
       FROM mirror.code_checks WHERE code_id = $1 ORDER BY check_id DESC LIMIT $2`,
    [codeId, limit],
  );
  return rows;
}

export interface RecheckFilter {
  /** Only codes whose last check is at least this old (ms). */
  readonly olderThan: number;
  readonly validOnly: boolean;
  /** Most codes to return. */
  readonly limit: number;
  /** From a denial to the second check, milliseconds; default a minute. */
  readonly confirmAfterMs?: number | undefined;
}

/**
 * Known codes of a seller to check again. Valid codes whose support ended since the last check or ends within 14 days
 * come first, by that date, since buyers extend support about then. The others follow, oldest check first. Codes that checks
 * of the last 30 days left unproven come before all, whatever their age, unless only valid codes are wanted.
 * @param now milliseconds since 1970
 */
export async function findCodesToRecheck(
  { pool }: Db,
  sellerId: string,
  { olderThan, validOnly, limit }: RecheckFilter,
  now: number,
): Promise<string[]> {
  const { rows } = await pool.query<{ readonly code: string }>(
    `WITH unproven AS (
       SELECT DISTINCT p.code
         FROM mirror.audits a JOIN mirror.audit_codes c USING (audit_id) JOIN mirror.purchase_codes p USING (code_id)
        WHERE a.seller_id = $1 AND NOT $2 AND a.unproven > 0 AND a.created_at > $3::timestamptz - interval '30 days'
          AND c.verdict = 'unproven' AND c.position >= 0 AND coalesce(p.last_checked_at < a.created_at, true)
     )
     (SELECT code FROM unproven ORDER BY code COLLATE "C" LIMIT $5)
     UNION ALL
     (SELECT code
       FROM mirror.purchase_codes,
            LATERAL (SELECT CASE WHEN verdict = 'valid' AND supported_until > last_checked_at
                                  AND supported_until <= $3::timestamptz + interval '14 days'
                                 THEN supported_until END AS support_ends) AS s
      WHERE seller_id = $1 AND (verdict = 'valid' OR verdict IS NOT NULL AND NOT $2)
        AND last_checked_at <= $4 AND code NOT IN (SELECT code FROM unproven)
      ORDER BY support_ends, last_checked_at, code COLLATE "C"
      LIMIT $5)
     LIMIT $5`,
    [sellerId, validOnly, new Date(now), new Date(now - olderThan), limit],
  );
  return rows.map(({ code }) => code);
}
