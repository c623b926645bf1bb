import { createReadStream } from 'node:fs';
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
import { onlyRow } from './connection.js';
import { explainDatabaseError } from './errors.js';
import { apply, compare, type Migration, readHistory, readMigrations } from './migrate.js';
import { withOwnClient } from './pools.js';

/*
 * Backup and restore. A backup is a compressed tar archive: a manifest, then the rows of each table in COPY's text format,
 * in files of whole lines named TABLE/NUMBER.copy. COPY escapes line ends within values, so each row is one line.
 */

const MANIFEST_FILE = 'manifest.json';

const MANIFEST = z.object({
  /** The time of the snapshot. */
  createdAt: z.iso.datetime(),
  /** The store's migrations, each as `name checksum`: the version of the schema. */
  migrations: z.array(z.string()).min(1),
  /** The number of rows of each table. Referenced tables come before those that refer to them. */
  tables: z.record(z.string().regex(/^\w+$/), z.number().int().nonnegative()),
  /** The last number of each sequence. */
  sequences: z.record(z.string(), z.string().regex(/^\d{1,18}$/)),
});

export type BackupManifest = z.infer<typeof MANIFEST>;

interface BackupOptions {
  readonly signal: AbortSignal;
  /** Called with the rows done and the total. */
  readonly onProgress?: (rows: number, total: number) => void;
}

const NO_TIMEOUTS = 'SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0';

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

/** The last number of each sequence of schema mirror. */
async function sequencesOf(client: Client): Promise<BackupManifest['sequences']> {
  const { rows } = await client.query<{ name: string; last: string }>(
    `SELECT sequencename AS name, last_value::text AS last FROM pg_sequences
      WHERE schemaname = 'mirror' AND last_value IS NOT NULL`,
  );
  return Object.fromEntries(rows.map(({ name, last }) => [name, last]));
}

/** Counts rows in COPY's text format. */
function countRows(data: Buffer): number {
  let lines = 0;
  for (let at = data.indexOf('\n'); at >= 0; at = data.indexOf('\n', at + 1)) lines++;
  return lines;
}

