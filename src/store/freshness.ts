import type { Pool } from 'pg';

/** How current the copy of one seller is, and how large; for gauges and alerts. */
export interface Freshness {
  readonly sellerId: string;
  /** When the store first heard of the seller. */
  readonly since: Date;
  /** End of the last run that mirrored the account; null when there was none. */
  readonly accountMirroredAt: Date | null;
  /** End of the last run that mirrored the items; null when there was none. */
  readonly itemsMirroredAt: Date | null;
  /** Schedules leave the seller alone until a person has mended what went wrong. */
  readonly parked: boolean;
  readonly items: { readonly live: number; readonly missing: number; readonly removed: number };
}

/** A held run mirrored all that is present, so the copy is as current as after a success. */
const LAST_SUCCESS = (kind: 'account' | 'items'): string => `
  (SELECT finished_at FROM mirror.runs r
    WHERE r.seller_id = s.seller_id AND r.kind = '${kind}' AND r.state IN ('succeeded', 'held')
    ORDER BY r.run_id DESC LIMIT 1) AS ${kind}_mirrored_at`;

const FRESHNESS = `
  SELECT s.seller_id, s.created_at, s.parked_at IS NOT NULL AS parked,
         ${LAST_SUCCESS('account')}, ${LAST_SUCCESS('items')},
         coalesce(i.live, 0)::float8 AS live, coalesce(i.missing, 0)::float8 AS missing,
         coalesce(i.removed, 0)::float8 AS removed
    FROM mirror.sellers s
    LEFT JOIN (
      SELECT seller_id, count(*) FILTER (WHERE state = 'live') AS live,
             count(*) FILTER (WHERE state = 'missing') AS missing,
             count(*) FILTER (WHERE state = 'removed') AS removed
        FROM mirror.items GROUP BY seller_id
    ) i USING (seller_id)
   ORDER BY s.seller_id`;

interface Row {
  readonly seller_id: string;
  readonly created_at: Date;
  readonly parked: boolean;
  readonly account_mirrored_at: Date | null;
  readonly items_mirrored_at: Date | null;
  readonly live: number;
  readonly missing: number;
  readonly removed: number;
}

/** Every seller in the store, by name, in one statement. */
export async function readFreshness(pool: Pool): Promise<Freshness[]> {
  const { rows } = await pool.query<Row>(FRESHNESS);
  return rows.map((row) => ({
    sellerId: row.seller_id,
    since: row.created_at,
    accountMirroredAt: row.account_mirrored_at,
    itemsMirroredAt: row.items_mirrored_at,
    parked: row.parked,
    items: { live: row.live, missing: row.missing, removed: row.removed },
  }));
}
