import { createHash, type Hash } from 'node:crypto';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Client, type ClientBase } from 'pg';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
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
function checkHead(data: Buffer): void {
  const { format } = parsed(z.object({ format: z.number() }), data, 'its head can’t be read');
  if (format > FORMAT) throw tooNew(`format ${format}`);
}

/** Reads the last file. @throws {BackupError} when it can't be read */
function readManifest(data: Buffer): BackupManifest {
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

/** Rows of a table. All of one table come one after the other, the tables in the manifest's order. */
export interface RowsPart {
  readonly table: string;
  readonly rows: Buffer;
}

/**
 * Reads a backup to its end, and makes sure that all of it is there, as it was written.
 * @param file its bytes from the beginning
 * @throws {NotABackupError} when its beginning is not that of a backup
 * @throws {BackupError} when it is damaged or cut off, or was made by a newer program; what `signal` says
 */
export async function* readBackup(
  file: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<RowsPart, BackupManifest, undefined> {
  const files = readTar(unpacked(file));
  try {
    await readHead(files);
    const hashes = new Map<string, Hash>();
    for await (const { name, data } of files) {
      signal.throwIfAborted();
      if (name !== MANIFEST_FILE) {
        const table = name.slice(0, name.indexOf('/'));
        hashes.set(table, (hashes.get(table) ?? createHash('sha256')).update(data));
        yield { table, rows: data };
        continue;
      }
      const manifest = readManifest(data);
      if ((await files.next()).done !== true) {
        throw BackupError.damaged('something follows its list of contents');
      }
      compareRows(manifest, hashes);
      return manifest;
    }
    throw BackupError.damaged('its list of contents is missing');
  } finally {
    await files.return();
  }
}

async function readHead(files: ReturnType<typeof readTar>): Promise<void> {
  const head = await files.next().catch((error: unknown) => {
    if (error instanceof BackupError) throw new NotABackupError();
    throw error;
  });
  if (head.done === true || head.value.name !== HEAD_FILE) throw new NotABackupError();
  checkHead(head.value.data);
}

function compareRows({ tables }: BackupManifest, found: ReadonlyMap<string, Hash>): void {
  const known = new Set(tables.map(({ name }) => name));
  if ([...found.keys()].some((name) => !known.has(name))) {
    throw BackupError.damaged('it holds what its list does not name');
  }
  for (const { name, sha256 } of tables) {
    if ((found.get(name) ?? createHash('sha256')).digest('hex') !== sha256) {
      throw BackupError.damaged(`the rows of ${name} are not those that were written`);
    }
  }
}

async function* unpacked(file: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  try {
    yield* pipeline(file, createGunzip(), () => undefined) as AsyncIterable<Buffer>;
  } catch (error) {
    const code = errorCode(error);
    if (!code.startsWith('Z_')) throw error;
    const what = code === 'Z_BUF_ERROR' ? 'it ends too early' : 'it can’t be unpacked';
    throw BackupError.damaged(what, { cause: error });
  }
}

/** Everything in a tar archive comes in blocks of this size. */
const BLOCK = 512;
/** No file of ours is larger; one that claims to be is not read into memory. */
const LARGEST_FILE = 64 * 1024 * 1024;

export interface TarFile {
  readonly name: string;
  readonly data: Buffer;
}

export function tarFile({ name, data }: TarFile, modified: Date): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number): void => {
    header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1');
  };
  header.write(name, 0, 100, 'latin1');
  octal(0o600, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(data.length, 124, 12);
  octal(Math.floor(modified.getTime() / 1000), 136, 12);
  header.write('0', 156, 'latin1');
  header.write('ustar\u000000', 257, 'latin1');
  octal(checksumOf(header), 148, 8);
  return Buffer.concat([header, data, Buffer.alloc(paddingOf(data.length))]);
}

export const TAR_END: Buffer = Buffer.alloc(2 * BLOCK);

/**
 * The files of an archive that `tarFile` wrote, one at a time in memory.
 * @throws {BackupError} when it is none, or is cut off
 */
export async function* readTar(
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<TarFile, void, undefined> {
  const source = bytes[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  const take = async (length: number): Promise<Buffer> => {
    const pieces = [rest];
    for (let have = rest.length; have < length;) {
      const next = await source.next();
      if (next.done === true) throw BackupError.damaged('it ends too early');
      pieces.push(next.value);
      have += next.value.length;
    }
    const all = Buffer.concat(pieces);
    rest = all.subarray(length);
    return all.subarray(0, length);
  };
  try {
    for (;;) {
      const header = await take(BLOCK);
      if (header.every((byte) => byte === 0)) break;
      const { name, size } = readHeader(header);
      const data = await take(size);
      await take(paddingOf(size));
      yield { name, data };
    }
    // At its very end, what is compressed is checked as a whole.
    while ((await source.next()).done !== true);
  } finally {
    await source.return?.();
  }
}

function readHeader(header: Buffer): { name: string; size: number } {
  const text = (at: number, length: number): string =>
    header.toString('latin1', at, at + length).replace(/\0.*$/s, '');
  const [checksum, size] = [Number.parseInt(text(148, 8), 8), Number.parseInt(text(124, 12), 8)];
  if (checksum !== checksumOf(header) || !(size >= 0 && size <= LARGEST_FILE)) {
    throw BackupError.damaged('it is not an archive that this program wrote');
  }
  return { name: text(0, 100), size };
}

/** The sum of the header's bytes, those of the checksum itself counted as spaces. */
function checksumOf(header: Buffer): number {
  return Buffer.from(header)
    .fill(' ', 148, 156)
    .reduce((sum, byte) => sum + byte, 0);
}

function paddingOf(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
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
