import type { Pool, PoolClient } from 'pg';
import type { Decision, HeldRun, RemovalPlan } from './rules.js';
import type { RowStamp } from './prepare-item.js';
import type { Db } from '../db/db.js';
import type { SellerLock } from '../db/locks.js';

export interface NamedItem {
  readonly itemId: number;
  readonly name: string;
}

/** The items that a held run did not remove. */
export interface HeldItems {
  readonly items: number;
  /** Number of held items that the marketplace denied between two checks of the key. */
  readonly confirmed: number;
  /** Number of items that were live or missing in the mirror before the run. */
  readonly present: number;
  /** A few of the held items, confirmed ones first. */
  readonly examples: readonly NamedItem[];
}

/** Number of items named in a message. */
const EXAMPLES = 3;

/** Records the items that a run held, and the size of the mirror before it. */
export async function saveHeldItems(
  client: PoolClient,
  { sellerId, runId }: RowStamp,
  { confirmed, open }: Pick<RemovalPlan, 'confirmed' | 'open'>,
  present: number,
): Promise<void> {
  await client.query('UPDATE mirror.runs SET present = $2 WHERE run_id = $1', [runId, present]);
  await client.query(
    `INSERT INTO mirror.held_items (run_id, seller_id, item_id, confirmed)
     SELECT $1, $2, id, n <= $4 FROM unnest($3::bigint[]) WITH ORDINALITY AS ids (id, n)`,
    [runId, sellerId, [...confirmed, ...open], confirmed.length],
  );
}

/** The items that a run held; null if there are none. */
export async function readHeldItems(
  client: Pool | PoolClient,
  runId: bigint,
): Promise<HeldItems | null> {
  const { rows } = await client.query<HeldItems>(
    `SELECT count(*)::int AS items, count(*) FILTER (WHERE h.confirmed)::int AS confirmed,
            coalesce(min(r.present), count(*)::int) AS present,
            (SELECT coalesce(jsonb_agg(jsonb_build_object('itemId', e.item_id, 'name', i.name)
                                       ORDER BY e.confirmed DESC, e.item_id), '[]')
               FROM (SELECT * FROM mirror.held_items WHERE run_id = $1
                      ORDER BY confirmed DESC, item_id LIMIT ${EXAMPLES}) e
               JOIN mirror.items i ON i.seller_id = e.seller_id AND i.item_id = e.item_id) AS examples
       FROM mirror.held_items h JOIN mirror.runs r ON r.run_id = h.run_id
      WHERE h.run_id = $1`,
    [runId],
  );
  const [held] = rows;
  return held === undefined || held.items === 0 ? null : held;
}

/**
 * The latest decision on each item that has stayed missing since it was held. If an item was found in
 * the meantime, its row has the greater run id of a later run.
 */
export async function readDecisions(
  { client, sellerId }: SellerLock,
  ids: readonly number[],
): Promise<Map<number, Decision>> {
  const { rows } = await client.query<{ id: number; decision: Decision }>(
    `SELECT DISTINCT ON (h.item_id) h.item_id::float8 AS id, r.decision
       FROM mirror.held_items h
       JOIN mirror.runs r ON r.run_id = h.run_id AND r.decision IS NOT NULL
       JOIN mirror.items i ON i.seller_id = h.seller_id AND i.item_id = h.item_id
      WHERE h.seller_id = $1 AND h.item_id = ANY($2::bigint[])
        AND i.state = 'missing' AND i.synced_run_id <= h.run_id
      ORDER BY h.item_id, h.run_id DESC`,
    [sellerId, ids],
  );
  return new Map(rows.map(({ id, decision }) => [id, decision]));
}

export interface HeldRunRecord extends HeldRun {
  readonly sellerId: string;
  readonly decidedAt: Date | null;
  readonly decidedBy: string | null;
}

