import { hash } from 'node:crypto';
import { escapeLiteral, type PoolClient } from 'pg';
import { ITEM_FIELDS, ITEM_STATES, type FieldType } from '../domain/item.js';
import { parseJson } from '../domain/values.js';
import { NO_WIRE_HASH, WIRE_HASH_BYTES } from '../marketplace/decode.js';
import { onlyRow } from '../db/connection.js';
import { itemsLockSql, type SellerLock } from '../db/locks.js';
import {
  ITEM_COLUMNS,
  ITEM_VALUE_COLUMNS,
  type RowStamp,
  type StoredItem,
} from './prepare-item.js';
import type { Removals } from './rules.js';
import { type BrokenRecord, KnownItems, STAGE } from './stage-list.js';

/*
 * How a run writes items, with ordinary functions on the connection that holds the seller's lock:
 *
 * 1. `openStage` makes two temporary tables. The list is staged outside of any transaction.
 * 2. `begin`; then `compareStage` and `changeStates` collect what differs, and `writeItems` writes versions and items.
 * 3. `commit` publishes the changes. `discard` undoes everything.
 */

/**
 * What the run changes, one row an item. Each change is a JSON array of the field, its class, the old and the new
 * value.
 */
const CHANGES = 'pg_temp.outgoing_changes';

// The stage has the same TOAST limit as mirror.items, so that neither table compresses rows of the other.
const OPEN = `
  CREATE TEMP TABLE incoming_items (LIKE mirror.items) WITH (toast_tuple_target = 4080);
  CREATE TEMP TABLE outgoing_changes
    (item_id bigint NOT NULL, place tid, old_place tid, old_state mirror.item_state, new_state mirror.item_state,
     is_listed boolean, extra_differs boolean, has_other_bytes boolean, changes jsonb[] NOT NULL)`;
const CLOSE = `DROP TABLE IF EXISTS ${STAGE}, ${CHANGES}`;

/**
 * A transaction that takes change numbers holds this lock until it ends. So numbers become visible in
 * order, and a reader never finds a smaller one later. It is sent in one message with the COMMIT, so that
 * a process that stops in between can't block the others.
 */
const LOCK_CHANGE_NUMBERS = `SELECT pg_advisory_xact_lock(hashtextextended('seller-mirror/item-changes', 0))`;

/** SQL of the next change number, for events that followers must see but that are no change. */
const NEXT_CHANGE_NUMBER = `nextval('mirror.item_changes_seq_seq')`;

/** Makes the run's temporary tables. */
export async function openStage({ client }: SellerLock): Promise<void> {
  await client.query(OPEN);
}

/** Begins the transaction in which the run writes. */
export async function begin({ client, sellerId }: SellerLock): Promise<void> {
  const shared = itemsLockSql('pg_advisory_xact_lock_shared', escapeLiteral(sellerId));
  // The statements that apply a list are long enough for JIT, which took them a quarter longer.
  await client.query(`BEGIN; SET LOCAL jit = off; SELECT ${shared}`);
}

/** Undoes the transaction, and drops the temporary tables. Safe after any failure, and after `commit`. */
export async function discard({ client }: SellerLock): Promise<void> {
  await client.query(`ROLLBACK; ${CLOSE}`).catch(() => undefined);
}

/** An int8, a wire hash and an int2. */
const KNOWN_BYTES = 8 + WIRE_HASH_BYTES + 2;

/** Loads id, hash and state of all stored items. `hadList` is true if a list was stored before. */
export async function loadKnownItems({ client, sellerId }: SellerLock): Promise<{
  readonly known: KnownItems;
  readonly hadList: boolean;
}> {
  const seller = await client.query<{ loaded: boolean }>(
    'SELECT loaded_run_id IS NOT NULL AS loaded FROM mirror.sellers WHERE seller_id = $1',
    [sellerId],
  );
  // Many items a row, because the driver handles each row by itself.
  const { rows } = await client.query<{ items: Buffer }>(
    `SELECT string_agg(int8send(item_id) || wire_hash || int2send(
              (coalesce(array_position($2::text[], state::text), 0) - 1)::int2), '') AS items
       FROM mirror.items WHERE seller_id = $1 GROUP BY item_id / 1000`,
    [sellerId, ITEM_STATES],
  );
  const known = new KnownItems();
  for (const { items } of rows) {
    for (let at = 0; at < items.length; at += KNOWN_BYTES) {
      const id = Number(items.readBigInt64BE(at));
      const stateAt = at + 8 + WIRE_HASH_BYTES;
      const state = ITEM_STATES[items.readInt16BE(stateAt)];
      if (state === undefined) {
        throw new Error(`item ${id} of ${sellerId} is in a state that this version does not know`);
      }
      known.addStored(id, items.toString('latin1', at + 8, stateAt), state);
    }
  }
  // An emptied table counts as never loaded.
  return { known, hadList: seller.rows[0]?.loaded === true && known.size > 0 };
}

