import { UserError } from '../domain/user-error.js';
import type { PoolClient, QueryResult } from 'pg';
import type { Db } from './db.js';
import { itemsLockSql, withLock } from './locks.js';
import { onlyRow } from './connection.js';

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

const busy = (): UserError =>
  new UserError(
    'another process is pruning this store',
    'wait for it to end, then try again',
    'BUSY',
  );

/** Rows per statement, which takes less than a second. */
const BATCH_ROWS = 50_000;

/** Rows of one kind that were, or would be, deleted. */
export interface Pruned {
  readonly what: string;
  readonly before: Date;
  readonly rows: number;
  /** Size in the table, without indexes. */
  readonly bytes: number;
  /** Sellers whose rows were skipped, since a run was writing items. */
  readonly left: readonly string[];
}

export interface PruneOptions {
  /** Only counts the rows. */
  readonly dryRun?: boolean;
  /** Only these sellers; absent: all. */
  readonly sellerIds?: readonly string[];
  readonly signal: AbortSignal;
  /** Called after each batch. @param rows deleted so far @param what the kind of the last ones */
  readonly onProgress?: (rows: number, what: string) => void;
}

/**
 * Deletes what is older than the plan allows, in many short statements. After an interruption, the next
 * call continues.
 * @throws {UserError} `BUSY` if another process is pruning
 * @throws the abort reason of `signal`, between two statements
 */
export async function prune(
  db: Db,
  plan: RetentionPlan,
  { dryRun = false, sellerIds, signal, onProgress }: PruneOptions,
): Promise<Pruned[]> {
  return withLock(db, 'seller-mirror/prune', busy, async ({ client, lost }) => {
    const isOver = AbortSignal.any([signal, lost]);
    const send = (sql: string, before: Date): Promise<QueryResult<Batch>> => {
      isOver.throwIfAborted();
      return client.query<Batch>(sql, [sellerIds ?? null, before]);
    };
    const done: Pruned[] = [];
    let all = 0;
    for (const step of pruneSteps(await keptRuns(client))) {
      const [what, before] = [step.what, plan[step.part]];
      if (before === null) continue;
      if (step.mark !== undefined && !dryRun) await send(step.mark, before);
      const sum = { what, before, rows: 0, bytes: 0, left: [] as readonly string[] };
      for (let isMore = true; isMore;) {
        const { rows, bytes, left } = onlyRow(await send(batchSql(step, dryRun), before));
        Object.assign(sum, { rows: sum.rows + rows, bytes: sum.bytes + bytes, left });
        isMore = rows === BATCH_ROWS && !dryRun;
        onProgress?.((all += rows), what);
      }
      done.push(sum);
    }
    return done;
  });
}

/**
 * Deletes uploaded lists whose checks were not started: those older than an hour, and all but the newest three of a
 * session and the newest twenty.
 * @returns their ids
 */
export async function pruneDrafts({ pool }: Db): Promise<readonly bigint[]> {
  const { rows } = await pool.query<{ id: bigint }>(
    `DELETE FROM mirror.audits a USING (
       SELECT audit_id, row_number() OVER (PARTITION BY d.owner ORDER BY audit_id DESC) AS own,
              row_number() OVER (ORDER BY audit_id DESC) AS nth
         FROM mirror.audits LEFT JOIN mirror.audit_drafts d USING (audit_id) WHERE state = 'draft') n
      WHERE a.audit_id = n.audit_id AND state = 'draft'
        AND (created_at < now() - interval '1 hour' OR own > 3 OR nth > 20)
     RETURNING a.audit_id AS id`,
  );
  return rows.map(({ id }) => id);
}

type Batch = Pick<Pruned, 'rows' | 'bytes' | 'left'>;

/** How to prune the rows of a table. In its SQL, `t` is the row and $2 the time. */
interface PruneStep {
  /** Name shown to people. */
  readonly what: string;
  readonly part: RetentionPart;
  readonly table: string;
  /** SQL condition: the row is old. */
  readonly isOld: string;
  /** SQL of what remains of `t.raw`; without it, rows are deleted. */
  readonly rest?: string;
  /** SQL that records beforehand that rows of the sellers in $1 may be missing. */
  readonly mark?: string;
}

/** SQL condition: the row belongs to a seller in $1. */
const IN_SCOPE = `($1::text[] IS NULL OR t.seller_id = ANY($1))`;

/**
 * SQL that prunes a batch of rows, or only counts all. It skips locked rows, so that no process waits, and sellers
 * whose items a run is writing, since runs find rows by ctid. The locks end with the statement.
 */
function batchSql({ table, isOld, rest }: PruneStep, dryRun: boolean): string {
  const [condition, bytes, change] =
    rest === undefined
      ? ['true', 'pg_column_size(t.*)', `DELETE FROM mirror.${table} t USING batch`]
      : [
          `t.raw::text IS DISTINCT FROM (${rest})::text`,
          `pg_column_size(t.raw) - coalesce(pg_column_size(${rest}), 0)`,
          `UPDATE mirror.${table} t SET raw = ${rest} FROM batch`,
        ];
  return `
    WITH sellers AS MATERIALIZED (
      SELECT t.seller_id, ${itemsLockSql('pg_try_advisory_xact_lock', 't.seller_id')} AS is_free
        FROM mirror.sellers t WHERE ${IN_SCOPE}
    ), batch AS (
      SELECT t.ctid AS place, ${bytes} AS bytes FROM mirror.${table} t
       WHERE ${isOld} AND ${condition}
         AND t.seller_id = ANY(ARRAY(SELECT seller_id FROM sellers WHERE is_free))
      ${dryRun ? '' : `LIMIT ${BATCH_ROWS} FOR UPDATE OF t SKIP LOCKED`}
    ), pruned AS (${dryRun ? 'SELECT' : `${change} WHERE t.ctid = batch.place`})
    SELECT count(*)::float8 AS rows, coalesce(sum(bytes), 0)::float8 AS bytes,
           ARRAY(SELECT seller_id FROM sellers WHERE NOT is_free ORDER BY seller_id) AS left
      FROM batch`;
}

