import { onTestFinished } from 'vitest';
import { createTestDatabase, query } from '../support/postgres.js';

/** The address of a database that is dropped after the test. */
export async function database(options?: { empty: boolean }): Promise<string> {
  const made = await createTestDatabase(options);
  onTestFinished(() => made.drop());
  return made.url;
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
