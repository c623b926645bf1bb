import type { PoolClient } from 'pg';
import { escapeLiteral } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { ITEM_FIELDS, ITEM_STATES, type FieldType } from '../domain/item.js';
import { KnownItems } from './known-items.js';
import { NO_WIRE_HASH } from '../marketplace/wire-hash.js';
import { COPY_HEADER } from '../db/copy.js';
import { CHANGE_COLUMNS, NEXT_VALID_FROM, rowAt, saveVersionsSql } from './history.js';
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
 * Applies the staged records to `mirror.items`: inserts new items, saves the superseded states of others,
 * and stages the changes. Of several records of an item, the last one counts.
 * @param publishesAdded whether new items are changes
 */
export async function applyStage(
  client: PoolClient,
  stamp: RowStamp,
  publishesAdded: boolean,
): Promise<Applied> {
  const result = await client.query<
    Omit<Applied, 'fields'> & { readonly fields: Record<string, number> | null }
  >(APPLY, [stamp.sellerId, stamp.runId, stamp.at, publishesAdded]);
  const { fields, ...counts } = onlyRow(result);
  return { ...counts, fields: new Map(Object.entries(fields ?? {})) };
}

/** All compared fields. The state comes first; its class is `restored` for items that were removed. */
const FIELDS = [{ column: 'state', type: 'text', class: 'missing' } as const, ...ITEM_FIELDS];

/** Joins the SQL that `make` returns for each field; `n` counts from 1. */
function eachField(
  make: (column: string, n: number, type: FieldType) => string,
  separator: string,
): string {
  return FIELDS.map(({ column, type }, n) => make(column, n + 1, type)).join(separator);
}

/** SQL of a field's canonical value as JSON, the same as in `Item`. */
function json(value: string, type: FieldType): string {
  if (type === 'money') return `to_jsonb(${value}::text)`;
  if (type !== 'time') return `to_jsonb(${value})`;
  const utc = `to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')`;
  return `to_jsonb(rtrim(rtrim(${utc}, '0'), '.') || 'Z')`;
}

/** SQL of `NO_WIRE_HASH`. */
const NO_WIRE_HASH_SQL = `'\\x${Buffer.from(NO_WIRE_HASH).toString('hex')}'::bytea`;

/**
 * All parts see the rows as they were before the statement. Changes of unknown fields make no history.
 * Nor does overwriting a row that this run wrote (a first list has the item twice): nobody could see it.
 */