/**
 * SQL of the runs to keep whatever their age: those that any row refers to, but for rows that are deleted together with
 * a run, and for each seller and kind the newest run, the newest that succeeded or was held, and the newest that succeeded.
 */
async function keptRuns(client: PoolClient): Promise<string> {
  const { rows } = await client.query<{ references: string }>(
    `SELECT format('SELECT %I FROM mirror.%I', attname, relname) AS references
       FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
      WHERE relnamespace = 'mirror'::regnamespace AND relkind IN ('r', 'p')
        AND attname LIKE '%run\\_id' AND atttypid = 'bigint'::regtype
        AND (relname, attname) NOT IN (('runs', 'run_id'), ('run_progress', 'run_id'))`,
  );
  const newest = ['true', `state IN ('succeeded', 'held')`, `state = 'succeeded'`].map(
    (condition) =>
      `SELECT max(run_id) FROM mirror.runs WHERE ${condition} GROUP BY seller_id, kind`,
  );
  return [...rows.map(({ references }) => references), ...newest].join(' UNION ALL ');
}

/** SQL that records where history begins, for the sellers with old states in this table. */
function historySince(table: string): string {
  return `
    UPDATE mirror.sellers t SET history_since = greatest(t.history_since, $2::timestamptz)
     WHERE ${IN_SCOPE} AND t.history_since IS DISTINCT FROM greatest(t.history_since, $2::timestamptz)
       AND EXISTS (SELECT FROM mirror.${table} v WHERE v.seller_id = t.seller_id AND v.valid_to <= $2)`;
}

const MARK_PRUNED_LISTS = `
  UPDATE mirror.audits a SET list_pruned_at = now()
   WHERE a.state = 'finished' AND a.finished_at < $2 AND a.list_pruned_at IS NULL
     AND EXISTS (SELECT FROM mirror.audit_entries t WHERE t.audit_id = a.audit_id AND ${IN_SCOPE})`;

const IN_OLD_AUDIT = `
  EXISTS (SELECT FROM mirror.audits a
           WHERE a.audit_id = t.audit_id AND a.seller_id = t.seller_id AND a.state = 'finished'
             AND a.finished_at < $2)`;

const AUDITS = { part: 'audits', isOld: IN_OLD_AUDIT } as const;
const VERSIONS = { part: 'versions', isOld: 't.valid_to <= $2' } as const;

const inOldRun = (kept: string): string => `
  coalesce(t.finished_at, t.started_at) < $2 AND t.state NOT IN ('running', 'held')
  AND NOT EXISTS (SELECT FROM (${kept}) AS k (run_id) WHERE k.run_id = t.run_id)`;

const NOT_IN_NEWEST_LIST = `
  t.last_seen_at < $2 AND t.last_run_id < (
    SELECT max(r.run_id) FROM mirror.runs r WHERE r.seller_id = t.seller_id AND r.kind = 'items')`;

/** In this order. Runs come first: rows that are pruned later still refer to them. @param kept SQL of runs to keep */
const pruneSteps = (kept: string): readonly PruneStep[] => [
  { what: 'runs', part: 'runs', table: 'runs', isOld: inOldRun(kept) },
  { what: 'times of look-ups', part: 'runs', table: 'item_lookups', isOld: 't.looked_up_at < $2' },
  {
    what: 'superseded states of items',
    table: 'item_versions',
    ...VERSIONS,
    mark: historySince('item_versions'),
  },
  {
    what: 'superseded states of accounts',
    table: 'account_versions',
    ...VERSIONS,
    mark: historySince('account_versions'),
  },
  { what: 'lists of finished checks', table: 'audit_entries', ...AUDITS, mark: MARK_PRUNED_LISTS },
  { what: 'workbooks of finished checks', table: 'audit_workbooks', ...AUDITS },
  { what: 'codes in lists of finished checks', table: 'audit_codes', ...AUDITS },
  {
    what: 'records that could not be read',
    part: 'raw',
    table: 'quarantine',
    isOld: NOT_IN_NEWEST_LIST,
  },
  {
    what: 'purchases as received',
    part: 'raw',
    table: 'purchase_codes',
    isOld: 't.purchase_seen_at < $2',
    rest: 'NULL',
  },
  {
    what: 'accounts as received',
    part: 'raw',
    table: 'accounts',
    isOld: 't.changed_at < $2',
    rest: `'{}'::json`,
  },
  {
    what: 'items as received',
    part: 'raw',
    table: 'items',
    isOld: 'greatest(t.changed_at, t.valid_from) < $2',
    rest: `'{}'::json`,
  },
];
