import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { errorCode } from '../../domain/error-code.js';
import { explainDatabaseError } from '../errors.js';
import { HISTORY_SCHEMA, type Migration, readMigrations } from '../migrate.js';
import {
  BackupError,
  connect,
  HIGHEST_LAST,
  migrationsOf,
  noNumbersLeft,
  quoted,
  readBackup,
  sequencesOf,
  tablesOf,
  targetOf,
  tooNew,
  type BackupManifest,
  type Sequence,
} from './format.js';
import type { BackupOptions } from './write.js';

export interface RestoreOptions extends BackupOptions {
  /** Deletes what the store has; otherwise the store must be empty. */
  readonly replace: boolean;
}

/** A file that can be read more than once, each time from its beginning. */
export type OpenFile = () => AsyncIterable<Uint8Array>;

/** Time to wait for others that read the store. */
const LOCK_TIMEOUT = '15s';
/** Other connections have two seconds to end; a process that is just ending needs less. */
const TRIES = 10;
const TRY_EVERY_MS = 200;

/** Reads a backup to its end. @throws {BackupError} when this program can't restore it */
export async function checkBackup(open: OpenFile, signal: AbortSignal): Promise<BackupManifest> {
  const parts = readBackup(open(), signal);
  let part = await parts.next();
  while (part.done !== true) part = await parts.next();
  const manifest = part.value;
  const known = new Set((await readMigrations()).map(({ name }) => name));
  const strange = manifest.migrations.filter((name) => !known.has(name));
  if (strange.length > 0) throw tooNew(strange.join(', '));
  return manifest;
}

/**
 * Puts the rows of a backup in the place of what the store has, in one transaction: until its end, and
 * whatever happens before it, the store is as it was. The queue is left alone.
 * @param url a PostgreSQL connection URL; its schema must be that of this program
 * @param manifest what `checkBackup` said of the file
 * @throws {BackupError} when the store has data or is in use; what the driver throws; what `signal` says
 */
export async function restore(
  url: string,
  open: OpenFile,
  manifest: BackupManifest,
  options: RestoreOptions,
): Promise<void> {
  const client = await connect(url, 'seller-mirror restore');
  try {
    await assertFree(client, options.replace);
    await client.query('BEGIN');
    await client.query(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
    await client.query(`LOCK TABLE ${await tableNames(client)}`);
    // Others may have connected before the tables were locked.
    await assertAlone(client);
    await replaceAll(client, open, manifest, options);
    options.signal.throwIfAborted();
    await client.query('COMMIT');
    // Without figures the first queries would be slow.
    await client.query(`ANALYZE ${await tableNames(client)}`);
  } catch (error) {
    throw explain(error, url);
  } finally {
    // A transaction that was not committed ends with its connection.
    await client.end().catch(() => undefined);
  }
}

/** The rows come into tables of the backup's version, which are then migrated on to this one. */
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
    await client.query(`TRUNCATE ${await tableNames(client)}, ${OF_THE_MOMENT}`);
  }
  await assertFits(client, manifest);
  // The triggers did their work when the rows were first written.
  await setTriggers(client, manifest, 'DISABLE');
  await fill(client, open, manifest, options);
  await setSequences(client, [...manifest.sequences, ...before]);
  await setTriggers(client, manifest, 'ENABLE');
  await migrateOn();
  // Those that only this version has.
  if (isOlder) await setSequences(client, before);
  await client.query('UPDATE mirror.epochs SET epoch = gen_random_uuid(), since = now()');
  // Result files belong to the machine that the backup comes from: none is written here.
  await client.query(
    `UPDATE mirror.audits SET result_path = NULL, result_format = NULL, result_written_at = NULL
      WHERE result_path IS NOT NULL`,
  );
}

/** Others' views that would go with ours. */
const DEPENDENTS = `
  SELECT DISTINCT v.oid::regclass::text AS name
    FROM pg_depend d
    JOIN pg_class r ON d.refclassid = 'pg_class'::regclass AND r.oid = d.refobjid
    JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
    JOIN pg_class v ON v.oid = w.ev_class
   WHERE r.relnamespace::regnamespace::text IN ('mirror', 'reporting')
     AND v.relnamespace::regnamespace::text NOT IN ('mirror', 'reporting')`;

/** Rights and default rights of other roles, as statements that grant them again. */
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
 * Drops the tables, and makes those of an older version: `earlier` are its migrations. All in the
 * transaction that the connection is in.
 * @returns brings the tables, filled meanwhile, up to this version with the migrations `later`
 * @throws {BackupError} when views of others depend on the tables
 */
async function rebuild(
  client: Client,
  earlier: readonly Migration[],
  later: readonly Migration[],
): Promise<() => Promise<void>> {
  const { rows: dependents } = await client.query<{ name: string }>(DEPENDENTS);
  if (dependents.length > 0) {
    throw new BackupError(
      `the backup is of an older version, for which the tables are created again, and views of others depend on them: ${dependents.map(({ name }) => name).join(', ')}`,
      'Nothing was changed. Drop these views, or restore into another database.',
    );
  }
  const { rows: grants } = await client.query<{ statement: string }>(GRANTS);
  // The history of migrations stays: in the end the tables are those of this version again.
  await client.query(`
    CREATE SCHEMA mirror_restoring;
    ALTER TABLE ${HISTORY_SCHEMA}._prisma_migrations SET SCHEMA mirror_restoring;
    DROP SCHEMA mirror, reporting CASCADE; CREATE SCHEMA ${HISTORY_SCHEMA};
    ALTER TABLE mirror_restoring._prisma_migrations SET SCHEMA ${HISTORY_SCHEMA};
    DROP SCHEMA mirror_restoring`);
  await apply(client, earlier);
  return async () => {
    await apply(client, later);
    for (const { statement } of grants) await client.query(statement);
  };
}

