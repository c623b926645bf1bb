import { type PoolClient, escapeLiteral } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { ITEM_FIELDS, ITEM_STATES, type FieldType } from '../domain/item.js';
import { KnownItems } from './known-items.js';
import { NO_WIRE_HASH } from '../marketplace/decode.js';
import { COPY_HEADER } from '../db/copy.js';
import { parseJson } from '../domain/values.js';
import {
  ITEM_COLUMNS,
  ITEM_VALUE_COLUMNS,
  type RowStamp,
  type StoredItem,
} from './prepare-item.js';
import { onlyRow } from '../db/connection.js';
import type { Removals } from './rules.js';

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

/** int16 field count, then length and value of an int8, an 8-byte bytea and an int2. */
const KNOWN_ROW_BYTES = 2 + (4 + 8) + (4 + 8) + (4 + 2);

/** Loads id, hash and state of all stored items. `loaded` is true if a list was stored before. */
export async function loadKnownItems(
  client: PoolClient,
  sellerId: string,
): Promise<{ readonly items: KnownItems; readonly loaded: boolean }> {
  const { rows } = await client.query<{ expected: number; loaded: boolean }>(
    `SELECT live_items + missing_items + removed_items AS expected,
            loaded_run_id IS NOT NULL AS loaded
       FROM mirror.sellers WHERE seller_id = $1`,
    [sellerId],
  );
  const { expected = 0, loaded = false } = rows[0] ?? {};
  const items = new KnownItems(expected);
  const stream = client.query(
    copyTo(`COPY (
      SELECT item_id, wire_hash, (array_position('{${ITEM_STATES.join(',')}}'::text[], state::text) - 1)::int2
        FROM mirror.items WHERE seller_id = ${escapeLiteral(sellerId)}
    ) TO STDOUT (FORMAT binary)`),
  );
  let rest: Buffer = Buffer.alloc(0);
  let at = COPY_HEADER.length; // the server never sends a header extension
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    // The trailer (a field count of -1) is shorter than a row, so the loop ends before it.
    for (; at + KNOWN_ROW_BYTES <= data.length; at += KNOWN_ROW_BYTES) {
      const id = Number(data.readBigInt64BE(at + 6));
      const state = ITEM_STATES[data.readInt16BE(at + 30)];
      if (state === undefined) {
        throw new Error(`item ${id} of ${sellerId} is in a state that this version does not know`);
      }
      items.addKnown(id, data.subarray(at + 18, at + 26), state);
    }
    rest = data.subarray(at);
    at = Math.max(0, at - data.length);
  }
  // An emptied table counts as never loaded.
  return { items, loaded: loaded && items.size > 0 };
}

