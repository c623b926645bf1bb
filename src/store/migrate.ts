import { createHash, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { errorCode } from '../domain/error-code.js';
import {
  assertServerVersion,
  explainDatabaseError,
  MigrationError,
  SchemaAheadError,
  type StoreError,
} from './errors.js';

/** The advisory lock of Prisma's own `migrate` commands, so that they and this module exclude each other. */
const PRISMA_LOCK = 72_707_369;

/**
 * Applies the pending migrations, each in its own transaction, and records them as Prisma does. Safe to
 * call from several processes at once. If nothing is pending it costs three small queries. A failed
 * migration was rolled back, so it is tried again.
 * @param only the migrations; by default, those of this package
 * @throws {SchemaAheadError} if a newer version of this program migrated the database
 * @throws {StoreTooOldError | StoreConnectionError}
 * @throws {MigrationError} with the database's message
 */
export async function migrate(
  url: string,
  only?: readonly Migration[],
): Promise<{ applied: string[] }> {
  const migrations = only ?? (await readMigrations());
  return withConnection(url, async (client) => {
    if (pendingOf(await compareHistory(client, migrations)).length === 0) return { applied: [] };
    await client.query(`SELECT pg_advisory_lock(${PRISMA_LOCK})`);
    const state = await compareHistory(client, migrations);
    const applied = pendingOf(state);
    if (applied.length === 0) return { applied };
    await prepareHistory(client, state.failed);
    const pending = new Set(applied);
    for (const migration of migrations) {
      if (pending.has(migration.name)) await apply(client, migration);
    }
    return { applied };
  });
}

/** Compares the database with the migrations. Changes nothing. */
export async function migrationState(
  url: string,
  only?: readonly Migration[],
): Promise<MigrationState> {
  const migrations = only ?? (await readMigrations());
  return withConnection(url, (client) => compareHistory(client, migrations));
}

function pendingOf({ pending, unknown }: MigrationState): string[] {
  if (unknown.length === 0) return pending;
  throw new SchemaAheadError(
    `the database was migrated by a newer version of this program (${unknown.join(', ')})`,
    'Upgrade this program, or use another database.',
  );
}

/** Creates Prisma's migrations table if it is missing, and marks failed attempts as rolled back. */
async function prepareHistory(client: Client, failed: readonly string[]): Promise<void> {
  // Without IF NOT EXISTS, which needs the right to create schemas even if the schema exists.
  await client.query(
    `DO $$ BEGIN
       IF to_regnamespace('${HISTORY_SCHEMA}') IS NULL THEN CREATE SCHEMA ${HISTORY_SCHEMA}; END IF;
       IF to_regclass('${HISTORY}') IS NULL THEN
         CREATE TABLE ${HISTORY} (
           id varchar(36) PRIMARY KEY, checksum varchar(64) NOT NULL, finished_at timestamptz,
           migration_name varchar(255) NOT NULL, logs text, rolled_back_at timestamptz,
           started_at timestamptz NOT NULL DEFAULT now(),
           applied_steps_count integer NOT NULL DEFAULT 0);
       END IF;
     END $$`,
  );
  await client.query(
    `UPDATE ${HISTORY} SET rolled_back_at = now()
      WHERE migration_name = ANY($1) AND finished_at IS NULL AND rolled_back_at IS NULL`,
    [failed],
  );
}

async function apply(client: Client, { name, sql }: Migration): Promise<void> {
  const id = randomUUID();
  await client.query(`INSERT INTO ${HISTORY} (id, checksum, migration_name) VALUES ($1, $2, $3)`, [
    id,
    sha256(sql),
    name,
  ]);
  try {
    // One message is one transaction, so a killed process leaves the migration either applied and
    // recorded, or neither.
    await client.query(
      `${sql}
       ;UPDATE ${HISTORY} SET finished_at = clock_timestamp(), applied_steps_count = 1
         WHERE id = '${id}'`,
    );
  } catch (error) {
    const note = `UPDATE ${HISTORY} SET logs = $2 WHERE id = $1`;
    await client.query(note, [id, String(error)]).catch(() => undefined);
    throw error;
  }
}

/** Runs `work` on its own connection, which also holds the lock. */
async function withConnection<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({
    connectionString: url,
    application_name: 'seller-mirror migrate',
    connectionTimeoutMillis: 30_000,
  });
  client.on('error', () => undefined); // the current query, or the next one, fails with it
  try {
    await client.connect();
    const { rows } = await client.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int AS version`,
    );
    assertServerVersion(rows[0]?.version ?? 0);
    await client.query(`SET search_path = ${HISTORY_SCHEMA}; SET statement_timeout = 0`);
    return await work(client);
  } catch (error) {
    throw explain(error, url);
  } finally {
    await client.end().catch(() => undefined);
  }
}

function explain(error: unknown, url: string): StoreError {
  const known = explainDatabaseError(error, url);
  if (known !== null) return known;
  const message = error instanceof Error ? error.message : String(error);
  return new MigrationError(
    `the database could not be migrated: ${message}`,
    errorCode(error) === '42501'
      ? 'Grant the user the missing right, such as: GRANT CREATE ON DATABASE name TO user'
      : 'The failed migration was rolled back. Fix the cause that the message names, then try again.',
    { cause: error },
  );
}

export interface Migration {
  /** Its folder's name, which Prisma records. */
  readonly name: string;
  readonly sql: string;
}

/** `prisma/migrations` of the package. The path is the same from src/ and dist/. */
const FOLDER = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));

/** The package's migrations, in order. */
export async function readMigrations(): Promise<Migration[]> {
  const entries = await readdir(FOLDER, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  return Promise.all(
    names.sort().map(async (name) => {
      return { name, sql: await readFile(join(FOLDER, name, 'migration.sql'), 'utf8') };
    }),
  );
}

/** The checksum that Prisma records. */
function sha256(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}

/**
 * Schema of Prisma's table `_prisma_migrations`. In `public`, Prisma would refuse to start if other tables
 * exist, and would mistake another program's migrations for ours. Prisma's own commands use this schema
 * if the URL ends in `?schema=mirror`.
 */
export const HISTORY_SCHEMA = 'mirror';
const HISTORY = `${HISTORY_SCHEMA}._prisma_migrations`;

/** Names of migrations, by their state in a database. */
export interface MigrationState {
  /** Not applied yet. */
  readonly pending: string[];
  /** Started but not finished; the next `migrate` tries them again. */
  readonly failed: string[];
  /** Applied, but from a file with other contents. */
  readonly edited: string[];
  /** Applied, but not in this package: the database is newer. */
  readonly unknown: string[];
}

async function compareHistory(
  client: Client,
  migrations: readonly Migration[],
): Promise<MigrationState> {
  const rows = await readHistory(client);
  const applied = new Map(
    rows.filter((row) => row.finished).map((row) => [row.name, row.checksum]),
  );
  const known = new Set(migrations.map(({ name }) => name));
  const namesOf = (list: readonly Migration[]) => list.map(({ name }) => name);
  return {
    pending: namesOf(migrations.filter(({ name }) => !applied.has(name))),
    failed: [...new Set(rows.filter(({ finished }) => !finished).map(({ name }) => name))],
    edited: namesOf(
      migrations.filter(
        ({ name, sql }) => applied.has(name) && !isChecksumOf(applied.get(name), sql),
      ),
    ),
    unknown: [...applied.keys()].filter((name) => !known.has(name)),
  };
}

/** Ignores line endings, which Git changes on some systems. */
function isChecksumOf(checksum: string | undefined, sql: string): boolean {
  const unix = sql.replaceAll('\r\n', '\n');
  return [sql, unix, unix.replaceAll('\n', '\r\n')].some((text) => sha256(text) === checksum);
}

async function readHistory(
  client: Client,
): Promise<{ name: string; checksum: string; finished: boolean }[]> {
  const table = await client.query<{ exists: boolean }>(
    `SELECT to_regclass('${HISTORY}') IS NOT NULL AS exists`,
  );
  if (table.rows[0]?.exists !== true) return [];
  const { rows } = await client.query<{ name: string; checksum: string; finished: boolean }>(
    `SELECT migration_name AS name, checksum, finished_at IS NOT NULL AS finished
       FROM ${HISTORY} WHERE rolled_back_at IS NULL ORDER BY started_at`,
  );
  return rows;
}
