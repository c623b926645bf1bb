import type { PoolClient } from 'pg';
import { escapeLiteral } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { ITEM_FIELDS, ITEM_STATES, type FieldType } from '../domain/item.js';
import { KnownItems } from './known-items.js';
import { NO_WIRE_HASH } from '../marketplace/wire-hash.js';
import { COPY_HEADER } from '../db/copy.js';
import { CHANGES, NEXT_VALID_FROM, rowAt, saveVersionsSql, STAGE } from './history.js';
import { ITEM_COLUMNS, ITEM_VALUE_COLUMNS, type RowStamp } from './item-rows.js';
import { onlyRow } from '../db/only-row.js';

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

/** SQL of a field's canonical value as JSON, the same as in `Item`. */
function json(value: string, type: FieldType): string {
  if (type === 'money') return `${value}::text`;
  if (type !== 'time') return value;
  const utc = `to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')`;
  return `rtrim(rtrim(${utc}, '0'), '.') || 'Z'`;
}

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
