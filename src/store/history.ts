import type { PoolClient } from 'pg';
import { escapeLiteral } from 'pg';
import { ITEM_FIELDS, stateChangeClass, type ChangeClass } from '../domain/changes.js';
import type { KnownState } from '../domain/known-items.js';
import type { RowStamp } from './item-rows.js';
import type { SellerLock } from './lock.js';

/** Columns of `mirror.items` that a version keeps: all that reports show, and since when. */
const STATE_COLUMNS = [
  'seller_id',
  'item_id',
  ...ITEM_FIELDS.map(({ column }) => column),
  'state',
  'first_seen_at',
  'changed_at',
  'removed_at',
  'synced_run_id',
  'valid_from',
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

const CHANGE_COLUMNS = 'item_id, class, field, old_value, new_value';

/** Where the changes of a transaction wait for its end. */
export async function createChangeStage(client: PoolClient): Promise<void> {
  await client.query(
    `CREATE TEMP TABLE outgoing_changes
       (item_id bigint NOT NULL, class mirror.change_class NOT NULL, field text NOT NULL,
        old_value jsonb, new_value jsonb) ON COMMIT DROP`,
  );
}

/**
 * SQL that puts aside what differs between rows `i` of `mirror.items` and rows `w` of
 * `pg_temp.incoming_items`, field by field.
 * @param source a relation with the rows' `old_place` and `place`
 * @param where which of its rows, `d`
 */
export function stageDifferences(source: string, where: string): string {
  // Numbers of the fields that differ, before anything is made of their values.
  const numbers = FIELDS.map(
    ({ column }, n) => `CASE WHEN i.${column} IS DISTINCT FROM w.${column} THEN ${n + 1} END`,
  );
  const values = (row: string): string =>
    FIELDS.map(({ column }, n) => `WHEN ${n + 1} THEN ${json(row, column)}`).join(' ');
  const classes = FIELDS.map((field) => ('class' in field ? field.class : 'missing'));
  return `INSERT INTO pg_temp.outgoing_changes (${CHANGE_COLUMNS})
    SELECT i.item_id,
           CASE WHEN n = 1 THEN ${stateClassOf('i.state', 'live')}
                ELSE ('{${classes.join(',')}}'::mirror.change_class[])[n] END,
           ('{${FIELDS.map(({ column }) => column).join(',')}}'::text[])[n],
           CASE n ${values('i')} END, CASE n ${values('w')} END
      FROM ${source} d
     CROSS JOIN ${rowAt('mirror.items', 'd.old_place')} i
     CROSS JOIN ${rowAt('pg_temp.incoming_items', 'd.place')} w
     CROSS JOIN LATERAL unnest(array_remove(ARRAY[${numbers.join(', ')}]::int[], NULL)) AS n
     WHERE ${where}`;
}

/** The change of state comes before those of the fields. */
const FIELDS = [{ column: 'state' }, ...ITEM_FIELDS];

/** SQL that puts a change of state aside for each row of `source`, with its `item_id` and `state`. */
export function stageStates(source: string, to: KnownState): string {
  return `INSERT INTO pg_temp.outgoing_changes (${CHANGE_COLUMNS})
    SELECT d.item_id, ${stateClassOf('d.state', to)}, 'state', to_jsonb(d.state), to_jsonb('${to}'::text)
      FROM ${source} d`;
}

/** Puts aside that items are new. */
export async function stageAdded(client: PoolClient, ids: readonly number[]): Promise<void> {
  await client.query(
    `INSERT INTO pg_temp.outgoing_changes (${CHANGE_COLUMNS})
     SELECT id, '${stateChangeClass(null, 'live')}', 'state', NULL, to_jsonb('live'::text)
       FROM unnest($1::bigint[]) AS id`,
    [ids],
  );
}

/** SQL of the class of a change from the state in `column`. */
function stateClassOf(column: string, to: KnownState): string {
  const restored: ChangeClass = stateChangeClass('removed', to);
  const other: ChangeClass = stateChangeClass('missing', to);
  return `(CASE ${column} WHEN 'removed' THEN '${restored}' ELSE '${other}' END)::mirror.change_class`;
}

const MONEY = new Set(['price_regular', 'price_extended']);

/** SQL of a field's canonical value, as `Item` has it. */
function json(row: string, column: string): string {
  const value = `${row}.${column}`;
  if (MONEY.has(column)) return `to_jsonb(${value}::text)`;
  if (column !== 'published_at') return `to_jsonb(${value})`;
  const utc = `to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')`;
  return `to_jsonb(rtrim(rtrim(${utc}, '0'), '.') || 'Z')`;
}

/** What is published at the end of a transaction. */
export interface Publication {
  /** Changes were put aside. */
  readonly changes: boolean;
  /** This is the seller's first list. */
  readonly firstList: boolean;
  /** The list no longer names items of which look-ups have yet to decide. */
  readonly undecided: boolean;
  /** Items that were undecided and are live again, as if nothing had happened. */
  readonly found: readonly number[];
  /** Look-ups have decided: what is undecided still is missing. */
  readonly decided: boolean;
}

/** A transaction that numbers changes holds this lock until it ends. */
const NUMBERING = `SELECT pg_advisory_xact_lock(hashtextextended('seller-mirror/item-changes', 0))`;

/** SQL of the next number of the feed, for what followers must see though it is no change. */
const NEXT_NUMBER = `nextval('mirror.item_changes_seq_seq')`;

/**
 * Numbers the changes of the transaction and commits it. No other transaction numbers any in between.
 * So numbers become visible in order, and a reader never finds a smaller one later. All of it is one
 * message to the server: a process that stops here can't keep the others waiting.
 */
export async function publishAndCommit(
  client: PoolClient,
  stamp: RowStamp,
  { changes, firstList, undecided, found, decided }: Publication,
): Promise<void> {
  const sellerId = escapeLiteral(stamp.sellerId);
  const statements: string[] = [];
  if (changes) {
    statements.push(
      `INSERT INTO mirror.item_changes (seller_id, run_id, changed_at, ${CHANGE_COLUMNS})
       SELECT ${sellerId}, ${stamp.runId}, ${escapeLiteral(stamp.at)}::timestamptz, ${CHANGE_COLUMNS}
         FROM pg_temp.outgoing_changes`,
    );
  }
  if (firstList) {
    statements.push(
      `UPDATE mirror.sellers SET loaded_run_id = ${stamp.runId}, loaded_seq = ${NEXT_NUMBER}
        WHERE seller_id = ${sellerId}`,
    );
  }
  if (undecided) {
    statements.push(
      `UPDATE mirror.sellers SET undecided_run_id = ${stamp.runId}, undecided_seq = ${NEXT_NUMBER}
        WHERE seller_id = ${sellerId}`,
    );
  }
  if (found.length > 0) {
    statements.push(
      `UPDATE mirror.item_lookups SET found_seq = ${NEXT_NUMBER}
        WHERE seller_id = ${sellerId} AND item_id = ANY('{${found.join(',')}}'::bigint[])`,
    );
  }
  if (decided) statements.push(tellUndecidedSql(sellerId));
  await client.query(
    [...(statements.length > 0 ? [NUMBERING] : []), ...statements, 'COMMIT'].join(';\n'),
  );
}

/**
 * Publishes the items that a killed run left undecided as missing since that run. The caller holds the
 * seller's lock.
 */
export async function tellUndecided({
  client,
  sellerId,
}: Pick<SellerLock, 'client' | 'sellerId'>): Promise<void> {
  const { rowCount } = await client.query(
    'SELECT FROM mirror.sellers WHERE seller_id = $1 AND undecided_run_id IS NOT NULL',
    [sellerId],
  );
  if (rowCount === 0) return;
  // One message is one transaction.
  await client.query(`${NUMBERING};\n${tellUndecidedSql(escapeLiteral(sellerId))}`);
}

/** Statements that publish undecided items as missing, so that none is undecided any more. */
function tellUndecidedSql(sellerId: string): string {
  return `
    INSERT INTO mirror.item_changes (seller_id, run_id, changed_at, ${CHANGE_COLUMNS})
    SELECT seller_id, run_id, since, item_id, '${stateChangeClass('live', 'missing')}', 'state',
           to_jsonb('live'::text), to_jsonb('missing'::text)
      FROM mirror.undecided_items WHERE seller_id = ${sellerId};
    UPDATE mirror.sellers SET undecided_run_id = NULL, undecided_seq = NULL
     WHERE seller_id = ${sellerId}`;
}
