import { pipeline } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline as finished } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGunzip, createGzip } from 'node:zlib';
import type { Client } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { extract, type ExtractEvents, pack, type Pack } from 'tar-stream';
import { z } from 'zod';
import { errorCode } from '../domain/error-code.js';
import { UserError } from '../domain/user-error.js';
import { DbClient, onlyRow } from './connection.js';
import { explainDatabaseError } from './errors.js';
import { apply, checksumOf, type Migration, readHistory, readMigrations } from './migrate.js';

/*
 * Backup and restore. A backup is a compressed tar archive: a manifest, then the rows of each table in COPY's text format,
 * in files of whole lines named TABLE/NUMBER.copy.
 */

const MANIFEST_FILE = 'manifest.json';

const MANIFEST = z.object({
  /** The time of the snapshot. */
  createdAt: z.iso.datetime(),
  /** The store's migrations, each as `name checksum`: the version of the schema. */
  migrations: z.array(z.string()),
  /** The number of rows of each table. Referenced tables come before those that refer to them. */
  tables: z.record(z.string(), z.number().int().nonnegative()),
  /** The last number of each sequence. */
  sequences: z.record(z.string(), z.string().regex(/^\d{1,18}$/)),
});

export type BackupManifest = z.infer<typeof MANIFEST>;

interface BackupOptions {
  readonly signal: AbortSignal;
  /** Called with the rows done and the total. */
  readonly onProgress?: (rows: number, total: number) => void;
}

/** Connects, without timeouts for statements. */
async function connect(url: string, applicationName: string): Promise<Client> {
  const client = new DbClient({
    connectionString: url,
    application_name: applicationName,
    keepAlive: true,
  });
  await client.connect();
  await client.query('SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0');
  return client;
}

/** Sessions and their uploaded lists, progress and alerts are not in a backup, and don't outlive a restore. */
const EMPTIED = ['run_progress', 'sessions', 'login_links', 'alerts', 'audit_drafts'];
/** What describes this server or its readers is not in a backup, and stays. */
const KEPT = ['processes', 'request_budgets', 'request_counts', 'feeds', 'feed_views'];

/** Tables of schema mirror. Referenced ones come before those that refer to them. */
interface Tables {
  readonly all: readonly string[];
  /** Those whose rows are in a backup. */
  readonly saved: readonly string[];
  /** Those that a restore empties or replaces. */
  readonly replaced: readonly string[];
}

async function tablesOf(client: Client): Promise<Tables> {
  const { rows } = await client.query<{ name: string }>(
    `WITH RECURSIVE reference AS (
       SELECT conrelid AS child, confrelid AS parent FROM pg_constraint
        WHERE contype = 'f' AND conrelid <> confrelid
     ), place (oid, depth) AS (
       SELECT oid, 0 FROM pg_class WHERE relnamespace = to_regnamespace('mirror') AND relkind = 'r'
       UNION SELECT child, depth + 1 FROM place JOIN reference ON parent = oid
     )
     SELECT relname::text AS name FROM place JOIN pg_class USING (oid)
      WHERE relname <> '_prisma_migrations' GROUP BY relname ORDER BY max(depth), relname`,
  );
  const all = rows.map(({ name }) => name);
  const replaced = all.filter((name) => !KEPT.includes(name));
  return { all, replaced, saved: replaced.filter((name) => !EMPTIED.includes(name)) };
}

/** A file in the archive. */
type Entry = ExtractEvents['entry'][1];

/** Opens a file for reading from its beginning. May be called more than once. */
type OpenFile = () => AsyncIterable<Uint8Array>;

/** The files of the archive. Each must be read to its end. */
async function* filesOf(open: OpenFile): AsyncGenerator<Entry> {
  const files = extract();
  pipeline(open(), createGunzip(), files, () => undefined); // an error ends `files` with it
  yield* files;
}

/**
 * Reads the beginning of a backup.
 * @throws {UserError} when the file does not begin like a backup
 */
export async function readManifest(open: OpenFile): Promise<BackupManifest> {
  try {
    for await (const file of filesOf(open)) {
      if (file.header.name !== MANIFEST_FILE) break;
      return MANIFEST.parse(JSON.parse(await text(file)));
    }
  } catch (error) {
    if (isOfSystem(error)) throw error;
  }
  throw new UserError(
    'the file is not a seller-mirror backup',
    'Name a file that `seller-mirror backup` wrote.',
    'NOT_A_BACKUP',
  );
}

/**
 * Reads the rows of a backup.
 * @param take takes some rows of a table, and returns how many there are
 * @throws {UserError} when the file is damaged or cut off; errors of `take`; the reason of `signal`
 */
async function readRows(
  open: OpenFile,
  { tables }: BackupManifest,
  signal: AbortSignal,
  take: (table: string, rows: Entry) => Promise<number>,
): Promise<void> {
  const counts = new Map<string, number>();
  try {
    for await (const file of filesOf(open)) {
      signal.throwIfAborted();
      const table = file.header.name.split('/')[0] ?? '';
      if (Object.hasOwn(tables, table)) {
        counts.set(table, (counts.get(table) ?? 0) + (await take(table, file)));
      } else file.resume();
    }
  } catch (error) {
    if (signal.aborted || isOfSystem(error)) throw error;
    throw damaged('it is cut off or changed', error);
  }
  for (const [table, rows] of Object.entries(tables)) {
    const found = counts.get(table) ?? 0;
    if (found !== rows) throw damaged(`${table} has ${found} of ${rows} rows`);
  }
}

/**
 * Reads a whole backup, and counts its rows.
 * @throws {UserError} when it is damaged or cut off; the reason of `signal`
 */