/** Stored items by id. */
export async function readStoredItems(
  { client, sellerId }: SellerLock,
  ids: readonly number[],
): Promise<Map<number, StoredItem>> {
  if (ids.length === 0) return new Map();
  const { rows } = await client.query<
    Omit<StoredItem, 'raw'> & { readonly id: number; readonly raw: string }
  >(
    `SELECT item_id::float8 AS id, raw::text AS raw, extra,
            CASE WHEN raw -> 'name' IS NULL THEN jsonb_build_object(${FIELDS_AS_JSON}) END AS fields
       FROM mirror.items i WHERE seller_id = $1 AND item_id = ANY($2::bigint[])`,
    [sellerId, ids],
  );
  return new Map(rows.map(({ id, raw, ...item }) => [id, { ...item, raw: parseJson(raw) }]));
}

/** Stores records that could not be decoded. A known record only gets a new date. */
export async function saveBroken(
  client: PoolClient,
  { sellerId, runId, at }: RowStamp,
  records: readonly BrokenRecord[],
): Promise<void> {
  if (records.length === 0) return;
  const storable = (text: string): string => text.replaceAll('\0', '\uFFFD');
  await client.query(
    `WITH before AS (
       SELECT q.item_id, q.raw_hash, q.runs FROM mirror.quarantine q
        WHERE q.seller_id = $1 AND q.last_run_id = (
          SELECT max(run_id) FROM mirror.runs
           WHERE seller_id = $1 AND kind = 'items' AND state IN ('succeeded', 'held')))
     INSERT INTO mirror.quarantine
       (seller_id, item_id, reason, raw, raw_hash, first_run_id, last_run_id, first_seen_at, last_seen_at, runs)
     SELECT DISTINCT ON (b.raw_hash) $1, b.item_id, reason, raw, decode(b.raw_hash, 'hex'), $2::bigint,
            $2::bigint, $3::timestamptz, $3::timestamptz,
            1 + coalesce((SELECT max(runs) FROM before e
                           WHERE e.item_id = b.item_id OR e.raw_hash = decode(b.raw_hash, 'hex')), 0)
       FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[]) AS b (item_id, reason, raw, raw_hash)
     ON CONFLICT (seller_id, raw_hash) DO UPDATE
       SET last_run_id = excluded.last_run_id, last_seen_at = excluded.last_seen_at,
           reason = excluded.reason, runs = excluded.runs`,
    [
      sellerId,
      runId,
      at,
      records.map(({ itemId }) => itemId),
      records.map(({ reason }) => storable(reason)),
      records.map(({ bytes }) => storable(Buffer.from(bytes).toString())),
      records.map(({ bytes }) => hash('sha256', bytes, 'hex')),
    ],
  );
}

/** What the staged records change, in numbers of items. */
export interface Applied {
  readonly added: number;
  readonly changed: number;
  readonly extraChanged: number;
  readonly restored: number;
  /** Listed items whose content is the same, also if they were missing. */
  readonly unchanged: number;
  /** Column → number of items in which it changed. */
  readonly fields: ReadonlyMap<string, number>;
}

/*
 * The SQL fragments below belong to statements with these parameters: $1 the run, $2 the run's start.
 */

/** SQL of a field's canonical value as JSON, the same as in `Item`. */
function json(value: string, type: FieldType): string {
  if (type === 'money') return `${value}::text`;
  if (type !== 'time') return value;
  const utc = `to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')`;
  return `rtrim(rtrim(${utc}, '0'), '.') || 'Z'`;
}

const FIELDS_AS_JSON = ITEM_FIELDS.map(
  ({ key, column, type }) => `'${key}', ${json(`i.${column}`, type)}`,
).join(', ');

/** SQL of a field's change between row `i` and record `w`; NULL if it did not change. */
function fieldChange(column: string, type: FieldType, classSql: string): string {
  const values = `${json(`i.${column}`, type)}, ${json(`w.${column}`, type)}`;
  return `CASE WHEN i.${column} IS DISTINCT FROM w.${column}
               THEN jsonb_build_array('${column}', ${classSql}, ${values}) END`;
}

