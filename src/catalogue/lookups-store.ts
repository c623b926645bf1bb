import type { PoolClient } from 'pg';
import { HIDDEN_AFTER_RUNS, type LookupOutcome } from './rules.js';
import type { RowStamp } from './prepare-item.js';
import type { SellerLock } from '../db/locks.js';

/** Which unlisted items a run looks up. */
export interface LookupChoice {
  /** Least recently looked up first. */
  readonly ids: readonly number[];
  /** Proven to be gone by a run that was interrupted within the last hour. */
  readonly gone: readonly number[];
  /**
   * Those of `ids` that their last look-up found. The list has lacked them before, so their absence is no news,
   * and one denial is not enough.
   */
  readonly foundBefore: readonly number[];
}

/** Chooses at most `limit` unlisted items to look up, so that every item gets its turn. */
export async function chooseLookups(
  { client, sellerId }: SellerLock,
  ids: readonly number[],
  limit: number,
): Promise<LookupChoice> {
  const { rows } = await client.query<{ id: number; gone: boolean; foundBefore: boolean }>(
    `WITH unlisted AS (
       SELECT id, l.looked_up_at, coalesce(l.outcome = 'found', false) AS found_before,
              coalesce(l.outcome = 'gone' AND l.looked_up_at > now() - interval '1 hour'
                AND l.run_id > coalesce((SELECT max(r.run_id) FROM mirror.runs r
                      WHERE r.seller_id = $1 AND r.kind = 'items'
                        AND r.state IN ('succeeded', 'held')), 0), false) AS gone
         FROM unnest($2::bigint[]) AS id
         LEFT JOIN mirror.item_lookups l ON l.seller_id = $1 AND l.item_id = id)
     SELECT id::float8, gone, found_before AS "foundBefore" FROM unlisted WHERE gone
     UNION ALL
     (SELECT id::float8, gone, found_before AS "foundBefore" FROM unlisted WHERE NOT gone
       ORDER BY looked_up_at NULLS FIRST, unlisted.id LIMIT $3)`,
    [sellerId, ids, limit],
  );
  const idsOf = (which: (row: (typeof rows)[number]) => boolean): number[] =>
    rows.filter(which).map(({ id }) => id);
  return {
    ids: idsOf(({ gone }) => !gone),
    gone: idsOf(({ gone }) => gone),
    foundBefore: idsOf(({ foundBefore }) => foundBefore),
  };
}

/** Those of the unlisted items that the list always lacks: this run would be the third to find them, or later. */
export async function readHidden(
  { client, sellerId }: SellerLock,
  ids: readonly number[],
): Promise<ReadonlySet<number>> {
  const { rows } = await client.query<{ id: number }>(
    `SELECT item_id::float8 AS id FROM mirror.item_lookups
      WHERE seller_id = $1 AND item_id = ANY($2::bigint[]) AND found_runs + 1 >= $3`,
    [sellerId, ids, HIDDEN_AFTER_RUNS],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Records the time, run and outcome of look-ups. */
export async function recordLookups(
  client: PoolClient,
  stamp: Pick<RowStamp, 'sellerId' | 'runId'>,
  lookups: ReadonlyMap<number, LookupOutcome>,
): Promise<void> {
  if (lookups.size === 0) return;
  await client.query(
    `INSERT INTO mirror.item_lookups AS l (seller_id, item_id, looked_up_at, outcome, run_id, found_runs)
     SELECT $1, item_id, now(), outcome, $2, (outcome = 'found')::int
       FROM unnest($3::bigint[], $4::text[]) AS t (item_id, outcome)
     ON CONFLICT (seller_id, item_id) DO UPDATE
       SET looked_up_at = excluded.looked_up_at, outcome = excluded.outcome, run_id = excluded.run_id,
           found_runs = CASE WHEN excluded.outcome IN ('gone', 'denied') THEN 0
                             WHEN excluded.outcome = 'found' AND (l.outcome, l.run_id) <> ('found', excluded.run_id)
                             THEN l.found_runs + 1 ELSE l.found_runs END`,
    [stamp.sellerId, stamp.runId, [...lookups.keys()], [...lookups.values()]],
  );
}

/** Forgets that look-ups found items which the list names by now. @param unlisted items that the list lacks */
export async function forgetFound(
  client: PoolClient,
  sellerId: string,
  unlisted: readonly number[],
): Promise<void> {
  await client.query(
    `DELETE FROM mirror.item_lookups
      WHERE seller_id = $1 AND found_runs > 0 AND item_id <> ALL($2::bigint[])`,
    [sellerId, unlisted],
  );
}

/** A few other live items of the seller. */
export async function findOtherLiveItems(
  { client, sellerId }: SellerLock,
  id: number,
): Promise<number[]> {
  const { rows } = await client.query<{ id: number }>(
    `SELECT item_id::float8 AS id FROM mirror.items
      WHERE seller_id = $1 AND item_id <> $2 AND state = 'live' LIMIT 3`,
    [sellerId, id],
  );
  return rows.map((row) => row.id);
}
