import { UserError } from '../../domain/user-error.js';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { errorCode } from '../../domain/error-code.js';
import { explainDatabaseError } from '../errors.js';
import { apply, checksumOf, type Migration, readMigrations } from '../migrate.js';
import {
  type BackupManifest,
  type BackupOptions,
  connect,
  damaged,
  type OpenFile,
  readManifest,
  readRows,
  sumOf,
  tablesOf,
} from './format.js';

export interface RestoreOptions extends BackupOptions {
  /** Deletes the store's data. If false, the store must be empty. */
  readonly replace: boolean;
}

/** Longest wait for other readers of the store. */
const LOCK_TIMEOUT = '15s';

/**
 * Replaces the store's data by a backup of this version or an earlier one. One transaction: on any failure the store is
 * unchanged. Does not touch the queue.
 * @param url a PostgreSQL connection URL of a database with the schema of this version
 * @throws {UserError} when the file is damaged or of a newer version, or the store has data or is in use; errors of the
 *   driver; the reason of `signal`
 */
export async function restore(
  url: string,
  open: OpenFile,
  { replace, signal, onProgress }: RestoreOptions,
): Promise<BackupManifest> {
  const manifest = await readManifest(open);
  const { applied, later } = splitMigrations(manifest, await readMigrations());
  const client = await connect(url, 'seller-mirror restore');
  const load = async (): Promise<void> => {
    const { all, replaced } = await tablesOf(client);
    const tables = Object.keys(manifest.tables);
    const unknown = tables.filter((table) => !all.includes(table));
    if (unknown.length > 0) throw damaged(`no table is named ${unknown.join(' or ')}`);
    await client.query(`TRUNCATE ${listOf([...new Set([...replaced, ...tables])])}`);
    let done = 0;
    await withoutTriggers(client, 'mirror', tables, () =>
      readRows(open, manifest, signal, async (table, rows) => {
        const copy = client.query(copyFrom(`COPY mirror.${table} FROM STDIN`));
        await pipeline(rows, copy);
        onProgress?.((done += copy.rowCount), sumOf(manifest));
        return copy.rowCount;
      }),
    );
    await continueSequences(client, 'mirror', manifest.sequences);
  };
  try {
    const { saved, replaced } = await tablesOf(client);
    const all = listOf(replaced);
    await assertUnused(client);
    await client.query(`BEGIN; SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'; LOCK TABLE ${all}`);
    await assertUnused(client); // others may have connected before the tables were locked
    if (!replace) await assertEmpty(client, saved);
    if (later.length === 0) await load();
    else {
      await client.query(`TRUNCATE ${all}`);
      await loadEarlier(client, applied, load, later);
    }
    // The targets of feeds hold what the replaced data was: this store has to take them over.
    await client.query(
      `UPDATE mirror.feed_views
          SET token = NULL, next_token = NULL, waiting_since = coalesce(waiting_since, clock_timestamp())`,
    );
    // Result files belong to the machine of the backup. Don't write them here.
    await client.query(
      `UPDATE mirror.audits SET result_path = NULL, result_format = NULL, result_written_at = NULL
        WHERE result_path IS NOT NULL`,
    );
    signal.throwIfAborted();
    await client.query('COMMIT');
    await client.query(`ANALYZE ${all}`); // without statistics the first queries would be slow
    return manifest;
  } catch (error) {
    throw explained(error, url);
  } finally {
    // Closing the connection rolls back an open transaction.
    await client.end().catch(() => undefined);
  }
}

function listOf(tables: readonly string[]): string {
  return tables.map((name) => `mirror.${name}`).join(', ');
}

/**
 * Divides this version's migrations into those of the backup and later ones.
 * @throws {UserError} when the backup has one that this version has not, or that has other SQL here
 */
function splitMigrations(
  { migrations }: BackupManifest,
  own: readonly Migration[],
): { readonly applied: Migration[]; readonly later: Migration[] } {
  const isApplied = (one: Migration): boolean =>
    migrations.includes(`${one.name} ${checksumOf(one)}`);
  const names = own.map(({ name }) => name);
  const unknown = migrations.filter((one) => !names.includes(one.split(' ')[0] ?? ''));
  if (unknown.length > 0) {
    throw new UserError(
      'the backup was made by a newer version of this program',
      'Nothing was changed. Upgrade this program, then repeat.',
      'BACKUP',
    );
  }
  const applied = own.filter(isApplied);
  if (applied.length === migrations.length && applied.length > 0) {
    return { applied, later: own.filter((one) => !isApplied(one)) };
  }
  throw new UserError(
    'the backup was made by a build of this program with other tables than any release',
    'Nothing was changed. Restore it with the build that made it.',
    'BACKUP',
  );
}

/**
 * Loads a backup of an earlier version: into new schemas with its tables, which are then migrated. The rows move from
 * there into the store's own tables, so that rights and other people's views stay.
 */
