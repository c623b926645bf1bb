import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { errorCode, explainDatabaseError } from '../errors.js';
import { MIGRATIONS_FOLDER, readMigrations, type MigrationOnDisk } from '../migrate.js';
import {
  migrationsOf,
  quoted,
  SAME_NOTATION,
  sequencesOf,
  tablesOf,
  type TableShape,
  BackupError,
  tooNew,
  type BackupManifest,
} from './format.js';
import { Filler, Rebuild } from './fill.js';
import { readBackup } from './read.js';

export interface RestoreOptions {
  /** Deletes what the store has; otherwise the store must be empty. */
  readonly replace: boolean;
  readonly signal: AbortSignal;
  /** Rows that are in their tables, and how many there are. */
  readonly onProgress?: (rows: number, total: number) => void;
}

/** A file that can be read more than once, each time from its beginning. */
export type OpenFile = () => AsyncIterable<Uint8Array>;

const APPLICATION = 'seller-mirror restore';
/** Time to wait for others that read the store. */
const LOCK_TIMEOUT = '15s';
/** Other connections have two seconds to end; a process that is just ending needs less. */
const TRIES = 10;
const TRY_EVERY_MS = 200;

/**
 * Makes sure that a file is a backup that this program can restore. Reads all of it.
 * @throws {BackupError}
 */
