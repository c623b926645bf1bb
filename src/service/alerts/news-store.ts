import type { Db } from '../../db/db.js';
import { LATEST_BELIEVED } from '../../db/moments.js';
import { PAUSED } from '../../catalogue/sellers-store.js';
import type { Alert } from '../../catalogue/types.js';

/** What happened longer ago is no news: nobody was there to send it, or alerts were not configured then. */
const NEWS = `> now() - interval '1 hour'`;
const isNews = (at: string): string => `${at} ${NEWS} AND ${at} <= ${LATEST_BELIEVED}`;

/** Sellers whose alerts are wanted, and those of them that have a schedule for the account. */
export interface NewsFilter {
  readonly sellers: readonly string[];
  readonly watchedAccounts: readonly string[];
}

/**
 * Finds what happened within the last hour, whoever did it: failed and held runs, stopped sellers, removed items, changed
 * balances, finished checks. It follows from rows alone, so that it can be asked again at any time.
 */
export async function findNews(
  { pool }: Db,
  { sellers, watchedAccounts }: NewsFilter,
): Promise<Alert[]> {
  const { rows } = await pool.query<{ news: Alert }>(
    `SELECT jsonb_build_object('kind', CASE r.state WHEN 'held' THEN 'run-held' ELSE 'run-failed' END,
                               'runId', r.run_id::text) AS news
       FROM mirror.runs r JOIN mirror.sellers s USING (seller_id)
      WHERE seller_id = ANY ($1) AND ${isNews('r.finished_at')}
        AND (r.state = 'held'
             OR r.state = 'failed' AND r.retry_at IS NULL AND r.problem_code IS DISTINCT FROM 'not-found'
                -- These stop the seller, which has an alert of its own; but not a paused one, and a command’s run stops none.
                AND (r.problem_code NOT IN ('refused', 'account-changed', 'account-twice')
                     OR r.due_at IS NULL AND s.parked_at IS NULL
                     OR s.parked_code = $3 AND r.started_at >= s.parked_at))
     UNION ALL
     SELECT jsonb_build_object('kind', 'seller-parked', 'seller', seller_id,
                               'runId', (SELECT min(r.run_id)::text FROM mirror.runs r
                                          WHERE r.seller_id = s.seller_id AND r.finished_at >= s.parked_at - interval '1 minute'
                                            AND r.problem_code IN ('refused', 'account-changed', 'account-twice')))
       FROM mirror.sellers s
      WHERE seller_id = ANY ($1) AND parked_code <> $3 AND ${isNews('s.parked_at')}
     UNION ALL
     SELECT jsonb_build_object('kind', 'items-removed', 'seller', seller_id, 'runId', run_id::text)
       FROM mirror.runs r
      WHERE seller_id = ANY ($1) AND ${isNews('finished_at')} AND kind <> 'account' AND removed > 0
        AND state IN ('succeeded', 'held')
     UNION ALL
     SELECT jsonb_build_object('kind', 'balance-changed', 'seller', r.seller_id, 'runId', r.run_id::text)
       FROM mirror.runs r
       JOIN mirror.account_versions v ON v.seller_id = r.seller_id AND v.superseded_run_id = r.run_id
      WHERE r.seller_id = ANY ($2) AND ${isNews('r.finished_at')} AND r.kind = 'account' AND r.changed > 0
     UNION ALL
     SELECT jsonb_build_object('kind', 'fields-new', 'seller', f.seller_id, 'runId', f.first_run_id::text,
                               'field', f.field)
       FROM mirror.item_fields f JOIN mirror.sellers s USING (seller_id)
      WHERE seller_id = ANY ($1) AND ${isNews('f.first_seen_at')} AND f.first_run_id > s.loaded_run_id
     UNION ALL
     SELECT jsonb_build_object('kind', 'audit-finished', 'auditId', audit_id::text)
       FROM mirror.audits a
      WHERE seller_id = ANY ($1) AND NOT is_look_ups
        AND state = 'finished' AND ${isNews('finished_at')}
     UNION ALL
     SELECT jsonb_strip_nulls(jsonb_build_object(
              'kind', 'codes-no_longer_valid', 'auditId', a.audit_id::text,
              'since', CASE WHEN a.is_look_ups THEN to_char(min(t.happened_at), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END))
       FROM mirror.code_transitions t
       JOIN mirror.code_checks c USING (check_id)
       JOIN mirror.audits a ON a.audit_id = c.audit_id
      WHERE t.seller_id = ANY ($1) AND ${isNews('t.happened_at')} AND t.kind = 'became-invalid'
        AND (a.state = 'finished' OR a.is_look_ups)
        -- Look-ups of a day have no end. What an alert has told is left out.
        AND NOT (a.is_look_ups AND EXISTS (
          SELECT FROM mirror.alerts told
           WHERE told.type = 'codes.no_longer_valid' AND told.created_at >= t.happened_at
             AND told.message->'alert'->>'auditId' = a.audit_id::text))
      GROUP BY a.audit_id, a.is_look_ups`,
    [sellers, watchedAccounts, PAUSED],
  );
  return rows.map(({ news }) => news);
}

/** The fields that a run found first. */
export async function readNewFields(
  { pool }: Db,
  sellerId: string,
  runId: bigint,
): Promise<{ readonly field: string; readonly firstSeenAt: Date }[]> {
  const { rows } = await pool.query<{ field: string; firstSeenAt: Date }>(
    `SELECT field, first_seen_at AS "firstSeenAt" FROM mirror.item_fields
      WHERE seller_id = $1 AND first_run_id = $2 ORDER BY field`,
    [sellerId, runId],
  );
  return rows;
}

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

/** How a run changed the balance of a seller's account; null if it did not. Later changes don't matter. */
export async function readBalanceChange(
  { pool }: Db,
  sellerId: string,
  runId: bigint,
): Promise<BalanceChange | null> {
  const { rows } = await pool.query<BalanceChange>(
    `SELECT new.balance::text, new.currency, old.balance::text AS "oldBalance",
            old.currency AS "oldCurrency", old.valid_to AS "changedAt"
       FROM mirror.account_versions old
       JOIN LATERAL (
         SELECT balance, currency FROM mirror.account_versions v
          WHERE v.seller_id = old.seller_id AND v.valid_from = old.valid_to
          UNION ALL
         SELECT balance, currency FROM mirror.accounts a
          WHERE a.seller_id = old.seller_id AND a.changed_at = old.valid_to) new ON true
      WHERE old.seller_id = $1 AND old.superseded_run_id = $2
        AND (new.balance, new.currency) IS DISTINCT FROM (old.balance, old.currency)
        AND new.balance IS NOT NULL AND old.balance IS NOT NULL`,
    [sellerId, runId],
  );
  return rows[0] ?? null;
}
