import { pipeline } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline as finished } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGunzip } from 'node:zlib';
import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { extract, type ExtractEvents } from 'tar-stream';
import { errorCode } from '../../domain/error-code.js';
import { explainDatabaseError } from '../errors.js';
import {
  BackupError,
  type BackupManifest,
  type BackupOptions,
  connect,
  countRows,
  EMPTIED,
  MANIFEST,
  MANIFEST_FILE,
  migrationsOf,
  NotABackupError,
  sumOf,
  tablesOf,
} from './format.js';

/** A file in the archive. */
type Entry = ExtractEvents['entry'][1];

/** Opens a file for reading from its beginning. May be called more than once. */
export type OpenFile = () => AsyncIterable<Uint8Array>;

/**
 * Reads the beginning of a backup.
 * @throws {NotABackupError} when the file does not begin like a backup
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
  throw new NotABackupError(
    'the file is not a seller-mirror backup',
    'Name a file that `seller-mirror backup` wrote.',
  );
}

/**
 * Reads a whole backup, and counts its rows.
 * @throws {BackupError} when it is damaged or cut off; the reason of `signal`
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

export interface RestoreOptions extends BackupOptions {
  /** Deletes the store's data. If false, the store must be empty. */
  readonly replace: boolean;
}

/**
 * Replaces the store's data by a backup in one transaction: on any failure the store is unchanged. Does not touch the
 * queue.
 * @param url a PostgreSQL connection URL of a database with the schema of the backup
 * @throws {BackupError} when the file is damaged, or the store has data, is in use or has another schema; errors of the
 *   driver; the reason of `signal`
 */
export async function restore(
  url: string,
  open: OpenFile,
  { replace, signal, onProgress }: RestoreOptions,
): Promise<BackupManifest> {
  const manifest = await readManifest(open);
  const client = await connect(url, 'seller-mirror restore');
  try {
    const names = await tablesOf(client);
    await assertSameSchema(client, manifest, names);
    await assertUnused(client);
    const all = [...names, ...EMPTIED].map((name) => `mirror.${name}`).join(', ');
    await client.query(`BEGIN; SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'; LOCK TABLE ${all}`);
    await assertUnused(client); // others may have connected before the tables were locked
    if (!replace) await assertEmpty(client, names);
    await client.query(`TRUNCATE ${all}`);
    await setTriggers(client, names, 'DISABLE'); // they ran when the rows were first written
    let done = 0;
    await readRows(open, manifest, signal, async (table, rows) => {
      const copy = client.query(copyFrom(`COPY mirror.${table} FROM STDIN`));
      await finished(rows, copy);
      onProgress?.((done += copy.rowCount), sumOf(manifest));
      return copy.rowCount;
    });
    await setTriggers(client, names, 'ENABLE');
    await continueSequences(client, manifest);
    // Followers of the change feed must start over.
    await client.query('UPDATE mirror.epochs SET epoch = gen_random_uuid(), since = now()');
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

/** @param take takes some rows of a table, and returns how many there are */
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

/** The files of the archive. Each must be read to its end. */
async function* filesOf(open: OpenFile): AsyncGenerator<Entry> {
  const files = extract();
  pipeline(open(), createGunzip(), files, () => undefined); // an error ends `files` with it
  yield* files;
}

/** True for errors of the file system or the database. Those of gunzip and tar-stream mean that the file is damaged. */
function isOfSystem(error: unknown): boolean {
  const code = errorCode(error);
  return code !== '' && !code.startsWith('Z_');
}

function damaged(problem: string, cause?: unknown): BackupError {
  return new BackupError(
    `the backup is damaged: ${problem}`,
    'Nothing was changed. Take another backup.',
    { cause },
  );
}

function explained(error: unknown, url: string): unknown {
  const code = errorCode(error);
  // Invalid data or a violated constraint. Don't show the message, which may quote a row.
  if (/^2[23]/.test(code)) return damaged('the database rejects its rows', error);
  if (code === '55P03') {
    return new BackupError(
      `another program kept the store locked for ${LOCK_TIMEOUT}`,
      'Nothing was changed. `seller-mirror db status` shows who is connected to the embedded server.',
    );
  }
  if (code === '42501') {
    return new BackupError(
      'the role in DATABASE_URL does not own the tables of schema mirror',
      'Nothing was changed. Use the role that owns them in DATABASE_URL.',
      { cause: error },
    );
  }
  return explainDatabaseError(error, url) ?? error;
}

/** Longest wait for other readers of the store. */
const LOCK_TIMEOUT = '15s';
/** Other connections have two seconds to end. A process that is exiting needs less. */
const TRIES = 10;
const TRY_EVERY_MS = 200;

async function assertSameSchema(
  client: Client,
  { migrations, tables }: BackupManifest,
  names: readonly string[],
): Promise<void> {
  const own = await migrationsOf(client);
  const isSame = own.join() === migrations.join();
  if (isSame && Object.keys(tables).every((table) => names.includes(table))) return;
  throw new BackupError(
    'the backup was made by another version of this program, with other tables',
    'Nothing was changed. Restore it with the version that made it, then upgrade.',
  );
}

/** Waits for connections that are just closing, for example our own. */
async function assertUnused(client: Client): Promise<void> {
  let users = await usersOf(client);
  for (let tries = 0; users.length > 0 && tries < TRIES; tries++) {
    await sleep(TRY_EVERY_MS);
    users = await usersOf(client);
  }
  if (users.length === 0) return;
  throw new BackupError(
    `the store is in use by ${users.join(', ')}`,
    'Nothing was changed. Stop it, or wait for it to end, then repeat.',
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
  throw new BackupError(
    'the store has data',
    'Use --replace to replace its data, or set DATA_DIR or DATABASE_URL to restore into another store.',
  );
}

async function setTriggers(
  client: Client,
  names: readonly string[],
  what: 'DISABLE' | 'ENABLE',
): Promise<void> {
  for (const name of names) await client.query(`ALTER TABLE mirror.${name} ${what} TRIGGER USER`);
}

/** No number is used twice: neither one of the backup, nor one of the data that it replaced. */
async function continueSequences(client: Client, { sequences }: BackupManifest): Promise<void> {
  for (const [name, last] of Object.entries(sequences)) {
    await client.query(
      `SELECT setval(to_regclass('mirror.' || quote_ident($1)),
                     greatest($2::bigint, (SELECT last_value FROM pg_sequences
                                            WHERE schemaname = 'mirror' AND sequencename = $1)))`,
      [name, last],
    );
  }
}
