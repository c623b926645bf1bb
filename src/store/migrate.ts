import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import {
  assertServerVersion,
  errorCode,
  explainDatabaseError,
  MigrationError,
  SchemaAheadError,
  type StoreError,
} from './errors.js';

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

/** A migration as it is on disk. */
export interface MigrationOnDisk {
  /** Its folder's name, by which Prisma knows it. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the file in hex, as Prisma records it. */
  readonly checksum: string;
}

/** `prisma/migrations` of the package; src/ and dist/ are equally deep in it. */
export const MIGRATIONS_FOLDER = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));

/** Migrations of `folder` in the order in which they are applied. */
export async function readMigrations(folder: string): Promise<MigrationOnDisk[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  return await Promise.all(
    names.sort().map(async (name) => {
      const sql = await readFile(join(folder, name, 'migration.sql'), 'utf8');
      return { name, sql, checksum: checksum(sql) };
    }),
  );
}

export function checksum(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}

/**
 * Schema of Prisma's table `_prisma_migrations`. Not `public`: there Prisma refuses to begin when
 * other tables exist, and another program's migrations would be taken for ours. Prisma's own
 * commands look here when the address ends in `?schema=mirror`.
 */
export const HISTORY_SCHEMA = 'mirror';

/** How a database stands to the migrations on disk. All are names of migrations. */
export interface MigrationState {
  /** On disk, and not applied. */
  readonly pending: string[];
  /** Begun and not finished; the next `migrate` tries them again. */
  readonly failed: string[];
  /** Applied in another wording than that on disk. */
  readonly edited: string[];
  /** Applied, and not on disk: the database is ahead of the program. */
  readonly unknown: string[];
}

interface HistoryRow {
  readonly name: string;
  readonly checksum: string;
  readonly finished: boolean;
}

/** Compares Prisma's history with the files; two small queries, no engine. */
async function compareHistory(
  client: Pool,
  migrations: readonly MigrationOnDisk[],
): Promise<MigrationState> {
  const rows = await readHistory(client);
  const applied = new Map(rows.filter((row) => row.finished).map((row) => [row.name, row]));
  const known = new Set(migrations.map(({ name }) => name));
  const names = (list: readonly { name: string }[]) => [...new Set(list.map(({ name }) => name))];
  return {
    pending: names(migrations.filter(({ name }) => !applied.has(name))),
    failed: names(rows.filter(({ finished }) => !finished)),
    edited: names(
      migrations.filter((migration) => {
        const row = applied.get(migration.name);
        return row !== undefined && !isSameText(migration, row.checksum);
      }),
    ),
    unknown: names([...applied.values()].filter(({ name }) => !known.has(name))),
  };
}

/** Line ends may differ: Git changes them on some systems. */
function isSameText({ sql, checksum: own }: MigrationOnDisk, applied: string): boolean {
  const unix = sql.replaceAll('\r\n', '\n');
  return [own, checksum(unix), checksum(unix.replaceAll('\n', '\r\n'))].includes(applied);
}

async function readHistory(client: Pool): Promise<HistoryRow[]> {
  const table = `${HISTORY_SCHEMA}._prisma_migrations`;
  const found = await client.query<{ there: boolean }>(
    `SELECT to_regclass('${table}') IS NOT NULL AS there`,
  );
  if (found.rows[0]?.there !== true) return [];
  const { rows } = await client.query<HistoryRow>(
    `SELECT migration_name AS name, checksum, finished_at IS NOT NULL AS finished
     FROM ${table} WHERE rolled_back_at IS NULL ORDER BY started_at`,
  );
  return rows;
}
