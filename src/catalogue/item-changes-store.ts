import type { ChangeClass, ChangeFold } from './changes.js';
import type { Db } from '../db/db.js';
import type { FieldValue } from '../domain/item.js';

export interface ItemChange {
  /** Numbers grow in the order in which changes become visible. */
  readonly seq: bigint;
  readonly sellerId: string;
  readonly itemId: bigint;
  readonly itemName: string | null;
  readonly runId: bigint;
  /** When the run that found it began. */
  readonly changedAt: Date;
  readonly class: ChangeClass;
  /** A column of `mirror.items`; `state` if the item was added, missing, removed or restored. */
  readonly field: string;
  readonly old: FieldValue;
  readonly new: FieldValue;
  /** For prices: the item's currency before and after the run; otherwise null. */
  readonly currencies: { readonly old: string | null; readonly new: string | null } | null;
}

export interface ChangeFilter {
  /** Only changes with a greater number. */
  readonly after?: bigint;
  /** Only changes with a smaller number. */
  readonly before?: bigint;
  readonly runId?: bigint;
  /** Only changes of runs that began at or after this time. */
  readonly from?: Date;
  readonly classes?: readonly ChangeClass[];
  readonly itemId?: number;
  readonly sellerIds?: readonly string[];
  /** Leaves out the changes that these folds summarize. */
  readonly without?: readonly ChangeFold[];
}

/** SQL of a filter on `mirror.item_changes`. Appends its parameters to `values`. */
function conditionOf(filter: ChangeFilter, values: unknown[]): string {
  const { after, before, runId, from, classes, itemId, sellerIds, without = [] } = filter;
  const conditions = ['true'];
  const parameter = (value: unknown): string => `$${values.push(value)}`;
  if (after !== undefined) conditions.push(`seq > ${parameter(after)}`);
  if (before !== undefined) conditions.push(`seq < ${parameter(before)}`);
  if (runId !== undefined) {
    // All changes of a run have the same time, which is indexed.
    const run = parameter(runId);
    const startedAt = `(SELECT started_at FROM mirror.runs WHERE run_id = ${run})`;
    conditions.push(
      `run_id = ${run}`,
      `changed_at BETWEEN ${startedAt} - interval '1 s' AND ${startedAt} + interval '1 s'`,
    );
  }
  if (from !== undefined) conditions.push(`changed_at >= ${parameter(from)}`);
  if (classes !== undefined) {
    conditions.push(`class = ANY(${parameter(classes)}::mirror.change_class[])`);
  }
  if (itemId !== undefined) conditions.push(`item_id = ${parameter(itemId)}`);
  if (sellerIds !== undefined) conditions.push(`seller_id = ANY(${parameter(sellerIds)}::text[])`);
  for (const { runId: run, class: kind, field, same } of without) {
    const folded = [
      `run_id = ${parameter(run)}`,
      `class = ${parameter(kind)}::mirror.change_class`,
      `field = ${parameter(field)}`,
    ];
    if (same !== null) {
      folded.push(
        `old_value IS NOT DISTINCT FROM ${parameter(jsonOf(same.old))}::jsonb`,
        `new_value IS NOT DISTINCT FROM ${parameter(jsonOf(same.new))}::jsonb`,
      );
    }
    conditions.push(`NOT (${folded.join(' AND ')})`);
  }
  return conditions.join(' AND ');
}

function jsonOf(value: FieldValue): string | null {
  return value === null ? null : JSON.stringify(value);
}

/**
 * Changes in the order of their numbers. Numbers become visible in order, so a reader that continues
 * after the last one misses nothing.
 * @param filter `limit` keeps the first changes, or the last ones with `newest`
 */
export async function readChanges(
  { pool }: Db,
  filter: ChangeFilter & { readonly limit: number; readonly newest?: boolean },
): Promise<ItemChange[]> {
  const { limit, newest = false } = filter;
  const values: unknown[] = [limit];
  const { rows } = await pool.query<ItemChange>(
    `WITH page AS (
       SELECT * FROM mirror.item_changes WHERE ${conditionOf(filter, values)}
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
       -- The first currency change in this run or later tells the currency before it.
       LEFT JOIN LATERAL (
         SELECT * FROM mirror.item_changes n
          WHERE p.class = 'price' AND n.seller_id = p.seller_id AND n.item_id = p.item_id
            AND n.field = 'currency' AND n.run_id >= p.run_id
          ORDER BY n.seq LIMIT 1) c ON true
      ORDER BY p.seq`,
    values,
  );
  return rows;
}

/** Number of changes of one field. */
export interface ChangeCount {
  readonly sellerId: string;
  readonly class: ChangeClass;
  /** As in `ItemChange`. */
  readonly field: string;
  readonly changes: number;
  readonly items: number;
}

