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

/** The advisory lock of Prisma's own `migrate` commands: they and we wait for each other. */
const PRISMA_LOCK = 72_707_369;

/**
 * Applies the pending migrations, each in a transaction of its own, and records them as Prisma does. Any number of processes may call it at once; where nothing is pending it costs three
 * small queries. A migration that failed before is tried again: it left nothing behind.
 * @throws {SchemaAheadError} when a newer program migrated the database
 * @throws {StoreTooOldError | StoreConnectionError}
 * @throws {MigrationError} with what the database said
 */
export async function migrate(
  url: string,
  given?: readonly Migration[],
): Promise<{ applied: string[] }> {
  const migrations = given ?? (await readMigrations());
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

/** How the database stands to the migrations. Changes nothing. */
export async function migrationState(
  url: string,
  given?: readonly Migration[],
): Promise<MigrationState> {
  const migrations = given ?? (await readMigrations());
  return withConnection(url, (client) => compareHistory(client, migrations));
}

function pendingOf({ pending, unknown }: MigrationState): string[] {
  if (unknown.length === 0) return pending;
  throw new SchemaAheadError(
    `the database was migrated by a newer version of this program (${unknown.join(', ')})`,
    'Upgrade this program, or point it to another database.',
  );
}

/** Makes Prisma's table of migrations where it is not there yet, and closes attempts that failed. */
async function prepareHistory(client: Client, failed: readonly string[]): Promise<void> {
  // Without IF NOT EXISTS, which asks for the right to create schemas though the schema is there.
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
    // One message is one transaction: a process killed at any moment leaves the migration done and
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

/** Does `work` on a connection of its own, so that the lock and every script are on the same one. */
async function withConnection<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({
    connectionString: url,
    application_name: 'seller-mirror migrate',
    connectionTimeoutMillis: 30_000,
  });
  client.on('error', () => undefined); // the query under way, or the next one, tells
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
  const said = error instanceof Error ? error.message : String(error);
  return new MigrationError(
    `the database could not be migrated: ${said}`,
    errorCode(error) === '42501'
      ? 'Grant the user what it needs, such as: GRANT CREATE ON DATABASE name TO user'
      : 'Nothing of the failed migration was kept. Correct what the message names, then repeat.',
    { cause: error },
  );
}

export interface Migration {
  /** Its folder's name, by which Prisma knows it. */
  readonly name: string;
  readonly sql: string;
}

/** `prisma/migrations` of the package; src/ and dist/ are equally deep in it. */
const FOLDER = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));

/** The program's migrations, in the order in which they are applied. */
export async function readMigrations(): Promise<Migration[]> {
  const entries = await readdir(FOLDER, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  return Promise.all(
    names.sort().map(async (name) => {
      return { name, sql: await readFile(join(FOLDER, name, 'migration.sql'), 'utf8') };
    }),
  );
}

/** A migration's checksum, as Prisma records it. */
function sha256(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}

/**
 * Schema of Prisma's table `_prisma_migrations`. Not `public`: there Prisma refuses to begin when
 * other tables exist, and another program's migrations would be taken for ours. Prisma's own
 * commands look here when the address ends in `?schema=mirror`.
 */
export const HISTORY_SCHEMA = 'mirror';
const HISTORY = `${HISTORY_SCHEMA}._prisma_migrations`;

/** How a database stands to the program's migrations. All are names of migrations. */
export interface MigrationState {
  /** Not applied yet. */
  readonly pending: string[];
  /** Begun and not finished; the next `migrate` tries them again. */
  readonly failed: string[];
  /** Applied in another wording than the program's. */
  readonly edited: string[];
  /** Applied, and unknown to the program: the database is ahead of it. */
  readonly unknown: string[];
}

/** Compares Prisma's history with the files, by two small queries. */
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
      migrations.filter(({ name, sql }) => applied.has(name) && !isSumOf(applied.get(name), sql)),
    ),
    unknown: [...applied.keys()].filter((name) => !known.has(name)),
  };
}

/** Line ends may differ: Git changes them on some systems. */
function isSumOf(checksum: string | undefined, sql: string): boolean {
  const unix = sql.replaceAll('\r\n', '\n');
  return [sql, unix, unix.replaceAll('\n', '\r\n')].some((text) => sha256(text) === checksum);
}

async function readHistory(
  client: Client,
): Promise<{ name: string; checksum: string; finished: boolean }[]> {
  const found = await client.query<{ there: boolean }>(
    `SELECT to_regclass('${HISTORY}') IS NOT NULL AS there`,
  );
  if (found.rows[0]?.there !== true) return [];
  const { rows } = await client.query<{ name: string; checksum: string; finished: boolean }>(
    `SELECT migration_name AS name, checksum, finished_at IS NOT NULL AS finished
       FROM ${HISTORY} WHERE rolled_back_at IS NULL ORDER BY started_at`,
  );
  return rows;
}