/** Stored items by id. */
export async function readStoredItems(
  client: PoolClient,
  sellerId: string,
  ids: readonly number[],
): Promise<Map<number, StoredItem>> {
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

/** What `applyStage` wrote, in numbers of items. Items that this run had written before don't count. */
export interface Applied {
  readonly added: number;
  readonly changed: number;
  readonly extraChanged: number;
  readonly restored: number;
  /** Listed items whose content is the same, also if they were missing. */
  readonly unchanged: number;
  /** Items that were missing or removed. */
  readonly returned: number;
  /** Column → number of items in which it changed. */
  readonly fields: ReadonlyMap<string, number>;
}

export const NOTHING_APPLIED: Applied = {
  added: 0,
  changed: 0,
  extraChanged: 0,
  restored: 0,
  unchanged: 0,
  returned: 0,
  fields: new Map(),
};

/**
 * Applies the staged records to `mirror.items`: compares each with the stored row, inserts new items, saves the
 * superseded states of others, and collects the changes.
 * @param input.publishesAdded whether new items are changes
 * @param input.repeats whether an item may be staged more than once; the last record counts
 */
export async function applyStage(
  client: PoolClient,
  { sellerId, runId, at }: RowStamp,
  input: { readonly publishesAdded: boolean; readonly repeats: boolean },
): Promise<Applied> {
  if (input.repeats) await client.query(KEEP_LAST);
  await client.query(COMPARE, [sellerId, runId, input.publishesAdded]);
  await client.query(INSERT);
  await client.query(saveVersionsSql(CHANGES, 'd.supersedes'), [runId, at]);
  await client.query(UPDATE, [runId, at]);
  await client.query(REHASH);
  const { fields, ...counts } = onlyRow(
    await client.query<
      Omit<Applied, 'fields'> & { readonly fields: Record<string, number> | null }
    >(COUNT),
  );
  return { ...counts, fields: new Map(Object.entries(fields ?? {})) };
}

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
function rowAt(table: string, ctid: string): string {
  return `LATERAL (SELECT * FROM ${table} WHERE ctid = ${ctid} OFFSET 0)`;
}

/**
 * SQL of the `valid_from` of the state that replaces row `i`. It always increases, even if a clock goes
 * back, so that no two states of an item overlap in time.
 */
const NEXT_VALID_FROM = `greatest($2::timestamptz, i.valid_from + interval '1 microsecond')`;

/**
 * SQL that copies rows of `mirror.items`, as they were before the statement, to `mirror.item_versions`.
 * @param source a relation with the rows' ctid in `old_place`
 * @param where condition on its rows, `d`
 */
function saveVersionsSql(source: string, where = 'true'): string {
  return `INSERT INTO mirror.item_versions (${STATE_COLUMNS.join(', ')}, valid_to, superseded_run_id)
    SELECT ${STATE_COLUMNS.map((column) => `i.${column}`).join(', ')}, ${NEXT_VALID_FROM}, $1
      FROM ${source} d CROSS JOIN ${rowAt('mirror.items', 'd.old_place')} i
     WHERE ${where}`;
}

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
];

/** SQL of `NO_WIRE_HASH`. */
const NO_WIRE_HASH_SQL = `'\\x${Buffer.from(NO_WIRE_HASH).toString('hex')}'::bytea`;

/** Deletes all staged records of an item but the last one. */
const KEEP_LAST = `
  DELETE FROM ${STAGE} a USING ${STAGE} b WHERE a.item_id = b.item_id AND a.ctid < b.ctid`;

/**
 * Compares each staged record `w` with the stored row `i` of its item. Changes of unknown fields make no
 * history. Nor does overwriting a row that this run wrote (a first list has the item twice): nobody could see it.
 * OFFSET 0 looks each row up by its key; a hash join would spill whole tables of wide rows to disk.
 */
const COMPARE = `
  INSERT INTO ${CHANGES} (item_id, place, old_place, old_state, is_earlier, is_listed, extra_differs,
                          is_written, has_other_bytes, supersedes, changes)
  SELECT item_id, place, old_place, old_state, is_earlier, is_listed, extra_differs,
         NOT is_earlier OR changes <> '{}' OR extra_differs, has_other_bytes,
         old_place IS NOT NULL AND is_earlier AND changes <> '{}', changes
    FROM (
    SELECT w.item_id, w.ctid AS place, i.ctid AS old_place, i.state AS old_state,
           i.synced_run_id <> $2 AS is_earlier, i.extra <> w.extra AS extra_differs,
           w.wire_hash <> ${NO_WIRE_HASH_SQL} AS is_listed,
           w.wire_hash NOT IN (i.wire_hash, ${NO_WIRE_HASH_SQL}) AS has_other_bytes,
           CASE WHEN i.item_id IS NULL AND $3
                THEN ARRAY[jsonb_build_array('state', 'added', NULL, 'live')]
                WHEN i.item_id IS NULL OR i.synced_run_id = $2 THEN '{}'
                ELSE array_remove(ARRAY[
                  ${FIELD_CHANGES.join(',\n                  ')}
                ], NULL) END AS changes
      FROM ${STAGE} w
      LEFT JOIN LATERAL (SELECT ctid, * FROM mirror.items
                          WHERE seller_id = $1 AND item_id = w.item_id OFFSET 0) i ON true
     OFFSET 0) AS compared`;

const INSERT = `
  INSERT INTO mirror.items (${ITEM_COLUMNS.join(', ')})
  SELECT ${ITEM_COLUMNS.map((column) => `w.${column}`).join(', ')}
    FROM ${CHANGES} d CROSS JOIN ${rowAt(STAGE, 'd.place')} w WHERE d.old_place IS NULL`;

