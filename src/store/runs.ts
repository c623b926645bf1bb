import type { Pool, PoolClient } from 'pg';
import type { WideChange } from '../domain/changes.js';
import type { RunKind, RunState } from './generated/prisma/enums.js';
import { tellUndecided } from './history.js';
import type { SellerLock } from './lock.js';

export type { RunKind, RunState };

/** The figures of a run. */
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
  /** Quirk to number of records in which it was met. */
  readonly tolerated: Readonly<Record<string, number>>;
}

/** How a run ended. */
export interface RunEnd {
  readonly state: Exclude<RunState, 'running'>;
  readonly warnings: readonly string[];
  readonly problemCode: string | null;
  readonly problem: string | null;
}

/** How a run ends whose process died. */
export const DIED = {
  state: 'interrupted',
  problemCode: 'interrupted',
  problem: 'the process ended before the run did',
} as const;

const COUNT_COLUMNS: Readonly<Record<keyof RunCounts, string>> = {
  listed: 'listed',
  added: 'added',
  changed: 'changed',
  extraChanged: 'extra_changed',
  unchanged: 'unchanged',
  restored: 'restored',
  missing: 'missing',
  removed: 'removed',
  quarantined: 'quarantined',
  duplicates: 'duplicates',
  apiCalls: 'api_calls',
  bytes: 'bytes',
  tolerated: 'tolerated',
};

/**
 * Enters a run. The caller holds the seller's lock, so a run of this seller that still says
 * `running` belongs to a process that died: it is marked as interrupted, and what it left undecided
 * is told.
 */
export async function startRun(
  { client, sellerId }: Pick<SellerLock, 'client' | 'sellerId'>,
  kind: RunKind,
  holder: string,
  jobId: string | null,
): Promise<{ runId: bigint; at: string }> {
  await client.query(
    `UPDATE mirror.runs SET state = $2, finished_at = now(), problem_code = $3, problem = $4
      WHERE seller_id = $1 AND state = 'running'`,
    [sellerId, DIED.state, DIED.problemCode, DIED.problem],
  );
  await tellUndecided({ client, sellerId });
  const { rows } = await client.query<{ run_id: string; started_at: Date }>(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, job_id)
     VALUES ($1, $2, 'running', $3, $4) RETURNING run_id, started_at`,
    [sellerId, kind, holder, jobId],
  );
  const row = rows[0];
  if (row === undefined) throw new Error('the store did not return the new run');
  return { runId: BigInt(row.run_id), at: row.started_at.toISOString() };
}

/** What a run is to do. */
export interface Need {
  readonly kind: RunKind;
  /** Only a run that began at or after this, by the database's clock, counts. */
  readonly since: Date;
  /** An item run counts only for the job it was made for: which item it was about is not kept. */
  readonly jobId: string | null;
}

/** A run that makes another one needless. */
export interface Covering {
  readonly runId: bigint;
  readonly state: 'succeeded' | 'held';
}

/**
 * The newest run that mirrored what another one is to mirror; null when there is none. It says what
 * it says only while the caller holds the seller's lock.
 */
export async function coveringRun(
  { client, sellerId }: SellerLock,
  { kind, since, jobId }: Need,
): Promise<Covering | null> {
  const { rows } = await client.query<{ run_id: string; state: Covering['state'] }>(
    `SELECT run_id, state FROM mirror.runs
      WHERE seller_id = $1 AND kind = $2 AND state IN ('succeeded', 'held') AND started_at >= $3
        AND (kind <> 'item' OR job_id = $4)
      ORDER BY run_id DESC LIMIT 1`,
    [sellerId, kind, since, jobId],
  );
  return rows[0] === undefined ? null : { runId: BigInt(rows[0].run_id), state: rows[0].state };
}

/** Writes figures of a run, in whatever transaction the connection is in. */
export async function saveCounts(
  client: PoolClient | Pool,
  runId: bigint,
  counts: Partial<RunCounts>,
): Promise<void> {
  await updateRun(client, runId, countColumns(counts));
}

/** Records the fields that a run changed in all or nearly all items. */
export async function markWideFields(
  client: PoolClient,
  runId: bigint,
  marks: readonly WideChange[],
): Promise<void> {
  await updateRun(client, runId, [
    ['wide_fields', marks.map(({ field }) => field)],
    ['wide_items', marks.map(({ items }) => items)],
    ['compared', marks[0]?.of ?? null],
  ]);
}

/**
 * What a seller was parked for is mended once a run of account or items went well, whoever
 * started it; an item says too little, and an approval asks the marketplace nothing. The row is written in any case, so that `parkSeller`, which
 * locks it, sees either this run's end or this write.
 */
const UNPARK = `
  WITH mended AS (
    UPDATE mirror.sellers s
       SET parked_at = NULL, parked_code = NULL, parked_reason = NULL, parked_run_id = NULL
      FROM mirror.runs r WHERE r.run_id = $1 AND r.kind IN ('account', 'items') AND s.seller_id = r.seller_id)`;

/** Closes a run with its last figures; one that went well un-parks its seller at the same moment. */
export async function finishRun(
  client: PoolClient | Pool,
  runId: bigint,
  end: RunEnd,
  counts: Partial<RunCounts>,
): Promise<void> {
  // By the database's clock, as the start is.
  const finished = ['finished_at = now()'];
  const last: Assignment[] = [
    ...countColumns(counts),
    ['state', end.state],
    ['warnings', end.warnings],
    ['problem_code', end.problemCode],
    ['problem', end.problem],
  ];
  const wentWell = end.state === 'succeeded' || end.state === 'held';
  await updateRun(client, runId, last, { more: finished, before: wentWell ? UNPARK : '' });
}

type Assignment = readonly [column: string, value: unknown];

function countColumns(counts: Partial<RunCounts>): Assignment[] {
  const names = Object.keys(counts) as (keyof RunCounts)[];
  return names.map((name) => [COUNT_COLUMNS[name], counts[name]]);
}

async function updateRun(
  client: PoolClient | Pool,
  runId: bigint,
  assignments: readonly Assignment[],
  { more = [], before = '' }: { readonly more?: readonly string[]; readonly before?: string } = {},
): Promise<void> {
  const list = [...assignments.map(([column], i) => `${column} = $${i + 2}`), ...more];
  const values = assignments.map(([, value]) => value);
  const sql = `${before} UPDATE mirror.runs SET ${list.join(', ')} WHERE run_id = $1`;
  await client.query(sql, [runId, ...values]);
}
