import type { Db } from '../db/db.js';
import { onlyRow } from '../db/connection.js';
import { sellerIsLocked } from '../db/locks.js';
import { LATEST_BELIEVED } from '../db/moments.js';
import type { RunKind, RunState } from '../db/generated/prisma/enums.js';
import type { OpenRequest, RunFacts, SellerFacts, Wanted } from './requests.js';
import { ensureSeller } from './sellers-store.js';

/** The kinds of runs that answer. */
export function runKindsOf(kind: Wanted['kind']): readonly RunKind[] {
  return kind === 'sync' ? ['account', 'items'] : [kind];
}

/**
 * Records that a person asks for runs, which a worker then performs. If the same is asked for already and not begun,
 * nothing is added.
 * @param marketplace host, for a seller that the store does not know yet
 * @param askedBy who asks, shown to people
 * @returns when it was asked for, which names the request, and the number of its first run
 */
export async function askRuns(
  db: Db,
  { seller, marketplace }: { readonly seller: string; readonly marketplace: string },
  wanted: Wanted,
  askedBy: string,
): Promise<{ readonly askedAt: Date; readonly runId: bigint }> {
  await ensureSeller(db, seller, marketplace);
  const itemId = wanted.kind === 'item' ? wanted.itemId : null;
  const asked = await db.pool.query<{ askedAt: Date; runId: bigint }>(
    `WITH now AS (SELECT date_trunc('milliseconds', clock_timestamp()) AS at),
     waiting AS (
       SELECT due_at, min(run_id) AS run_id FROM mirror.runs
        WHERE seller_id = $1 AND state = 'asked' AND item_id IS NOT DISTINCT FROM $3
        GROUP BY due_at HAVING array_agg(kind ORDER BY kind) = $2::mirror.run_kind[] LIMIT 1
     ), added AS (
       INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at, due_at, asked_by, item_id)
       SELECT $1, kind, 'asked', '', now.at, now.at, $4, $3
         FROM now, unnest($2::mirror.run_kind[]) AS kind WHERE NOT EXISTS (SELECT FROM waiting)
       RETURNING run_id)
     SELECT coalesce((SELECT due_at FROM waiting), now.at) AS "askedAt",
            coalesce((SELECT run_id FROM waiting), (SELECT min(run_id) FROM added)) AS "runId"
       FROM now`,
    [seller, runKindsOf(wanted.kind), itemId, askedBy],
  );
  return onlyRow(asked);
}

/** Deletes the parts of a request that nobody will begin, since an earlier part failed for good. */
export async function dropAsked({ pool }: Db, sellerId: string, dueAt: Date): Promise<void> {
  await pool.query(
    `DELETE FROM mirror.runs WHERE seller_id = $1 AND state = 'asked' AND due_at = $2`,
    [sellerId, dueAt],
  );
}

/** Who asked for a request, and how many runs have tried to answer it. */
export async function readRequest(
  { pool }: Db,
  sellerId: string,
  dueAt: Date,
): Promise<{ readonly askedBy: string | null; readonly attempts: number }> {
  const { rows } = await pool.query<{ askedBy: string | null; attempts: number }>(
    `SELECT max(asked_by) AS "askedBy",
            coalesce(max(runs) FILTER (WHERE NOT is_asked), 0)::int AS attempts
       FROM (SELECT max(asked_by) AS asked_by, state = 'asked' AS is_asked, count(*) AS runs
               FROM mirror.runs WHERE seller_id = $1 AND due_at = $2
              GROUP BY kind, state = 'asked') AS of_kind`,
    [sellerId, dueAt],
  );
  return rows[0] ?? { askedBy: null, attempts: 0 };
}

/** What people asked these sellers' runs for within two days, and not all of whose parts are answered. */
export async function listOpenRequests(
  { pool }: Db,
  sellers: readonly string[],
): Promise<OpenRequest[]> {
  const { rows } = await pool.query<Omit<OpenRequest, 'itemId'> & { itemId: bigint | null }>(
    `WITH newest AS (
       SELECT DISTINCT ON (seller_id, due_at, kind) * FROM mirror.runs
        WHERE seller_id = ANY ($1) AND asked_by IS NOT NULL
          AND (state = 'asked' OR due_at > now() - interval '2 days')
        ORDER BY seller_id, due_at, kind, run_id DESC
     ), parts AS (
       SELECT *, bool_or(state IN ('asked', 'interrupted') OR state = 'failed' AND retry_at IS NOT NULL
                         OR state = 'running' AND NOT ${sellerIsLocked('seller_id')})
                   OVER (PARTITION BY seller_id, due_at) AS is_open
         FROM newest)
     SELECT seller_id AS seller, kind, item_id AS "itemId", due_at AS "dueAt", retry_at AS "retryAt"
       FROM parts WHERE is_open`,
    [sellers],
  );
  return rows.map((row) => ({ ...row, itemId: row.itemId === null ? null : Number(row.itemId) }));
}