async function loadEarlier(
  client: Client,
  applied: readonly Migration[],
  load: () => Promise<void>,
  later: readonly Migration[],
): Promise<void> {
  await client.query(
    `ALTER SCHEMA mirror RENAME TO ${OWN}; ALTER SCHEMA reporting RENAME TO ${OWN}_reporting;
     SET LOCAL search_path = mirror`,
  );
  for (const migration of applied) await apply(client, migration);
  await load();
  for (const migration of later) await apply(client, migration);
  const { saved } = await tablesOf(client);
  await withoutTriggers(client, OWN, saved, async () => {
    for (const table of saved) {
      const columns = await columnsOf(client, table);
      await client.query(
        `INSERT INTO ${OWN}.${table} (${columns.map(({ name }) => name).join(', ')})
         OVERRIDING SYSTEM VALUE
         SELECT ${columns.map(({ value }) => value).join(', ')} FROM mirror.${table}`,
      );
    }
  });
  const { rows } = await client.query<{ name: string; last: string }>(
    `SELECT sequencename AS name, last_value::text AS last FROM pg_sequences
      WHERE schemaname = 'mirror' AND last_value IS NOT NULL`,
  );
  const sequences = Object.fromEntries(rows.map(({ name, last }) => [name, last]));
  await continueSequences(client, OWN, sequences);
  await client.query(
    `DROP SCHEMA reporting, mirror CASCADE;
     ALTER SCHEMA ${OWN} RENAME TO mirror; ALTER SCHEMA ${OWN}_reporting RENAME TO reporting`,
  );
}

/** Name of the store's own schema while the backup's has the name `mirror`. */
const OWN = 'seller_mirror_own';

/** The columns of a table in both schemas, with SQL that moves each: enum types of two schemas differ. */
async function columnsOf(
  client: Client,
  table: string,
): Promise<{ name: string; value: string }[]> {
  const { rows } = await client.query<{ name: string; value: string }>(
    `SELECT quote_ident(attname) AS name,
            quote_ident(attname) || CASE WHEN typnamespace = to_regnamespace('${OWN}')
              THEN '::text::' || format_type(atttypid, atttypmod) ELSE '' END AS value
       FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
      WHERE attrelid = to_regclass('${OWN}.' || quote_ident($1)) AND attnum > 0
        AND NOT attisdropped AND attgenerated = ''
      ORDER BY attnum`,
    [table],
  );
  return rows;
}

/** Triggers ran when the rows were first written. */
async function withoutTriggers(
  client: Client,
  schema: string,
  tables: readonly string[],
  work: () => Promise<void>,
): Promise<void> {
  const set = async (what: 'DISABLE' | 'ENABLE'): Promise<void> => {
    for (const name of tables) {
      await client.query(`ALTER TABLE ${schema}.${name} ${what} TRIGGER USER`);
    }
  };
  await set('DISABLE');
  await work();
  await set('ENABLE');
}

/** No number is used twice: neither one of the backup, nor one of the data that it replaced. */
async function continueSequences(
  client: Client,
  schema: string,
  sequences: BackupManifest['sequences'],
): Promise<void> {
  for (const [name, last] of Object.entries(sequences)) {
    await client.query(
      `SELECT setval(to_regclass('${schema}.' || quote_ident($1)),
                     greatest($2::bigint, (SELECT last_value FROM pg_sequences
                                            WHERE schemaname = '${schema}' AND sequencename = $1)))`,
      [name, last],
    );
  }
}

/** Other connections have two seconds to end. A process that is exiting needs less. */
const TRIES = 10;
const TRY_EVERY_MS = 200;

/** Waits for connections that are just closing, for example our own. */
async function assertUnused(client: Client): Promise<void> {
  let users = await usersOf(client);
  for (let tries = 0; users.length > 0 && tries < TRIES; tries++) {
    await sleep(TRY_EVERY_MS);
    users = await usersOf(client);
  }
  if (users.length === 0) return;
  throw new UserError(
    `the store is in use by ${users.join(', ')}`,
    'Nothing was changed. Stop it, or wait for it to end, then repeat.',
    'BACKUP',
  );
}

/** Names of connected processes, and of processes with a heartbeat, which may not be connected just now. */
async function usersOf(client: Client): Promise<string[]> {
  // Within a transaction pg_stat_activity would not change.
  await client.query('SELECT pg_stat_clear_snapshot()');
  const { rows } = await client.query<{ name: string }>(
    `SELECT DISTINCT application_name AS name FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND starts_with(application_name, 'seller-mirror')
      UNION ALL
     SELECT array_to_string(roles, ' and ') || ' (process ' || pid || ' on ' || host || ')'
       FROM mirror.processes WHERE seen_at > clock_timestamp() - interval '30 seconds'`,
  );
  return rows.map(({ name }) => name);
}

async function assertEmpty(client: Client, names: readonly string[]): Promise<void> {
  const each = names.map((name) => `EXISTS (SELECT FROM mirror.${name})`);
  const { rows } = await client.query(`SELECT ${each.join(' OR ')} AS found`);
  if (!(rows[0] as { found: boolean }).found) return;
  throw new UserError(
    'the store has data',
    'Use --replace to replace its data, or set DATA_DIR or DATABASE_URL to restore into another store.',
    'BACKUP',
  );
}

function explained(error: unknown, url: string): unknown {
  const code = errorCode(error);
  // Invalid data or a violated constraint. Don't show the message, which may quote a row.
  if (/^2[23]/.test(code)) return damaged('the database rejects its rows', error);
  if (code === '55P03') {
    return new UserError(
      `another program kept the store locked for ${LOCK_TIMEOUT}`,
      'Nothing was changed. `seller-mirror db status` shows who is connected to the embedded server.',
      'BACKUP',
    );
  }
  if (code === '42501') {
    return new UserError(
      'the role in DATABASE_URL does not own the tables of schema mirror',
      'Nothing was changed. Use the role that owns them in DATABASE_URL.',
      'BACKUP',
      1,
      { cause: error },
    );
  }
  return explainDatabaseError(error, url) ?? error;
}
