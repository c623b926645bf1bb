import type { ClientBase } from 'pg';
import { z } from 'zod';
import { StoreError } from '../errors.js';
import { HISTORY_SCHEMA } from '../migrate.js';

/** Raised when an older program could no longer read what is written. */
export const FORMAT = 1;

/** The first file of a backup, so that anybody can tell what it is. */
export const HEAD_FILE = 'seller-mirror-backup.json';
/** The last one: what is in it, and what proves that all of it is there. */
export const MANIFEST_FILE = 'manifest.json';

const COLUMN = z.object({ name: z.string(), type: z.string() });

const TABLE = z.object({
  /** In schema `mirror`. */
  name: z.string().regex(/^\w+$/),
  columns: z.array(COLUMN),
  rows: z.number().int().nonnegative(),
  /** Of the rows as PostgreSQL's COPY writes them as text. */
  bytes: z.number().int().nonnegative(),
  sha256: z.string(),
});

const MANIFEST = z.object({
  format: z.literal(FORMAT),
  /** The moment whose state it is. */
  createdAt: z.iso.datetime(),
  /** Names of the migrations that the store had, in their order. */
  migrations: z.array(z.string()),
  /** Those that others refer to come first. */
  tables: z.array(TABLE),
  /** The last number that each sequence gave out; null: none yet. */
  sequences: z.array(z.object({ name: z.string(), last: z.string().regex(/^\d+$/).nullable() })),
});

export type BackupManifest = z.infer<typeof MANIFEST>;
export type BackupTable = z.infer<typeof TABLE>;
export type BackupColumn = z.infer<typeof COLUMN>;

const HEAD = z.object({ format: z.number() });

/** Reads the first file. @throws {BackupError} when this program can't read what follows */
export function checkHead(data: Buffer): void {
  const head = HEAD.safeParse(jsonIn(data));
  if (!head.success) throw BackupError.damaged('its head can’t be read');
  if (head.data.format > FORMAT) throw tooNew(`format ${head.data.format}`);
}

/** Reads the last file. @throws {BackupError} when it can't be read */
export function readManifest(data: Buffer): BackupManifest {
  const manifest = MANIFEST.safeParse(jsonIn(data));
  if (!manifest.success) throw BackupError.damaged('its list of contents can’t be read');
  return manifest.data;
}

export function tooNew(what: string): BackupError {
  return new BackupError(
    `the backup was made by a newer version of this program (${what})`,
    'Nothing was changed. Upgrade this program, then repeat.',
  );
}

function jsonIn(data: Buffer): unknown {
  try {
    return JSON.parse(data.toString('utf8'));
  } catch {
    return null;
  }
}

/** A table to be written or filled. */
export interface TableShape {
  readonly name: string;
  readonly columns: readonly BackupColumn[];
}

/**
 * Tables that say nothing of the mirror: which migrations there are is in the manifest, which
 * processes live and when the next request may leave is of the moment.
 */
const LEFT_OUT = ['_prisma_migrations', 'processes', 'request_budgets'];

const TABLES = `
  SELECT c.relname AS name,
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
     AND c.relname <> ALL ($1::text[])
   ORDER BY c.relname`;

/** The tables that hold the mirror, those that others refer to first. Generated columns are left out. */
export async function tablesOf(client: ClientBase): Promise<TableShape[]> {
  const { rows } = await client.query<TableShape & { refersTo: readonly string[] }>(TABLES, [
    LEFT_OUT,
  ]);
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

/** Names of the migrations that the store has, in their order. */
export async function migrationsOf(client: ClientBase): Promise<string[]> {
  const table = `${HISTORY_SCHEMA}._prisma_migrations`;
  const found = await client.query<{ there: boolean }>(
    `SELECT to_regclass('${table}') IS NOT NULL AS there`,
  );
  if (found.rows[0]?.there !== true) return [];
  const { rows } = await client.query<{ name: string }>(
    `SELECT DISTINCT migration_name AS name FROM ${table}
      WHERE rolled_back_at IS NULL AND finished_at IS NOT NULL ORDER BY name`,
  );
  return rows.map(({ name }) => name);
}

/** The last number that each sequence gave out. What was read before is not beyond it. */
export async function sequencesOf(
  client: ClientBase,
): Promise<{ name: string; last: string | null }[]> {
  const { rows } = await client.query<{ name: string; last: string | null }>(
    `SELECT sequencename AS name, last_value::text AS last
       FROM pg_sequences WHERE schemaname = 'mirror' ORDER BY sequencename`,
  );
  return rows;
}

/** SQL of a table's name and columns, in their order. */
export function targetOf({ name, columns }: TableShape): string {
  const list = columns.map((column) => quoted(column.name)).join(', ');
  return `mirror.${quoted(name)} (${list})`;
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** So that text means the same wherever it is read: values are exact in these notations. */
export const SAME_NOTATION = `
  SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO, YMD', false),
         set_config('IntervalStyle', 'postgres', false), set_config('bytea_output', 'hex', false),
         set_config('extra_float_digits', '1', false), set_config('client_encoding', 'UTF8', false),
         set_config('statement_timeout', '0', false), set_config('idle_session_timeout', '0', false),
         set_config('idle_in_transaction_session_timeout', '0', false)`;

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
