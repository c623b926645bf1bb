import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { errorCode } from '../../domain/error-code.js';
import { explainDatabaseError } from '../errors.js';
import { type Migration, readMigrations } from '../migrate.js';
import {
  BackupError,
  connect,
  HIGHEST_LAST,
  migrationsOf,
  quoted,
  readBackup,
  sequenceExhausted,
  sequencesOf,
  tablesOf,
  targetOf,
  tooNew,
  type BackupManifest,
  type Sequence,
} from './format.js';
import type { BackupOptions } from './write.js';

export interface RestoreOptions extends BackupOptions {
  /** Deletes the store's data. If false, the store must be empty. */
  readonly replace: boolean;
}

/** Opens a file for reading from its beginning. May be called more than once. */
export type OpenFile = () => AsyncIterable<Uint8Array>;

/** Longest wait for other readers of the store. */
const LOCK_TIMEOUT = '15s';
/** Other connections have two seconds to end. A process that is exiting needs less. */
const TRIES = 10;
const TRY_EVERY_MS = 200;

/** Reads a whole backup. @throws {BackupError} when this program can't restore it */
export async function checkBackup(open: OpenFile, signal: AbortSignal): Promise<BackupManifest> {
  const parts = readBackup(open(), signal);
  let part = await parts.next();
  while (part.done !== true) part = await parts.next();
  const manifest = part.value;
  const known = new Set((await readMigrations()).map(({ name }) => name));
  const unknown = manifest.migrations.filter((name) => !known.has(name));
  if (unknown.length > 0) throw tooNew(unknown.join(', '));
  return manifest;
}

/**
 * Replaces the store's data by a backup in one transaction: on any failure the store is unchanged. Does not touch the
 * queue.
 * @param url a PostgreSQL connection URL of a database with this program's schema
 * @param manifest the result of `checkBackup`
 * @throws {BackupError} when the store has data or is in use; errors of the driver; the reason of `signal`
 */