/** What schedules ask about sellers. Moments that are ahead of the database's clock don't count. */
export async function readSellerFacts(
  { pool }: Db,
  sellers: readonly string[],
  recheckSource: string,
): Promise<{ readonly now: Date; readonly sellers: ReadonlyMap<string, SellerFacts> }> {
  // A row for each seller and kind of run; one without a seller if there are none.
  const { rows } = await pool.query<FactsRow>(
    `SELECT clock.now, s.seller_id AS seller, s.created_at AS "createdAt", s.parked_at IS NOT NULL AS "isParked",
            CASE WHEN s.recheck_due_at <= ${LATEST_BELIEVED} THEN s.recheck_due_at END AS "recheckDueAt",
            EXISTS (SELECT FROM mirror.audits a WHERE a.seller_id = s.seller_id AND a.state = 'running'
                       AND a.source = $2) AS "isRechecking",
            k.kind, good.started_at AS "goodAt", last.due_at AS "dueAt", last.state, last.retry_at AS "retryAt",
            last.state = 'running' AND ${sellerIsLocked('s.seller_id')} AS "isLocked"
       FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS now) AS clock
       LEFT JOIN (mirror.sellers s CROSS JOIN (VALUES ('account'::mirror.run_kind), ('items')) AS k (kind))
         ON s.seller_id = ANY ($1)
       LEFT JOIN LATERAL (
         SELECT started_at FROM mirror.runs r
          WHERE r.seller_id = s.seller_id AND r.kind = k.kind AND r.state IN ('succeeded', 'held')
            AND r.started_at <= ${LATEST_BELIEVED}
          ORDER BY run_id DESC LIMIT 1) AS good ON true
       LEFT JOIN LATERAL (
         SELECT due_at, state, retry_at FROM mirror.runs r
          WHERE r.seller_id = s.seller_id AND r.kind = k.kind AND r.state <> 'asked'
            AND r.asked_by IS NULL AND r.due_at <= ${LATEST_BELIEVED}
          ORDER BY due_at DESC, run_id DESC LIMIT 1) AS last ON true`,
    [sellers, recheckSource],
  );
  const facts = new Map<string, SellerFacts>();
  for (const { now: _, kind, goodAt, dueAt, state, retryAt, isLocked, ...row } of rows) {
    const { seller } = row;
    if (seller === null) continue;
    const last = dueAt === null || state === null ? null : { dueAt, state, retryAt, isLocked };
    const known = facts.get(seller) ?? { ...row, seller, account: NO_RUN, items: NO_RUN };
    facts.set(seller, { ...known, [kind]: { goodAt, last } });
  }
  return { now: rows[0]?.now ?? new Date(), sellers: facts };
}

const NO_RUN: RunFacts = { goodAt: null, last: null };

interface FactsRow extends Omit<SellerFacts, 'seller' | 'account' | 'items'> {
  readonly now: Date;
  readonly seller: string | null;
  readonly kind: 'account' | 'items';
  readonly goodAt: Date | null;
  readonly dueAt: Date | null;
  readonly state: Exclude<RunState, 'asked'> | null;
  readonly retryAt: Date | null;
  readonly isLocked: boolean;
}

/** Records that the codes of a seller were checked again for a time of the schedule, or needed no check. */
export async function recordRecheck({ pool }: Db, sellerId: string, dueAt: Date): Promise<void> {
  await pool.query('UPDATE mirror.sellers SET recheck_due_at = $2 WHERE seller_id = $1', [
    sellerId,
    dueAt,
  ]);
}

/** A run as programs follow it. */
export interface FollowedRun {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly kind: RunKind;
  readonly state: RunState;
  readonly askedBy: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly retryAt: Date | null;
  readonly listed: number;
  readonly added: number;
  readonly changed: number;
  readonly unchanged: number;
  readonly restored: number;
  readonly missing: number;
  readonly removed: number;
  readonly quarantined: number;
  readonly apiCalls: number;
  readonly warnings: readonly string[];
  readonly problemCode: string | null;
  readonly problem: string | null;
}

/**
 * Finds a run. The number of a run that was asked for leads to what is done about the request: its first part that is
 * not done yet, or that failed, else its last part. @param sellerId null: of any seller
 * @returns also whether nothing more will be done; null if there is no such run
 */
export async function followRun(
  { pool }: Db,
  runId: bigint,
  sellerId: string | null,
): Promise<(FollowedRun & { readonly ended: boolean }) | null> {
  const { rows } = await pool.query<FollowedRun & { readonly isRequest: boolean }>(
    `WITH found AS (
       SELECT *, state = 'asked' OR run_id <> $1 AS is_request FROM mirror.runs
        WHERE (run_id = $1 OR asked_run_id = $1) AND ($2::text IS NULL OR seller_id = $2) LIMIT 1
     ), parts AS (
       SELECT DISTINCT ON (r.kind) r.*, f.is_request
         FROM mirror.runs r JOIN found f
           ON r.run_id = f.run_id
              OR f.is_request AND r.seller_id = f.seller_id AND r.due_at = f.due_at AND r.asked_by IS NOT NULL
        ORDER BY r.kind, r.run_id DESC)
     SELECT run_id AS "runId", seller_id AS "sellerId", kind, state, asked_by AS "askedBy",
            CASE WHEN state <> 'asked' THEN started_at END AS "startedAt", finished_at AS "finishedAt",
            retry_at AS "retryAt", listed, added, changed, unchanged, restored, missing, removed, quarantined,
            api_calls AS "apiCalls", warnings, problem_code AS "problemCode", problem, is_request AS "isRequest"
       FROM parts ORDER BY kind`,
    [runId, sellerId],
  );
  const isGood = ({ state }: FollowedRun): boolean => state === 'succeeded' || state === 'held';
  const current = rows.find((run) => !isGood(run)) ?? rows.at(-1);
  if (current === undefined) return null;
  const { isRequest, ...run } = current;
  // What people ask for is begun again after a process died; what a schedule made is answered by another run.
  const isOver =
    isGood(run) || run.state === 'failed' || (run.state === 'interrupted' && !isRequest);
  return { ...run, ended: isOver && run.retryAt === null };
}
