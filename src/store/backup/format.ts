import { createHash, type Hash } from 'node:crypto';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Client, type ClientBase } from 'pg';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
import { StoreError } from '../errors.js';

/** Version of the file format. Increase it when older programs can't read a new backup. */
export const FORMAT = 1;

/** The first file of a backup, which identifies it. */
export const HEAD_FILE = 'seller-mirror-backup.json';
/** The last file of a backup: its contents, with a hash for each table. */
export const MANIFEST_FILE = 'manifest.json';

const TABLE = z.object({
  /** In schema `mirror`. */
  name: z.string().regex(/^\w+$/),
  columns: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.number().int().nonnegative(),
  /** Size and hash of the rows in the text format of PostgreSQL's COPY. */
  bytes: z.number().int().nonnegative(),
  sha256: z.string(),
});

/** Highest accepted last value of a sequence. It leaves half of all numbers. */
export const HIGHEST_LAST = 2n ** 62n;

const SEQUENCE = z.object({
  name: z.string(),
  /** The last number that the sequence returned. Null: none yet. */
  last: z.string().regex(/^\d+$/).nullable(),
});

const MANIFEST = z.object({
  format: z.literal(FORMAT),
  /** The time of the snapshot. */
  createdAt: z.iso.datetime(),
  /** Names of the store's migrations, in order. */
  migrations: z.array(z.string()),
  /** Referenced tables come before those that refer to them. */
  tables: z.array(TABLE),
  sequences: z.array(SEQUENCE),
});

export type BackupManifest = z.infer<typeof MANIFEST>;
export type BackupTable = z.infer<typeof TABLE>;
export type Sequence = z.infer<typeof SEQUENCE>;
export type TableShape = Pick<BackupTable, 'name' | 'columns'>;

function readManifest(data: Buffer): BackupManifest {
  const manifest = parseJson(MANIFEST, data, 'its manifest can’t be read');
  const full = manifest.sequences.find(({ last }) => BigInt(last ?? 0) > HIGHEST_LAST);
  if (full !== undefined) throw sequenceExhausted(full.name);
  return manifest;
}

function parseJson<T>(schema: z.ZodType<T>, data: Buffer, problem: string): T {
  try {
    return schema.parse(JSON.parse(data.toString('utf8')));
  } catch (cause) {
    throw BackupError.damaged(problem, { cause });
  }
}

/** Some rows of a table. Tables come in the manifest's order. */
interface TablePart {
  readonly table: string;
  readonly rows: Buffer;
}

/**
 * Reads a backup to its end and checks that it is complete and unchanged.
 * @returns the manifest, after all parts
 * @throws {NotABackupError} when the file does not begin like a backup
 * @throws {BackupError} when it is damaged, cut off or made by a newer program; the reason of `signal`
 */
export async function* readBackup(
  file: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<TablePart, BackupManifest, undefined> {
  const files = readTar(gunzipped(file));
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
        throw BackupError.damaged('there is data after its manifest');
      }
      compareHashes(manifest, hashes);
      return manifest;
    }
    throw BackupError.damaged('its manifest is missing');
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
  const schema = z.object({ format: z.number() });
  const { format } = parseJson(schema, head.value.data, 'its first file can’t be read');
  if (format > FORMAT) throw tooNew(`format ${format}`);
}

function compareHashes({ tables }: BackupManifest, found: ReadonlyMap<string, Hash>): void {
  const known = new Set(tables.map(({ name }) => name));
  if ([...found.keys()].some((name) => !known.has(name))) {
    throw BackupError.damaged('its manifest does not list all of its tables');
  }
  for (const { name, sha256 } of tables) {
    if ((found.get(name) ?? createHash('sha256')).digest('hex') !== sha256) {
      throw BackupError.damaged(`the rows of ${name} do not match their hash`);
    }
  }
}

async function* gunzipped(file: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  try {
    yield* pipeline(file, createGunzip(), () => undefined) as AsyncIterable<Buffer>;
  } catch (error) {
    const code = errorCode(error);
    if (!code.startsWith('Z_')) throw error;
    const problem = code === 'Z_BUF_ERROR' ? 'it ends too early' : 'it can’t be decompressed';
    throw BackupError.damaged(problem, { cause: error });
  }
}

/** Block size of tar archives. */
const BLOCK = 512;
/** Largest accepted file. Ours are smaller, so a larger size in a header is damage. */
const LARGEST_FILE = 64 * 1024 * 1024;

export interface TarFile {
  readonly name: string;
  readonly data: Buffer;
}

/** A file as it is in a tar archive: header, data and padding. */
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
 * Reads the files of an archive that `tarFile` wrote, with one file in memory.
 * @throws {BackupError} when it is another kind of file, or cut off
 */
export async function* readTar(bytes: AsyncIterable<Buffer>): AsyncGenerator<TarFile, void> {
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
    // Read to the very end, where gunzip verifies its checksum.
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
    throw BackupError.damaged('this program did not write this archive');
  }
  return { name: text(0, 100), size };
}

/** The sum of the header's bytes, with the checksum field counted as spaces. */
function checksumOf(header: Buffer): number {
  return Buffer.from(header)
    .fill(' ', 148, 156)
    .reduce((sum, byte) => sum + byte, 0);
}

function paddingOf(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

/** Connects with settings under which values as text are exact and mean the same everywhere. */
export async function connect(url: string, applicationName: string): Promise<Client> {
  const client = new Client({
    connectionString: url,
    application_name: applicationName,
    keepAlive: true,
  });
  client.on('error', () => undefined); // the current statement fails too
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
 * The tables to back up, referenced tables first, without generated columns. Leaves out the migrations, which are in the
 * manifest, and tables with transient data such as processes, sessions and request budgets.
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
    `SELECT DISTINCT migration_name AS name FROM mirror._prisma_migrations
      WHERE rolled_back_at IS NULL AND finished_at IS NOT NULL ORDER BY name`,
  );
  return rows.map(({ name }) => name);
}

/** The sequences with their last numbers. Call it after reading the rows, so that no row has a higher number. */
export async function sequencesOf(client: ClientBase): Promise<Sequence[]> {
  const { rows } = await client.query<Sequence>(
    `SELECT sequencename AS name, last_value::text AS last
       FROM pg_sequences WHERE schemaname = 'mirror' ORDER BY sequencename`,
  );
  return rows;
}

/** SQL of a table with its columns, for COPY. */
export function targetOf({ name, columns }: TableShape): string {
  return `mirror.${quoted(name)} (${columns.map((column) => quoted(column.name)).join(', ')})`;
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A backup could not be written, read or restored. The store is unchanged. */
export class BackupError extends StoreError {
  readonly code = 'BACKUP';

  static damaged(problem: string, options?: ErrorOptions): BackupError {
    return new BackupError(
      `the backup is damaged: ${problem}`,
      'Nothing was changed. Take another backup.',
      options,
    );
  }
}

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

export function sequenceExhausted(sequence: string): BackupError {
  return BackupError.damaged(`its sequence ${sequence} has too few numbers left`);
}
