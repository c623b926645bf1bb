import type { Pool } from 'pg';
import type { ChangeClass } from '../domain/changes.js';

/** A value of a field, in its canonical form: money and moments are text, lists are arrays. */
export type FieldValue = string | readonly string[] | null;

/** What changed about one field of an item. */
export interface ItemChange {
  /** Its place in the feed. */
  readonly seq: bigint;
  readonly sellerId: string;
  readonly itemId: bigint;
  /** The item's present name. */
  readonly itemName: string | null;
  readonly runId: bigint;
  /** When the run began that found it. */
  readonly changedAt: Date;
  readonly class: ChangeClass;
  /** A column of `mirror.items`; `state` for items that are new, missing, removed or restored. */
  readonly field: string;
  readonly old: FieldValue;
  readonly new: FieldValue;
  /** Of a price: the item's currency before and after the run; null for all else. */
  readonly currencies: { readonly old: string | null; readonly new: string | null } | null;
}

/** Which changes; what is not given does not matter. */
export interface ChangeFilter {
  /** Only after this place in the feed. */
  readonly after?: bigint;
  /** Only of runs that began at or after this moment. */
  readonly from?: Date;
  readonly classes?: readonly ChangeClass[];
  readonly itemId?: number;
  readonly sellerIds?: readonly string[];
  /** How many at most: the first ones, or the last ones when `newest` is set. */
  readonly limit: number;
  readonly newest?: boolean;
}

interface Row extends Omit<ItemChange, 'seq' | 'itemId' | 'runId'> {
  readonly seq: string;
  readonly itemId: string;
  readonly runId: string;
}

/**
 * Changes in the order of the feed. Its numbers become visible in their order, so that who goes on
 * after the last one read misses none.
 */
export async function readChanges(pool: Pool, filter: ChangeFilter): Promise<ItemChange[]> {
  const { after, from, classes, itemId, sellerIds, limit, newest = false } = filter;
  const values: unknown[] = [limit];
  const conditions = ['true'];
  const only = (value: unknown, condition: (parameter: string) => string): void => {
    if (value !== undefined) conditions.push(condition(`$${values.push(value)}`));
  };
  only(after, (parameter) => `seq > ${parameter}`);
  only(from, (parameter) => `changed_at >= ${parameter}`);
  only(classes, (parameter) => `class = ANY(${parameter}::mirror.change_class[])`);
  only(itemId, (parameter) => `item_id = ${parameter}`);
  only(sellerIds, (parameter) => `seller_id = ANY(${parameter}::text[])`);
  const { rows } = await pool.query<Row>(
    `WITH page AS (
       SELECT * FROM mirror.item_changes WHERE ${conditions.join(' AND ')}
        ORDER BY seq ${newest ? 'DESC' : 'ASC'} LIMIT $1
     )
     SELECT p.seq, p.seller_id AS "sellerId", p.item_id AS "itemId", i.name AS "itemName",
            p.run_id AS "runId", p.changed_at AS "changedAt", p.class, p.field,
            p.old_value AS old, p.new_value AS new,
            CASE WHEN p.class = 'price' THEN jsonb_build_object(
              'old', CASE WHEN c.seq IS NULL THEN to_jsonb(i.currency) ELSE c.old_value END,
              'new', CASE WHEN c.seq IS NULL THEN to_jsonb(i.currency)
                          WHEN c.run_id = p.run_id THEN c.new_value ELSE c.old_value END)
            END AS currencies
       FROM page p LEFT JOIN mirror.items i ON i.seller_id = p.seller_id AND i.item_id = p.item_id
       -- The first change of currency in this run or after it says what it was until then.
       LEFT JOIN LATERAL (
         SELECT * FROM mirror.item_changes n
          WHERE p.class = 'price' AND n.seller_id = p.seller_id AND n.item_id = p.item_id
            AND n.field = 'currency' AND n.run_id >= p.run_id
          ORDER BY n.seq LIMIT 1) c ON true
      ORDER BY p.seq`,
    values,
  );
  return rows.map((row) => ({
    ...row,
    seq: BigInt(row.seq),
    itemId: BigInt(row.itemId),
    runId: BigInt(row.runId),
  }));
}

/**
 * How far the feed is: who has all that the mirror holds now goes on after this. First lists count,
 * though their items are not told: `mirror.sellers.loaded_seq` is their place.
 */
export async function feedEnd(pool: Pool): Promise<bigint> {
  const { rows } = await pool.query<{ seq: string }>(
    `SELECT greatest((SELECT max(seq) FROM mirror.item_changes),
                     (SELECT max(loaded_seq) FROM mirror.sellers), 0) AS seq`,
  );
  return BigInt(rows[0]?.seq ?? 0);
}

/** The greatest number of a change that was ever given; a greater one is not of this store. */
export async function feedReach(pool: Pool): Promise<bigint> {
  const { rows } = await pool.query<{ seq: string }>(
    'SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS seq FROM mirror.item_changes_seq_seq',
  );
  return BigInt(rows[0]?.seq ?? 0);
}
