import type { PoolClient } from 'pg';
import { escapeLiteral } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type { Json } from '../domain/item.js';
import { KnownItems, type KnownState } from '../domain/known-items.js';
import type { PreparedItem } from '../domain/prepare-item.js';
import { COPY_HEADER, CopyIn } from './copy.js';
import { keepVersions, NEXT_VALID_FROM, rowAt, stageDifferences } from './history.js';
import { ITEM_COLUMNS, ITEM_VALUE_COLUMNS, ItemRows, type RowStamp } from './item-rows.js';

/** Counts of what applying the staged records changed. */
export interface Applied {
  readonly changed: number;
  readonly extraChanged: number;
  readonly restored: number;
  /** Items that were missing and have not changed otherwise. */
  readonly foundAgain: number;
  /** All items that were written, restored ones included. */
  readonly written: number;
  /** Column to number of items in which it changed. */
  readonly fields: ReadonlyMap<string, number>;
}

export const NOTHING_APPLIED: Applied = {
  ...{ changed: 0, extraChanged: 0, restored: 0, foundAgain: 0, written: 0 },
  fields: new Map(),
};

export interface StoredHashes {
  readonly contentHash: Buffer;
  readonly extraHash: Buffer;
  readonly live: boolean;
}

/** A staged record; a rival competes with a stored row that the list holds as well. */
export interface Staged {
  readonly prepared: PreparedItem;
  readonly rival: boolean;
}

const STATES: readonly KnownState[] = ['live', 'missing', 'removed'];
/** int16 field count, then length and value of an int8, an 8-byte bytea and an int2. */
const KNOWN_ROW_BYTES = 2 + (4 + 8) + (4 + 8) + (4 + 2);

/** What the mirror knows of a seller's catalogue. */
export interface KnownCatalogue {
  /** Id, wire hash and state of each item. */
  readonly items: KnownItems;
  /** A list was taken in before. */
  readonly loaded: boolean;
}

/** Loads what the mirror knows of a seller's catalogue. */
export async function loadKnownCatalogue(
  client: PoolClient,
  sellerId: string,
): Promise<KnownCatalogue> {
  const { rows } = await client.query<{ count: number; loaded: boolean }>(
    `SELECT (SELECT count(*)::int FROM mirror.items WHERE seller_id = $1) AS count,
            EXISTS (SELECT FROM mirror.sellers
                     WHERE seller_id = $1 AND loaded_run_id IS NOT NULL) AS loaded`,
    [sellerId],
  );
  const { count = 0, loaded = false } = rows[0] ?? {};
  // A table that somebody emptied is loaded as if for the first time.
  return { items: await loadKnownItems(client, sellerId, count), loaded: loaded && count > 0 };
}

async function loadKnownItems(
  client: PoolClient,
  sellerId: string,
  count: number,
): Promise<KnownItems> {
  const known = new KnownItems(count);
  const stream = client.query(
    copyTo(`COPY (
      SELECT item_id, wire_hash, (array_position('{live,missing,removed}'::text[], state::text) - 1)::int2
        FROM mirror.items WHERE seller_id = ${escapeLiteral(sellerId)}
    ) TO STDOUT (FORMAT binary)`),
  );
  let rest: Buffer = Buffer.alloc(0);
  let header = COPY_HEADER.length; // no extension is ever sent
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    if (header > 0) {
      if (data.length < header) {
        rest = data;
        continue;
      }
      data = data.subarray(header);
      header = 0;
    }
    let at = 0;
    // The trailer is a field count of -1, shorter than a row: the loop ends before it.
    for (; at + KNOWN_ROW_BYTES <= data.length; at += KNOWN_ROW_BYTES) {
      const id = Number(data.readBigInt64BE(at + 6));
      const state = STATES[data.readInt16BE(at + 30)] ?? 'live';
      known.addKnown(id, data.subarray(at + 18, at + 26), state);
    }
    rest = data.subarray(at);
  }
  return known;
}

/** Opens the way for rows into the table. None of their items may be in it. */
export function openItems(client: PoolClient): CopyIn {
  return new CopyIn(client, `mirror.items (${ITEM_COLUMNS.join(', ')})`);
}

/** Makes the staging table of this transaction. */
export async function createStage(client: PoolClient): Promise<void> {
  await client.query(
    `CREATE TEMP TABLE IF NOT EXISTS incoming_items
       (LIKE mirror.items, rival boolean NOT NULL) ON COMMIT DROP`,
  );
}

/** Stages records that may differ from the stored ones, to be applied in one statement. */
export async function stageItems(
  client: PoolClient,
  stamp: RowStamp,
  staged: readonly Staged[],
): Promise<void> {
  const rows = new ItemRows(stamp);
  for (const { prepared, rival } of staged) rows.add(prepared, rival);
  const copy = new CopyIn(client, `pg_temp.incoming_items (${ITEM_COLUMNS.join(', ')}, rival)`);
  await copy.write(rows.data());
  await copy.end();
}