export async function checkBackup(open: OpenFile, signal: AbortSignal): Promise<BackupManifest> {
  const manifest = await readBackup(open(), () => signal.throwIfAborted());
  const known = new Set((await readMigrations(MIGRATIONS_FOLDER)).map(({ name }) => name));
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
  const client = new Client({
    connectionString: url,
    application_name: APPLICATION,
    keepAlive: true,
  });
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(SAME_NOTATION);
    await assertFree(client, options.replace);
    await client.query('BEGIN');
    await client.query(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`);
    await replaceAll(client, open, manifest, options);
    options.signal.throwIfAborted();
    await client.query('COMMIT');
    // Without figures the first queries would be slow.
    for (const { name } of await tablesOf(client))
      await client.query(`ANALYZE mirror.${quoted(name)}`);
  } catch (error) {
    throw explain(error, url);
  } finally {
    // A transaction that was not committed ends with its connection.
    await client.end().catch(() => undefined);
  }
}

async function replaceAll(
  client: Client,
  open: OpenFile,
  manifest: BackupManifest,
  { signal, onProgress }: RestoreOptions,
): Promise<void> {
  const migrations = await readMigrations(MIGRATIONS_FOLDER);
  const numbers = await sequencesOf(client);
  const rebuild = await emptyStore(client, migrations, manifest);
  // Others may have connected before the tables were locked.
  await assertAlone(client);
  const filler = await Filler.begin(client, manifest);
  const total = manifest.tables.reduce((sum, { rows }) => sum + rows, 0);
  const sent = { bytes: 0, all: manifest.tables.reduce((sum, { bytes }) => sum + bytes, 0) };
  await readBackup(open(), async (table, rows) => {
    signal.throwIfAborted();
    await filler.take(table, rows);
    sent.bytes += rows.length;
    onProgress?.(Math.floor((total * sent.bytes) / Math.max(1, sent.all)), total);
  });
  await filler.finish();
  await setSequences(client, [...manifest.sequences, ...numbers]);
  await filler.enableTriggers(manifest);
  if (rebuild !== null) {
    await rebuild.finish();
    // Those that only this version has, and those that its migrations took numbers from.
    await setSequences(client, [...numbers, ...(await sequencesOf(client))]);
  }
  await client.query(FORGET_FILES);
}

/** Result files belong to the machine that the backup comes from: none is written here. */
const FORGET_FILES = `
  UPDATE mirror.audits SET result_path = NULL, result_format = NULL, result_written_at = NULL
   WHERE result_path IS NOT NULL`;

/** Empties the tables. Where they are not those of the backup's version, creates them again. */
async function emptyStore(
  client: Client,
  migrations: readonly MigrationOnDisk[],
  manifest: BackupManifest,
): Promise<Rebuild | null> {
  const applied = await migrationsOf(client);
  const wanted = new Set(manifest.migrations);
  if (applied.length !== wanted.size || applied.some((name) => !wanted.has(name))) {
    return Rebuild.begin(client, migrations, wanted);
  }
  const tables = (await tablesOf(client)).map(({ name }) => `mirror.${quoted(name)}`);
  await client.query(`TRUNCATE ${tables.join(', ')}`);
  return null;
}

/** Sets each sequence to the greater of both numbers, so that none is given out twice. */
async function setSequences(
  client: Client,
  numbers: readonly { readonly name: string; readonly last: string | null }[],
): Promise<void> {
  const there = new Set((await sequencesOf(client)).map(({ name }) => name));
  const last = new Map<string, bigint>();
  for (const { name, last: number } of numbers) {
    if (number === null || !there.has(name)) continue;
    const known = last.get(name) ?? 0n;
    last.set(name, BigInt(number) > known ? BigInt(number) : known);
  }
  for (const [name, number] of last) {
    await client.query('SELECT setval($1::regclass, $2)', [`mirror.${quoted(name)}`, number]);
  }
}

async function assertFree(client: Client, replace: boolean): Promise<void> {
  const { rows } = await client.query<{ locked: boolean }>(
    `SELECT pg_try_advisory_lock(hashtextextended('seller-mirror/restore', 0)) AS locked`,
  );
  if (rows[0]?.locked !== true) throw inUse('another restore');
  await assertAlone(client);
  if (replace) return;
  const filled = await firstWithRows(client, await tablesOf(client));
  if (filled === null) return;
  throw new BackupError(
    'the store has data',
    'Say --replace to have the backup take its place, or restore into another one: DATA_DIR and DATABASE_URL say which.',
  );
}

const OTHERS = `
  SELECT DISTINCT application_name AS name FROM pg_stat_activity
   WHERE datname = current_database() AND pid <> pg_backend_pid()
     AND starts_with(application_name, 'seller-mirror')
   ORDER BY name`;

/** Long-running processes say so; with the queue elsewhere they may have no connection just now. */
const ALIVE = `
  SELECT array_to_string(roles, ' and ') || ' (process ' || pid || ' on ' || host || ')' AS name
    FROM mirror.processes WHERE seen_at > clock_timestamp() - interval '30 seconds'`;

/** Waits for connections that are just closing, those of this process included. */
async function assertAlone(client: Client): Promise<void> {
  let names = await othersOf(client);
  for (let tries = 0; names.length > 0 && tries < TRIES; tries++) {
    await pause(TRY_EVERY_MS);
    names = await othersOf(client);
  }
  if (names.length > 0) throw inUse(names.join(', '));
}

async function othersOf(client: Client): Promise<string[]> {
  // Within a transaction the server would tell the same again and again.
  await client.query('SELECT pg_stat_clear_snapshot()');
  const others = await client.query<{ name: string }>(OTHERS);
  const there = await client.query<{ there: boolean }>(
    `SELECT to_regclass('mirror.processes') IS NOT NULL AS there`,
  );
  const alive =
    there.rows[0]?.there === true ? (await client.query<{ name: string }>(ALIVE)).rows : [];
  return [...others.rows, ...alive].map(({ name }) => name);
}

function inUse(by: string): BackupError {
  return new BackupError(
    `the store is in use by ${by}`,
    'Nothing was changed. Stop it, or wait for it to end, then repeat.',
  );
}

async function firstWithRows(
  client: Client,
  tables: readonly TableShape[],
): Promise<string | null> {
  for (const { name } of tables) {
    const { rows } = await client.query<{ filled: boolean }>(
      `SELECT EXISTS (SELECT FROM mirror.${quoted(name)}) AS filled`,
    );
    if (rows[0]?.filled === true) return name;
  }
  return null;
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
