import type { PoolClient } from 'pg';
import type { Db } from './db.js';
import { itemsLockSql, openLongConnection, tryLock } from './locks.js';

/** Parts of the store with a retention time each. `raw`: records as received. */
type RetentionPart = 'raw' | 'runs' | 'versions' | 'audits';
/** Rows of each part older than this are deleted; null: none. */
export type RetentionPlan = Readonly<Record<RetentionPart, Date | null>>;
/** Days to keep each part; null: for ever. */
type RetentionDays = Readonly<Record<RetentionPart, number | null>>;

export function planRetention({ raw, runs, versions, audits }: RetentionDays, now: Date) {
  const before = (days: number | null): Date | null =>
    days === null ? null : new Date(now.getTime() - days * 86_400_000);
  return {
    raw: before(raw),
    runs: before(runs),
    versions: before(versions),
    audits: before(audits),
  };
}

export function keepsEverything(days: RetentionDays): boolean {
  return Object.values(days).every((kept) => kept === null);
}

/** Rows per batch and transaction, which takes less than a second. */
const BATCH_ROWS = 50_000;

export class PruneBusyError extends Error {
  override readonly name = 'PruneBusyError';
  override readonly message = 'another process is pruning this store';
  readonly remedy = 'wait for it to end, then try again';
}

/** Rows of one kind that were, or would be, deleted. */
export interface Pruned {
  readonly what: string;
  readonly before: Date;
  readonly rows: number;
  /** Size in the table, without indexes. */
  readonly bytes: number;
  /** Sellers whose rows were skipped, since a run was writing them. */
  readonly left: readonly string[];
}

export interface PruneOptions {
  /** Only these sellers; absent: all. */
  readonly sellerIds?: readonly string[];
  readonly signal: AbortSignal;
  /** Called after each batch. @param rows deleted so far @param what the kind of the last ones */
  readonly onProgress?: (rows: number, what: string) => void;
}

/** Counts the rows that `prune` would delete. Changes nothing. @throws the abort reason of `signal` */
export async function measurePrune(
  db: Db,
  plan: RetentionPlan,
  { sellerIds, signal }: PruneOptions,
): Promise<Pruned[]> {
  const { client, release } = await openLongConnection(db);
  try {
    const sellers = await readSellers(client, sellerIds);
    const measured: Pruned[] = [];
    for (const { step, before } of await dueSteps(client, plan)) {
      signal.throwIfAborted();
      const { rows } = await client.query<Sum>(
        `SELECT count(*)::float8 AS rows, coalesce(sum(${step.bytes ?? WHOLE_ROW}), 0)::float8 AS bytes
           FROM ${step.table} t WHERE ${step.where} AND t.seller_id = ANY($1)`,
        [sellers, before],
      );
      measured.push({ what: step.what, before, rows: 0, bytes: 0, ...rows[0], left: [] });
    }
    release(true);
    return measured;
  } catch (error) {
    release(false);
    throw error;
  }
}

/**
 * Deletes what is older than the plan allows, in many short transactions. After an interruption, the next
 * call continues.
 * @throws {PruneBusyError} if another process is pruning
 * @throws the abort reason of `signal`, between two transactions
 */
export async function prune(
  db: Db,
  plan: RetentionPlan,
  { sellerIds, signal, onProgress }: PruneOptions,
): Promise<Pruned[]> {
  const lock = await tryLock(db, 'seller-mirror/prune', () => new PruneBusyError());
  try {
    const sellers = await readSellers(lock.client, sellerIds);
    const done: Pruned[] = [];
    let all = 0;
    for (const { step, before } of await dueSteps(lock.client, plan)) {
      const sum = { rows: 0, bytes: 0 };
      let left: readonly string[] = [];
      for (const ids of step.locksItems === true ? sellers.map((id) => [id]) : [sellers]) {
        for (let rows = BATCH_ROWS; rows === BATCH_ROWS;) {
          signal.throwIfAborted();
          lock.assertHeld();
          const batch = await pruneBatch(lock.client, step, ids, before);
          if (batch === null) left = left.concat(ids);
          rows = batch?.rows ?? 0;
          sum.rows += rows;
          sum.bytes += batch?.bytes ?? 0;
          onProgress?.((all += rows), step.what);
        }
      }
      done.push({ what: step.what, before, ...sum, left });
    }
    return done;
  } finally {
    await lock.release();
  }
}

interface Sum {
  readonly rows: number;
  readonly bytes: number;
}

