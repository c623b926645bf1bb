import type { PoolClient } from 'pg';
import type { LookupOutcome, Removals } from '../domain/removals.js';
import { CHANGE_COLUMNS, saveVersionsSql, NEXT_VALID_FROM } from './history.js';
import type { RowStamp } from './item-rows.js';
import type { SellerLock } from './locks.js';

/** The unlisted items to look up in a run. */
export interface LookupChoice {
  /** Items to look up, least recently looked up first. */
  readonly ids: readonly number[];
  /** How many of them their previous look-up found. */
  readonly foundBefore: number;
  /** Results of a run that was just interrupted; these items need no new look-up. */
  readonly kept: ReadonlyMap<number, LookupOutcome>;
}

/**
 * Chooses at most `limit` unlisted items to look up, least recently looked up first, so that every item
 * gets its turn. Look-ups of a run that was interrupted since the last complete run are reused for an
 * hour.
 */
export async function chooseLookups(
  { client, sellerId }: SellerLock,
  ids: readonly number[],
  limit: number,
): Promise<LookupChoice> {
  // `outcome` is null if an item was never looked up; kept items always have one.
  const { rows } = await client.query<{ id: number; outcome: LookupOutcome; kept: boolean }>(
    `WITH unlisted AS MATERIALIZED (
       SELECT id, l.outcome, l.looked_up_at,
              coalesce(l.outcome IN ('found', 'gone')
                AND l.looked_up_at > now() - interval '1 hour'
                AND l.run_id > coalesce((SELECT max(r.run_id) FROM mirror.runs r
                      WHERE r.seller_id = $1 AND r.kind = 'items'
                        AND r.state IN ('succeeded', 'held')), 0), false) AS kept
         FROM unnest($2::bigint[]) AS id
         LEFT JOIN mirror.item_lookups l ON l.seller_id = $1 AND l.item_id = id)
     SELECT id::float8, outcome, kept FROM unlisted WHERE kept
     UNION ALL
     (SELECT id::float8, outcome, kept FROM unlisted WHERE NOT kept
       ORDER BY looked_up_at NULLS FIRST, unlisted.id LIMIT $3)`,
    [sellerId, ids, limit],
  );
  const open = rows.filter(({ kept }) => !kept);
  return {
    ids: open.map(({ id }) => id),
    foundBefore: open.filter(({ outcome }) => outcome === 'found').length,
    kept: new Map(rows.filter(({ kept }) => kept).map(({ id, outcome }) => [id, outcome])),
  };
}

/** Records the time, run and outcome of look-ups. */
export async function recordLookups(
  client: PoolClient,
  stamp: RowStamp,
  lookups: ReadonlyMap<number, LookupOutcome>,
): Promise<void> {
  if (lookups.size === 0) return;
  await client.query(
    `INSERT INTO mirror.item_lookups (seller_id, item_id, looked_up_at, outcome, run_id)
     SELECT $1, item_id, now(), outcome, $2 FROM unnest($3::bigint[], $4::text[]) AS t (item_id, outcome)
     ON CONFLICT (seller_id, item_id) DO UPDATE
       SET looked_up_at = excluded.looked_up_at, outcome = excluded.outcome,
           run_id = excluded.run_id, unlisted = true`,
    [stamp.sellerId, stamp.runId, [...lookups.keys()], [...lookups.values()]],
  );
}

/**
 * Marks items as missing that are no longer listed. This publishes no change, since their look-ups may
 * still find them. An item that was already unlisted and that its look-up found stays live until its next
 * look-up.
 * @param unlisted all live and missing items that are not in the list
 * @returns `delisted`: how many became missing; `missing`: how many of `unlisted` are missing now
 */
export async function delistItems(
  client: PoolClient,
  { sellerId, runId, at }: RowStamp,
  unlisted: readonly number[],
): Promise<{ readonly delisted: number; readonly missing: number }> {
  await client.query(
    `UPDATE mirror.item_lookups SET unlisted = false
      WHERE seller_id = $1 AND unlisted AND item_id <> ALL($2::bigint[])`,
    [sellerId, unlisted],
  );
  if (unlisted.length === 0) return { delisted: 0, missing: 0 };
  const { rowCount } = await client.query(DELIST, [sellerId, runId, at, unlisted]);
  const { rows } = await client.query<{ missing: number }>(
    `SELECT count(*)::int AS missing FROM mirror.items
      WHERE seller_id = $1 AND item_id = ANY($2::bigint[]) AND state = 'missing'`,
    [sellerId, unlisted],
  );
  return { delisted: rowCount ?? 0, missing: rows[0]?.missing ?? 0 };
}

