import { setTimeout as sleep } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import { itemsLockSql, type LockPools, openLongConnection, tryLock } from './locks.js';

/** The parts of the store that can be kept for a while only: `raw` are records as received. */
type RetentionPart = 'raw' | 'runs' | 'versions' | 'audits';
/** The moments before which rows of each part are deleted; null: none are. */
export type RetentionPlan = Readonly<Record<RetentionPart, Date | null>>;
/** Days for which each part is kept; null: for ever. */
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

export function keepsForEver(days: RetentionDays): boolean {
  return Object.values(days).every((kept) => kept === null);
}

/** Rows of one batch, and so of one transaction: some ten milliseconds. */
const BATCH = 2_000;

/** How long to wait for a run that writes items, milliseconds. */
const PATIENCE_MS = 10_000;
const ASK_EVERY_MS = 250;

/** Somebody else prunes this store. */
export class PruneBusyError extends Error {
  override readonly name = 'PruneBusyError';
  override readonly message = 'another process is pruning this store';
  readonly remedy = 'wait for it to end, then repeat';
}

/** How many rows of one kind are, or were, deleted. */
export interface Pruned {
  readonly what: string;
  readonly before: Date;
  readonly rows: number;
  /** As they are in the table, without its indexes. */
  readonly bytes: number;
  /** Sellers whose rows were left for the next time, since a run was writing them. */
  readonly left: readonly string[];
}

export interface PruneOptions {
  /** Whose rows; all when there is no such list. */
  readonly sellerIds?: readonly string[];
  readonly signal: AbortSignal;
  /** How many rows went so far, and of what the last ones were. */
  readonly onProgress?: (rows: number, what: string) => void;
  /** How long to wait for a run that writes items of a seller, milliseconds. */
  readonly patienceMs?: number;
}

/** Counts the rows that `prune` would delete now. Changes nothing. @throws what `signal` says */
export async function measurePrune(
  pools: LockPools,
  plan: RetentionPlan,
  { sellerIds, signal }: PruneOptions,
): Promise<Pruned[]> {
  const { client, release } = await openLongConnection(pools);
  try {
    const measured = await eachStep(client, plan, sellerIds, async (step, sellerId, before) => {
      signal.throwIfAborted();
      const { table, where, bytes = WHOLE_ROW } = step;
      const { rows } = await client.query<Sum>(
        `SELECT count(*)::float8 AS rows, coalesce(sum(${bytes}), 0)::float8 AS bytes
           FROM ${table} t WHERE t.seller_id = $1 AND ${where}`,
        [sellerId, before],
      );
      return { rows: 0, bytes: 0, ...rows[0], isLeft: false };
    });
    release(true);
    return measured;
  } catch (error) {
    release(false);
    throw error;
  }
}

/**
 * Deletes what is older than the plan says, in many short transactions: what is done stays done, and
 * who does it again goes on.
 * @throws {PruneBusyError} when another process does so
 * @throws what `signal` says, between two transactions
 */
export async function prune(
  pools: LockPools,
  plan: RetentionPlan,
  { sellerIds, signal, onProgress, patienceMs = PATIENCE_MS }: PruneOptions,
): Promise<Pruned[]> {
  const lock = await tryLock(pools, 'seller-mirror/prune', () => new PruneBusyError());
  let all = 0;
  try {
    return await eachStep(lock.client, plan, sellerIds, async (step, sellerId, before) => {
      const sum = { rows: 0, bytes: 0 };
      let last: readonly string[] | null = null;
      let waitedMs = 0;
      for (;;) {
        signal.throwIfAborted();
        const batch: Batch | null = await takeBatch(lock.client, step, sellerId, before, last);
        if (batch === null) {
          if (waitedMs >= patienceMs) return { ...sum, isLeft: true };
          waitedMs += ASK_EVERY_MS;
          await sleep(ASK_EVERY_MS, undefined, { signal });
          continue;
        }
        lock.assertHeld();
        sum.rows += batch.rows;
        sum.bytes += batch.bytes;
        onProgress?.((all += batch.rows), step.what);
        if (batch.rows < BATCH) return { ...sum, isLeft: false };
        last = batch.last;
        waitedMs = 0;
      }
    });
  } finally {
    await lock.release();
  }
}

interface Sum {
  readonly rows: number;
  readonly bytes: number;
}

type Batch = Sum & { readonly last: readonly string[] | null };

async function eachStep(
  client: PoolClient,
  plan: RetentionPlan,
  sellerIds: readonly string[] | undefined,
  work: (
    step: PruneStep,
    sellerId: string,
    before: Date,
  ) => Promise<Sum & { readonly isLeft: boolean }>,
): Promise<Pruned[]> {
  const { rows } = await client.query<{ id: string }>(
    `SELECT seller_id AS id FROM mirror.sellers
      WHERE $1::text[] IS NULL OR seller_id = ANY($1::text[]) ORDER BY seller_id`,
    [sellerIds ?? null],
  );
  if (plan.runs !== null) await listKeptRuns(client);
  const done: Pruned[] = [];
  for (const step of PRUNE_STEPS) {
    const before = plan[step.part];
    if (before === null) continue;
    const sum = { rows: 0, bytes: 0 };
    const left: string[] = [];
    for (const { id } of rows) {
      const end = await work(step, id, before);
      sum.rows += end.rows;
      sum.bytes += end.bytes;
      if (end.isLeft) left.push(id);
    }
    done.push({ what: step.what, before, ...sum, left });
  }
  return done;
}

