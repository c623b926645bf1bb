import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import { printed } from '../cli/support.js';
import { createTestDatabase, query } from '../support/postgres.js';

/** The address of a database that is dropped after the test. */
export async function database(options?: { empty: boolean }): Promise<string> {
  const made = await createTestDatabase(options);
  onTestFinished(() => made.drop());
  return made.url;
}

const FIRST = '20261125000000_init';

/** A store of the first version, filled by `sql`, and then brought up to date. @returns its address */
export async function upgraded(sql: string): Promise<string> {
  const url = await database({ empty: true });
  const file = new URL(`../../prisma/migrations/${FIRST}/migration.sql`, import.meta.url);
  const init = readFileSync(file, 'utf8');
  const checksum = createHash('sha256').update(init).digest('hex');
  // As Prisma's commands record it.
  await query(
    url,
    `CREATE SCHEMA mirror; SET search_path = mirror;
     CREATE TABLE _prisma_migrations (
       id text PRIMARY KEY, checksum text NOT NULL, finished_at timestamptz, migration_name text NOT NULL, logs text,
       rolled_back_at timestamptz, started_at timestamptz NOT NULL DEFAULT now(),
       applied_steps_count integer NOT NULL DEFAULT 0);
     INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name)
     VALUES ('first', '${checksum}', now(), '${FIRST}')`,
    init,
    sql,
  );
  await printed(['migrate'], { DATABASE_URL: url });
  return url;
}

/** Not in a backup: what describes the server or readers of a store, sessions and progress. */
const NOT_SAVED = [
  ...['_prisma_migrations', 'processes', 'request_budgets', 'request_counts'],
  ...['feeds', 'feed_views', 'run_progress', 'sessions', 'login_links'],
];

/** All rows of the tables in a backup, as sorted text. */
export async function rowsIn(url: string): Promise<Record<string, string[]>> {
  const tables = await query(
    url,
    `SELECT relname AS name FROM pg_class
      WHERE relnamespace = 'mirror'::regnamespace AND relkind = 'r'
        AND relname NOT IN (${NOT_SAVED.map((name) => `'${name}'`).join()})`,
  );
  const each = tables.map(
    ({ name }) =>
      `SELECT '${name as string}' AS name,
              ARRAY(SELECT t::text FROM mirror.${name as string} t ORDER BY t::text COLLATE "C") AS rows`,
  );
  const all = await query(url, each.join(' UNION ALL '));
  return Object.fromEntries(all.map(({ name, rows }) => [name, rows])) as Record<string, string[]>;
}
