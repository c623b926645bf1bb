import type { Pool, PoolClient } from 'pg';
import type { WideChange } from './changes.js';
import { readShown } from './held-store.js';
import type { Run } from '../db/generated/prisma/client.js';
import type { RunKind, RunState } from '../db/generated/prisma/enums.js';
import type { SellerLock } from '../db/locks.js';
import { onlyRow } from '../db/connection.js';
import type { Db } from '../db/db.js';
import { PAUSED } from './sellers-store.js';

export type { Run, RunKind };

export interface RunCounts {
  readonly listed: number;
  readonly added: number;
  readonly changed: number;
  readonly extraChanged: number;
  readonly unchanged: number;
  readonly restored: number;
  readonly missing: number;
  readonly removed: number;
  readonly quarantined: number;
  readonly duplicates: number;
  readonly apiCalls: number;
  readonly bytes: number;
  /** Quirk → number of records with it. */
  readonly tolerated: Readonly<Record<string, number>>;
}

export interface RunEnd {
  readonly state: Exclude<RunState, 'running'>;
  readonly warnings: readonly string[];
  readonly problemCode: string | null;
  readonly problem: string | null;
}

/** The end of a run whose process died. */
export const PROCESS_DIED = {
  state: 'interrupted',
  problemCode: 'interrupted',
  problem: 'the process ended before the run did',
} as const;

/**
 * Records a new run. The caller holds the seller's lock, so any run of the seller with state `running`
 * belongs to a dead process, and is marked as interrupted.
 * @param acceptedRunId for a run of kind `approval`: the run whose held removals are accepted
 */