/** The stored records of some items, as they were received. */
export async function storedRaw(
  client: PoolClient,
  sellerId: string,
  ids: readonly number[],
): Promise<Map<number, Json>> {
  const { rows } = await client.query<{ item_id: string; raw: Json }>(
    'SELECT item_id, raw FROM mirror.items WHERE seller_id = $1 AND item_id = ANY($2::bigint[])',
    [sellerId, ids],
  );
  return new Map(rows.map((row) => [Number(row.item_id), row.raw]));
}

/** The stored hashes of some items. */
export async function storedHashes(
  client: PoolClient,
  sellerId: string,
  ids: readonly number[],
): Promise<Map<number, StoredHashes>> {
  const { rows } = await client.query<{
    item_id: string;
    content_hash: Buffer;
    extra_hash: Buffer;
    live: boolean;
  }>(
    `SELECT item_id, content_hash, extra_hash, state = 'live' AS live
       FROM mirror.items WHERE seller_id = $1 AND item_id = ANY($2::bigint[])`,
    [sellerId, ids],
  );
  return new Map(
    rows.map((row) => [
      Number(row.item_id),
      { contentHash: row.content_hash, extraHash: row.extra_hash, live: row.live },
    ]),
  );
}

/**
 * Applies the staged records to the table, keeps the states they supersede, and stages the changes.
 * Of several copies of one item, the stored one included, the one with the greatest hash counts. The
 * rule is arbitrary, but does not depend on the list's order: a contradictory list makes no change
 * every night.
 */
export async function applyStage(client: PoolClient, stamp: RowStamp): Promise<Applied> {
  // Without figures the planner takes the table for tiny, and loops over it.
  await client.query('ANALYZE pg_temp.incoming_items');
  const { rows } = await client.query<AppliedRow>(APPLY, [stamp.sellerId, stamp.runId, stamp.at]);
  const counts = rows[0];
  return {
    changed: counts?.changed ?? 0,
    extraChanged: counts?.extra_changed ?? 0,
    restored: counts?.restored ?? 0,
    foundAgain: counts?.found_again ?? 0,
    written: counts?.written ?? 0,
    fields: new Map(Object.entries(counts?.fields ?? {})),
  };
}

interface AppliedRow {
  readonly changed: number;
  readonly extra_changed: number;
  readonly restored: number;
  readonly found_again: number;
  readonly written: number;
  readonly fields: Record<string, number> | null;
}

/**
 * Every part of it sees the rows as they were before. Unknown fields have no history. Neither have rows
 * that this run itself wrote, when the list holds an item twice: nobody could see them.
 */
const APPLY = `
  WITH winners AS (
    SELECT DISTINCT ON (item_id) ctid AS place, item_id, content_hash, extra_hash, rival
      FROM pg_temp.incoming_items
     ORDER BY item_id, content_hash DESC, extra_hash DESC
  ), differences AS (
    SELECT w.place, i.ctid AS old_place, i.content_hash <> w.content_hash AS content_differs,
           i.extra_hash <> w.extra_hash AS extra_differs, i.state AS old_state,
           i.synced_run_id <> $2 AND (i.content_hash <> w.content_hash OR i.state <> 'live')
             AS supersedes
      FROM winners w JOIN mirror.items i ON i.seller_id = $1 AND i.item_id = w.item_id
     WHERE i.state <> 'live'
        OR ((w.content_hash, w.extra_hash) <> (i.content_hash, i.extra_hash)
            AND (NOT w.rival OR (w.content_hash, w.extra_hash) > (i.content_hash, i.extra_hash)))
  ), kept AS (
    ${keepVersions('differences', 'd.supersedes')}
  ), told AS (
    ${stageDifferences('differences', 'd.supersedes')}
    RETURNING field
  ), written AS (
    UPDATE mirror.items i
       SET ${ITEM_VALUE_COLUMNS.map((column) => `${column} = w.${column}`).join(', ')},
           state = 'live', removed_at = NULL,
           synced_run_id = CASE WHEN d.supersedes THEN $2 ELSE i.synced_run_id END,
           valid_from = CASE WHEN d.supersedes THEN ${NEXT_VALID_FROM} ELSE i.valid_from END,
           changed_at = CASE WHEN d.content_differs OR d.old_state = 'removed'
                             THEN $3::timestamptz ELSE i.changed_at END
      FROM differences d CROSS JOIN ${rowAt('pg_temp.incoming_items', 'd.place')} w
     WHERE i.ctid = d.old_place
    RETURNING d.content_differs, d.extra_differs, d.old_state
  )
  SELECT count(*) FILTER (WHERE content_differs)::int AS changed,
         count(*) FILTER (WHERE extra_differs AND NOT content_differs)::int AS extra_changed,
         count(*) FILTER (WHERE old_state = 'removed')::int AS restored,
         count(*) FILTER (WHERE old_state = 'missing' AND NOT content_differs
                            AND NOT extra_differs)::int AS found_again,
         count(*)::int AS written,
         (SELECT jsonb_object_agg(field, items)
            FROM (SELECT field, count(*) AS items FROM told GROUP BY field) AS f) AS fields
    FROM written`;