/** Reads a run with its decision, if any, and the states of its held items; null if there is no such run. */
export async function readHeldRun({ pool }: Db, runId: bigint): Promise<HeldRunRecord | null> {
  const { rows } = await pool.query<
    Omit<HeldRunRecord, 'newerHeld'> & {
      newerHeld: { runId: string; decision: Decision | null } | null;
    }
  >(
    `SELECT r.run_id AS "runId", r.seller_id AS "sellerId", r.state::text AS state, r.decision,
            r.decided_at AS "decidedAt", r.decided_by AS "decidedBy",
            r.approval_run_id AS "approvalRunId", counts.items, counts.missing, counts.removed,
            (SELECT jsonb_build_object('runId', run_id::text, 'decision', decision)
               FROM mirror.runs
              WHERE seller_id = r.seller_id AND kind = 'items' AND state = 'held'
                AND run_id > r.run_id
              ORDER BY run_id DESC LIMIT 1) AS "newerHeld"
       FROM mirror.runs r
       CROSS JOIN LATERAL (
         SELECT count(*)::int AS items,
                count(*) FILTER (WHERE i.state = 'missing'
                                   AND i.synced_run_id <= h.run_id)::int AS missing,
                count(*) FILTER (WHERE i.state = 'removed')::int AS removed
           FROM mirror.held_items h
           JOIN mirror.items i ON i.seller_id = h.seller_id AND i.item_id = h.item_id
          WHERE h.run_id = r.run_id) counts
      WHERE r.run_id = $1`,
    [runId],
  );
  const [row] = rows;
  if (row === undefined) return null;
  const { newerHeld: newer } = row;
  return { ...row, newerHeld: newer && { ...newer, runId: BigInt(newer.runId) } };
}

/** What has happened to a run's held items since. */
export interface HeldItemStates {
  /** The run confirmed them as gone, and nothing has found them since. */
  readonly gone: readonly number[];
  /** Found again, or listed in a record that can't be read. */
  readonly found: readonly NamedItem[];
  readonly removed: number;
  /** Still missing, but the run did not prove that they are gone. */
  readonly unproven: number;
}

export async function readHeldItemStates(
  client: Pool | PoolClient,
  { sellerId }: Pick<RowStamp, 'sellerId'>,
  heldRunId: bigint,
): Promise<HeldItemStates> {
  const { rows } = await client.query<NamedItem & { readonly now: string }>(
    `SELECT h.item_id::float8 AS "itemId", i.name,
            CASE WHEN i.state = 'removed' THEN 'removed'
                 WHEN i.state = 'live' OR i.synced_run_id > h.run_id
                   OR l.outcome = 'found' AND l.looked_up_at > r.started_at
                   OR EXISTS (SELECT FROM mirror.quarantine q
                               WHERE q.seller_id = h.seller_id AND q.item_id = h.item_id
                                 AND q.last_run_id > h.run_id) THEN 'found'
                 WHEN h.confirmed THEN 'gone'
                 ELSE 'unproven' END AS now
       FROM mirror.held_items h
       JOIN mirror.runs r ON r.run_id = h.run_id
       JOIN mirror.items i ON i.seller_id = h.seller_id AND i.item_id = h.item_id
       LEFT JOIN mirror.item_lookups l ON l.seller_id = h.seller_id AND l.item_id = h.item_id
      WHERE h.run_id = $2 AND h.seller_id = $1
      ORDER BY h.item_id`,
    [sellerId, heldRunId],
  );
  const rowsIn = (state: string): typeof rows => rows.filter(({ now }) => now === state);
  return {
    gone: rowsIn('gone').map(({ itemId }) => itemId),
    found: rowsIn('found').map(({ itemId, name }) => ({ itemId, name })),
    removed: rowsIn('removed').length,
    unproven: rowsIn('unproven').length,
  };
}

export interface DecisionRecord {
  readonly decision: Decision;
  readonly by: string;
  /** The run that removes the items; null when nothing is removed. */
  readonly approvalRunId: bigint | null;
}

export async function recordDecision(
  { client }: Pick<SellerLock, 'client'>,
  runId: bigint,
  { decision, by, approvalRunId }: DecisionRecord,
): Promise<void> {
  await client.query(
    `UPDATE mirror.runs
        SET decision = $2, decided_at = now(), decided_by = $3, approval_run_id = $4
      WHERE run_id = $1`,
    [runId, decision, by, approvalRunId],
  );
}
