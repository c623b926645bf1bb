import { createHash } from 'node:crypto';
import { pipeline } from 'node:stream';
import { createGzip } from 'node:zlib';
import type { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import {
  BackupError,
  connect,
  FORMAT,
  HEAD_FILE,
  MANIFEST_FILE,
  migrationsOf,
  quoted,
  sequencesOf,
  tablesOf,
  TAR_END,
  tarFile,
  targetOf,
  type BackupManifest,
  type BackupTable,
  type TableShape,
} from './format.js';

/** Rows of a table come in files of about this size, one of which is in memory. */
const FILE_BYTES = 1 << 20;
/** Half the time of the default, for a tenth more bytes. */
const COMPRESSION = 4;
const NEW_LINE = 0x0a;

export interface BackupOptions {
  readonly signal: AbortSignal;
  /** Rows that are done, and how many there are. */
  readonly onProgress?: (rows: number, total: number) => void;
}

/**
 * The store as it is at one moment, as a compressed tar archive: the rows of each table as
 * PostgreSQL's COPY writes them as text, and a manifest. It blocks nobody and changes nothing.
 * The queue is not in it: schedules and audits make good what was to be done.
 * @param url a PostgreSQL connection URL
 * @returns `bytes`, the file, to be read once and to its end, and then `manifest`, its contents
 * @throws {BackupError} when there is no mirror; what the driver throws; what `signal` says
 */
export function backUp(url: string, options: BackupOptions) {
  let manifest: BackupManifest | null = null;
  const files = async function* (): AsyncGenerator<Buffer, void, undefined> {
    manifest = yield* archive(url, options);
  };
  return {
    bytes: compressed(files()),
    manifest: (): BackupManifest => {
      if (manifest === null) throw new Error('the backup is not finished');
      return manifest;
    },
  };
}

async function* compressed(bytes: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  const gzip = createGzip({ level: COMPRESSION });
  yield* pipeline(bytes, gzip, () => undefined) as AsyncIterable<Uint8Array>;
}

async function* archive(
  url: string,
  { signal, onProgress }: BackupOptions,
): AsyncGenerator<Buffer, BackupManifest, undefined> {
  const client = await connect(url, 'seller-mirror backup');
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const shapes = await tablesOf(client);
    if (shapes.length === 0) throw noMirror();
    const { rows } = await client.query<{ now: Date }>('SELECT now()');
    const now = rows[0]?.now ?? new Date();
    const head = {
      format: FORMAT,
      createdAt: now.toISOString(),
      migrations: await migrationsOf(client),
    } as const;
    yield tarFile({ name: HEAD_FILE, data: jsonFile(head) }, now);
    const total = await countRows(client, shapes);
    const tables: BackupTable[] = [];
    let done = 0;
    for (const shape of shapes) {
      const hash = createHash('sha256');
      let files = 0;
      let rows = 0;
      let bytes = 0;
      for await (const data of rowsOf(client, shape)) {
        signal.throwIfAborted();
        hash.update(data);
        rows += countLines(data);
        bytes += data.length;
        const name = `${shape.name}/${String(++files).padStart(6, '0')}.copy`;
        yield tarFile({ name, data }, now);
        onProgress?.(done + rows, total);
      }
      done += rows;
      tables.push({ ...shape, rows, bytes, sha256: hash.digest('hex') });
    }
    const manifest = { ...head, tables, sequences: await sequencesOf(client) };
    yield tarFile({ name: MANIFEST_FILE, data: jsonFile(manifest) }, now);
    yield TAR_END;
    return manifest;
  } finally {
    // Whether or not it is in the middle of a table: nothing was written.
    await client.end().catch(() => undefined);
  }
}

function noMirror(): BackupError {
  return new BackupError(
    'there is no mirror in this database yet',
    '`seller-mirror sync` begins one; DATABASE_URL and DATA_DIR say where it is.',
  );
}

function jsonFile(value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
}

async function countRows(client: Client, tables: readonly TableShape[]): Promise<number> {
  let total = 0;
  for (const { name } of tables) {
    const { rows } = await client.query<{ rows: number }>(
      `SELECT count(*)::float8 AS rows FROM mirror.${quoted(name)}`,
    );
    total += rows[0]?.rows ?? 0;
  }
  return total;
}

/** The rows of a table, each a line, in portions for a file each. */
async function* rowsOf(client: Client, table: TableShape): AsyncGenerator<Buffer> {
  const stream = client.query(copyTo(`COPY ${targetOf(table)} TO STDOUT`));
  let chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size < FILE_BYTES) continue;
    yield Buffer.concat(chunks);
    chunks = [];
    size = 0;
  }
  if (size > 0) yield Buffer.concat(chunks);
}

/** Line ends within values are escaped, so that each row is one line. */
function countLines(data: Buffer): number {
  let lines = 0;
  for (let at = data.indexOf(NEW_LINE); at >= 0; at = data.indexOf(NEW_LINE, at + 1)) lines++;
  return lines;
}