const DELIST = `
  WITH going AS (
    SELECT ctid AS old_place FROM mirror.items i
     WHERE seller_id = $1 AND item_id = ANY($4::bigint[]) AND state = 'live'
       AND NOT EXISTS (SELECT FROM mirror.item_lookups l
                        WHERE l.seller_id = $1 AND l.item_id = i.item_id
                          AND l.unlisted AND l.outcome = 'found')
  ), kept AS (
    ${saveVersionsSql('going')}
  )
  UPDATE mirror.items i SET state = 'missing', synced_run_id = $2, valid_from = ${NEXT_VALID_FROM}
    FROM going d WHERE i.ctid = d.old_place`;

/** Restores items that this run delisted, with their history. @returns the number of restored items */
export async function undoDelisting(
  client: PoolClient,
  { sellerId, runId }: RowStamp,
  ids: readonly number[],
): Promise<number> {
  const { rowCount } = await client.query(
    `WITH earlier AS (
       DELETE FROM mirror.item_versions v USING mirror.items i
        WHERE i.seller_id = $1 AND i.item_id = ANY($3::bigint[]) AND ${UNDECIDED}
          AND v.seller_id = i.seller_id AND v.item_id = i.item_id AND v.superseded_run_id = $2
       RETURNING v.item_id, v.synced_run_id, v.valid_from)
     UPDATE mirror.items i
        SET state = 'live', synced_run_id = e.synced_run_id, valid_from = e.valid_from
       FROM earlier e WHERE i.seller_id = $1 AND i.item_id = e.item_id`,
    [sellerId, runId, ids],
  );
  return rowCount ?? 0;
}

/** SQL of whether run $2 delisted item `i`, which has not been published as a change. */
const UNDECIDED = `(i.state = 'missing' AND i.synced_run_id = $2)`;

/**
 * Carries out a removal plan: sets states, saves the old ones as versions, and stages the changes. Rows are
 * never deleted, and rows already in the new state are not written. For an item that this run delisted,
 * the change says that it was live before.
 * @returns the number of removed items
 */
export async function removeItems(
  client: PoolClient,
  { sellerId, runId, at }: RowStamp,
  { missing, remove }: Removals,
): Promise<number> {
  if (missing.length > 0) await client.query(MISSING, [sellerId, runId, at, missing]);
  if (remove.length === 0) return 0;
  return (await client.query(REMOVED, [sellerId, runId, at, remove])).rowCount ?? 0;
}

/** SQL that sets the state of the items in $4. */
function stateChange(to: 'missing' | 'removed', from: string, more = ''): string {
  return `
    WITH going AS (
      SELECT i.ctid AS old_place, i.item_id, ${UNDECIDED} AS undecided,
             CASE WHEN ${UNDECIDED} THEN 'live' ELSE i.state END AS state
        FROM mirror.items i
       WHERE i.seller_id = $1 AND i.item_id = ANY($4::bigint[]) AND ${from}
    ), kept AS (
      ${saveVersionsSql('going', 'NOT d.undecided')}
    ), changes AS (
      INSERT INTO pg_temp.outgoing_changes (${CHANGE_COLUMNS})
      SELECT item_id, '${to}', 'state', to_jsonb(state), '"${to}"' FROM going
    )
    UPDATE mirror.items i
       SET state = '${to}', ${more} synced_run_id = $2,
           valid_from = CASE WHEN d.undecided THEN i.valid_from ELSE ${NEXT_VALID_FROM} END
      FROM going d WHERE i.ctid = d.old_place`;
}

const MISSING = stateChange('missing', "i.state = 'live'");
const REMOVED = stateChange(
  'removed',
  "i.state <> 'removed'",
  'removed_at = $3, changed_at = $3::timestamptz,',
);

/** Another live item of the seller; null if there is none. */
export async function findOtherLiveItem(
  { client, sellerId }: SellerLock,
  id: number,
): Promise<number | null> {
  const { rows } = await client.query<{ id: number }>(
    `SELECT item_id::float8 AS id FROM mirror.items
      WHERE seller_id = $1 AND item_id <> $2 AND state = 'live' LIMIT 1`,
    [sellerId, id],
  );
  return rows[0]?.id ?? null;
}