const APPLY = `
  WITH last_records AS (
    -- The last staged record of each item.
    SELECT DISTINCT ON (item_id) ctid AS place, item_id
      FROM pg_temp.incoming_items ORDER BY item_id, ctid DESC
  ), compared AS (
    -- These with the stored rows of their items. A field is given by its number.
    SELECT r.place, i.ctid AS old_place, i.item_id IS NULL AS is_new, i.state AS old_state,
           i.synced_run_id <> $2 AS is_earlier, i.extra <> w.extra AS extra_differs,
           w.wire_hash <> ${NO_WIRE_HASH_SQL} AS is_listed,
           CASE WHEN w.wire_hash NOT IN (i.wire_hash, ${NO_WIRE_HASH_SQL}) THEN w.wire_hash END
             AS new_wire_hash,
           CASE WHEN i.item_id IS NULL THEN '{}' ELSE array_remove(ARRAY[${eachField(
             (column, n) => `CASE WHEN i.${column} IS DISTINCT FROM w.${column} THEN ${n} END`,
             ', ',
           )}], NULL) END AS fields
      FROM last_records r CROSS JOIN ${rowAt('pg_temp.incoming_items', 'r.place')} w
      LEFT JOIN LATERAL (SELECT ctid, * FROM mirror.items
                          WHERE seller_id = $1 AND item_id = r.item_id OFFSET 0) i ON true
  ), inserted AS (
    INSERT INTO mirror.items (${ITEM_COLUMNS.join(', ')})
    SELECT ${ITEM_COLUMNS.map((column) => `w.${column}`).join(', ')}
      FROM compared c CROSS JOIN ${rowAt('pg_temp.incoming_items', 'c.place')} w WHERE c.is_new
    RETURNING item_id
  ), differences AS (
    -- The rows to write. If the stored state was seen before this run, the new one supersedes it.
    SELECT *, fields <> '{}' AND fields <> '{1}' AS content_differs,
           is_earlier AND fields <> '{}' AS supersedes
      FROM compared WHERE NOT is_new AND (fields <> '{}' OR extra_differs)
  ), rehashed AS (
    -- The same content in other bytes. The next list is likely to have these bytes again.
    UPDATE mirror.items i SET wire_hash = c.new_wire_hash
      FROM compared c
     WHERE i.ctid = c.old_place AND c.fields = '{}' AND NOT c.extra_differs
       AND c.new_wire_hash IS NOT NULL
  ), kept AS (
    -- The superseded states go to the history.
    ${saveVersionsSql('differences', 'd.supersedes')}
  ), changes AS (
    -- One change for each field that differs. Only these values are converted to JSON.
    INSERT INTO pg_temp.outgoing_changes (${CHANGE_COLUMNS})
    SELECT i.item_id,
           CASE WHEN n = 1 AND i.state = 'removed' THEN 'restored'
                ELSE ('{${FIELDS.map((field) => field.class).join(',')}}'::mirror.change_class[])[n] END,
           ('{${eachField((column) => column, ',')}}'::text[])[n],
           CASE n ${eachField((column, n, type) => `WHEN ${n} THEN ${json(`i.${column}`, type)}`, ' ')} END,
           CASE n ${eachField((column, n, type) => `WHEN ${n} THEN ${json(`w.${column}`, type)}`, ' ')} END
      FROM differences d
     CROSS JOIN ${rowAt('mirror.items', 'd.old_place')} i
     CROSS JOIN ${rowAt('pg_temp.incoming_items', 'd.place')} w
     CROSS JOIN LATERAL unnest(d.fields) AS n
     WHERE d.supersedes
     UNION ALL
    SELECT item_id, 'added', 'state', NULL, '"live"' FROM inserted WHERE $4
    RETURNING field, class
  ), written AS (
    -- The stored rows get the new values.
    UPDATE mirror.items i
       SET ${ITEM_VALUE_COLUMNS.map((column) => `${column} = w.${column}`).join(', ')},
           state = 'live', removed_at = NULL,
           synced_run_id = CASE WHEN d.supersedes THEN $2 ELSE i.synced_run_id END,
           extra_run_id = CASE WHEN d.extra_differs THEN $2 ELSE i.extra_run_id END,
           valid_from = CASE WHEN d.supersedes THEN ${NEXT_VALID_FROM} ELSE i.valid_from END,
           changed_at = CASE WHEN d.content_differs OR d.old_state = 'removed'
                             THEN $3::timestamptz ELSE i.changed_at END
      FROM differences d CROSS JOIN ${rowAt('pg_temp.incoming_items', 'd.place')} w
     WHERE i.ctid = d.old_place
  )
  SELECT count(*) FILTER (WHERE is_new)::int AS added,
         count(*) FILTER (WHERE content_differs)::int AS changed,
         count(*) FILTER (WHERE extra_differs AND NOT content_differs)::int AS "extraChanged",
         count(*) FILTER (WHERE old_state = 'removed')::int AS restored,
         count(*) FILTER (WHERE is_listed AND old_state <> 'removed' AND NOT extra_differs
                            AND NOT content_differs)::int AS unchanged,
         count(*) FILTER (WHERE old_state <> 'live')::int AS returned,
         (SELECT jsonb_object_agg(field, items)
            FROM (SELECT field, count(*) AS items FROM changes WHERE class <> 'added'
                   GROUP BY field) AS f) AS fields
    FROM (SELECT *, fields <> '{}' AND fields <> '{1}' AS content_differs FROM compared) AS c
   WHERE is_new OR is_earlier`;