function sumOf({ tables }: BackupManifest): number {
  return Object.values(tables).reduce((sum, rows) => sum + rows, 0);
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
 * @throws {UserError} when there is no mirror; errors of the driver and of `write`; an error once `signal` aborts
 */
export async function backUp(
  url: string,
  write: (bytes: AsyncIterable<Uint8Array>) => Promise<void>,
  { signal, onProgress }: BackupOptions,
): Promise<BackupManifest> {
  return withOwnClient(url, 'backup', signal, async (client) => {
    await client.query(NO_TIMEOUTS);
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const manifest = await describe(client);
    const archive = pack();
    const fill = async (): Promise<void> => {
      await addFile(archive, MANIFEST_FILE, Buffer.from(JSON.stringify(manifest, null, 2)));
      let done = 0;
      for (const table of Object.keys(manifest.tables)) {
        let parts = 0;
        for await (const rows of rowsOf(client, table)) {
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
  });
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

/** Resolves when there is room for more. */
async function addFile(archive: Pack, name: string, data: Buffer): Promise<void> {
  await finished([data], archive.entry({ name, size: data.length, mode: 0o600 }));
}

/** The rows of a table, in parts of whole lines. */
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

/** A file in the archive. */
type Entry = ExtractEvents['entry'][1];

/** The files of the archive. Each must be read to its end. */
async function* filesOf(file: string): AsyncGenerator<Entry> {
  const files = extract();
  const bytes = createReadStream(file, { highWaterMark: 1 << 18 });
  pipeline(bytes, createGunzip(), files, () => undefined); // an error ends `files` with it
  yield* files;
}

/** A file whose beginning was read. */
export interface Backup {
  readonly file: string;
  readonly manifest: BackupManifest;
}

/**
 * Reads the beginning of a backup.
 * @throws {UserError} when the file does not begin like a backup
 */
export async function openBackup(file: string): Promise<Backup> {
  try {
    for await (const entry of filesOf(file)) {
      if (entry.header.name !== MANIFEST_FILE) break;
      return { file, manifest: MANIFEST.parse(JSON.parse(await text(entry))) };
    }
  } catch (error) {
    if (isOfSystem(error)) throw error;
  }
  throw new UserError(
    `${file} is not a seller-mirror backup`,
    'Name a file that `seller-mirror backup` wrote.',
    'BACKUP',
  );
}

/**
 * Reads the rows of a backup.
 * @param take takes some rows of a table, and returns how many there are
 * @throws {UserError} when the file is damaged or cut off; errors of `take`; the reason of `signal`
 */
async function readRows(
  { file, manifest: { tables } }: Backup,
  signal: AbortSignal,
  take: (table: string, rows: Entry) => Promise<number>,
): Promise<void> {
  const counts = new Map<string, number>();
  try {
    for await (const entry of filesOf(file)) {
      signal.throwIfAborted();
      const table = entry.header.name.split('/')[0] ?? '';
      if (Object.hasOwn(tables, table)) {
        counts.set(table, (counts.get(table) ?? 0) + (await take(table, entry)));
      } else entry.resume();
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

/** True for errors of the file system or the database. Those of gunzip and tar-stream mean that the file is damaged. */
function isOfSystem(error: unknown): boolean {
  const code = errorCode(error);
  return error instanceof UserError || (code !== '' && !code.startsWith('Z_'));
}

/** Why a backup is not restored. */
function refusal(problem: string, remedy: string, cause?: unknown): UserError {
  return new UserError(problem, `Nothing was changed. ${remedy}`, 'BACKUP', 1, { cause });
}

function damaged(problem: string, cause?: unknown): UserError {
  return refusal(`the backup is damaged: ${problem}`, 'Take another backup.', cause);
}

/**
 * Reads a whole backup, and counts its rows.
 * @throws {UserError} when it is damaged or cut off; the reason of `signal`
 */
export async function checkBackup(backup: Backup, signal: AbortSignal): Promise<void> {
  await readRows(backup, signal, async (_, rows) => {
    let lines = 0;
    for await (const piece of rows) lines += countRows(piece as Buffer);
    return lines;
  });
}

interface RestoreOptions extends BackupOptions {
  /** Deletes the store's data. If false, the store must be empty. */
  readonly replace: boolean;
}

/** Longest wait for other readers of the store. */
const LOCK_TIMEOUT = '15s';

/**
 * The targets of feeds hold what the replaced data was: this store has to take them over. Result files belong to the
 * machine of the backup, and are not written here.
 */
const FORGET_PLACES = `
  UPDATE mirror.feed_views
     SET token = NULL, next_token = NULL, sums = NULL, sums_of = NULL,
         waiting_since = coalesce(waiting_since, clock_timestamp());
  UPDATE mirror.audits SET result_path = NULL, result_format = NULL, result_written_at = NULL
   WHERE result_path IS NOT NULL`;

/**
 * Replaces the store's data by a backup of this version or an earlier one. One transaction: on any failure the store is
 * unchanged. Does not touch the queue.
 * @param url a PostgreSQL connection URL of a database with the schema of this version
 * @throws {UserError} when the file is damaged or of a newer version, or the store has data or is in use; errors of the
 *   driver; an error once `signal` aborts
 */
export async function restore(url: string, backup: Backup, options: RestoreOptions): Promise<void> {
  const own = await readMigrations();
  const later = laterMigrations(backup.manifest, own);
  const replaceStore = async (client: Client): Promise<void> => {
    await client.query(NO_TIMEOUTS);
    const { saved, replaced } = await tablesOf(client);
    await assertUnused(client);
    await client.query(`BEGIN; SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
    await client.query(`LOCK TABLE ${listOf(replaced)}`);
    await assertUnused(client); // others may have connected before the tables were locked
    if (!options.replace) await assertEmpty(client, saved);
    await client.query(`TRUNCATE ${listOf(replaced)}`);
    await inSchemaOf(client, own, later, () => load(client, backup, options));
    await client.query(FORGET_PLACES);
    options.signal.throwIfAborted();
    await client.query('COMMIT');
    // Without statistics, which an abort may leave out, the first queries are only slow.
    await client.query(`ANALYZE ${listOf(replaced)}`).catch(() => undefined);
  };
  await withOwnClient(url, 'restore', options.signal, replaceStore).catch((error: unknown) => {
    throw explained(error, url);
  });
}

function listOf(tables: readonly string[]): string {
  return tables.map((name) => `mirror.${name}`).join(', ');
}

/** Other connections have two seconds to end. A process that is exiting needs less. */
const TRIES = 10;
const TRY_EVERY_MS = 200;

/** Waits for connections that are just closing, for example our own. */
async function assertUnused(client: Client): Promise<void> {
  for (let tries = 0; ; tries++) {
    const users = await usersOf(client);
    if (users.length === 0) return;
    if (tries === TRIES) {
      const problem = `the store is in use by ${users.join(', ')}`;
      throw refusal(problem, 'Stop it, or wait for it to end, then repeat.');
    }
    await sleep(TRY_EVERY_MS);
  }
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

async function assertEmpty(client: Client, tables: readonly string[]): Promise<void> {
  const each = tables.map((name) => `EXISTS (SELECT FROM mirror.${name})`);
  const { rows } = await client.query(`SELECT WHERE ${each.join(' OR ')}`);
  if (rows.length === 0) return;
  throw new UserError(
    'the store has data',
    'Use --replace to replace its data, or set DATA_DIR or DATABASE_URL to restore into another store.',
    'BACKUP',
  );
}

/**
 * This version's migrations that the backup's store did not have yet.
 * @throws {UserError} when the backup has one that this version has not, or that has other SQL here
 */
function laterMigrations(
  { migrations }: BackupManifest,
  own: readonly Migration[],
): readonly Migration[] {
  const history = new Map(migrations.map((one) => one.split(' ') as [string, string]));
  const { pending, edited, unknown } = compare(history, own);
  if (unknown.length > 0) {
    throw refusal(
      'the backup was made by a newer version of this program',
      'Upgrade this program, then repeat.',
    );
  }
  if (edited.length > 0) {
    throw refusal(
      'the backup was made by a build of this program with other tables than any release',
      'Restore it with the build that made it.',
    );
  }
  return own.filter(({ name }) => pending.includes(name));
}

/** Name of the store's own schema while the backup's has the name `mirror`. */
const OWN = 'seller_mirror_own';

/**
 * Runs `fill` with a schema of the backup's version. If that is an earlier one, new schemas with its tables are filled,
 * then migrated. The rows move from there into the store's own tables, so that rights and other people's views stay.
 */
async function inSchemaOf(
  client: Client,
  own: readonly Migration[],
  later: readonly Migration[],
  fill: () => Promise<void>,
): Promise<void> {
  if (later.length === 0) return fill();
  await client.query(
    `ALTER SCHEMA mirror RENAME TO ${OWN}; ALTER SCHEMA reporting RENAME TO ${OWN}_reporting;
     SET LOCAL search_path = mirror`,
  );
  const applied = own.filter((one) => !later.includes(one));
  for (const migration of applied) await apply(client, migration);
  await fill();
  for (const migration of later) await apply(client, migration);
  const { saved } = await tablesOf(client);
  await setTriggers(client, 'DISABLE', OWN, saved);
  for (const table of saved) {
    const { names, values } = await columnsOf(client, table);
    await client.query(
      `INSERT INTO ${OWN}.${table} (${names}) OVERRIDING SYSTEM VALUE
       SELECT ${values} FROM mirror.${table}`,
    );
  }
  await setTriggers(client, 'ENABLE', OWN, saved);
  await continueSequences(client, OWN, await sequencesOf(client));
  await client.query(
    `DROP SCHEMA reporting, mirror CASCADE;
     ALTER SCHEMA ${OWN} RENAME TO mirror; ALTER SCHEMA ${OWN}_reporting RENAME TO reporting`,
  );
}

/** SQL of the columns of a table in both schemas, and of values for them: enum types of two schemas differ. */
async function columnsOf(
  client: Client,
  table: string,
): Promise<{ readonly names: string; readonly values: string }> {
  return onlyRow(
    await client.query<{ names: string; values: string }>(
      `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS names,
              string_agg(quote_ident(attname) || CASE WHEN typnamespace = to_regnamespace('${OWN}')
                THEN '::text::' || format_type(atttypid, atttypmod) ELSE '' END, ', ' ORDER BY attnum) AS values
         FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
        WHERE attrelid = to_regclass('${OWN}.' || quote_ident($1)) AND attnum > 0
          AND NOT attisdropped AND attgenerated = ''`,
      [table],
    ),
  );
}

/** Replaces the rows of the backup's tables, in a schema of the backup's version. */
async function load(
  client: Client,
  backup: Backup,
  { signal, onProgress }: BackupOptions,
): Promise<void> {
  const { manifest } = backup;
  const tables = Object.keys(manifest.tables);
  const { all } = await tablesOf(client);
  const unknown = tables.filter((name) => !all.includes(name));
  if (unknown.length > 0) throw damaged(`no table is named ${unknown.join(' or ')}`);
  let done = 0;
  await client.query(`TRUNCATE ${listOf(tables)} CASCADE`); // migrations may have written rows
  await setTriggers(client, 'DISABLE', 'mirror', tables);
  await readRows(backup, signal, async (table, rows) => {
    const copy = client.query(copyFrom(`COPY mirror.${table} FROM STDIN`));
    await finished(rows, copy);
    onProgress?.((done += copy.rowCount), sumOf(manifest));
    return copy.rowCount;
  });
  await setTriggers(client, 'ENABLE', 'mirror', tables);
  await continueSequences(client, 'mirror', manifest.sequences);
}

/** Disables the triggers, which ran when the rows were first written, or enables them. */
async function setTriggers(
  client: Client,
  to: 'DISABLE' | 'ENABLE',
  schema: string,
  tables: readonly string[],
): Promise<void> {
  await client.query(
    tables.map((name) => `ALTER TABLE ${schema}.${name} ${to} TRIGGER USER`).join(';'),
  );
}

/** No number is used twice: neither one of the backup, nor one of the data that it replaced. */
async function continueSequences(
  client: Client,
  schema: string,
  sequences: BackupManifest['sequences'],
): Promise<void> {
  await client.query(
    `SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, greatest(value::bigint, last_value))
       FROM pg_sequences JOIN json_each_text($2) AS known (name, value) ON name = sequencename
      WHERE schemaname = $1`,
    [schema, JSON.stringify(sequences)],
  );
}

function explained(error: unknown, url: string): unknown {
  const code = errorCode(error);
  // Invalid data, a violated constraint or an unknown table. Don't show the message, which may quote a row.
  if (/^2[23]|^42P01$/.test(code)) return damaged('the database rejects its rows', error);
  if (code === '55P03') {
    return refusal(
      `another program kept the store locked for ${LOCK_TIMEOUT}`,
      '`seller-mirror db status` shows who is connected to the embedded server.',
    );
  }
  if (code === '42501') {
    return refusal(
      'the role in DATABASE_URL does not own the tables of schema mirror',
      'Use the role that owns them in DATABASE_URL.',
      error,
    );
  }
  return explainDatabaseError(error, url) ?? error;
}
