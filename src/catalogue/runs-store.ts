import type { Pool, PoolClient } from 'pg';
import type { WideChange } from './changes.js';
import { readShown } from './held-store.js';
import type { Run } from '../db/generated/prisma/client.js';
import type { RunKind, RunState } from '../db/generated/prisma/enums.js';
import type { SellerLock } from '../db/locks.js';
import { onlyRow } from '../db/connection.js';
import type { Db } from '../db/db.js';
import { LATEST_BELIEVED } from '../db/moments.js';
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
  readonly state: Exclude<RunState, 'asked' | 'running'>;
  readonly warnings: readonly string[];
  readonly problemCode: string | null;
  readonly problem: string | null;
  /** When a failed run is tried again; null or absent: it is not. */
  readonly retryAt?: Date | null;
  /** Whether the seller is parked: only a person can fix the problem, and every further run would have it. */
  readonly parks?: boolean;
}

/** What a run is for: a time of a schedule, or what a person asked for. It is recorded with the run. */
export interface RecordedRequest {
  /** The time of the schedule, or when the person asked. */
  readonly dueAt: Date;
  /** Null for a schedule. */
  readonly askedBy: string | null;
  /** Of a run that mirrors one item. */
  readonly itemId: number | null;
}

/** The end of a run whose process died. */
export const PROCESS_DIED = {
  state: 'interrupted',
  problemCode: 'interrupted',
  problem: 'the process ended before the run did',
} as const;

/**
 * Records a new run; it takes the place of the one that was asked for. The caller holds the seller's lock, so any run of
 * the seller with state `running` belongs to a dead process, and is marked as interrupted.
 * @param acceptedRunId for a run of kind `approval`: the run whose held removals are accepted
 */
export async function startRun(
  { client, sellerId }: Pick<SellerLock, 'client' | 'sellerId'>,
  kind: RunKind,
  holder: string,
  jobId: string | null,
  acceptedRunId: bigint | null = null,
  request: RecordedRequest | null = null,
): Promise<{ runId: bigint; at: string }> {
  await client.query(
    `UPDATE mirror.runs SET state = $2, finished_at = now(), problem_code = $3, problem = $4
      WHERE seller_id = $1 AND state = 'running'`,
    [sellerId, PROCESS_DIED.state, PROCESS_DIED.problemCode, PROCESS_DIED.problem],
  );
  const { dueAt = null, askedBy = null, itemId = null } = request ?? {};
  const started = await client.query<{ runId: bigint; startedAt: Date }>(
    `WITH asked AS (DELETE FROM mirror.runs
                     WHERE seller_id = $1 AND kind = $2 AND state = 'asked' AND due_at = $6
                    RETURNING run_id)
     INSERT INTO mirror.runs
       (seller_id, kind, state, holder, job_id, accepted_run_id, due_at, asked_by, item_id, asked_run_id)
     VALUES ($1, $2, 'running', $3, $4, $5, $6, $7, $8, (SELECT min(run_id) FROM asked))
     RETURNING run_id AS "runId", started_at AS "startedAt"`,
    [sellerId, kind, holder, jobId, acceptedRunId, dueAt, askedBy, itemId],
  );
  const { runId, startedAt } = onlyRow(started);
  return { runId, at: startedAt.toISOString() };
}

/**
 * The newest run that answers a request, so that no new run is needed; null if there is none. A schedule's time is
 * answered by any good run that began after it; what a person asked for only by its own run. One that failed for good
 * is an answer, too. Valid only while the caller holds the seller's lock.
 */
export async function findAnswer(
  { client, sellerId }: SellerLock,
  kind: RunKind,
  { dueAt, askedBy }: RecordedRequest,
): Promise<{ readonly runId: bigint; readonly state: 'succeeded' | 'held' | 'failed' } | null> {
  const { rows } = await client.query<{ runId: bigint; state: 'succeeded' | 'held' | 'failed' }>(
    `SELECT run_id AS "runId", state FROM mirror.runs
      WHERE seller_id = $1 AND kind = $2 AND started_at <= ${LATEST_BELIEVED}
        AND CASE WHEN state IN ('succeeded', 'held')
                 THEN due_at = $3 AND asked_by IS NOT DISTINCT FROM $4
                      OR $4::text IS NULL AND started_at >= $3
                 ELSE state = 'failed' AND retry_at IS NULL AND due_at = $3 END
      ORDER BY run_id DESC LIMIT 1`,
    [sellerId, kind, dueAt, askedBy],
  );
  return rows[0] ?? null;
}

export async function saveCounts(
  client: PoolClient | Pool,
  runId: bigint,
  counts: Partial<RunCounts>,
): Promise<void> {
  if (Object.keys(counts).length === 0) return;
  const { extraChanged, apiCalls, ...others } = counts;
  // Counts that are left out stay as they are.
  await client.query(
    `UPDATE mirror.runs r SET (${COUNTS}) = (SELECT ${COUNTS} FROM jsonb_populate_record(r, $2))
      WHERE run_id = $1`,
    [runId, JSON.stringify({ ...others, extra_changed: extraChanged, api_calls: apiCalls })],
  );
}

const COUNTS = `listed, added, changed, extra_changed, unchanged, restored, missing, removed, quarantined,
                duplicates, api_calls, bytes, tolerated`;

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
 * Records a run's end and its final counts. The same statement parks or resumes its seller, unless that is paused: a run
 * that `parks` does, and a run of the account or of all items that succeeded or was held resumes it. A parked seller
 * keeps its date and gets the new reason. A run that a later one has marked as interrupted does neither.
 */
export async function finishRun(
  client: PoolClient | Pool,
  runId: bigint,
  { state, warnings, problemCode, problem, retryAt, parks = false }: RunEnd,
  counts: Partial<RunCounts>,
): Promise<void> {
  await saveCounts(client, runId, counts);
  await client.query(
    `WITH seller AS (
       UPDATE mirror.sellers s
          SET (parked_at, parked_code, parked_reason, parked_run_id) = (
                SELECT coalesce(s.parked_at, now()), $4, $5, r.run_id WHERE $8)
         FROM mirror.runs r
        WHERE r.run_id = $1 AND r.state = 'running' AND s.seller_id = r.seller_id
          AND s.parked_code IS DISTINCT FROM $6
          AND ($8 OR s.parked_at IS NOT NULL AND r.kind IN ('account', 'items')
                     AND $2::mirror.run_state IN ('succeeded', 'held')))
     UPDATE mirror.runs
        SET state = $2, finished_at = now(), warnings = $3, problem_code = $4, problem = $5,
            retry_at = $7
      WHERE run_id = $1`,
    [runId, state, warnings, problemCode, problem, PAUSED, retryAt ?? null, parks],
  );
}

/** A run's progress. */
export interface RunProgress {
  readonly phase: 'account' | 'receive' | 'list' | 'write' | 'look-up';
  /** Bytes of the list that have arrived, its records that were read, or items looked up. */
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
 * A run, also by the number that it had while it was asked for, with its quarantined records (the first 100), the held items that it shows, and the run that removed those
 * which were accepted; null if there is no such run.
 */
export async function getRun(db: Db, id: bigint) {
  const prisma = await db.prisma();
  const run = await prisma.run.findFirst({ where: { OR: [{ runId: id }, { askedRunId: id }] } });
  if (run === null) return null;
  const { runId } = run;
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