async function readSellers(client: PoolClient, only: PruneOptions['sellerIds']): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    `SELECT seller_id AS id FROM mirror.sellers
      WHERE $1::text[] IS NULL OR seller_id = ANY($1::text[]) ORDER BY seller_id`,
    [only ?? null],
  );
  return rows.map(({ id }) => id);
}

/** The steps of a plan, each with its time. */
async function dueSteps(
  client: PoolClient,
  plan: RetentionPlan,
): Promise<{ readonly step: PruneStep; readonly before: Date }[]> {
  if (plan.runs !== null) await listKeptRuns(client);
  return PRUNE_STEPS.flatMap((step) => {
    const before = plan[step.part];
    return before === null ? [] : [{ step, before }];
  });
}

/** @returns null if the step needs the lock of the seller's items, and a run holds it */
async function pruneBatch(
  client: PoolClient,
  step: PruneStep,
  sellers: readonly string[],
  before: Date,
): Promise<Sum | null> {
  const change = async (): Promise<Sum | null> =>
    (await client.query<Sum>(batchSql(step), [sellers, before, BATCH_ROWS])).rows[0] ?? null;
  if (step.locksItems !== true) return change();
  await client.query('BEGIN');
  try {
    const { rows } = await client.query<{ locked: boolean }>(
      `SELECT ${itemsLockSql('pg_try_advisory_xact_lock', '$1')} AS locked`,
      [sellers[0]],
    );
    const batch = rows[0]?.locked === true ? await change() : null;
    await client.query('COMMIT');
    return batch;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/** SQL that changes a batch of rows. Skips locked ones, so that no process waits. */
function batchSql({ table, where, set, bytes = WHOLE_ROW, mark = 'SELECT' }: PruneStep): string {
  const change =
    set === undefined
      ? `DELETE FROM ${table} t USING batch WHERE t.ctid = batch.place`
      : `UPDATE ${table} t SET ${set} FROM batch WHERE t.ctid = batch.place`;
  return `
    WITH batch AS MATERIALIZED (
      SELECT t.ctid AS place, t.seller_id, ${bytes} AS bytes FROM ${table} t
       WHERE ${where} AND t.seller_id = ANY($1) LIMIT $3 FOR UPDATE OF t SKIP LOCKED
    ), marked AS (${mark}), pruned AS (${change})
    SELECT count(*)::int AS rows, coalesce(sum(bytes), 0)::float8 AS bytes FROM batch`;
}

/** Finds all columns that refer to a run, also in tables of future versions. */
const RUN_ID_COLUMNS = `
  SELECT quote_ident(c.relname) AS "table", quote_ident(a.attname) AS "column"
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
   WHERE c.relnamespace = 'mirror'::regnamespace AND c.relkind IN ('r', 'p')
     AND (c.relname, a.attname) <> ('runs', 'run_id') AND a.attname LIKE '%run\\_id' AND a.atttypid = 'bigint'::regtype`;

/**
 * Lists the runs to keep whatever their age: those that any row refers to, and for each seller and kind
 * the newest run, the newest that succeeded or was held, and the newest that succeeded. New rows only
 * refer to new runs, so the list stays valid.
 */
async function listKeptRuns(client: PoolClient): Promise<void> {
  const { rows } = await client.query<{ table: string; column: string }>(RUN_ID_COLUMNS);
  const referenced = rows.map(
    ({ table, column }) => `SELECT ${column} FROM mirror.${table} WHERE ${column} IS NOT NULL`,
  );
  const newest = ['true', `state IN ('succeeded', 'held')`, `state = 'succeeded'`].map(
    (condition) =>
      `SELECT max(run_id) FROM mirror.runs WHERE ${condition} GROUP BY seller_id, kind`,
  );
  await client.query(`DROP TABLE IF EXISTS pg_temp.kept_runs`);
  await client.query(
    `CREATE TEMP TABLE kept_runs (run_id) AS ${[...referenced, ...newest].join(' UNION ')}`,
  );
  await client.query(`CREATE INDEX ON pg_temp.kept_runs (run_id)`);
  await client.query(`ANALYZE pg_temp.kept_runs`);
}

/** How to prune one kind of rows. */
interface PruneStep {
  /** Name shown to people. */
  readonly what: string;
  readonly part: RetentionPart;
  /** The table; its alias is `t`. */
  readonly table: string;
  /** SQL condition on `t`: rows to prune. $2 is the time. Rows that were pruned no longer meet it. */
  readonly where: string;
  /** SQL of a SET clause; without it, rows are deleted. */
  readonly set?: string;
  /** SQL of the bytes that this frees per row; by default, the whole row. */
  readonly bytes?: string;
  /** SQL that records in other tables that the rows in `batch` are pruned. */
  readonly mark?: string;
  /** Needs the lock of the seller's items, since runs that write items find rows by ctid. */
  readonly locksItems?: true;
}

const WHOLE_ROW = 'pg_column_size(t.*)';

/** `greatest` ignores null. */
const HISTORY_SINCE = `
  UPDATE mirror.sellers s SET history_since = greatest(s.history_since, $2::timestamptz)
   WHERE s.seller_id IN (SELECT seller_id FROM batch)
     AND s.history_since IS DISTINCT FROM greatest(s.history_since, $2::timestamptz)`;

/**
 * The media of `raw` are kept: the reply for a single item may lack them, and then they come from the
 * stored record. Without them the item would seem to have changed.
 */
const MEDIA_OF_RAW = `
  CASE WHEN json_typeof(t.raw -> 'media') = 'object'
       THEN json_build_object('media', t.raw -> 'media') ELSE '{}' END`;

const IN_OLD_AUDIT = `
  EXISTS (SELECT FROM mirror.audits a
           WHERE a.audit_id = t.audit_id AND a.seller_id = t.seller_id AND a.state = 'finished'
             AND a.finished_at < $2)`;

const MARK_PRUNED_LIST = `
  UPDATE mirror.audits a SET list_pruned_at = now()
   WHERE a.audit_id IN (SELECT e.audit_id FROM mirror.audit_entries e JOIN batch ON e.ctid = batch.place)
     AND a.list_pruned_at IS NULL`;

/** The rows to delete, in this order. */
const PRUNE_STEPS: readonly PruneStep[] = [
  {
    what: 'superseded states of items',
    part: 'versions',
    table: 'mirror.item_versions',
    where: 't.valid_to <= $2',
    mark: HISTORY_SINCE,
  },
  {
    what: 'superseded states of accounts',
    part: 'versions',
    table: 'mirror.account_versions',
    where: 't.valid_to <= $2',
    mark: HISTORY_SINCE,
  },
  {
    what: 'lists of finished audits',
    part: 'audits',
    table: 'mirror.audit_entries',
    where: IN_OLD_AUDIT,
    mark: MARK_PRUNED_LIST,
  },
  {
    what: 'workbooks of finished audits',
    part: 'audits',
    table: 'mirror.audit_workbooks',
    where: IN_OLD_AUDIT,
  },
  {
    what: 'codes in lists of finished audits',
    part: 'audits',
    table: 'mirror.audit_codes',
    where: IN_OLD_AUDIT,
  },
  {
    what: 'runs',
    part: 'runs',
    table: 'mirror.runs',
    where: `coalesce(t.finished_at, t.started_at) < $2 AND t.state NOT IN ('running', 'held')
        AND NOT EXISTS (SELECT FROM pg_temp.kept_runs k WHERE k.run_id = t.run_id)`,
  },
  {
    what: 'times of look-ups',
    part: 'runs',
    table: 'mirror.item_lookups',
    where: 't.looked_up_at < $2',
  },
  {
    what: 'records that could not be read',
    part: 'raw',
    table: 'mirror.quarantine',
    where: `t.last_seen_at < $2 AND t.last_run_id < (
          SELECT max(r.run_id) FROM mirror.runs r WHERE r.seller_id = t.seller_id AND r.kind = 'items')`,
  },
  {
    what: 'purchases as received',
    part: 'raw',
    table: 'mirror.purchase_codes',
    where: 't.raw IS NOT NULL AND t.purchase_seen_at < $2',
    set: 'raw = NULL',
    bytes: 'pg_column_size(t.raw)',
  },
  {
    what: 'accounts as received',
    part: 'raw',
    table: 'mirror.accounts',
    where: `t.changed_at < $2 AND t.raw::text <> '{}'`,
    set: `raw = '{}'`,
    bytes: 'pg_column_size(t.raw)',
  },
  {
    what: 'items as received',
    part: 'raw',
    table: 'mirror.items',
    where: `greatest(t.changed_at, t.valid_from) < $2 AND t.raw::text <> (${MEDIA_OF_RAW})::text`,
    set: `raw = ${MEDIA_OF_RAW}`,
    bytes: `pg_column_size(t.raw) - pg_column_size(${MEDIA_OF_RAW})`,
    locksItems: true,
  },
];