const FIELD_CHANGES = [
  fieldChange('state', 'text', `CASE i.state WHEN 'removed' THEN 'restored' ELSE 'missing' END`),
  ...ITEM_FIELDS.map((field) => fieldChange(field.column, field.type, `'${field.class}'`)),
].join(',\n                  ');

/** SQL of `NO_WIRE_HASH`, which records of look-ups have. */
const NO_WIRE_HASH_SQL = `'\\x${Buffer.from(NO_WIRE_HASH, 'latin1').toString('hex')}'::bytea`;

/** Deletes all staged records of an item but the last one. */
const KEEP_LAST = `
  DELETE FROM ${STAGE} a USING ${STAGE} b WHERE a.item_id = b.item_id AND a.ctid < b.ctid`;

/**
 * Compares each staged record `w` with the stored row `i` of its item. Changes of unknown fields make no
 * history.
 * OFFSET 0 looks each row up by its key; a hash join would spill whole tables of wide rows to disk.
 */
const COMPARE = `
  INSERT INTO ${CHANGES} (item_id, place, old_place, old_state, is_listed, extra_differs, has_other_bytes, changes)
  SELECT w.item_id, w.ctid, i.ctid, i.state,
         w.wire_hash <> ${NO_WIRE_HASH_SQL}, i.extra <> w.extra,
         w.wire_hash NOT IN (i.wire_hash, ${NO_WIRE_HASH_SQL}),
         CASE WHEN i.item_id IS NULL AND $2
              THEN ARRAY[jsonb_build_array('state', 'added', NULL, 'live')]
              WHEN i.item_id IS NULL THEN '{}'
              ELSE array_remove(ARRAY[
                  ${FIELD_CHANGES}
                ], NULL) END
    FROM ${STAGE} w
    LEFT JOIN LATERAL (SELECT ctid, * FROM mirror.items
                        WHERE seller_id = $1 AND item_id = w.item_id OFFSET 0) i ON true`;

/** SQL of whether anything but an item's state changed in row `d`. */
const CONTENT_DIFFERS = `(cardinality(d.changes) > CASE d.old_state WHEN 'live' THEN 0 ELSE 1 END)`;

const COUNT = `
  SELECT count(*) FILTER (WHERE old_place IS NULL)::int AS added,
         count(*) FILTER (WHERE content_differs)::int AS changed,
         count(*) FILTER (WHERE extra_differs AND NOT content_differs)::int AS "extraChanged",
         count(*) FILTER (WHERE old_state = 'removed')::int AS restored,
         count(*) FILTER (WHERE is_listed AND old_state <> 'removed' AND NOT extra_differs
                            AND NOT content_differs)::int AS unchanged,
         (SELECT jsonb_object_agg(field, items)
            FROM (SELECT change ->> 0 AS field, count(*) AS items
                    FROM ${CHANGES} d CROSS JOIN LATERAL unnest(d.changes) AS change
                   WHERE d.old_place IS NOT NULL GROUP BY 1) AS f) AS fields
    FROM (SELECT *, old_place IS NOT NULL AND ${CONTENT_DIFFERS} AS content_differs FROM ${CHANGES} d) AS c`;

/**
 * Compares the staged records with the stored rows, and collects what changes.
 * @param input.publishesAdded whether new items are changes
 * @param input.repeats whether an item may be staged more than once; the last record counts
 */
export async function compareStage(
  { client, sellerId }: SellerLock,
  input: { readonly publishesAdded: boolean; readonly repeats: boolean },
): Promise<Applied> {
  if (input.repeats) await client.query(KEEP_LAST);
  await client.query(COMPARE, [sellerId, input.publishesAdded]);
  const { fields, ...counts } = onlyRow(
    await client.query<
      Omit<Applied, 'fields'> & { readonly fields: Record<string, number> | null }
    >(COUNT),
  );
  return { ...counts, fields: new Map(Object.entries(fields ?? {})) };
}

/**
 * Collects the changes of a removal plan. Rows are never deleted, and rows already in the new state don't change.
 * @returns the number of items to be removed
 */
