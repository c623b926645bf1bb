import { CHANGE_CLASSES, type ChangeClass, type ChangeFold } from './changes.js';
import type { Db } from '../db/db.js';
import type { FieldValue } from '../domain/item.js';
import {
  conditionOf,
  OF_SELLER,
  type FilterValues,
  type ListingFilter,
} from '../listing/listing.js';

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

/** What people filter changes by. */
export const CHANGE_FILTERS: readonly ListingFilter[] = [
  {
    name: 'class',
    about: 'changes of this class',
    type: 'choice',
    choices: CHANGE_CLASSES,
    where: (value, parameter) => `class = ${parameter(value)}::mirror.change_class`,
  },
  {
    name: 'item',
    about: 'changes of this item',
    type: 'number',
    where: (value, parameter) => `item_id = ${parameter(value)}`,
  },
  {
    name: 'run',
    about: 'changes that this run found',
    type: 'number',
    where(value, parameter) {
      const run = parameter(value);
      // All changes of a run have the same time, which is indexed.
      const startedAt = `(SELECT started_at FROM mirror.runs WHERE run_id = ${run})`;
      return `run_id = ${run} AND changed_at BETWEEN ${startedAt} - interval '1 s' AND ${startedAt} + interval '1 s'`;
    },
  },
  {
    name: 'since',
    about: 'changes since this day',
    type: 'since',
    where: (value, parameter) => `changed_at >= ${parameter(value)}`,
  },
  OF_SELLER,
];

/** A part of the changes that match a filter. */
interface ChangePage {
  /** Only changes with a greater number, and with a smaller one. */
  readonly after?: bigint;
  readonly before?: bigint;
  /** Leaves out the changes that these folds stand for. */
  readonly without?: readonly ChangeFold[];
  /** Keeps the first changes, or the last ones with `newest`. */
  readonly limit: number;
  readonly newest?: boolean;
}

/**
 * Changes in the order of their numbers. Numbers become visible in order, so a reader that continues
 * after the last one misses nothing.
 */
export async function readChanges(
  { pool }: Db,
  filters: FilterValues,
  { after, before, without = [], limit, newest = false }: ChangePage,
): Promise<ItemChange[]> {
  const values: unknown[] = [];
  const parameter = (value: unknown): string => `$${values.push(value)}`;
  const conditions = [conditionOf(CHANGE_FILTERS, filters, values)];
  if (after !== undefined) conditions.push(`seq > ${parameter(after)}`);
  if (before !== undefined) conditions.push(`seq < ${parameter(before)}`);
  for (const { runId, class: kind, field, same } of without) {
    const folded = [
      `run_id = ${parameter(runId)}`,
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
  const { rows } = await pool.query<ItemChange>(
    `WITH page AS (
       SELECT * FROM mirror.item_changes WHERE ${conditions.join(' AND ')}
        ORDER BY seq ${newest ? 'DESC' : 'ASC'} LIMIT ${parameter(limit)}
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

function jsonOf(value: FieldValue): string | null {
  return value === null ? null : JSON.stringify(value);
}

/** How many changes match. @param most counting stops there */
export async function countChanges(
  { pool }: Db,
  filters: FilterValues,
  most: number,
): Promise<number> {
  const values: unknown[] = [most];
  const { rows } = await pool.query<{ changes: number }>(
    `SELECT count(*)::int AS changes FROM (
       SELECT FROM mirror.item_changes WHERE ${conditionOf(CHANGE_FILTERS, filters, values)} LIMIT $1) c`,
    values,
  );
  return rows[0]?.changes ?? 0;
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
 * Fields that changed in more than `least` items of a run. Counts only changes that match the filter, so that a line
 * for many changes never stands for others.
 * @param changes their runs are searched
 */
export async function readRunFields(
  { pool }: Db,
  changes: readonly Pick<ItemChange, 'runId' | 'changedAt'>[],
  filters: FilterValues,
  least: number,
): Promise<RunField[]> {
  const runs = [...new Set(changes.map(({ runId }) => runId))];
  if (runs.length === 0) return [];
  const times = changes.map(({ changedAt }) => changedAt).sort((a, b) => Number(a) - Number(b));
  const values: unknown[] = [runs, times[0], times.at(-1), least];
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
          AND ${conditionOf(CHANGE_FILTERS, filters, values)}
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
    values,
  );
  return rows.map(({ same, ...row }) => ({ ...row, same: { ...same, place: BigInt(same.place) } }));
}
