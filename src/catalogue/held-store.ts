import type { Pool, PoolClient } from 'pg';
import type { RowStamp } from './prepare-item.js';
import type { RemovalPlan, ShownItem } from './rules.js';
import type { Db } from '../db/db.js';
import type { SellerLock } from '../db/locks.js';

export type NamedItem = Pick<ShownItem, 'itemId' | 'name'>;

/** Items whose removal is held. */
export interface HeldItems {
  readonly items: number;
  /** Number of them that the marketplace denied between two checks of the key. */
  readonly confirmed: number;
  /** Number of items that are live or missing, without those that were held or kept before. */
  readonly present: number;
  /** A few of them, confirmed ones first. */
  readonly examples: readonly NamedItem[];
}

/** The removals of a seller that wait for a person. */
export interface HeldRemovals extends HeldItems {
  /** The newest run of items, whose page shows them. */
  readonly runId: bigint;
  /** When the oldest of them was first held. */
  readonly since: Date;
}

/** Number of items named in a message. */
const EXAMPLES = 3;

/** Proven items that were held are asked for again after this time. */
const ASK_AGAIN = `interval '7 days'`;

/**
 * SQL of the items that are held now: since a run held them, no list and no look-up had them. A listed record
 * that can't be read counts as listed. `proven`: the last look-up denied the item between two proofs of the key.
 * @param sellers condition on `h.seller_id`
 */
const heldNow = (sellers: string): string => `
  SELECT DISTINCT ON (h.seller_id, h.item_id) h.seller_id, h.item_id, h.run_id, h.kept, i.name,
         coalesce(l.outcome = 'gone' AND l.run_id >= i.synced_run_id, false) AS proven,
         coalesce(l.looked_up_at > now() - ${ASK_AGAIN}, false) AS is_fresh
    FROM mirror.held_items h
    JOIN mirror.items i ON i.seller_id = h.seller_id AND i.item_id = h.item_id
    LEFT JOIN mirror.item_lookups l ON l.seller_id = h.seller_id AND l.item_id = h.item_id
   WHERE ${sellers} AND i.state = 'missing' AND i.synced_run_id <= h.run_id
     AND NOT EXISTS (SELECT FROM mirror.quarantine q
                      WHERE q.seller_id = h.seller_id AND q.item_id = h.item_id
                        AND q.last_run_id > h.run_id)
   ORDER BY h.seller_id, h.item_id, h.run_id DESC`;

/** The items that earlier runs held, kept ones included. */
export async function readHeldBefore({ client, sellerId }: SellerLock): Promise<{
  readonly all: ReadonlySet<number>;
  /** Those that need not be asked for: they were proven to be gone within a week. */
  readonly resting: ReadonlySet<number>;
}> {
  const { rows } = await client.query<{ id: number; rests: boolean }>(
    `SELECT item_id::float8 AS id, proven AND is_fresh AS rests FROM (${heldNow('h.seller_id = $1')}) AS held`,
    [sellerId],
  );
  const resting = rows.filter(({ rests }) => rests);
  return { all: new Set(rows.map(({ id }) => id)), resting: new Set(resting.map(({ id }) => id)) };
}

/** Records the items that a run holds. @param present number of items before it, without those held before */
export async function saveHeldItems(
  client: PoolClient,
  { sellerId, runId }: RowStamp,
  { confirmed, open }: Pick<RemovalPlan, 'confirmed' | 'open'>,
  present: number,
): Promise<void> {
  await client.query('UPDATE mirror.runs SET present = $2 WHERE run_id = $1', [runId, present]);
  await client.query(
    `INSERT INTO mirror.held_items (run_id, seller_id, item_id, confirmed)
     SELECT $1, $2, id, n <= $4 FROM unnest($3::bigint[]) WITH ORDINALITY AS ids (id, n)`,
    [runId, sellerId, [...confirmed, ...open], confirmed.length],
  );
}

/** The items that a run was the first to hold; null if there are none. */
export async function readHeldItems(
  client: Pool | PoolClient,
  runId: bigint,
): Promise<HeldItems | null> {
  const { rows } = await client.query<HeldItems>(
    `SELECT count(*)::int AS items, count(*) FILTER (WHERE h.confirmed)::int AS confirmed,
            coalesce(min(r.present), count(*)::int) AS present,
            (SELECT coalesce(jsonb_agg(jsonb_build_object('itemId', e.item_id, 'name', i.name)
                                       ORDER BY e.confirmed DESC, e.item_id), '[]')
               FROM (SELECT * FROM mirror.held_items WHERE run_id = $1
                      ORDER BY confirmed DESC, item_id LIMIT ${EXAMPLES}) e
               JOIN mirror.items i ON i.seller_id = e.seller_id AND i.item_id = e.item_id) AS examples
       FROM mirror.held_items h JOIN mirror.runs r ON r.run_id = h.run_id
      WHERE h.run_id = $1`,
    [runId],
  );
  const [held] = rows;
  return held === undefined || held.items === 0 ? null : held;
}