export async function changeStates(
  { client, sellerId }: SellerLock,
  { missing, remove }: Removals,
): Promise<number> {
  if (missing.length + remove.length === 0) return 0;
  const result = await client.query<{ removed: number }>(
    `WITH going AS (
       INSERT INTO ${CHANGES} (item_id, old_place, old_state, new_state, changes)
       SELECT item_id, i.ctid, i.state, g.state::mirror.item_state,
              ARRAY[jsonb_build_array('state', g.state, i.state, g.state)]
         FROM (SELECT unnest($2::bigint[]) AS item_id, 'missing' AS state
               UNION ALL SELECT unnest($3::bigint[]), 'removed') AS g
         JOIN mirror.items i USING (item_id)
        WHERE i.seller_id = $1 AND (i.state = 'live' OR g.state = 'removed' AND i.state = 'missing')
       RETURNING new_state)
     SELECT count(*) FILTER (WHERE new_state = 'removed')::int AS removed FROM going`,
    [sellerId, missing, remove],
  );
  return onlyRow(result).removed;
}

/** Columns of `mirror.items` that a version keeps. */
const STATE_COLUMNS = [
  ...['seller_id', 'item_id', ...ITEM_FIELDS.map(({ column }) => column)],
  ...['state', 'first_seen_at', 'changed_at', 'removed_at', 'synced_run_id', 'valid_from', 'extra'],
];

/**
 * SQL to join the row with this ctid. `OFFSET 0` prevents a hash join, which would spill whole tables of
 * wide rows to disk. Fetching each row by its ctid takes half the time if all of 100,000 rows changed,
 * and less if few did.
 */
function rowAt(table: string, ctid: string): string {
  return `LATERAL (SELECT * FROM ${table} WHERE ctid = ${ctid} OFFSET 0)`;
}

/**
 * SQL of the `valid_from` of the state that replaces row `i`. It always increases, even if a clock goes
 * back, so that no two states of an item overlap in time.
 */
const NEXT_VALID_FROM = `greatest($2::timestamptz, i.valid_from + interval '1 microsecond')`;

/** SQL of whether row `d` replaces a state that others could see. */
const SUPERSEDES = `(d.old_place IS NOT NULL AND d.changes <> '{}')`;

/** Copies superseded rows as they are before the run. */
const VERSIONS = `
  INSERT INTO mirror.item_versions (${STATE_COLUMNS.join(', ')}, valid_to, superseded_run_id)
  SELECT ${STATE_COLUMNS.map((column) => `i.${column}`).join(', ')}, ${NEXT_VALID_FROM}, $1
    FROM ${CHANGES} d CROSS JOIN ${rowAt('mirror.items', 'd.old_place')} i
   WHERE ${SUPERSEDES}`;

const INSERT = `
  INSERT INTO mirror.items (${ITEM_COLUMNS.join(', ')})
  SELECT ${ITEM_COLUMNS.map((column) => `w.${column}`).join(', ')}
    FROM ${CHANGES} d CROSS JOIN ${rowAt(STAGE, 'd.place')} w WHERE d.old_place IS NULL`;

const UPDATE = `
  UPDATE mirror.items i
     SET ${ITEM_VALUE_COLUMNS.map((column) => `${column} = w.${column}`).join(', ')},
         state = 'live', removed_at = NULL,
         synced_run_id = CASE WHEN ${SUPERSEDES} THEN $1 ELSE i.synced_run_id END,
         extra_run_id = CASE WHEN d.extra_differs THEN $1 ELSE i.extra_run_id END,
         valid_from = CASE WHEN ${SUPERSEDES} THEN ${NEXT_VALID_FROM} ELSE i.valid_from END,
         changed_at = CASE WHEN ${CONTENT_DIFFERS} OR d.old_state = 'removed'
                           THEN $2::timestamptz ELSE i.changed_at END
    FROM ${CHANGES} d CROSS JOIN ${rowAt(STAGE, 'd.place')} w
   WHERE i.ctid = d.old_place AND (d.changes <> '{}' OR d.extra_differs)`;

/** The same content in other bytes. The next list is likely to have these bytes again. */
const REHASH = `
  UPDATE mirror.items i SET wire_hash = w.wire_hash
    FROM ${CHANGES} d CROSS JOIN ${rowAt(STAGE, 'd.place')} w
   WHERE i.ctid = d.old_place AND d.changes = '{}' AND NOT d.extra_differs AND d.has_other_bytes`;

const STATES = `
  UPDATE mirror.items i
     SET state = d.new_state, synced_run_id = $1, valid_from = ${NEXT_VALID_FROM},
         removed_at = CASE d.new_state WHEN 'removed' THEN $2::timestamptz ELSE i.removed_at END,
         changed_at = CASE d.new_state WHEN 'removed' THEN $2::timestamptz ELSE i.changed_at END
    FROM ${CHANGES} d WHERE i.ctid = d.old_place AND d.place IS NULL`;

