import type { Db } from '../../db/db.js';

/**
 * Codes that were valid until an audit found that they no longer are.
 * @param since only those that were denied since then, ISO 8601
 */
export async function countNoLongerValid(
  { pool }: Db,
  auditId: bigint,
  since?: string,
): Promise<number> {
  const { rows } = await pool.query<{ codes: number }>(
    `SELECT count(*)::int AS codes FROM mirror.audits a
       JOIN mirror.code_transitions t ON t.seller_id = a.seller_id AND t.happened_at >= a.created_at
       JOIN mirror.code_checks c ON c.check_id = t.check_id AND c.audit_id = a.audit_id
      WHERE a.audit_id = $1 AND t.kind = 'became-invalid'
        AND ($2::timestamptz IS NULL OR t.happened_at >= $2::timestamptz)`,
    [auditId, since ?? null],
  );
  return rows[0]?.codes ?? 0;
}

/** Amounts are decimal texts. */
export interface BalanceChange {
  readonly balance: string;
  readonly currency: string | null;
  readonly oldBalance: string;
  readonly oldCurrency: string | null;
  readonly changedAt: Date;
}

/** The last change of a seller's account, if the balance was part of it; null otherwise. */
export async function readBalanceChange(
  { pool }: Db,
  sellerId: string,
): Promise<BalanceChange | null> {
  const { rows } = await pool.query<BalanceChange>(
    `SELECT a.balance::text, a.currency, old.balance::text AS "oldBalance",
            old.currency AS "oldCurrency", a.changed_at AS "changedAt"
       FROM mirror.accounts a
       JOIN LATERAL (SELECT balance, currency FROM mirror.account_versions v
                      WHERE v.seller_id = a.seller_id AND v.valid_from < a.changed_at
                      ORDER BY v.valid_from DESC LIMIT 1) old ON true
      WHERE a.seller_id = $1
        AND (a.balance, a.currency) IS DISTINCT FROM (old.balance, old.currency)
        AND a.balance IS NOT NULL AND old.balance IS NOT NULL`,
    [sellerId],
  );
  return rows[0] ?? null;
}
