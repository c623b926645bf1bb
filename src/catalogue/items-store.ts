import type { Db } from '../db/db.js';
import { onlyRow } from '../db/connection.js';

/**
 * Where each seller's history begins: with its first list, or later if old states were pruned. Null
 * until a list was read. Rounded to milliseconds, like the timestamps that runs write.
 */
export async function readHistoryStarts({
  pool,
}: Db): Promise<{ readonly sellerId: string; readonly since: Date | null }[]> {
  const { rows } = await pool.query<{ sellerId: string; since: Date | null }>(
    `SELECT s.seller_id AS "sellerId",
            greatest(s.history_since, coalesce(
              date_trunc('milliseconds', r.started_at),
              (SELECT min(h.valid_from) FROM reporting.item_history h
                WHERE h.seller_id = s.seller_id))) AS since
       FROM mirror.sellers s LEFT JOIN mirror.runs r ON r.run_id = s.loaded_run_id
      ORDER BY s.seller_id`,
  );
  return rows;
}

/** What the mirror keeps of an item besides its columns. */
export interface ItemRecord {
  /** How many of its purchases are known. */
  readonly purchases: number;
  /** Undocumented fields, and the record as received: JSON as text, because parsing rounds numbers. */
  readonly extra: string;
  readonly raw: string;
  /** The newest run whose list did not have the item; null: none, or it is no longer kept. */
  readonly unlisted: { readonly runId: bigint; readonly at: Date } | null;
  /** When its look-up was denied with proof, if that was the last answer. */
  readonly deniedAt: Date | null;
}

export async function readItemRecord(
  { pool }: Db,
  sellerId: string,
  itemId: bigint,
): Promise<ItemRecord> {
  const result = await pool.query<
    Omit<ItemRecord, 'unlisted'> & { readonly runId: bigint | null; readonly at: Date }
  >(
    `SELECT (SELECT count(*)::int FROM reporting.purchases p
              WHERE p.seller_id = i.seller_id AND p.item_id = i.item_id) AS purchases,
            extra::text AS extra, raw::text AS raw, c.run_id AS "runId", c.changed_at AS at,
            (SELECT looked_up_at FROM mirror.item_lookups l
              WHERE l.seller_id = i.seller_id AND l.item_id = i.item_id AND outcome = 'gone') AS "deniedAt"
       FROM mirror.items i
       LEFT JOIN LATERAL (
         SELECT run_id, changed_at FROM mirror.item_changes c
          WHERE c.seller_id = i.seller_id AND c.item_id = i.item_id AND field = 'state' AND class = 'missing'
          ORDER BY seq DESC LIMIT 1) c ON true
      WHERE i.seller_id = $1 AND i.item_id = $2`,
    [sellerId, itemId],
  );
  const { runId, at, ...record } = onlyRow(result);
  return { ...record, unlisted: runId === null ? null : { runId, at } };
}

/** A purchase of an item that a check of codes found. */
export interface ItemPurchase {
  readonly codeId: bigint;
  readonly code: string;
  readonly purchasedAt: Date | null;
  readonly licenseType: string | null;
  readonly price: string | null;
  readonly currency: string | null;
  readonly support: string | null;
}

/** The purchases of an item, newest first. */
export async function readItemPurchases(
  { pool }: Db,
  sellerId: string,
  itemId: bigint,
  limit: number,
): Promise<ItemPurchase[]> {
  const { rows } = await pool.query<ItemPurchase>(
    `SELECT code_id AS "codeId", code, purchased_at AS "purchasedAt", license_type AS "licenseType",
            price, currency, support
       FROM reporting.purchases WHERE seller_id = $1 AND item_id = $2
      ORDER BY purchased_at DESC LIMIT $3`,
    [sellerId, itemId, limit],
  );
  return rows;
}

/** The prices of an item from a moment on. */
export interface PriceChange {
  readonly validFrom: Date;
  readonly priceRegular: string | null;
  readonly priceExtended: string | null;
  readonly currency: string | null;
}

/** The prices of an item with their dates, the current one last. */
export async function readPriceHistory(
  { pool }: Db,
  sellerId: string,
  itemId: bigint,
): Promise<PriceChange[]> {
  const { rows } = await pool.query<PriceChange>(
    `SELECT valid_from AS "validFrom", price_regular AS "priceRegular",
            price_extended AS "priceExtended", currency
       FROM (SELECT *, row_number() OVER w AS n,
                    lag(price_regular) OVER w AS regular_before,
                    lag(price_extended) OVER w AS extended_before,
                    lag(currency) OVER w AS currency_before
               FROM reporting.item_history
              WHERE seller_id = $1 AND item_id = $2
             WINDOW w AS (ORDER BY valid_from)) AS h
      WHERE n = 1
         OR (price_regular, price_extended, currency)
            IS DISTINCT FROM (regular_before, extended_before, currency_before)
      ORDER BY valid_from`,
    [sellerId, itemId],
  );
  return rows;
}

/** How many items a seller had at the end of a day (UTC), and how many changed on that day. */
export interface ItemsOfDay {
  readonly day: Date;
  readonly live: number;
  readonly missing: number;
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
}

/**
 * The last days of a seller in `reporting.items_daily`, newest first. The view adds up all state changes
 * ever; this query starts from the current counts and subtracts the changes of these days.
 */
export async function readItemDays(
  { pool }: Db,
  sellerId: string,
  days: number,
): Promise<ItemsOfDay[]> {
  const { rows } = await pool.query<ItemsOfDay>(
    `WITH seller AS (
       SELECT s.live_items, s.missing_items, coalesce(r.added, 0) AS first_items,
              (coalesce(r.started_at, s.created_at) AT TIME ZONE 'UTC')::date AS first_day,
              (now() AT TIME ZONE 'UTC')::date AS today
         FROM mirror.sellers s LEFT JOIN mirror.runs r ON r.run_id = s.loaded_run_id
        WHERE s.seller_id = $1 AND s.loaded_run_id IS NOT NULL
     ), day AS (
       SELECT today - n AS day, CASE WHEN today - n = first_day THEN first_items ELSE 0 END AS first_items
         FROM seller, generate_series(0, least($2 - 1, today - first_day)) AS n
     ), since AS MATERIALIZED (
       SELECT min(day)::timestamp AT TIME ZONE 'UTC' AS at FROM day
     ), states AS (
       SELECT (changed_at AT TIME ZONE 'UTC')::date AS day, sum(added) AS added, sum(removed) AS removed,
              sum(live_change) AS live_change, sum(missing_change) AS missing_change
         FROM mirror.state_changes
        WHERE seller_id = $1 AND changed_at >= (SELECT at FROM since) GROUP BY 1
     ), runs AS (
       SELECT (started_at AT TIME ZONE 'UTC')::date AS day, sum(changed) AS changed
         FROM mirror.runs
        WHERE seller_id = $1 AND kind IN ('items', 'item') AND started_at >= (SELECT at FROM since)
        GROUP BY 1
     )
     SELECT day::timestamp AT TIME ZONE 'UTC' AS day,
            (live_items - coalesce(sum(live_change) OVER later, 0))::int AS live,
            (missing_items - coalesce(sum(missing_change) OVER later, 0))::int AS missing,
            (coalesce(added, 0) + day.first_items)::int AS added, coalesce(removed, 0)::int AS removed,
            coalesce(changed, 0)::int AS changed
       FROM seller CROSS JOIN day LEFT JOIN states USING (day) LEFT JOIN runs USING (day)
     WINDOW later AS (ORDER BY day DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
      ORDER BY day DESC`,
    [sellerId, days],
  );
  return rows;
}