/**
 * The held removals of all sellers that have any, or of one.
 * @param sellerId null: of all
 */
export async function readHeldRemovals(
  { pool }: Pick<Db, 'pool'>,
  sellerId: string | null,
): Promise<ReadonlyMap<string, HeldRemovals>> {
  const { rows } = await pool.query<HeldRemovals & { readonly sellerId: string }>(
    `WITH held AS MATERIALIZED (${heldNow(
      `h.seller_id IN (SELECT seller_id FROM mirror.sellers
                        WHERE missing_items > 0 AND ($1::text IS NULL OR seller_id = $1))`,
    )}), waiting AS (
       SELECT *, row_number() OVER (PARTITION BY seller_id ORDER BY proven DESC, item_id) AS place
         FROM held WHERE NOT kept
     )
     SELECT w.seller_id AS "sellerId", count(*)::int AS items,
            count(*) FILTER (WHERE w.proven)::int AS confirmed,
            s.live_items + s.missing_items
              - (SELECT count(*)::int FROM held k WHERE k.kept AND k.seller_id = w.seller_id) AS present,
            jsonb_agg(jsonb_build_object('itemId', w.item_id, 'name', w.name) ORDER BY w.place)
              FILTER (WHERE w.place <= ${EXAMPLES}) AS examples,
            (SELECT max(run_id) FROM mirror.runs r
              WHERE r.seller_id = w.seller_id AND r.kind = 'items'
                AND r.state IN ('succeeded', 'held')) AS "runId",
            (SELECT coalesce(finished_at, started_at) FROM mirror.runs r
              WHERE r.run_id = min(w.run_id)) AS since
       FROM waiting w JOIN mirror.sellers s USING (seller_id)
      GROUP BY w.seller_id, s.live_items, s.missing_items`,
    [sellerId],
  );
  return new Map(rows.map(({ sellerId: seller, ...held }) => [seller, held]));
}

/**
 * The held items that a run of items shows, and what has become of them: those that it or an earlier run held.
 * Items that were back, removed or kept before the run are not shown; what the run itself held always is.
 */
export async function readShown(
  client: Pool | PoolClient,
  sellerId: string,
  runId: bigint,
): Promise<readonly (ShownItem & { readonly kept: boolean })[]> {
  const { rows } = await client.query<ShownItem & { kept: boolean }>(
    `WITH held AS MATERIALIZED (${heldNow('h.seller_id = $1')})
     SELECT DISTINCT ON (h.item_id) h.item_id::float8 AS "itemId", i.name, h.kept,
            CASE WHEN n.proven THEN 'gone' WHEN n.item_id IS NOT NULL THEN 'unproven'
                 WHEN i.state = 'removed' THEN 'removed' ELSE 'back' END AS now
       FROM mirror.held_items h
       JOIN mirror.items i ON i.seller_id = h.seller_id AND i.item_id = h.item_id
       LEFT JOIN held n ON n.item_id = h.item_id AND n.run_id <= $2
      WHERE h.seller_id = $1 AND h.run_id <= $2
        AND (h.run_id = $2 OR NOT h.kept AND (n.item_id IS NOT NULL OR EXISTS (
              SELECT FROM mirror.item_changes c
               WHERE c.seller_id = $1 AND c.item_id = h.item_id AND c.run_id > $2
                 AND c.field = 'state' AND c.old_value = '"missing"')))
      ORDER BY h.item_id, h.run_id DESC`,
    [sellerId, runId],
  );
  return rows;
}

/** Keeps the held items that a run shows as missing. @returns how many */
export async function keepHeldItems(
  { client, sellerId }: SellerLock,
  runId: bigint,
): Promise<number> {
  const { rowCount } = await client.query(
    `UPDATE mirror.held_items t SET kept = true
       FROM (${heldNow('h.seller_id = $1')}) AS held
      WHERE t.seller_id = $1 AND t.item_id = held.item_id AND t.run_id = held.run_id
        AND held.run_id <= $2 AND NOT held.kept`,
    [sellerId, runId],
  );
  return rowCount ?? 0;
}
