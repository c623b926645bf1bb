import type { PoolClient } from 'pg';
import type { LookupOutcome, Removals } from '../domain/removals.js';
import { keepVersions, NEXT_VALID_FROM, stageStates } from './history.js';
import type { RowStamp } from './item-rows.js';

/**
 * Of the given items, those to look up in this run: the ones asked for longest ago first, so that
 * bounded look-ups come round to every item.
 */
export async function chooseLookups(
  client: PoolClient,
  sellerId: string,
  ids: readonly number[],
  limit: number,
): Promise<number[]> {
  const { rows } = await client.query<{ id: string }>(
    `SELECT id FROM unnest($2::bigint[]) AS id
       LEFT JOIN mirror.item_lookups l ON l.seller_id = $1 AND l.item_id = id
      ORDER BY l.looked_up_at NULLS FIRST, id LIMIT $3`,
    [sellerId, ids, limit],
  );
  return rows.map((row) => Number(row.id));
}

/** Remembers when each item was looked up, and with what outcome. */
export async function recordLookups(
  client: PoolClient,
  stamp: RowStamp,
  lookups: ReadonlyMap<number, LookupOutcome>,
): Promise<void> {
  if (lookups.size === 0) return;
  await client.query(
    `INSERT INTO mirror.item_lookups (seller_id, item_id, looked_up_at, outcome)
     SELECT $1, item_id, $2, outcome FROM unnest($3::bigint[], $4::text[]) AS t (item_id, outcome)
     ON CONFLICT (seller_id, item_id) DO UPDATE
       SET looked_up_at = excluded.looked_up_at, outcome = excluded.outcome`,
    [stamp.sellerId, stamp.at, [...lookups.keys()], [...lookups.values()]],
  );
}

/**
 * Carries out a removal plan; returns how many items were removed. Rows are never deleted; rows
 * that say so already are not written. What the others said is kept, and their change put aside.
 */
export async function removeItems(
  client: PoolClient,
  stamp: RowStamp,
  plan: Removals,
): Promise<number> {
  await changeState(client, stamp, plan.missing, MISSING);
  return changeState(client, stamp, plan.remove, REMOVED);
}

async function changeState(
  client: PoolClient,
  stamp: RowStamp,
  ids: readonly number[],
  sql: string,
): Promise<number> {
  if (ids.length === 0) return 0;
  const { rowCount } = await client.query(sql, [stamp.sellerId, stamp.runId, stamp.at, ids]);
  return rowCount ?? 0;
}

const MISSING = stateChange('missing', "state = 'live'");
const REMOVED = stateChange(
  'removed',
  "state <> 'removed'",
  'removed_at = $3, changed_at = $3::timestamptz,',
);

function stateChange(to: 'missing' | 'removed', from: string, more = ''): string {
  return `
    WITH going AS (
      SELECT ctid AS old_place, item_id, state FROM mirror.items
       WHERE seller_id = $1 AND item_id = ANY($4::bigint[]) AND ${from}
    ), kept AS (
      ${keepVersions('going')}
    ), told AS (
      ${stageStates('going', to)}
    )
    UPDATE mirror.items i
       SET state = '${to}', ${more} synced_run_id = $2, valid_from = ${NEXT_VALID_FROM}
      FROM going d WHERE i.ctid = d.old_place`;
}

/** An item other than this one that the mirror holds as live; null when there is none. */
export async function otherLiveItem(
  client: PoolClient,
  sellerId: string,
  id: number,
): Promise<number | null> {
  const { rows } = await client.query<{ item_id: string }>(
    `SELECT item_id FROM mirror.items
      WHERE seller_id = $1 AND item_id <> $2 AND state = 'live' LIMIT 1`,
    [sellerId, id],
  );
  return rows[0] === undefined ? null : Number(rows[0].item_id);
}
