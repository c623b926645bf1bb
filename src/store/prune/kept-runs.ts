import type { PoolClient } from 'pg';

/** The session's own table of runs that must stay. */
export const KEPT_RUNS = 'pg_temp.kept_runs';

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
 * was held. What is older than any cut-off is named by nothing new, so the list stays true.
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