export async function checkBackup(open: OpenFile, signal: AbortSignal): Promise<BackupManifest> {
  const manifest = await readManifest(open);
  await readRows(open, manifest, signal, async (_, rows) => {
    let lines = 0;
    for await (const piece of rows) lines += countRows(piece as Buffer);
    return lines;
  });
  return manifest;
}

const NEW_LINE = 0x0a;

/** Counts rows in COPY's text format, which escapes line ends within values. */
function countRows(data: Buffer): number {
  let lines = 0;
  for (let at = data.indexOf(NEW_LINE); at >= 0; at = data.indexOf(NEW_LINE, at + 1)) lines++;
  return lines;
}

function sumOf({ tables }: BackupManifest): number {
  return Object.values(tables).reduce((sum, rows) => sum + rows, 0);
}

/** True for errors of the file system or the database. Those of gunzip and tar-stream mean that the file is damaged. */
function isOfSystem(error: unknown): boolean {
  const code = errorCode(error);
  return error instanceof UserError || (code !== '' && !code.startsWith('Z_'));
}

function damaged(problem: string, cause?: unknown): UserError {
  return new UserError(
    `the backup is damaged: ${problem}`,
    'Nothing was changed. Take another backup.',
    'BACKUP',
    1,
    { cause },
  );
}

/** The archive has files of about this size. One is in memory. */
const PART_BYTES = 1 << 20;
/** Half the time of the default level, for 10 % more bytes. */
const GZIP_LEVEL = 4;

/**
 * Writes a snapshot of the store. Blocks nobody and changes nothing. Leaves out the queue: schedules and audits create
 * their jobs again.
 * @param url a PostgreSQL connection URL
 * @param write writes the bytes of the archive, which it must read to their end
 * @throws {UserError} when there is no mirror; errors of the driver and of `write`; the reason of `signal`
 */
export async function backUp(
  url: string,
  write: (bytes: AsyncIterable<Uint8Array>) => Promise<void>,
  { signal, onProgress }: BackupOptions,
): Promise<BackupManifest> {
  const client = await connect(url, 'seller-mirror backup');
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const manifest = await describe(client);
    const archive = pack();
    const fill = async (): Promise<void> => {
      await addFile(archive, MANIFEST_FILE, Buffer.from(JSON.stringify(manifest, null, 2)));
      let done = 0;
      for (const table of Object.keys(manifest.tables)) {
        let parts = 0;
        for await (const rows of rowsOf(client, table)) {
          signal.throwIfAborted();
          await addFile(archive, `${table}/${++parts}.copy`, rows);
          onProgress?.((done += countRows(rows)), sumOf(manifest));
        }
      }
      archive.finalize();
    };
    const filling = fill().catch((error: unknown) => archive.destroy(error as Error));
    await write(pipeline(archive, createGzip({ level: GZIP_LEVEL }), () => undefined));
    await filling;
    return manifest;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Describes the snapshot of the connection's transaction. */
async function describe(client: Client): Promise<BackupManifest> {
  const { saved } = await tablesOf(client);
  if (saved.length === 0) {
    throw new UserError(
      'there is no mirror in this database yet',
      '`seller-mirror sync` creates one. DATABASE_URL and DATA_DIR say where.',
      'BACKUP',
    );
  }
  const counts = saved.map((name) => `'${name}', (SELECT count(*) FROM mirror.${name})`);
  const { now, tables } = onlyRow(
    await client.query<Pick<BackupManifest, 'tables'> & { now: Date }>(
      `SELECT now(), json_build_object(${counts.join(', ')}) AS tables`,
    ),
  );
  const history = await readHistory(client);
  const migrations = [...history].map(([name, checksum]) => `${name} ${checksum}`).sort();
  return { createdAt: now.toISOString(), migrations, tables, sequences: await sequencesOf(client) };
}

/** The last number of each sequence of schema mirror. */
async function sequencesOf(client: Client): Promise<BackupManifest['sequences']> {
  const { rows } = await client.query<{ name: string; last: string }>(
    `SELECT sequencename AS name, last_value::text AS last FROM pg_sequences
      WHERE schemaname = 'mirror' AND last_value IS NOT NULL`,
  );
  return Object.fromEntries(rows.map(({ name, last }) => [name, last]));
}

/** Resolves when there is room for more. */
function addFile(archive: Pack, name: string, data: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const entry = archive.entry({ name, size: data.length, mode: 0o600 }, (error) =>
      error ? reject(error) : resolve(),
    );
    entry.end(data);
  });
}

/** The rows of a table, in parts of whole lines: COPY escapes line ends within values, so each row is one line. */
async function* rowsOf(client: Client, table: string): AsyncGenerator<Buffer> {
  let part: Buffer[] = [];
  let size = 0;
  for await (const chunk of client.query(copyTo(`COPY mirror.${table} TO STDOUT`))) {
    const bytes = chunk as Buffer;
    // A row may be larger than a part. Only the new bytes are searched for its end.
    const end = size + bytes.length < PART_BYTES ? 0 : bytes.lastIndexOf('\n') + 1;
    if (end > 0) {
      part.push(bytes.subarray(0, end));
      yield Buffer.concat(part);
      [part, size] = [[], 0];
    }
    part.push(bytes.subarray(end));
    size += bytes.length - end;
  }
  if (size > 0) yield Buffer.concat(part);
}

interface RestoreOptions extends BackupOptions {
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
        await finished(rows, copy);
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
          SET token = NULL, next_token = NULL, sums = NULL, sums_of = NULL,
              waiting_since = coalesce(waiting_since, clock_timestamp())`,
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
  await continueSequences(client, OWN, await sequencesOf(client));
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
