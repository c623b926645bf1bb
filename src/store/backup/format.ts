import { Client, type ClientBase } from 'pg';
import { z } from 'zod';
import { StoreError } from '../errors.js';
import { HISTORY_SCHEMA } from '../migrate.js';

/** Raised when an older program could no longer read what is written. */
export const FORMAT = 1;

/** The first file of a backup, so that anybody can tell what it is. */
export const HEAD_FILE = 'seller-mirror-backup.json';
/** The last one: what is in it, and what proves that all of it is there. */
export const MANIFEST_FILE = 'manifest.json';

const TABLE = z.object({
  /** In schema `mirror`. */
  name: z.string().regex(/^\w+$/),
  columns: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.number().int().nonnegative(),
  /** Of the rows as PostgreSQL's COPY writes them as text. */
  bytes: z.number().int().nonnegative(),
  sha256: z.string(),
});

/** Half of all numbers are left beyond it. */
export const HIGHEST_LAST = 2n ** 62n;

const SEQUENCE = z.object({
  name: z.string(),
  /** The last number that it gave out; null: none yet. */
  last: z.string().regex(/^\d+$/).nullable(),
});

const MANIFEST = z.object({
  format: z.literal(FORMAT),
  /** The moment whose state it is. */
  createdAt: z.iso.datetime(),
  /** Names of the migrations that the store had, in their order. */
  migrations: z.array(z.string()),
  /** Those that others refer to come first. */
  tables: z.array(TABLE),
  sequences: z.array(SEQUENCE),
});

export type BackupManifest = z.infer<typeof MANIFEST>;
export type BackupTable = z.infer<typeof TABLE>;
export type Sequence = z.infer<typeof SEQUENCE>;
export type TableShape = Pick<BackupTable, 'name' | 'columns'>;

/** Reads the first file. @throws {BackupError} when this program can't read what follows */
export function checkHead(data: Buffer): void {
  const { format } = parsed(z.object({ format: z.number() }), data, 'its head can’t be read');
  if (format > FORMAT) throw tooNew(`format ${format}`);
}

/** Reads the last file. @throws {BackupError} when it can't be read */
export function readManifest(data: Buffer): BackupManifest {
  const manifest = parsed(MANIFEST, data, 'its list of contents can’t be read');
  const full = manifest.sequences.find(({ last }) => BigInt(last ?? 0) > HIGHEST_LAST);
  if (full !== undefined) throw noNumbersLeft(full.name);
  return manifest;
}

function parsed<T>(schema: z.ZodType<T>, data: Buffer, problem: string): T {
  try {
    return schema.parse(JSON.parse(data.toString('utf8')));
  } catch (cause) {
    throw BackupError.damaged(problem, { cause });
  }
}

/** Connects so that text means the same wherever it is read: values are exact in these notations. */
export async function connect(url: string, applicationName: string): Promise<Client> {
  const client = new Client({
    connectionString: url,
    application_name: applicationName,
    keepAlive: true,
  });
  client.on('error', () => undefined); // the statement under way tells it
  await client.connect();
  await client.query(
    `SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO, YMD', false),
            set_config('IntervalStyle', 'postgres', false), set_config('bytea_output', 'hex', false),
            set_config('extra_float_digits', '1', false), set_config('client_encoding', 'UTF8', false),
            set_config('statement_timeout', '0', false), set_config('idle_session_timeout', '0', false),
            set_config('idle_in_transaction_session_timeout', '0', false)`,
  );
  return client;
}

/**
 * The tables that hold the mirror, those that others refer to first. Generated columns are left out,
 * and tables that say nothing of the mirror: the migrations are in the manifest, living processes,
 * the time of the next request and the requests of the last hours are of the moment.
 */
export async function tablesOf(client: ClientBase): Promise<TableShape[]> {
  const { rows } = await client.query<TableShape & { refersTo: readonly string[] }>(
    `SELECT c.relname AS name,
            (SELECT json_agg(json_build_object('name', a.attname,
                      'type', format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum)
               FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND a.attgenerated = '') AS columns,
            ARRAY(SELECT r.relname::text
                    FROM pg_constraint k JOIN pg_class r ON r.oid = k.confrelid
                   WHERE k.conrelid = c.oid AND k.contype = 'f' AND r.oid <> c.oid) AS "refersTo"
       FROM pg_class c
      WHERE c.relnamespace = to_regnamespace('mirror') AND c.relkind = 'r'
        AND c.relname NOT IN ('_prisma_migrations', 'processes', 'request_budgets', 'run_progress',
                              'request_counts', 'sessions', 'login_links', 'epochs', 'feeds',
                              'feed_views')
      ORDER BY c.relname`,
  );
  const ordered: TableShape[] = [];
  let waiting = rows;
  while (waiting.length > 0) {
    const names = new Set(waiting.map(({ name }) => name));
    const free = waiting.filter(({ refersTo }) => !refersTo.some((name) => names.has(name)));
    if (free.length === 0) throw new Error('tables refer to each other in a circle');
    for (const { name, columns } of free) ordered.push({ name, columns });
    waiting = waiting.filter((table) => !free.includes(table));
  }
  return ordered;
}

export async function migrationsOf(client: ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT DISTINCT migration_name AS name FROM ${HISTORY_SCHEMA}._prisma_migrations
      WHERE rolled_back_at IS NULL AND finished_at IS NOT NULL ORDER BY name`,
  );
  return rows.map(({ name }) => name);
}

/** The sequences, with their last numbers. What was read before is not beyond these. */
export async function sequencesOf(client: ClientBase): Promise<Sequence[]> {
  const { rows } = await client.query<Sequence>(
    `SELECT sequencename AS name, last_value::text AS last
       FROM pg_sequences WHERE schemaname = 'mirror' ORDER BY sequencename`,
  );
  return rows;
}

/** SQL of a table's name and columns, in their order. */
export function targetOf({ name, columns }: TableShape): string {
  return `mirror.${quoted(name)} (${columns.map((column) => quoted(column.name)).join(', ')})`;
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A backup could not be made, read or restored; the store is as it was. */
export class BackupError extends StoreError {
  readonly code = 'BACKUP';

  /** The file can't be used. @param what a sentence about it, without its full stop */
  static damaged(what: string, options?: ErrorOptions): BackupError {
    return new BackupError(
      `the backup is damaged: ${what}`,
      'Nothing was changed. Take another backup.',
      options,
    );
  }
}

/** The file is something else than a backup. */
export class NotABackupError extends BackupError {
  constructor() {
    super(
      'the file is not a seller-mirror backup',
      'Name a file that `seller-mirror backup` wrote.',
    );
  }
}

export function tooNew(what: string): BackupError {
  return new BackupError(
    `the backup was made by a newer version of this program (${what})`,
    'Nothing was changed. Upgrade this program, then repeat.',
  );
}

export function noNumbersLeft(sequence: string): BackupError {
  return BackupError.damaged(`its sequence ${sequence} leaves no room for further numbers`);
}