/**
 * Lets some rows of a seller go, from key `last` on. Rows that somebody is writing are left out, so
 * that nobody waits for anybody.
 * @returns null when the rows must be let alone, since a run writes items of the seller
 */
async function takeBatch(
  client: PoolClient,
  step: PruneStep,
  sellerId: string,
  before: Date,
  last: readonly string[] | null,
): Promise<Batch | null> {
  const change = async (): Promise<Batch | null> =>
    (await client.query<Batch>(batchSql(step), [sellerId, before, last, BATCH])).rows[0] ?? null;
  if (step.alone !== true) return change();
  await client.query('BEGIN');
  try {
    const { rows } = await client.query<{ alone: boolean }>(
      `SELECT ${itemsLockSql('pg_try_advisory_xact_lock', '$1')} AS alone`,
      [sellerId],
    );
    const batch = rows[0]?.alone === true ? await change() : null;
    await client.query('COMMIT');
    return batch;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

function batchSql(step: PruneStep): string {
  const { table, where, set, bytes = WHOLE_ROW, before } = step;
  const key = Object.entries(step.key);
  const change =
    set === undefined
      ? `DELETE FROM ${table} t USING batch WHERE t.ctid = batch.place`
      : `UPDATE ${table} t SET ${set} FROM batch WHERE t.ctid = batch.place`;
  const columns = key.map(([column]) => `t.${column}`).join(', ');
  const last = key.map(([column]) => `t.${column}::text`).join(', ');
  const descending = key.map(([column]) => `t.${column} DESC`).join(', ');
  const from = key.map(([, type], n) => `($3::text[])[${n + 1}]::${type}`).join(', ');
  return `
    WITH batch AS MATERIALIZED (
      SELECT t.ctid AS place, ${columns}, ${bytes} AS bytes
        FROM ${table} t
       WHERE t.seller_id = $1 AND ${where} AND ($3::text[] IS NULL OR (${columns}) >= (${from}))
       ORDER BY ${columns} LIMIT $4 FOR UPDATE OF t SKIP LOCKED
    ), before AS (${before ?? 'SELECT'}), gone AS (${change})
    SELECT count(*)::int AS rows, coalesce(sum(bytes), 0)::float8 AS bytes,
           (SELECT ARRAY[${last}] FROM batch AS t ORDER BY ${descending} LIMIT 1) AS last
      FROM batch`;
}

/** Columns that name a run, wherever they are: those of tables to come, too. */
const NAMING_COLUMNS = `
  SELECT quote_ident(c.relname) AS "table", quote_ident(a.attname) AS "column"
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
   WHERE c.relnamespace = 'mirror'::regnamespace AND c.relkind IN ('r', 'p')
     AND (c.relname, a.attname) <> ('runs', 'run_id') AND a.attname LIKE '%run\\_id' AND a.atttypid = 'bigint'::regtype`;

/**
 * Lists the runs that stay however old they are: those that a row names, be it an item, a change or
 * a seller, and of each seller and kind the newest, the newest that went well, and the newest that
 * was held. Nothing new names a run that is older than a cut-off, so the list stays right.
 */
async function listKeptRuns(client: PoolClient): Promise<void> {
  const { rows } = await client.query<{ table: string; column: string }>(NAMING_COLUMNS);
  const named = rows.map(
    ({ table, column }) => `SELECT ${column} FROM mirror.${table} WHERE ${column} IS NOT NULL`,
  );
  const newest = ['true', `state IN ('succeeded', 'held')`, `state = 'succeeded'`].map(
    (which) => `SELECT max(run_id) FROM mirror.runs WHERE ${which} GROUP BY seller_id, kind`,
  );
  await client.query(`DROP TABLE IF EXISTS pg_temp.kept_runs`);
  await client.query(
    `CREATE TEMP TABLE kept_runs (run_id) AS ${[...named, ...newest].join(' UNION ')}`,
  );
  await client.query(`CREATE INDEX ON pg_temp.kept_runs (run_id)`);
  await client.query(`ANALYZE pg_temp.kept_runs`);
}

/** One kind of rows that age, of one seller at a time: what goes, and how. */
interface PruneStep {
  /** The name that people see. */
  readonly what: string;
  readonly part: RetentionPart;
  /** The table, called `t` below. */
  readonly table: string;
  /** SQL of a condition on `t`: what goes. $1 is the seller, $2 the moment. */
  readonly where: string;
  /** SQL of what becomes of a row: it is deleted, or this is set. */
  readonly set?: string;
  /** SQL of the bytes that a row gives up; by default, all of them. */
  readonly bytes?: string;
  /**
   * Columns by which the seller's rows are walked through, and their types. They tell each row from
   * all others of the seller: portions that began with rows of the one before, be they deleted, would
   * take longer and longer.
   */
  readonly key: Readonly<Record<string, string>>;
  /** SQL of a statement to go before the change, on rows `batch`. */
  readonly before?: string;
  /** Runs that write items must not be under way: they know rows by their place. */
  readonly alone?: true;
}

const WHOLE_ROW = 'pg_column_size(t.*)';

/** `greatest` takes no notice of a moment that is not set. */
const HISTORY_SINCE = `
  UPDATE mirror.sellers s SET history_since = greatest(s.history_since, $2::timestamptz)
   WHERE s.seller_id = $1 AND EXISTS (SELECT FROM batch)
     AND s.history_since IS DISTINCT FROM greatest(s.history_since, $2::timestamptz)`;

/**
 * An item that comes by itself may leave media out, which are then taken from the record that the
 * list showed: without them it would seem to have changed.
 */
const MEDIA_OF_RAW = `
  CASE WHEN jsonb_typeof(t.raw -> 'media') = 'object'
       THEN jsonb_build_object('media', t.raw -> 'media') ELSE '{}'::jsonb END`;

const OF_PRUNED_LIST = `
  EXISTS (SELECT FROM mirror.audits a
           WHERE a.audit_id = t.audit_id AND a.seller_id = $1 AND a.state = 'finished'
             AND a.finished_at < $2)`;

const MARK_PRUNED_LIST = `
  UPDATE mirror.audits a SET list_pruned_at = now()
   WHERE a.audit_id IN (SELECT e.audit_id FROM mirror.audit_entries e JOIN batch ON e.ctid = batch.place)
     AND a.list_pruned_at IS NULL`;

/** The rows to delete, in this order. */
export const PRUNE_STEPS: readonly PruneStep[] = [
  {
    what: 'superseded states of items',
    part: 'versions',
    table: 'mirror.item_versions',
    where: 't.valid_to <= $2',
    key: { item_id: 'bigint', valid_from: 'timestamptz' },
    before: HISTORY_SINCE,
  },
  {
    what: 'superseded states of accounts',
    part: 'versions',
    table: 'mirror.account_versions',
    where: 't.valid_to <= $2',
    key: { valid_from: 'timestamptz' },
    before: HISTORY_SINCE,
  },
  {
    what: 'lists of finished audits',
    part: 'audits',
    table: 'mirror.audit_entries',
    where: OF_PRUNED_LIST,
    key: { audit_id: 'bigint', entry: 'int' },
    before: MARK_PRUNED_LIST,
  },
  {
    what: 'codes in lists of finished audits',
    part: 'audits',
    table: 'mirror.audit_codes',
    where: OF_PRUNED_LIST,
    key: { audit_id: 'bigint', position: 'int' },
  },
  {
    what: 'chunks of finished audits',
    part: 'audits',
    table: 'mirror.audit_chunks',
    where: OF_PRUNED_LIST,
    key: { audit_id: 'bigint', chunk: 'int' },
  },
  {
    what: 'runs',
    part: 'runs',
    table: 'mirror.runs',
    where: `coalesce(t.finished_at, t.started_at) < $2 AND t.state NOT IN ('running', 'held')
        AND NOT EXISTS (SELECT FROM pg_temp.kept_runs k WHERE k.run_id = t.run_id)`,
    key: { run_id: 'bigint' },
  },
  {
    what: 'times of look-ups',
    part: 'runs',
    table: 'mirror.item_lookups',
    // Of others there is something left to tell: to the next list, and to followers of the feed.
    where: 't.looked_up_at < $2 AND NOT t.unlisted AND t.found_seq IS NULL',
    key: { item_id: 'bigint' },
  },
  {
    what: 'records that could not be read',
    part: 'raw',
    table: 'mirror.quarantine',
    where: `t.last_seen_at < $2 AND t.last_run_id < (
          SELECT max(r.run_id) FROM mirror.runs r WHERE r.seller_id = $1 AND r.kind = 'items')`,
    key: { quarantine_id: 'bigint' },
  },
  {
    what: 'purchases as received',
    part: 'raw',
    table: 'mirror.purchase_codes',
    where: 't.raw IS NOT NULL AND t.purchase_seen_at < $2',
    set: 'raw = NULL',
    bytes: 'pg_column_size(t.raw)',
    key: { code: 'text' },
  },
  {
    what: 'accounts as received',
    part: 'raw',
    table: 'mirror.accounts',
    where: `t.changed_at < $2 AND t.raw <> '{}'`,
    set: `raw = '{}'`,
    bytes: 'pg_column_size(t.raw)',
    key: { username: 'text' },
  },
  {
    what: 'items as received',
    part: 'raw',
    table: 'mirror.items',
    where: `greatest(t.changed_at, t.valid_from) < $2 AND t.raw <> ${MEDIA_OF_RAW}`,
    set: `raw = ${MEDIA_OF_RAW}`,
    bytes: `pg_column_size(t.raw) - pg_column_size(${MEDIA_OF_RAW})`,
    key: { item_id: 'bigint' },
    alone: true,
  },
];
