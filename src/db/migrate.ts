import { UserError } from '../domain/user-error.js';
import { createHash, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { errorCode } from '../domain/error-code.js';
import { assertUsable } from './requirements.js';
import { explainDatabaseError } from './errors.js';
import { withOwnClient } from './pools.js';

/** `prisma/migrations` of the package. The path is the same from src/ and dist/. */
const FOLDER = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));

/** The advisory lock of Prisma's own `migrate` commands, so that they and this module exclude each other. */
const PRISMA_LOCK = 72_707_369;

/**
 * Prisma's history table. In schema `public`, Prisma would refuse to start if other tables exist, and would
 * mistake another program's migrations for ours. Prisma's own commands use this one if the URL ends in
 * `?schema=mirror`.
 */
const HISTORY = 'mirror._prisma_migrations';

export interface Migration {
  /** Its folder's name, which Prisma records. */
  readonly name: string;
  readonly sql: string;
}

/** Names of migrations, by their state in a database. */
export interface MigrationState {
  /** Not applied yet. */
  readonly pending: string[];
  /** Applied, but from a file with other contents. */
  readonly edited: string[];
  /** Applied, but not in this package: the database is newer. */
  readonly unknown: string[];
}

/**
 * Applies the pending migrations, each in one transaction with its row of Prisma's history table. Safe to
 * call from several processes at once. If nothing is pending it costs three small queries.
 * @param migrations by default, those of this package
 * @returns the names of the migrations that this call applied
 * @throws {UserError} if another version or build migrated the database, if it is too old, or with its message: the
 *   failed migration was rolled back
 */
export async function migrate(
  url: string,
  migrations?: readonly Migration[],
): Promise<{ applied: string[] }> {
  const all = migrations ?? (await readMigrations());
  return withConnection(url, async (client) => {
    if ((await pendingIn(client, all)).length === 0) return { applied: [] };
    await client.query(`SELECT pg_advisory_lock(${PRISMA_LOCK})`);
    const pending = await pendingIn(client, all); // another process may have applied some meanwhile
    for (const migration of pending) await apply(client, migration);
    return { applied: pending.map(({ name }) => name) };
  });
}

/** Compares the database with the migrations. Changes nothing. */
export async function migrationState(
  url: string,
  migrations?: readonly Migration[],
): Promise<MigrationState> {
  const all = migrations ?? (await readMigrations());
  return withConnection(url, async (client) => compare(await readHistory(client), all));
}

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

async function pendingIn(client: Client, all: readonly Migration[]): Promise<Migration[]> {
  const state = compare(await readHistory(client), all);
  const problem = schemaProblem(state);
  if (problem !== null) throw problem;
  return all.filter(({ name }) => state.pending.includes(name));
}

/** Why this program can't use a database, whatever it applies; null if it can. */
export function schemaProblem({ edited, unknown }: MigrationState): UserError | null {
  if (unknown.length > 0) {
    return new UserError(
      `the database was migrated by a newer version of this program (${unknown.join(', ')})`,
      'Upgrade this program, or use another database.',
      'SCHEMA_AHEAD',
    );
  }
  if (edited.length === 0) return null;
  return new UserError(
    `the database was migrated by a build of this program with other SQL (${edited.join(', ')})`,
    'Use that build, or name a new database in DATABASE_URL or DATA_DIR and mirror again.',
    'SCHEMA_DIFFERS',
  );
}

/** Compares migrations with a history: names of applied ones, and their checksums. */
export function compare(
  applied: ReadonlyMap<string, string>,
  all: readonly Migration[],
): MigrationState {
  const names = all.map(({ name }) => name);
  return {
    pending: names.filter((name) => !applied.has(name)),
    edited: all
      .filter((one) => applied.has(one.name) && applied.get(one.name) !== checksumOf(one))
      .map(({ name }) => name),
    unknown: [...applied.keys()].filter((name) => !names.includes(name)),
  };
}

/** Names of applied migrations, and their checksums. */
export async function readHistory(client: Client): Promise<Map<string, string>> {
  const table = await client.query(`SELECT to_regclass('${HISTORY}') AS found`);
  if ((table.rows[0] as { found: unknown }).found === null) return new Map();
  const { rows } = await client.query<{ name: string; checksum: string }>(
    `SELECT migration_name AS name, checksum FROM ${HISTORY}
      WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL ORDER BY started_at`,
  );
  return new Map(rows.map(({ name, checksum }) => [name, checksum]));
}

/** One message is one transaction, outside of another one: the migration is applied and recorded, or neither. */
export async function apply(client: Client, migration: Migration): Promise<void> {
  const { name, sql } = migration;
  const literal = client.escapeLiteral(name);
  await client.query(`
    DO $$ BEGIN
      IF to_regclass('${HISTORY}') IS NULL THEN
        CREATE SCHEMA IF NOT EXISTS mirror;
        CREATE TABLE ${HISTORY} (
          id varchar(36) PRIMARY KEY, checksum varchar(64) NOT NULL, finished_at timestamptz,
          migration_name varchar(255) NOT NULL, logs text, rolled_back_at timestamptz,
          started_at timestamptz NOT NULL DEFAULT now(),
          applied_steps_count integer NOT NULL DEFAULT 0);
      END IF;
    END $$;
    -- What Prisma's own commands began and could not finish.
    UPDATE ${HISTORY} SET rolled_back_at = now()
     WHERE migration_name = ${literal} AND finished_at IS NULL AND rolled_back_at IS NULL;
    ${sql}
    ;INSERT INTO ${HISTORY} (id, checksum, migration_name, finished_at, applied_steps_count)
     VALUES ('${randomUUID()}', '${checksumOf(migration)}', ${literal}, clock_timestamp(), 1)`);
}

/** The checksum that Prisma records. */
export function checksumOf({ sql }: Migration): string {
  return createHash('sha256').update(sql).digest('hex');
}

/** Runs `work` on its own connection, which also holds the lock. */
function withConnection<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  return withOwnClient(url, 'migrate', null, async (client) => {
    await assertUsable(client, url);
    await client.query('SET search_path = mirror; SET statement_timeout = 0');
    return work(client);
  }).catch((error: unknown) => {
    throw explain(error, url);
  });
}

function explain(error: unknown, url: string): UserError {
  const known = explainDatabaseError(error, url);
  if (known !== null) return known;
  const message = error instanceof Error ? error.message : String(error);
  return new UserError(
    `the database could not be migrated: ${message}`,
    errorCode(error) === '42501'
      ? 'Grant the user the missing right, such as: GRANT CREATE ON DATABASE name TO user'
      : 'The failed migration was rolled back. Fix the cause that the message names, then try again.',
    'MIGRATION',
    1,
    { cause: error },
  );
}

const SCRIPT = new URL('../../prisma/grants.sql', import.meta.url);

/** Lets the role `reporting_reader` read schema `reporting`, also after updates. Repeatable. */
export async function grantReports(url: string, signal: AbortSignal): Promise<void> {
  const script = await readFile(SCRIPT, 'utf8');
  await withOwnClient(url, 'db', signal, (client) => client.query(script));
}