/** Names of fields beyond these limits are not recorded: an index takes no longer ones. */
const [MAX_FIELDS, MAX_FIELD_LENGTH] = [1_000, 200];

/**
 * Saves superseded states, and writes what `compareStage` and `changeStates` collected.
 * @param extraFields fields of the records that no column holds; a seller's new ones are recorded
 */
export async function writeItems(
  { client, sellerId }: SellerLock,
  { runId, at }: RowStamp,
  extraFields: ReadonlySet<string> = new Set(),
): Promise<void> {
  // Rows are found by ctid, so versions are copied before any row moves.
  await client.query(VERSIONS, [runId, at]);
  await client.query(INSERT);
  await client.query(UPDATE, [runId, at]);
  await client.query(REHASH);
  await client.query(STATES, [runId, at]);
  const fields = [...extraFields].filter(({ length }) => length <= MAX_FIELD_LENGTH);
  if (fields.length > 0) {
    await client.query(
      `INSERT INTO mirror.item_fields (seller_id, field, first_run_id)
       SELECT $1, unnest($2::text[]), $3 ON CONFLICT DO NOTHING`,
      [sellerId, fields.slice(0, MAX_FIELDS), runId],
    );
  }
  await countStates(client, sellerId);
}

/** Saves the seller's number of items by state. */
async function countStates(client: PoolClient, sellerId: string): Promise<void> {
  await client.query(
    `UPDATE mirror.sellers s SET (live_items, missing_items, removed_items) = (
       SELECT count(*) FILTER (WHERE state = 'live'), count(*) FILTER (WHERE state = 'missing'),
              count(*) FILTER (WHERE state = 'removed')
         FROM mirror.items i WHERE i.seller_id = s.seller_id)
      WHERE s.seller_id = $1`,
    [sellerId],
  );
}

/**
 * Publishes the changes and commits, in one message: a transaction that takes change numbers keeps others
 * from taking theirs until it ends; see `LOCK_CHANGE_NUMBERS`.
 * @param also.isFirstList whether the seller's first list was stored, whose items are no changes
 * @param also.extraChanged whether only `extra` changed in some items, which is no change in `item_changes`
 */
export async function commit(
  { client, sellerId }: SellerLock,
  { runId, at }: RowStamp,
  also: { readonly isFirstList?: boolean; readonly extraChanged?: boolean } = {},
): Promise<void> {
  const seller = escapeLiteral(sellerId);
  const publish = [
    LOCK_CHANGE_NUMBERS,
    `INSERT INTO mirror.item_changes
            (seller_id, run_id, changed_at, item_id, field, class, old_value, new_value)
     SELECT ${seller}, ${runId}, ${escapeLiteral(at)}::timestamptz, item_id, change ->> 0,
            (change ->> 1)::mirror.change_class, nullif(change -> 2, 'null'), nullif(change -> 3, 'null')
       FROM ${CHANGES} CROSS JOIN LATERAL unnest(changes) AS change`,
    also.isFirstList === true
      ? `UPDATE mirror.sellers SET loaded_run_id = ${runId}, loaded_seq = ${NEXT_CHANGE_NUMBER}
          WHERE seller_id = ${seller}`
      : '',
    also.extraChanged === true
      ? `UPDATE mirror.runs SET extra_seq = ${NEXT_CHANGE_NUMBER} WHERE run_id = ${runId}`
      : '',
    CLOSE,
    'COMMIT',
  ];
  await client.query(publish.filter(Boolean).join(';\n'));
}

/** What a run without a list writes besides the changes that it collected. */
interface FewWritten extends NonNullable<Parameters<typeof commit>[2]> {
  readonly stamp: RowStamp;
  /** As for `writeItems`. */
  readonly extraFields?: ReadonlySet<string>;
}

/** Writes what `collect` finds to be changed, without a list, and commits it; on errors, nothing is written. */
export async function writeFew<T extends FewWritten>(
  lock: SellerLock,
  collect: () => Promise<T>,
): Promise<T> {
  try {
    await openStage(lock);
    await begin(lock);
    const collected = await collect();
    await writeItems(lock, collected.stamp, collected.extraFields);
    await commit(lock, collected.stamp, collected);
    return collected;
  } catch (error) {
    await discard(lock);
    throw error;
  }
}