async function apply(client: Client, migrations: readonly Migration[]): Promise<void> {
  await client.query(`SET LOCAL search_path = ${HISTORY_SCHEMA}`);
  for (const { sql } of migrations) await client.query(sql);
  await client.query(`SET LOCAL search_path = DEFAULT`);
}

async function assertFits(client: Client, { tables }: BackupManifest): Promise<void> {
  const shapes = new Map((await tablesOf(client)).map(({ name, columns }) => [name, columns]));
  for (const { name, columns } of tables) {
    const own = new Map(shapes.get(name)?.map((column) => [column.name, column.type]));
    const isSame = (column: { name: string; type: string }): boolean =>
      own.get(column.name) === column.type;
    if (own.size === columns.length && columns.every(isSame)) continue;
    throw new BackupError(
      `the table ${name} of the backup is not as its migrations make it`,
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
  const sum = (what: 'rows' | 'bytes'): number =>
    tables.reduce((total, table) => total + table[what], 0);
  const [total, all] = [sum('rows'), sum('bytes')];
  const parts = readBackup(open(), signal);
  try {
    let part = await parts.next();
    let sent = 0;
    for (const table of tables) {
      const rows = async function* (): AsyncGenerator<Buffer> {
        for (; part.done !== true && part.value.table === table.name; part = await parts.next()) {
          yield part.value.rows;
          sent += part.value.rows.length;
          onProgress?.(Math.floor((total * sent) / Math.max(1, all)), total);
        }
      };
      const copy = client.query(copyFrom(`COPY ${targetOf(table)} FROM STDIN`));
      await pipeline(rows, copy);
      if (copy.rowCount === table.rows) continue;
      throw BackupError.damaged(`${copy.rowCount} of ${table.rows} rows arrived in ${table.name}`);
    }
    if (part.done !== true) throw BackupError.damaged('its tables are not in their order');
  } finally {
    await parts.return(manifest); // closes the file
  }
}

/** Columns that take their numbers from a sequence. */
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
 * Sets each sequence to the greatest of its own last number, those in `given` and those that rows
 * have, so that none is given out twice.
 */
async function setSequences(client: Client, given: readonly Sequence[]): Promise<void> {
  const { rows: numbered } = await client.query<{
    sequence: string;
    table: string;
    column: string;
  }>(NUMBERED);
  const own = await sequencesOf(client);
  for (const { name } of own) {
    const lasts = [...own, ...given].filter((one) => one.name === name).map(({ last }) => last);
    for (const { table, column } of numbered.filter(({ sequence }) => sequence === name)) {
      const { rows } = await client.query<{ last: string | null }>(
        `SELECT max(${quoted(column)})::text AS last FROM mirror.${quoted(table)}`,
      );
      lasts.push(rows[0]?.last ?? null);
    }
    const greatest = lasts
      .map((last) => BigInt(last ?? 0))
      .reduce((most, last) => (last > most ? last : most));
    if (greatest > HIGHEST_LAST) throw noNumbersLeft(name);
    if (greatest === 0n) continue;
    await client.query('SELECT setval($1::regclass, $2)', [`mirror.${quoted(name)}`, greatest]);
  }
}

async function assertFree(client: Client, replace: boolean): Promise<void> {
  const { rows } = await client.query<{ locked: boolean }>(
    `SELECT pg_try_advisory_lock(hashtextextended('seller-mirror/restore', 0)) AS locked`,
  );
  if (rows[0]?.locked !== true) throw inUse('another restore');
  await assertAlone(client);
  if (replace || !(await hasRows(client))) return;
  throw new BackupError(
    'the store has data',
    'Say --replace to have the backup take its place, or restore into another one: DATA_DIR and DATABASE_URL say which.',
  );
}

/** Waits for connections that are just closing, those of this process included. */
async function assertAlone(client: Client): Promise<void> {
  let names = await othersOn(client);
  for (let tries = 0; names.length > 0 && tries < TRIES; tries++) {
    await sleep(TRY_EVERY_MS);
    names = await othersOn(client);
  }
  if (names.length > 0) throw inUse(names.join(', '));
}

/** Connected programs, and long-running ones, which with the queue elsewhere may not be connected now. */
async function othersOn(client: Client): Promise<string[]> {
  // Within a transaction the server would tell the same again and again.
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

/** Tables that refer to others, and are of the moment: a backup has no rows of them. */
const OF_THE_MOMENT = 'mirror.run_progress, mirror.sessions, mirror.login_links';

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
  // Data that a column, or a rule of the schema, does not allow. Its text may quote what a row holds.
  if (code.startsWith('22') || code.startsWith('23')) {
    return BackupError.damaged('the database does not take its rows', { cause: error });
  }
  if (code === '55P03') {
    return new BackupError(
      'another program is reading the store and did not end in time',
      'Nothing was changed. `seller-mirror db status` shows who is connected to the embedded server.',
    );
  }
  return explainDatabaseError(error, url) ?? error;
}
