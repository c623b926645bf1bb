import type { PoolClient } from 'pg';
import type { RetentionPart } from '../../domain/retention.js';

/** The session's own table of runs that must stay. */
const KEPT_RUNS = 'pg_temp.kept_runs';

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
export async function listKeptRuns(client: PoolClient): Promise<void> {
  const { rows } = await client.query<{ table: string; column: string }>(NAMING_COLUMNS);
  const named = rows.map(
    ({ table, column }) => `SELECT ${column} FROM mirror.${table} WHERE ${column} IS NOT NULL`,
  );
  const newest = ['true', `state IN ('succeeded', 'held')`, `state = 'succeeded'`].map(
    (which) => `SELECT max(run_id) FROM mirror.runs WHERE ${which} GROUP BY seller_id, kind`,
  );
  await client.query(`DROP TABLE IF EXISTS ${KEPT_RUNS}`);
  await client.query(
    `CREATE TEMP TABLE kept_runs (run_id) AS ${[...named, ...newest].join(' UNION ')}`,
  );
  await client.query(`CREATE INDEX ON ${KEPT_RUNS} (run_id)`);
  await client.query(`ANALYZE ${KEPT_RUNS}`);
}

/** One kind of rows that age, of one seller at a time: what goes, and how. */
export interface PruneStep {
  /** The name that people see. */
  readonly what: string;
  readonly part: RetentionPart;
  /** The table, called `t` below. */
  readonly table: string;
  /** SQL of a condition on `t`: what goes. $1 is the seller, $2 the moment. */
  readonly where: string;
  /** SQL of what becomes of a row: it is deleted, or this is set. */
  readonly set?: string;
  /** SQL of the bytes that a row gives up. */
  readonly bytes: string;
  /**
   * Columns by which the seller's rows are walked through, and their types. They tell each row from
   * all others of the seller: portions that began with rows of the one before, be they deleted, would
   * take longer and longer.
   */
  readonly key: readonly (readonly [column: string, type: string])[];
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

const AUDIT = ['audit_id', 'bigint'] as const;

/** The rows to delete, in this order. */
export const PRUNE_STEPS: readonly PruneStep[] = [
  {
    what: 'superseded states of items',
    part: 'versions',
    table: 'mirror.item_versions',
    where: 't.valid_to <= $2',
    bytes: WHOLE_ROW,
    key: [
      ['item_id', 'bigint'],
      ['valid_from', 'timestamptz'],
    ],
    before: HISTORY_SINCE,
  },
  {
    what: 'superseded states of accounts',
    part: 'versions',
    table: 'mirror.account_versions',
    where: 't.valid_to <= $2',
    bytes: WHOLE_ROW,
    key: [['valid_from', 'timestamptz']],
    before: HISTORY_SINCE,
  },
  {
    what: 'lists of finished audits',
    part: 'audits',
    table: 'mirror.audit_entries',
    where: OF_PRUNED_LIST,
    bytes: WHOLE_ROW,
    key: [AUDIT, ['entry', 'int']],
    before: MARK_PRUNED_LIST,
  },
  {
    what: 'codes in lists of finished audits',
    part: 'audits',
    table: 'mirror.audit_codes',
    where: OF_PRUNED_LIST,
    bytes: WHOLE_ROW,
    key: [AUDIT, ['position', 'int']],
  },
  {
    what: 'chunks of finished audits',
    part: 'audits',
    table: 'mirror.audit_chunks',
    where: OF_PRUNED_LIST,
    bytes: WHOLE_ROW,
    key: [AUDIT, ['chunk', 'int']],
  },
  {
    what: 'runs',
    part: 'runs',
    table: 'mirror.runs',
    where: `coalesce(t.finished_at, t.started_at) < $2 AND t.state NOT IN ('running', 'held')
        AND NOT EXISTS (SELECT FROM ${KEPT_RUNS} k WHERE k.run_id = t.run_id)`,
    bytes: WHOLE_ROW,
    key: [['run_id', 'bigint']],
  },
  {
    what: 'times of look-ups',
    part: 'runs',
    table: 'mirror.item_lookups',
    // Of others there is something left to tell: to the next list, and to followers of the feed.
    where: 't.looked_up_at < $2 AND NOT t.unlisted AND t.found_seq IS NULL',
    bytes: WHOLE_ROW,
    key: [['item_id', 'bigint']],
  },
  {
    what: 'records that could not be read',
    part: 'raw',
    table: 'mirror.quarantine',
    where: `t.last_seen_at < $2 AND t.last_run_id < (
          SELECT max(r.run_id) FROM mirror.runs r WHERE r.seller_id = $1 AND r.kind = 'items')`,
    bytes: WHOLE_ROW,
    key: [['quarantine_id', 'bigint']],
  },
  {
    what: 'purchases as received',
    part: 'raw',
    table: 'mirror.purchase_codes',
    where: 't.raw IS NOT NULL AND t.purchase_seen_at < $2',
    set: 'raw = NULL',
    bytes: 'pg_column_size(t.raw)',
    key: [['code', 'text']],
  },
  {
    what: 'accounts as received',
    part: 'raw',
    table: 'mirror.accounts',
    where: `t.changed_at < $2 AND t.raw <> '{}'`,
    set: `raw = '{}'`,
    bytes: 'pg_column_size(t.raw)',
    key: [['username', 'text']],
  },
  {
    what: 'items as received',
    part: 'raw',
    table: 'mirror.items',
    where: `greatest(t.changed_at, t.valid_from) < $2 AND t.raw <> ${MEDIA_OF_RAW}`,
    set: `raw = ${MEDIA_OF_RAW}`,
    bytes: `pg_column_size(t.raw) - pg_column_size(${MEDIA_OF_RAW})`,
    key: [['item_id', 'bigint']],
    alone: true,
  },
];

/** Counts what goes of a seller: `rows` and `bytes`. */
export function measureSql({ table, where, bytes }: PruneStep): string {
  return `SELECT count(*)::float8 AS rows, coalesce(sum(${bytes}), 0)::float8 AS bytes
            FROM ${table} t WHERE t.seller_id = $1 AND ${where}`;
}

/**
 * Lets some rows of a seller go, from key $3 on and at most $4 of them. Rows that somebody is
 * writing are left out, so that nobody waits for anybody.
 */
export function batchSql(step: PruneStep): string {
  const { table, where, set, bytes, key, before } = step;
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
