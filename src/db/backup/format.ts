import type { Client } from 'pg';
import { z } from 'zod';
import { DbClient } from '../connection.js';
import { StoreError } from '../errors.js';

export const MANIFEST_FILE = 'manifest.json';

/** The first file of a backup. The others have the rows of the tables. */
export const MANIFEST = z.object({
  /** The time of the snapshot. */
  createdAt: z.iso.datetime(),
  /** The store's migrations, each with its checksum: the version of the schema. */
  migrations: z.array(z.string()),
  /** The number of rows of each table. Referenced tables come before those that refer to them. */
  tables: z.record(z.string(), z.number().int().nonnegative()),
  /** The last number of each sequence. */
  sequences: z.record(z.string(), z.string().regex(/^\d{1,18}$/)),
});

export type BackupManifest = z.infer<typeof MANIFEST>;

/** A backup could not be written, read or restored. The store is unchanged. */
export class BackupError extends StoreError {
  readonly code = 'BACKUP';
}

/** The file is of another kind. */
export class NotABackupError extends BackupError {}

/** Sessions and progress are not in a backup, and don't outlive a restore. */
export const EMPTIED = ['run_progress', 'sessions', 'login_links'];
/** What describes this server or its readers is not in a backup, and stays. */
const KEPT = [
  ...['_prisma_migrations', 'epochs', 'processes'],
  ...['request_budgets', 'request_counts', 'feeds', 'feed_views'],
];

export interface BackupOptions {
  readonly signal: AbortSignal;
  /** Called with the rows done and the total. */
  readonly onProgress?: (rows: number, total: number) => void;
}

/** The tables of a backup. Referenced tables come before those that refer to them. */
export async function tablesOf(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `WITH RECURSIVE reference AS (
       SELECT conrelid AS child, confrelid AS parent FROM pg_constraint
        WHERE contype = 'f' AND conrelid <> confrelid
     ), place (oid, depth) AS (
       SELECT oid, 0 FROM pg_class WHERE relnamespace = to_regnamespace('mirror') AND relkind = 'r'
       UNION SELECT child, depth + 1 FROM place JOIN reference ON parent = oid
     )
     SELECT relname::text AS name FROM place JOIN pg_class USING (oid)
      WHERE relname <> ALL ($1) GROUP BY relname ORDER BY max(depth), relname`,
    [[...EMPTIED, ...KEPT]],
  );
  return rows.map(({ name }) => name);
}

export async function migrationsOf(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ migration: string }>(
    `SELECT migration_name || ' ' || checksum AS migration FROM mirror._prisma_migrations
      WHERE rolled_back_at IS NULL AND finished_at IS NOT NULL ORDER BY migration_name`,
  );
  return rows.map(({ migration }) => migration);
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

export function sumOf({ tables }: BackupManifest): number {
  return Object.values(tables).reduce((sum, rows) => sum + rows, 0);
}

const NEW_LINE = 0x0a;

/** Counts rows in COPY's text format, which escapes line ends within values. */
export function countRows(data: Buffer): number {
  let lines = 0;
  for (let at = data.indexOf(NEW_LINE); at >= 0; at = data.indexOf(NEW_LINE, at + 1)) lines++;
  return lines;
}
