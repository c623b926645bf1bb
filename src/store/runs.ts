import type { Pool, PoolClient } from 'pg';
import type { RunKind, RunState } from './generated/prisma/enums.js';

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
 * `running` belongs to a process that died: it is marked as interrupted.
 */
export async function startRun(
  client: PoolClient,
  sellerId: string,
  kind: RunKind,
  holder: string,
  jobId: string | null,
): Promise<{ runId: bigint; at: string }> {
  await client.query(
    `UPDATE mirror.runs SET state = $2, finished_at = now(), problem_code = $3, problem = $4
      WHERE seller_id = $1 AND state = 'running'`,
    [sellerId, DIED.state, DIED.problemCode, DIED.problem],
  );
  const { rows } = await client.query<{ run_id: string; started_at: Date }>(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, job_id)
     VALUES ($1, $2, 'running', $3, $4) RETURNING run_id, started_at`,
    [sellerId, kind, holder, jobId],
  );
  const row = rows[0];
  if (row === undefined) throw new Error('the store did not return the new run');
  return { runId: BigInt(row.run_id), at: row.started_at.toISOString() };
}

/** Writes figures of a run, in whatever transaction the connection is in. */
export async function saveCounts(
  client: PoolClient | Pool,
  runId: bigint,
  counts: Partial<RunCounts>,
): Promise<void> {
  await updateRun(client, runId, countColumns(counts));
}

/** Closes a run with its last figures. */
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
  await updateRun(client, runId, last, finished);
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
  more: readonly string[] = [],
): Promise<void> {
  const list = [...assignments.map(([column], i) => `${column} = $${i + 2}`), ...more];
  const values = assignments.map(([, value]) => value);
  await client.query(`UPDATE mirror.runs SET ${list.join(', ')} WHERE run_id = $1`, [
    runId,
    ...values,
  ]);
}
