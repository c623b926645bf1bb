import type { Pool } from 'pg';
import { escapeLiteral } from 'pg';
import { ITEM_FIELDS, type ItemState } from '../domain/changes.js';

/** Which items, and as of when. */
export interface ItemFilter {
  /** Absent: as they are now. */
  readonly asOf?: Date;
  readonly states?: readonly Exclude<ItemState, null>[];
  readonly itemId?: number;
  readonly sellerIds?: readonly string[];
  readonly limit?: number;
}

/** What an item says, whose it is, and what the mirror knows of it. */
const COLUMNS = [
  'seller_id',
  'item_id',
  ...ITEM_FIELDS.map(({ column }) => column),
  ...['state', 'first_seen_at', 'changed_at', 'removed_at', 'synced_run_id'],
];

/** As much as a line shows. */
const FEW_COLUMNS = [
  ...['item_id', 'name', 'price_regular', 'price_extended', 'currency', 'version'],
  ...['state', 'changed_at'],
];

/** Columns of a list of items: all of them, or those that a person looks at first. */
export function itemColumns(which: 'all' | 'few', ofSeveralSellers: boolean): readonly string[] {
  if (which === 'all') return COLUMNS;
  return ofSeveralSellers ? ['seller_id', ...FEW_COLUMNS] : FEW_COLUMNS;
}

/** A statement that selects items, by seller and id, for those who read rows as they come. */
export function itemsStatement(columns: readonly string[], filter: ItemFilter): string {
  const { asOf, states, itemId, sellerIds, limit } = filter;
  const moment = escapeLiteral(asOf?.toISOString() ?? 'infinity');
  const anyOf = (values: readonly string[]): string =>
    values.map((value) => escapeLiteral(value)).join(', ');
  const conditions = [
    ...(states === undefined ? [] : [`state IN (${anyOf(states)})`]),
    ...(itemId === undefined ? [] : [`item_id = ${itemId}`]),
    ...(sellerIds === undefined ? [] : [`seller_id IN (${anyOf(sellerIds)})`]),
  ];
  return [
    `SELECT ${columns.join(', ')} FROM reporting.items_as_of(${moment})`,
    ...(conditions.length === 0 ? [] : [`WHERE ${conditions.join(' AND ')}`]),
    'ORDER BY seller_id, item_id',
    ...(limit === undefined ? [] : [`LIMIT ${limit}`]),
  ].join(' ');
}

/** Since when the store can tell what a seller's items were. */
export interface HistoryStart {
  readonly sellerId: string;
  /** Null as long as no list was taken in. */
  readonly since: Date | null;
}

/**
 * Since when there is history of each seller: the first list, or what is kept of the time after it.
 * To the millisecond, as runs stamp what they write.
 */
export async function historyStarts(pool: Pool): Promise<HistoryStart[]> {
  const { rows } = await pool.query<HistoryStart>(
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