export async function countChanges({ pool }: Db, filter: ChangeFilter): Promise<ChangeCount[]> {
  const values: unknown[] = [];
  const { rows } = await pool.query<ChangeCount>(
    `SELECT seller_id AS "sellerId", class, field, count(*)::int AS changes,
            count(DISTINCT item_id)::int AS items
       FROM mirror.item_changes WHERE ${conditionOf(filter, values)}
      GROUP BY seller_id, class, field ORDER BY seller_id, class, field`,
    values,
  );
  return rows;
}

/** A field that changed in many items of a run. */
export interface RunField {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly changedAt: Date;
  readonly class: ChangeClass;
  readonly field: string;
  /** Number of items in which it changed, and the number of the last of these changes. */
  readonly items: number;
  readonly place: bigint;
  /** The most common of these changes. */
  readonly same: {
    readonly old: FieldValue;
    readonly new: FieldValue;
    readonly items: number;
    readonly place: bigint;
  };
  /** Number of items in the run's list; if it had no list, of items that are live now. */
  readonly listed: number;
}

/**
 * Fields that changed in more than `least` items of a run.
 * @param changes their runs are searched
 */
export async function readRunFields(
  { pool }: Db,
  changes: readonly Pick<ItemChange, 'runId' | 'changedAt'>[],
  least: number,
): Promise<RunField[]> {
  const runs = [...new Set(changes.map(({ runId }) => runId))];
  if (runs.length === 0) return [];
  const times = changes.map(({ changedAt }) => changedAt).sort((a, b) => Number(a) - Number(b));
  const { rows } = await pool.query<
    Omit<RunField, 'same'> & { same: Omit<RunField['same'], 'place'> & { place: string } }
  >(
    `WITH chosen AS MATERIALIZED (
       -- Compares hashes, since descriptions are long.
       SELECT seq, run_id, seller_id, changed_at, class, field,
              jsonb_hash_extended(old_value, 0) AS old_hash, jsonb_hash_extended(new_value, 0) AS new_hash
         FROM mirror.item_changes
        WHERE run_id = ANY($1::bigint[])
          -- All changes of a run have the same time, which is indexed.
          AND changed_at BETWEEN $2::timestamptz - interval '1 s' AND $3::timestamptz + interval '1 s'
     ), wanted AS (
       SELECT run_id, seller_id,
              CASE WHEN r.listed > 0 THEN r.listed
                   ELSE (SELECT count(*)::int FROM mirror.items i
                          WHERE i.seller_id = r.seller_id AND i.state = 'live') END AS listed
         FROM mirror.runs r WHERE run_id = ANY($1::bigint[])
     ), fields AS (
       SELECT c.run_id, c.seller_id, c.class, c.field, count(*)::int AS items, w.listed,
              max(c.seq) AS place, min(c.changed_at) AS changed_at
         FROM chosen c JOIN wanted w USING (run_id)
        GROUP BY c.run_id, c.seller_id, c.class, c.field, w.listed
       HAVING count(*) > $4
     ), same AS (
       -- max() of pairs, since sorting 200,000 of them takes seconds.
       SELECT run_id, class, field, (max(pair))[1]::int AS items, (max(pair))[2] AS place
         FROM (SELECT run_id, class, field, ARRAY[count(*), max(c.seq)] AS pair
                 FROM chosen c JOIN fields f USING (run_id, class, field)
                GROUP BY run_id, class, field, old_hash, new_hash) AS alike
        GROUP BY run_id, class, field
     )
     SELECT f.run_id AS "runId", f.seller_id AS "sellerId", f.changed_at AS "changedAt", f.class, f.field,
            f.items, f.place, f.listed,
            jsonb_build_object('old', v.old_value, 'new', v.new_value, 'items', s.items,
                               'place', s.place::text) AS same
       FROM fields f JOIN same s USING (run_id, class, field) JOIN mirror.item_changes v ON v.seq = s.place
      ORDER BY f.place`,
    [runs, times[0], times.at(-1), least],
  );
  return rows.map(({ same, ...row }) => ({ ...row, same: { ...same, place: BigInt(same.place) } }));
}

/**
 * The last number in use. A reader that has the mirror's current contents continues after it. First lists
 * and runs that changed `extra` alone count too: they have a number but no changes.
 */
export async function readLastChangeNumber({ pool }: Db): Promise<bigint> {
  const { rows } = await pool.query<{ seq: bigint }>(
    `SELECT greatest((SELECT max(seq) FROM mirror.item_changes),
                     (SELECT max(loaded_seq) FROM mirror.sellers),
                     (SELECT max(extra_seq) FROM mirror.runs), 0) AS seq`,
  );
  return rows[0]?.seq ?? 0n;
}

/** The greatest number ever given to a change. A greater cursor is from another store. */
export async function readGreatestChangeNumber({ pool }: Db): Promise<bigint> {
  const { rows } = await pool.query<{ seq: bigint }>(
    'SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS seq FROM mirror.item_changes_seq_seq',
  );
  return rows[0]?.seq ?? 0n;
}
