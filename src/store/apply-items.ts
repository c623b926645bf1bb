import type { PoolClient } from 'pg';
import { escapeLiteral } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { ITEM_FIELDS, ITEM_STATES, type FieldType } from '../domain/item.js';
import { KnownItems } from '../domain/known-items.js';
import { NO_WIRE_HASH } from '../domain/prepare-item.js';
import { COPY_HEADER } from './copy.js';
import { CHANGE_COLUMNS, NEXT_VALID_FROM, rowAt, saveVersionsSql } from './history.js';
import { ITEM_VALUE_COLUMNS, type RowStamp } from './item-rows.js';

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

/** What `applyStage` changed, in numbers of items. */
export interface Applied {
  readonly changed: number;
  readonly extraChanged: number;
  readonly restored: number;
  /** Items that were missing and are otherwise unchanged. */
  readonly foundAgain: number;
  /** Items that were missing or removed. */
  readonly returned: number;
  /** All written items, including restored ones. */
  readonly written: number;
  /** Column → number of items in which it changed. */
  readonly fields: ReadonlyMap<string, number>;
}

export const NOTHING_APPLIED: Applied = {
  changed: 0,
  extraChanged: 0,
  restored: 0,
  foundAgain: 0,
  returned: 0,
  written: 0,
  fields: new Map(),
};

/** Adds up the counts of two calls of `applyStage`. */
export function addApplied(a: Applied, b: Applied): Applied {
  const fields = new Map(a.fields);
  for (const [field, items] of b.fields) fields.set(field, (fields.get(field) ?? 0) + items);
  return {
    changed: a.changed + b.changed,
    extraChanged: a.extraChanged + b.extraChanged,
    restored: a.restored + b.restored,
    foundAgain: a.foundAgain + b.foundAgain,
    returned: a.returned + b.returned,
    written: a.written + b.written,
    fields,
  };
}

/**
 * Applies the staged records to `mirror.items`: saves the superseded states, stages the changes, and
 * empties the stage. Of several copies of an item, the one with the greatest hash wins; for rivals, the
 * stored row is one of the copies. The rule is arbitrary but independent of the list's order, so a
 * contradictory list does not cause a change every night.
 */
export async function applyStage(client: PoolClient, stamp: RowStamp): Promise<Applied> {
  const { rows } = await client.query<
    Omit<Applied, 'fields'> & { readonly fields: Record<string, number> | null }
  >(APPLY, [stamp.sellerId, stamp.runId, stamp.at]);
  // Keeps the table for the next records.
  await client.query('TRUNCATE pg_temp.incoming_items');
  const [applied] = rows;
  if (applied === undefined)
    throw new Error('the database returned no counts of the applied records');
  return { ...applied, fields: new Map(Object.entries(applied.fields ?? {})) };
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
 * Nor does overwriting a row that this run wrote (the list has the item twice): nobody could see it.
 */
const APPLY = `
  WITH winners AS (
    -- One staged record of each item.
    SELECT DISTINCT ON (item_id) ctid AS place, item_id, content_hash, extra_hash, wire_hash, rival
      FROM pg_temp.incoming_items
     ORDER BY item_id, content_hash DESC, extra_hash DESC
  ), compared AS (
    -- The winners with the stored rows of their items, by hash.
    SELECT w.place, i.ctid AS old_place, i.content_hash <> w.content_hash AS content_differs,
           i.extra_hash <> w.extra_hash AS extra_differs, i.state AS old_state,
           i.synced_run_id <> $2 AS is_earlier,
           NOT w.rival OR (w.content_hash, w.extra_hash) > (i.content_hash, i.extra_hash) AS wins,
           CASE WHEN w.wire_hash NOT IN (i.wire_hash, ${NO_WIRE_HASH_SQL}) THEN w.wire_hash END
             AS new_wire_hash
      FROM winners w
     CROSS JOIN LATERAL (SELECT ctid, content_hash, extra_hash, wire_hash, state, synced_run_id
                           FROM mirror.items
                          WHERE seller_id = $1 AND item_id = w.item_id OFFSET 0) i
  ), differences AS (
    -- The rows to write. If the stored state was seen before this run, the new one supersedes it.
    SELECT *, is_earlier AND (content_differs OR old_state <> 'live') AS supersedes
      FROM compared
     WHERE old_state <> 'live' OR ((content_differs OR extra_differs) AND wins)
  ), rehashed AS (
    -- The same content in other bytes. The next list is likely to have these bytes again.
    UPDATE mirror.items i SET wire_hash = c.new_wire_hash
      FROM compared c
     WHERE i.ctid = c.old_place AND c.old_state = 'live' AND c.wins
       AND NOT c.content_differs AND NOT c.extra_differs AND c.new_wire_hash IS NOT NULL
  ), kept AS (
    -- The superseded states go to the history.
    ${saveVersionsSql('differences', 'd.supersedes')}
  ), changes AS (
    -- One change for each field that differs; n is its number. Only these values are converted to JSON.
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
     CROSS JOIN LATERAL unnest(array_remove(ARRAY[${eachField(
       (column, n) => `CASE WHEN i.${column} IS DISTINCT FROM w.${column} THEN ${n} END`,
       ', ',
     )}]::int[], NULL)) AS n
     WHERE d.supersedes
    RETURNING field
  ), written AS (
    -- The stored rows get the new values.
    UPDATE mirror.items i
       SET ${ITEM_VALUE_COLUMNS.map((column) => `${column} = w.${column}`).join(', ')},
           state = 'live', removed_at = NULL,
           synced_run_id = CASE WHEN d.supersedes THEN $2 ELSE i.synced_run_id END,
           valid_from = CASE WHEN d.supersedes THEN ${NEXT_VALID_FROM} ELSE i.valid_from END,
           changed_at = CASE WHEN d.content_differs OR d.old_state = 'removed'
                             THEN $3::timestamptz ELSE i.changed_at END
      FROM differences d CROSS JOIN ${rowAt('pg_temp.incoming_items', 'd.place')} w
     WHERE i.ctid = d.old_place
    RETURNING d.content_differs, d.extra_differs, d.old_state, d.is_earlier
  )
  SELECT count(*) FILTER (WHERE content_differs)::int AS changed,
         count(*) FILTER (WHERE extra_differs AND NOT content_differs)::int AS "extraChanged",
         count(*) FILTER (WHERE old_state = 'removed')::int AS restored,
         count(*) FILTER (WHERE old_state = 'missing' AND NOT content_differs
                            AND NOT extra_differs)::int AS "foundAgain",
         count(*) FILTER (WHERE old_state <> 'live')::int AS returned,
         count(*)::int AS written,
         (SELECT jsonb_object_agg(field, items)
            FROM (SELECT field, count(*) AS items FROM changes GROUP BY field) AS f) AS fields
    FROM written WHERE is_earlier`;
