import { UserError } from '../../domain/user-error.js';
import { pipeline } from 'node:stream';
import { text } from 'node:stream/consumers';
import { createGunzip } from 'node:zlib';
import type { Client } from 'pg';
import { extract, type ExtractEvents } from 'tar-stream';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
import { DbClient } from '../connection.js';

/*
 * A backup is a compressed tar archive: a manifest, then the rows of each table in COPY's text format, in files of whole
 * lines named TABLE/NUMBER.copy.
 */

export const MANIFEST_FILE = 'manifest.json';

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

export interface BackupOptions {
  readonly signal: AbortSignal;
  /** Called with the rows done and the total. */
  readonly onProgress?: (rows: number, total: number) => void;
}

/** Connects, without timeouts for statements. */
export async function connect(url: string, applicationName: string): Promise<Client> {
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

export async function tablesOf(client: Client): Promise<Tables> {
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
export type OpenFile = () => AsyncIterable<Uint8Array>;

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
export async function readRows(
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
export function countRows(data: Buffer): number {
  let lines = 0;
  for (let at = data.indexOf(NEW_LINE); at >= 0; at = data.indexOf(NEW_LINE, at + 1)) lines++;
  return lines;
}

export function sumOf({ tables }: BackupManifest): number {
  return Object.values(tables).reduce((sum, rows) => sum + rows, 0);
}

/** True for errors of the file system or the database. Those of gunzip and tar-stream mean that the file is damaged. */
function isOfSystem(error: unknown): boolean {
  const code = errorCode(error);
  return error instanceof UserError || (code !== '' && !code.startsWith('Z_'));
}

export function damaged(problem: string, cause?: unknown): UserError {
  return new UserError(
    `the backup is damaged: ${problem}`,
    'Nothing was changed. Take another backup.',
    'BACKUP',
    1,
    { cause },
  );
}
