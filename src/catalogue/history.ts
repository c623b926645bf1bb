import { ITEM_FIELDS } from '../domain/item.js';

/** Columns of `mirror.items` that a version keeps. */
const STATE_COLUMNS = [
  ...['seller_id', 'item_id', ...ITEM_FIELDS.map(({ column }) => column)],
  ...['state', 'first_seen_at', 'changed_at', 'removed_at', 'synced_run_id', 'valid_from', 'extra'],
];

/*
 * The SQL fragments below belong to statements with these parameters: $1 the run, $2 the run's start.
 */

/**
 * SQL to join the row with this ctid. `OFFSET 0` prevents a hash join, which would spill whole tables of
 * wide rows to disk. Fetching each row by its ctid takes half the time if all of 100,000 rows changed,
 * and less if few did.
 */
export function rowAt(table: string, ctid: string): string {
  return `LATERAL (SELECT * FROM ${table} WHERE ctid = ${ctid} OFFSET 0)`;
}

/**
 * SQL of the `valid_from` of the state that replaces row `i`. It always increases, even if a clock goes
 * back, so that no two states of an item overlap in time.
 */
export const NEXT_VALID_FROM = `greatest($2::timestamptz, i.valid_from + interval '1 microsecond')`;

/**
 * SQL that copies rows of `mirror.items`, as they were before the statement, to `mirror.item_versions`.
 * @param source a relation with the rows' ctid in `old_place`
 * @param where condition on its rows, `d`
 */
export function saveVersionsSql(source: string, where = 'true'): string {
  return `INSERT INTO mirror.item_versions (${STATE_COLUMNS.join(', ')}, valid_to, superseded_run_id)
    SELECT ${STATE_COLUMNS.map((column) => `i.${column}`).join(', ')}, ${NEXT_VALID_FROM}, $1
      FROM ${source} d CROSS JOIN ${rowAt('mirror.items', 'd.old_place')} i
     WHERE ${where}`;
}

/** Records of the run, staged while the list is read. */
export const STAGE = 'pg_temp.incoming_items';
/**
 * Changes of the run, one row an item, until the transaction commits. Each is a JSON array of the field, its class,
 * the old and the new value.
 */
export const CHANGES = 'pg_temp.outgoing_changes';

/**
 * A transaction that takes change numbers holds this lock until it ends. So numbers become visible in
 * order, and a reader never finds a smaller one later. It is sent in one message with the COMMIT, so that
 * a process that stops in between can't block the others.
 */
export const LOCK_CHANGE_NUMBERS = `SELECT pg_advisory_xact_lock(hashtextextended('seller-mirror/item-changes', 0))`;

/** SQL of the next change number, for events that followers must see but that are no change. */
export const NEXT_CHANGE_NUMBER = `nextval('mirror.item_changes_seq_seq')`;
