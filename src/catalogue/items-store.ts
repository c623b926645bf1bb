import { escapeLiteral, type Pool } from 'pg';
import { ITEM_FIELDS, type ItemState } from '../domain/item.js';
import type { Item } from '../db/generated/prisma/client.js';
import { queryColumns, type QueryColumn } from '../db/read-only.js';
import type { Db } from '../db/db.js';
import { AS_TEXT, type TextRow } from '../db/text-cursor.js';

interface ItemFilter {
  /** Absent: now. */
  readonly asOf?: Date;
  readonly states?: readonly ItemState[];
  readonly itemId?: number;
  readonly sellerIds?: readonly string[];
  readonly limit?: number;
}

const COLUMNS = [
  'seller_id',
  'item_id',
  ...ITEM_FIELDS.map(({ column }) => column),
  ...['state', 'first_seen_at', 'changed_at', 'removed_at', 'synced_run_id'],
];

/**
 * Columns of an item list: all, or the few that people need most.
 * @param differing which of these columns differ between rows
 */
export function itemColumns(
  which: 'all' | 'few',
  differing: { readonly seller: boolean; readonly state: boolean },
): readonly string[] {
  if (which === 'all') return COLUMNS;
  return [
    ...(differing.seller ? ['seller_id'] : []),
    ...['item_id', 'name', 'price_regular', 'price_extended', 'currency', 'version'],
    ...(differing.state ? ['state'] : []),
    'changed_at',
  ];
}

/** A statement for a cursor that selects items, sorted by seller and id. */
export function itemsStatement(columns: readonly string[], filter: ItemFilter): string {
  const { asOf, states, itemId, sellerIds, limit } = filter;
  const time = escapeLiteral(asOf?.toISOString() ?? 'infinity');
  const anyOf = (values: readonly string[]): string =>
    values.map((value) => escapeLiteral(value)).join(', ');
  const conditions = [
    ...(states === undefined ? [] : [`state IN (${anyOf(states)})`]),
    ...(itemId === undefined ? [] : [`item_id = ${itemId}`]),
    ...(sellerIds === undefined ? [] : [`seller_id IN (${anyOf(sellerIds)})`]),
  ];
  return [
    `SELECT ${columns.join(', ')} FROM reporting.items_as_of(${time})`,
    ...(conditions.length === 0 ? [] : [`WHERE ${conditions.join(' AND ')}`]),
    'ORDER BY seller_id, item_id',
    ...(limit === undefined ? [] : [`LIMIT ${limit}`]),
  ].join(' ');
}

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

export interface TextRows {
  readonly columns: readonly QueryColumn[];
  readonly rows: readonly TextRow[];
}

/** Each seller's item with this id, with undocumented fields and the record as received. */
export function readItemsWithId(
  { pool }: Db,
  itemId: number,
  sellerId: string | null,
): Promise<TextRows> {
  const columns = COLUMNS.map((name) => `v.${name}`).join(', ');
  return textRows(
    pool,
    `SELECT ${columns},
            (SELECT count(*) FROM reporting.purchases p
              WHERE p.seller_id = v.seller_id AND p.item_id = v.item_id) AS purchases,
            i.extra, i.raw
       FROM reporting.items v JOIN mirror.items i USING (seller_id, item_id)
      WHERE v.item_id = $1 AND ($2::text IS NULL OR v.seller_id = $2)
      ORDER BY v.seller_id`,
    [itemId, sellerId],
  );
}