export async function restore(
  url: string,
  open: OpenFile,
  manifest: BackupManifest,
  options: RestoreOptions,
): Promise<void> {
  const client = await connect(url, 'seller-mirror restore');
  try {
    await assertRestorable(client, options.replace);
    await client.query('BEGIN');
    await client.query(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
    await client.query(`LOCK TABLE ${await tableNames(client)}`);
    // Check again: others may have connected before the tables were locked.
    await assertUnused(client);
    await replaceAll(client, open, manifest, options);
    options.signal.throwIfAborted();
    await client.query('COMMIT');
    // Without statistics the first queries would be slow.
    await client.query(`ANALYZE ${await tableNames(client)}`);
  } catch (error) {
    throw explain(error, url);
  } finally {
    // Closing the connection rolls back an open transaction.
    await client.end().catch(() => undefined);
  }
}

/** Fills tables of the backup's version, then migrates them to this version. */
async function replaceAll(
  client: Client,
  open: OpenFile,
  manifest: BackupManifest,
  options: RestoreOptions,
): Promise<void> {
  const before = await sequencesOf(client);
  const wanted = new Set(manifest.migrations);
  const isOlder = (await migrationsOf(client)).some((name) => !wanted.has(name));
  let migrateOn = (): Promise<void> => Promise.resolve();
  if (isOlder) {
    const all = await readMigrations();
    const isWanted = ({ name }: { name: string }): boolean => wanted.has(name);
    const later = all.filter((migration) => !isWanted(migration));
    migrateOn = await rebuild(client, all.filter(isWanted), later);
  } else {
    await client.query(`TRUNCATE ${await tableNames(client)}, ${TRANSIENT_TABLES}`);
  }
  await assertFits(client, manifest);
  // The triggers already ran when the rows were first written.
  await setTriggers(client, manifest, 'DISABLE');
  await fill(client, open, manifest, options);
  await setSequences(client, [...manifest.sequences, ...before]);
  await setTriggers(client, manifest, 'ENABLE');
  await migrateOn();
  // Again for sequences that only this version has.
  if (isOlder) await setSequences(client, before);
  await client.query('UPDATE mirror.epochs SET epoch = gen_random_uuid(), since = now()');
  // Result files belong to the machine of the backup. Don't write them here.
  await client.query(
    `UPDATE mirror.audits SET result_path = NULL, result_format = NULL, result_written_at = NULL
      WHERE result_path IS NOT NULL`,
  );
}

/** Views outside our schemas that depend on our tables or views. Dropping ours would drop them. */
const DEPENDENTS = `
  SELECT DISTINCT v.oid::regclass::text AS name
    FROM pg_depend d
    JOIN pg_class r ON d.refclassid = 'pg_class'::regclass AND r.oid = d.refobjid
    JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
    JOIN pg_class v ON v.oid = w.ev_class
   WHERE r.relnamespace::regnamespace::text IN ('mirror', 'reporting')
     AND v.relnamespace::regnamespace::text NOT IN ('mirror', 'reporting')`;

/** GRANT statements that restore the privileges and default privileges of other roles. */
const GRANTS = `
  WITH granted AS (
    SELECT 'SCHEMA ' || quote_ident(n.nspname) AS what, n.nspowner AS owner, n.nspacl AS acl
      FROM pg_namespace n WHERE n.nspname IN ('mirror', 'reporting')
    UNION ALL
    SELECT 'TABLE ' || c.oid::regclass, c.relowner, c.relacl
      FROM pg_class c
     WHERE c.relnamespace::regnamespace::text IN ('mirror', 'reporting') AND c.relkind IN ('r', 'v')
    UNION ALL
    SELECT 'FUNCTION ' || p.oid::regprocedure, p.proowner, p.proacl
      FROM pg_proc p WHERE p.pronamespace::regnamespace::text = 'reporting'
  )
  SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, g.what,
                CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) AS statement
    FROM granted g, aclexplode(g.acl) a WHERE a.grantee <> g.owner
   UNION ALL
  SELECT format('ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA %I GRANT %s ON %s TO %s%s',
                d.defaclrole::regrole, n.nspname, a.privilege_type,
                CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'f' THEN 'FUNCTIONS'
                                     WHEN 'S' THEN 'SEQUENCES' ELSE 'TYPES' END,
                CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM pg_default_acl d JOIN pg_namespace n ON n.oid = d.defaclnamespace,
         aclexplode(d.defaclacl) a
   WHERE n.nspname IN ('mirror', 'reporting')`;

/**
 * Drops the tables and creates those of an older version, within the connection's transaction.
 * @param earlier the migrations of the older version
 * @param later the migrations from there to this version
 * @returns applies `later`, once the tables are filled
 * @throws {BackupError} when views outside our schemas depend on the tables
 */
async function rebuild(
  client: Client,
  earlier: readonly Migration[],
  later: readonly Migration[],
): Promise<() => Promise<void>> {
  const { rows: dependents } = await client.query<{ name: string }>(DEPENDENTS);
  if (dependents.length > 0) {
    throw new BackupError(
      `restoring a backup of an older version recreates all tables, but other views depend on them: ${dependents.map(({ name }) => name).join(', ')}`,
      'Nothing was changed. Drop these views, or restore into another database.',
    );
  }
  const { rows: grants } = await client.query<{ statement: string }>(GRANTS);
  // Keep the migration history: after `later` it is correct again.
  await client.query(`
    CREATE SCHEMA mirror_restoring;
    ALTER TABLE mirror._prisma_migrations SET SCHEMA mirror_restoring;
    DROP SCHEMA mirror, reporting CASCADE; CREATE SCHEMA mirror;
    ALTER TABLE mirror_restoring._prisma_migrations SET SCHEMA mirror;
    DROP SCHEMA mirror_restoring`);
  await apply(client, earlier);
  return async () => {
    await apply(client, later);
    for (const { statement } of grants) await client.query(statement);
  };
}

async function apply(client: Client, migrations: readonly Migration[]): Promise<void> {
  await client.query('SET LOCAL search_path = mirror');
  for (const { sql } of migrations) await client.query(sql);
  await client.query('SET LOCAL search_path = DEFAULT');
}

async function assertFits(client: Client, { tables }: BackupManifest): Promise<void> {
  const shapes = new Map((await tablesOf(client)).map(({ name, columns }) => [name, columns]));
  for (const { name, columns } of tables) {
    const own = new Map(shapes.get(name)?.map((column) => [column.name, column.type]));
    const isSame = (column: { name: string; type: string }): boolean =>
      own.get(column.name) === column.type;
    if (own.size === columns.length && columns.every(isSame)) continue;
    throw new BackupError(
      `table ${name} of the backup does not have the columns of its version`,
      'Nothing was changed. Restore it with the program that made it.',
    );
  }
}

async function setTriggers(
  client: Client,
  { tables }: BackupManifest,
  what: 'DISABLE' | 'ENABLE',
): Promise<void> {
  for (const { name } of tables) {
    await client.query(`ALTER TABLE mirror.${quoted(name)} ${what} TRIGGER USER`);
  }
}

async function fill(
  client: Client,
  open: OpenFile,
  manifest: BackupManifest,
  { signal, onProgress }: RestoreOptions,
): Promise<void> {
  const { tables } = manifest;
  const totalRows = tables.reduce((sum, { rows }) => sum + rows, 0);
  const totalBytes = tables.reduce((sum, { bytes }) => sum + bytes, 0);
  const parts = readBackup(open(), signal);
  try {
    let part = await parts.next();
    let sent = 0;
    for (const table of tables) {
      const rows = async function* (): AsyncGenerator<Buffer> {
        for (; part.done !== true && part.value.table === table.name; part = await parts.next()) {
          yield part.value.rows;
          sent += part.value.rows.length;
          onProgress?.(Math.floor((totalRows * sent) / Math.max(1, totalBytes)), totalRows);
        }
      };
      const copy = client.query(copyFrom(`COPY ${targetOf(table)} FROM STDIN`));
      await pipeline(rows, copy);
      if (copy.rowCount === table.rows) continue;
      throw BackupError.damaged(`${table.name} has ${copy.rowCount} of ${table.rows} rows`);
    }
    if (part.done !== true) throw BackupError.damaged('its tables are not in the manifest’s order');
  } finally {
    await parts.return(manifest); // closes the file
  }
}

/** Columns with numbers from a sequence. */
const NUMBERED = `
  SELECT s.relname AS sequence, c.relname AS table, a.attname AS column
    FROM pg_class s
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.deptype IN ('a', 'i')
    JOIN pg_class c ON c.oid = d.refobjid
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
   WHERE s.relkind = 'S' AND s.relnamespace = 'mirror'::regnamespace
   UNION ALL
  SELECT 'item_changes_seq_seq', 'purchase_codes', attname FROM pg_attribute
   WHERE attrelid = 'mirror.purchase_codes'::regclass AND attname = 'changed_seq'`;

/**
 * Sets each sequence to the highest of its current number, its numbers in `others`, and the numbers in rows. So no
 * number is used twice.
 */
async function setSequences(client: Client, others: readonly Sequence[]): Promise<void> {
  type NumberedColumn = Record<'sequence' | 'table' | 'column', string>;
  const { rows: columns } = await client.query<NumberedColumn>(NUMBERED);
  const current = await sequencesOf(client);
  for (const { name } of current) {
    let lasts = [...current, ...others].filter((sequence) => sequence.name === name);
    for (const { table, column } of columns.filter(({ sequence }) => sequence === name)) {
      const { rows } = await client.query<Sequence>(
        `SELECT max(${quoted(column)})::text AS last FROM mirror.${quoted(table)}`,
      );
      lasts = [...lasts, ...rows];
    }
    const highest = lasts
      .map(({ last }) => BigInt(last ?? 0))
      .reduce((most, last) => (last > most ? last : most));
    if (highest > HIGHEST_LAST) throw sequenceExhausted(name);
    if (highest === 0n) continue;
    await client.query('SELECT setval($1::regclass, $2)', [`mirror.${quoted(name)}`, highest]);
  }
}

/** Checks that nobody uses the store, and that it is empty unless `replace`. */
async function assertRestorable(client: Client, replace: boolean): Promise<void> {
  const { rows } = await client.query<{ locked: boolean }>(
    `SELECT pg_try_advisory_lock(hashtextextended('seller-mirror/restore', 0)) AS locked`,
  );
  if (rows[0]?.locked !== true) throw inUse('another restore');
  await assertUnused(client);
  if (replace || !(await hasRows(client))) return;
  throw new BackupError(
    'the store has data',
    'Use --replace to replace its data, or set DATA_DIR or DATABASE_URL to restore into another store.',
  );
}

/** Waits for connections that are just closing, for example our own. */
async function assertUnused(client: Client): Promise<void> {
  let users = await usersOf(client);
  for (let tries = 0; users.length > 0 && tries < TRIES; tries++) {
    await sleep(TRY_EVERY_MS);
    users = await usersOf(client);
  }
  if (users.length > 0) throw inUse(users.join(', '));
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

function inUse(by: string): BackupError {
  return new BackupError(
    `the store is in use by ${by}`,
    'Nothing was changed. Stop it, or wait for it to end, then repeat.',
  );
}

/** Tables with transient data. They refer to tables of the backup, or must not outlive a restore. */
const TRANSIENT_TABLES = 'mirror.run_progress, mirror.sessions, mirror.login_links';

async function tableNames(client: Client): Promise<string> {
  return (await tablesOf(client)).map(({ name }) => `mirror.${quoted(name)}`).join(', ');
}

async function hasRows(client: Client): Promise<boolean> {
  const each = (await tablesOf(client)).map(
    ({ name }) => `EXISTS (SELECT FROM mirror.${quoted(name)})`,
  );
  const { rows } = await client.query<{ found: boolean }>(`SELECT ${each.join(' OR ')} AS found`);
  return rows[0]?.found === true;
}

function explain(error: unknown, url: string): unknown {
  const code = errorCode(error);
  // Invalid data or a violated constraint. Don't show the message, which may quote a row.
  if (code.startsWith('22') || code.startsWith('23')) {
    return BackupError.damaged('the database rejects its rows', { cause: error });
  }
  if (code === '55P03') {
    return new BackupError(
      'another program kept the store locked for 15 s',
      'Nothing was changed. `seller-mirror db status` shows who is connected to the embedded server.',
    );
  }
  return explainDatabaseError(error, url) ?? error;
}
