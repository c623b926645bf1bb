import { escapeLiteral } from 'pg';
import { ITEM_FIELDS } from '../domain/changes.js';
import type { SellerLock } from './locks.js';

/** Columns of `mirror.items` that a version keeps: all that reports show, and since when. */
const STATE_COLUMNS = [
  ...['seller_id', 'item_id', ...ITEM_FIELDS.map(({ column }) => column)],
  ...['state', 'first_seen_at', 'changed_at', 'removed_at', 'synced_run_id', 'valid_from'],
];

/*
 * The fragments of SQL below are parts of statements whose parameters are the seller, $1, the run,
 * $2, and its moment, $3.
 */

/**
 * SQL of the row at a place, to be joined with a relation that knows it. `OFFSET 0` keeps the planner
 * from joining by hashes, which would write out and read again whole tables of wide rows: fetching
 * each by its place takes half the time when all of 100,000 changed, and less when few did.
 */
export function rowAt(table: string, place: string): string {
  return `LATERAL (SELECT * FROM ${table} WHERE ctid = ${place} OFFSET 0)`;
}

/**
 * The start of the state that the run writes over row `i`. It always grows, even if a clock goes back:
 * no two states of an item overlap in time.
 */
export const NEXT_VALID_FROM = `greatest($3::timestamptz, i.valid_from + interval '1 microsecond')`;

/**
 * SQL that keeps rows of `mirror.items` as they are before the statement that it is a part of.
 * @param source a relation with the rows' `old_place`
 * @param where which of its rows, `d`
 */
export function keepVersions(source: string, where = 'true'): string {
  return `INSERT INTO mirror.item_versions (${STATE_COLUMNS.join(', ')}, valid_to, superseded_run_id)
    SELECT ${STATE_COLUMNS.map((column) => `i.${column}`).join(', ')}, ${NEXT_VALID_FROM}, $2
      FROM ${source} d CROSS JOIN ${rowAt('mirror.items', 'd.old_place')} i
     WHERE ${where}`;
}

/** Columns of a change that waits in `pg_temp.outgoing_changes` for the end of its transaction. */
export const CHANGE_COLUMNS = 'item_id, class, field, old_value, new_value';

/**
 * A transaction that numbers changes holds this lock until it ends, so that numbers become visible in
 * order, and a reader never finds a smaller one later. It goes to the server in one message with the
 * COMMIT: a process that stops there can't keep the others waiting.
 */
export const NUMBERING = `SELECT pg_advisory_xact_lock(hashtextextended('seller-mirror/item-changes', 0))`;

/** SQL of the next number of the feed, for what followers must see though it is no change. */
export const NEXT_NUMBER = `nextval('mirror.item_changes_seq_seq')`;

/** Publishes what a killed run left undecided. The caller holds the seller's lock. */
export async function tellUndecided({
  client,
  sellerId,
}: Pick<SellerLock, 'client' | 'sellerId'>): Promise<void> {
  const { rowCount } = await client.query(
    'SELECT FROM mirror.sellers WHERE seller_id = $1 AND undecided_run_id IS NOT NULL',
    [sellerId],
  );
  if (rowCount === 0) return;
  const seller = escapeLiteral(sellerId);
  // One message is one transaction.
  await client.query(
    `${NUMBERING};
     INSERT INTO mirror.item_changes (seller_id, run_id, changed_at, ${CHANGE_COLUMNS})
     SELECT seller_id, run_id, since, item_id, 'missing', 'state', '"live"', '"missing"'
       FROM mirror.undecided_items WHERE seller_id = ${seller};
     ${noneUndecided(seller)}`,
  );
}

/** SQL that ends the time in which items of a seller are undecided. */
export function noneUndecided(seller: string): string {
  return `UPDATE mirror.sellers SET undecided_run_id = NULL, undecided_seq = NULL
           WHERE seller_id = ${seller}`;
}