/** The prices of an item with their dates, the current one last. */
export function readPriceHistory(
  { pool }: Db,
  sellerId: string,
  itemId: number,
): Promise<TextRows> {
  return textRows(
    pool,
    `SELECT valid_from, price_regular, price_extended, currency
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
}

async function textRows(pool: Pool, text: string, values: readonly unknown[]): Promise<TextRows> {
  const { fields, rows } = await pool.query<(string | null)[]>({
    text,
    values: [...values],
    rowMode: 'array',
    types: AS_TEXT,
  });
  return { columns: queryColumns(fields), rows };
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

export interface ItemSearch {
  /** Part of the name, a tag, or an id; empty: all. */
  readonly text: string;
  readonly state: ItemState | null;
  readonly sellerId: string | null;
  /** Null: now. */
  readonly asOf: Date | null;
  readonly sort: 'id' | 'name' | 'price' | 'changed';
  readonly limit: number;
  readonly offset: number;
}

/** An item in a list. */
export interface ListedItem extends Pick<
  Item,
  'sellerId' | 'name' | 'category' | 'state' | 'currency' | 'changedAt'
> {
  readonly itemId: string;
  readonly priceRegular: string | null;
}

const SORTS = {
  id: 'seller_id, item_id',
  name: 'name, seller_id, item_id',
  price: 'price_regular DESC NULLS LAST, seller_id, item_id',
  changed: 'changed_at DESC, seller_id, item_id',
} as const;

export async function searchItems({ pool }: Db, search: ItemSearch): Promise<ListedItem[]> {
  const { text, state, sellerId, asOf, sort, limit, offset } = search;
  // Compares ids as numbers: for ids as text the planner expects one match in 200 items and walks the
  // key, which takes twice as long as a parallel scan. No item has id 0, but without a comparison the
  // planner does not scan in parallel.
  const itemId = /^[1-9]\d{0,17}$/.test(text) ? text : '0';
  const literal = text.replaceAll(/[\\%_]/g, '\\$&');
  // LIKE takes a fifth of the time of ILIKE, which folds the case of each name, and leaves ILIKE few names.
  // It is written as its negated function, so that the planner expects as many matches as for ILIKE alone.
  const matches = `($1 = '' OR (NOT textnlike(name, $9) OR NOT textnlike(name, $10)) AND name ILIKE $2 OR $1 = ANY (tags) OR item_id = $8)
    AND ($3::text IS NULL OR state::text = $3) AND ($4::text IS NULL OR seller_id = $4)`;
  const page = `ORDER BY ${SORTS[sort]} LIMIT $5 OFFSET $6`;
  const { rows } = await pool.query<ListedItem>(
    `SELECT seller_id AS "sellerId", item_id::text AS "itemId", name, category, state,
            price_regular AS "priceRegular", currency, changed_at AS "changedAt" FROM ${
              asOf === null
                ? // Sorts keys only, which an index holds together with prices, and so reads few whole items.
                  `mirror.items
      WHERE $7::timestamptz IS NULL AND (seller_id, item_id) IN (
              SELECT seller_id, item_id FROM mirror.items WHERE ${matches} ${page})
      ORDER BY ${SORTS[sort]}`
                : `reporting.items_as_of($7) WHERE ${matches} ${page}`
            }`,
    [
      ...[text, `%${literal}%`, state, sellerId, limit, offset, asOf, itemId],
      ...caseSensitivePatterns(text),
    ],
  );
  return rows;
}

/** Letters, rarest first. Without k and i, which are also the lower case of non-ASCII letters. */
const RAREST = 'jqxzvwybpgfmdchulnorsate'.split('');

/**
 * Two LIKE patterns. Every name that contains `text` in any letter case matches one of them. They fix the
 * rarest letter, once in each case, and leave all other letters open.
 */
function caseSensitivePatterns(text: string): readonly string[] {
  // Letters of other alphabets may have more than two case variants.
  if (/[^ -~]/.test(text)) return ['%', '%'];
  const lower = text.toLowerCase();
  const rarest = RAREST.find((letter) => lower.includes(letter)) ?? '';
  const place = rarest === '' ? -1 : lower.indexOf(rarest);
  const pattern = (letter: string): string =>
    lower.replaceAll(/[a-z\\%_]/g, (character, at: number) =>
      at === place ? letter : /[a-z]/.test(character) ? '_' : `\\${character}`,
    );
  return [`%${pattern(rarest)}%`, `%${pattern(rarest.toUpperCase())}%`];
}