export async function startRun(
  { client, sellerId }: Pick<SellerLock, 'client' | 'sellerId'>,
  kind: RunKind,
  holder: string,
  jobId: string | null,
  acceptedRunId: bigint | null = null,
): Promise<{ runId: bigint; at: string }> {
  await client.query(
    `UPDATE mirror.runs SET state = $2, finished_at = now(), problem_code = $3, problem = $4
      WHERE seller_id = $1 AND state = 'running'`,
    [sellerId, PROCESS_DIED.state, PROCESS_DIED.problemCode, PROCESS_DIED.problem],
  );
  const started = await client.query<{ runId: bigint; startedAt: Date }>(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, job_id, accepted_run_id)
     VALUES ($1, $2, 'running', $3, $4, $5) RETURNING run_id AS "runId", started_at AS "startedAt"`,
    [sellerId, kind, holder, jobId, acceptedRunId],
  );
  const { runId, startedAt } = onlyRow(started);
  return { runId, at: startedAt.toISOString() };
}

/**
 * The newest run of this kind that succeeded or was held since a time, so that no new run is needed; null
 * if there is none. Valid only while the caller holds the seller's lock.
 * @param run.since earliest start of the run, by the database's clock
 * @param run.jobId required for runs of one item, whose item is not recorded
 */
export async function findFinishedRun(
  { client, sellerId }: SellerLock,
  {
    kind,
    since,
    jobId,
  }: { readonly kind: RunKind; readonly since: Date; readonly jobId: string | null },
): Promise<{ readonly runId: bigint; readonly state: 'succeeded' | 'held' } | null> {
  const { rows } = await client.query<{ runId: bigint; state: 'succeeded' | 'held' }>(
    `SELECT run_id AS "runId", state FROM mirror.runs
      WHERE seller_id = $1 AND kind = $2 AND state IN ('succeeded', 'held') AND started_at >= $3
        AND (kind <> 'item' OR job_id = $4)
      ORDER BY run_id DESC LIMIT 1`,
    [sellerId, kind, since, jobId],
  );
  return rows[0] ?? null;
}

export async function saveCounts(
  client: PoolClient | Pool,
  runId: bigint,
  counts: Partial<RunCounts>,
): Promise<void> {
  if (Object.keys(counts).length === 0) return;
  await client.query(
    `UPDATE mirror.runs r
        SET listed = coalesce(c.listed, r.listed), added = coalesce(c.added, r.added),
            changed = coalesce(c.changed, r.changed),
            extra_changed = coalesce(c."extraChanged", r.extra_changed),
            unchanged = coalesce(c.unchanged, r.unchanged),
            restored = coalesce(c.restored, r.restored), missing = coalesce(c.missing, r.missing),
            removed = coalesce(c.removed, r.removed),
            quarantined = coalesce(c.quarantined, r.quarantined),
            duplicates = coalesce(c.duplicates, r.duplicates),
            api_calls = coalesce(c."apiCalls", r.api_calls), bytes = coalesce(c.bytes, r.bytes),
            tolerated = coalesce(c.tolerated, r.tolerated)
       FROM jsonb_to_record($2)
         AS c (listed int, added int, changed int, "extraChanged" int, unchanged int, restored int,
               missing int, removed int, quarantined int, duplicates int, "apiCalls" int,
               bytes bigint, tolerated jsonb)
      WHERE r.run_id = $1`,
    [runId, JSON.stringify(counts)],
  );
}

export async function markWideFields(
  client: PoolClient,
  runId: bigint,
  marks: readonly WideChange[],
): Promise<void> {
  if (marks.length === 0) return;
  await client.query(
    'UPDATE mirror.runs SET wide_fields = $2, wide_items = $3, compared = $4 WHERE run_id = $1',
    [runId, marks.map(({ field }) => field), marks.map(({ items }) => items), marks[0]?.of ?? null],
  );
}

/**
 * Records a run's end and its final counts. If a run of the account or of all items succeeded or was held,
 * the same statement resumes its seller, unless it is paused. It writes the seller's row even if nothing
 * changes: `parkSeller` locks that row, so it sees either this run's end or this write.
 */
export async function finishRun(
  client: PoolClient | Pool,
  runId: bigint,
  { state, warnings, problemCode, problem }: RunEnd,
  counts: Partial<RunCounts>,
): Promise<void> {
  await saveCounts(client, runId, counts);
  await client.query(
    `WITH unparked AS (
       UPDATE mirror.sellers s
          SET (parked_at, parked_code, parked_reason, parked_run_id) = (
                SELECT s.parked_at, s.parked_code, s.parked_reason, s.parked_run_id
                 WHERE s.parked_code = $6)
         FROM mirror.runs r
        WHERE r.run_id = $1 AND r.kind IN ('account', 'items') AND s.seller_id = r.seller_id
          AND $2::mirror.run_state IN ('succeeded', 'held'))
     UPDATE mirror.runs
        SET state = $2, finished_at = now(), warnings = $3, problem_code = $4, problem = $5
      WHERE run_id = $1`,
    [runId, state, warnings, problemCode, problem, PAUSED],
  );
}

/** A run's progress. */
export interface RunProgress {
  readonly phase: 'account' | 'list' | 'write' | 'look-up';
  /** Records of the list, or items looked up. */
  readonly done: number;
  /** Null while unknown. */
  readonly total: number | null;
}

/** Saves a run's progress outside of the run's transaction, so that others see it at once. */
export async function writeRunProgress(
  { pool }: Db,
  runId: bigint,
  { phase, done, total }: RunProgress,
): Promise<void> {
  await pool.query(
    `INSERT INTO mirror.run_progress (run_id, phase, done, total) VALUES ($1, $2, $3, $4)
     ON CONFLICT (run_id) DO UPDATE
        SET phase = excluded.phase, done = excluded.done, total = excluded.total, at = now()`,
    [runId, phase, done, total],
  );
}

/**
 * The newest later run of the same kind that succeeded or was held. Null for runs of one item and accepted
 * removals, which no other run replaces.
 */
export async function findLaterGoodRun(
  db: Db,
  { sellerId, kind, runId }: Pick<Run, 'sellerId' | 'kind' | 'runId'>,
): Promise<bigint | null> {
  if (kind === 'item' || kind === 'approval') return null;
  const prisma = await db.prisma();
  const later = await prisma.run.findFirst({
    where: { sellerId, kind, state: { in: ['succeeded', 'held'] }, runId: { gt: runId } },
    orderBy: { runId: 'desc' },
  });
  return later?.runId ?? null;
}

/** The seller of a run; null if there is no such run. */
export async function findSellerOfRun({ pool }: Db, runId: bigint): Promise<string | null> {
  const { rows } = await pool.query<{ sellerId: string }>(
    'SELECT seller_id AS "sellerId" FROM mirror.runs WHERE run_id = $1',
    [runId],
  );
  return rows[0]?.sellerId ?? null;
}

/**
 * A run with its quarantined records (the first 100), the held items that it shows, and the run that removed those
 * which were accepted; null if there is no such run.
 */
export async function getRun(db: Db, runId: bigint) {
  const prisma = await db.prisma();
  const run = await prisma.run.findUnique({ where: { runId } });
  if (run === null) return null;
  const quarantine = await prisma.quarantinedRecord.findMany({
    where: { sellerId: run.sellerId, firstRunId: { lte: runId }, lastRunId: { gte: runId } },
    orderBy: { quarantineId: 'asc' },
    take: 100,
  });
  const isOfItems = run.kind === 'items' && (run.state === 'held' || run.state === 'succeeded');
  const shown = isOfItems ? await readShown(db.pool, run.sellerId, runId) : [];
  const accepting = await prisma.run.findFirst({
    where: { acceptedRunId: runId, state: 'succeeded' },
    orderBy: { runId: 'desc' },
  });
  return { run, quarantine, shown, acceptedBy: accepting?.runId ?? null };
}