/** SQL of whether anything but an item's state changed in row `d`. */
const CONTENT_DIFFERS = `(cardinality(d.changes) > CASE d.old_state WHEN 'live' THEN 0 ELSE 1 END)`;

const UPDATE = `
  UPDATE mirror.items i
     SET ${ITEM_VALUE_COLUMNS.map((column) => `${column} = w.${column}`).join(', ')},
         state = 'live', removed_at = NULL,
         synced_run_id = CASE WHEN d.supersedes THEN $1 ELSE i.synced_run_id END,
         extra_run_id = CASE WHEN d.extra_differs THEN $1 ELSE i.extra_run_id END,
         valid_from = CASE WHEN d.supersedes THEN ${NEXT_VALID_FROM} ELSE i.valid_from END,
         changed_at = CASE WHEN ${CONTENT_DIFFERS} OR d.old_state = 'removed'
                           THEN $2::timestamptz ELSE i.changed_at END
    FROM ${CHANGES} d CROSS JOIN ${rowAt(STAGE, 'd.place')} w
   WHERE i.ctid = d.old_place AND d.is_written`;

/** The same content in other bytes. The next list is likely to have these bytes again. */
const REHASH = `
  UPDATE mirror.items i SET wire_hash = w.wire_hash
    FROM ${CHANGES} d CROSS JOIN ${rowAt(STAGE, 'd.place')} w
   WHERE i.ctid = d.old_place AND NOT d.is_written AND d.has_other_bytes`;

const COUNT = `
  SELECT count(*) FILTER (WHERE old_place IS NULL)::int AS added,
         count(*) FILTER (WHERE content_differs)::int AS changed,
         count(*) FILTER (WHERE extra_differs AND NOT content_differs)::int AS "extraChanged",
         count(*) FILTER (WHERE old_state = 'removed')::int AS restored,
         count(*) FILTER (WHERE is_listed AND old_state <> 'removed' AND NOT extra_differs
                            AND NOT content_differs)::int AS unchanged,
         count(*) FILTER (WHERE old_state <> 'live')::int AS returned,
         (SELECT jsonb_object_agg(field, items)
            FROM (SELECT change ->> 0 AS field, count(*) AS items
                    FROM ${CHANGES} d CROSS JOIN LATERAL unnest(d.changes) AS change
                   WHERE d.supersedes GROUP BY 1) AS f) AS fields
    FROM (SELECT *, old_place IS NOT NULL AND ${CONTENT_DIFFERS} AS content_differs FROM ${CHANGES} d) AS c
   WHERE old_place IS NULL OR is_earlier`;

/**
 * Carries out a removal plan: sets states, saves the old ones as versions, and stages the changes. Rows are
 * never deleted, and rows already in the new state are not written.
 * @returns the number of removed items
 */
export async function removeItems(
  client: PoolClient,
  { sellerId, runId, at }: RowStamp,
  { missing, remove }: Removals,
): Promise<number> {
  if (missing.length > 0) await client.query(MISSING, [runId, at, sellerId, missing]);
  if (remove.length === 0) return 0;
  return (await client.query(REMOVED, [runId, at, sellerId, remove])).rowCount ?? 0;
}

/** SQL that sets the state of the items in $4. */
function stateChange(to: 'missing' | 'removed', from: string, more = ''): string {
  return `
    WITH going AS (
      SELECT ctid AS old_place, item_id, state FROM mirror.items
       WHERE seller_id = $3 AND item_id = ANY($4::bigint[]) AND ${from}
    ), kept AS (
      ${saveVersionsSql('going')}
    ), changes AS (
      INSERT INTO ${CHANGES} (item_id, changes)
      SELECT item_id, ARRAY[jsonb_build_array('state', '${to}', state, '${to}')] FROM going
    )
    UPDATE mirror.items i
       SET state = '${to}', ${more} synced_run_id = $1, valid_from = ${NEXT_VALID_FROM}
      FROM going d WHERE i.ctid = d.old_place`;
}

const MISSING = stateChange('missing', "state = 'live'");
const REMOVED = stateChange(
  'removed',
  "state <> 'removed'",
  'removed_at = $2, changed_at = $2::timestamptz,',
);
