import { Pool } from 'pg';
import {
  MigrationError,
  SchemaAheadError,
  type StoreError,
  assertServerVersion,
  errorCode,
  explainDatabaseError,
} from './errors.js';
import { MIGRATIONS_FOLDER, readMigrations, type MigrationOnDisk } from './migrate/files.js';
import { HISTORY_SCHEMA, compareHistory, type MigrationState } from './migrate/history.js';

export type { MigrationState };

/** The advisory lock of Prisma's own `migrate` commands: they and we wait for each other. */
const PRISMA_LOCK = 72_707_369;

/**
 * Applies what is pending of the migrations in `folder`, each in a transaction of its own. Any
 * number of processes may call it at once; where nothing is pending it costs three small queries.
 * A migration that failed before is tried again: it left nothing behind.
 * @throws SchemaAheadError when a newer program migrated the database; StoreTooOldError;
 *   StoreConnectionError; MigrationError with what the database said.
 */
export async function migrate(
  url: string,
  folder: string = MIGRATIONS_FOLDER,
): Promise<{ applied: string[] }> {
  const migrations = await readMigrations(folder);
  return await withConnection(url, async (pool) => {
    if (pendingOf(await compareHistory(pool, migrations)).length === 0) return { applied: [] };
    await pool.query(`SELECT pg_advisory_lock(${PRISMA_LOCK})`);
    const state = await compareHistory(pool, migrations);
    if (pendingOf(state).length === 0) return { applied: [] };
    await makeHistorySchema(pool);
    return { applied: await applyAll(pool, folder, migrations, state) };
  });
}

/** How the database stands to the migrations in `folder`. Changes nothing. */
export async function migrationState(
  url: string,
  folder: string = MIGRATIONS_FOLDER,
): Promise<MigrationState> {
  const migrations = await readMigrations(folder);
  return await withConnection(url, (pool) => compareHistory(pool, migrations));
}

function pendingOf({ pending, unknown }: MigrationState): string[] {
  if (unknown.length === 0) return pending;
  throw new SchemaAheadError(
    `the database was migrated by a newer version of this program (${unknown.join(', ')})`,
    'Upgrade this program, or point it to another database.',
  );
}

/** The engine would do it too, but keeps to itself what the server said. */
async function makeHistorySchema(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ there: boolean }>(
    `SELECT to_regnamespace('${HISTORY_SCHEMA}') IS NOT NULL AS there`,
  );
  if (rows[0]?.there === true) return;
  await pool.query(`CREATE SCHEMA ${HISTORY_SCHEMA}`);
}

async function applyAll(
  pool: Pool,
  folder: string,
  migrations: readonly MigrationOnDisk[],
  state: MigrationState,
): Promise<string[]> {
  const { NO_FILTERS, loadEngine, toMigrationList } = await import('./migrate/engine.js');
  const { engine, failure } = await loadEngine(pool);
  try {
    for (const migrationName of state.failed)
      await engine.markMigrationRolledBack({ migrationName });
    const migrationsList = toMigrationList(folder, migrations);
    const done = await engine.applyMigrations({ migrationsList, filters: NO_FILTERS });
    return done.appliedMigrationNames;
  } catch (error) {
    throw failure() ?? error;
  } finally {
    engine.free();
  }
}

/**
 * Does `work` on the one connection of a pool, so that a lock taken, the search path set and a
 * script sent are all on it; the server keeps the lock until a script is over, even if we are
 * killed.
 */
async function withConnection<T>(url: string, work: (pool: Pool) => Promise<T>): Promise<T> {
  const pool = new Pool({
    connectionString: url,
    application_name: 'seller-mirror migrate',
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: 30_000,
    // oxlint-disable-next-line typescript/no-misused-promises -- pg-pool awaits it; its types don't tell
    onConnect: async (client) => {
      await client.query(`SET search_path = ${HISTORY_SCHEMA}; SET statement_timeout = 0`);
    },
  });
  pool.on('error', () => {}); // the query under way, or the next one, tells
  try {
    const { rows } = await pool.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int AS version`,
    );
    assertServerVersion(rows[0]?.version ?? 0);
    return await work(pool);
  } catch (error) {
    throw explain(error, url);
  } finally {
    await pool.end();
  }
}

function explain(error: unknown, url: string): StoreError {
  const known = explainDatabaseError(error, url);
  if (known !== null) return known;
  const said = error instanceof Error ? error.message : String(error);
  const denied = errorCode(error) === '42501';
  return new MigrationError(
    `the database could not be migrated: ${said}`,
    denied
      ? 'Grant the user what it needs, such as: GRANT CREATE ON DATABASE name TO user'
      : 'Nothing of the failed migration was kept. Correct what the message names, then repeat.',
    { cause: error },
  );
}
