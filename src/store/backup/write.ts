import { createHash } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import {
  migrationsOf,
  SAME_NOTATION,
  sequencesOf,
  tablesOf,
  targetOf,
  type TableShape,
  BackupError,
  FORMAT,
  HEAD_FILE,
  MANIFEST_FILE,
  type BackupManifest,
  type BackupTable,
} from './format.js';
import { TAR_END, tarFile } from './tar.js';

/** Rows of a table come in files of about this size, one of which is in memory. */
const FILE_BYTES = 1 << 20;
/** Half the time of the default, for a tenth more bytes. */
const COMPRESSION = 4;
const NEW_LINE = 0x0a;

export interface BackupOptions {
  readonly signal: AbortSignal;
  /** Rows that are written, and how many there are. */
  readonly onProgress?: (rows: number, total: number) => void;
}

/** A backup under way. */
export interface Backup {
  /** The file, to be read once, to its end. */
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Its contents, once it was read. */
  manifest(): BackupManifest;
}

/**
 * The store as it is at one moment, as a compressed tar archive: the rows of each table as
 * PostgreSQL's COPY writes them as text, and a manifest. It blocks nobody and changes nothing.
 * The queue is not in it: what was to be done is made good by the schedules and the audits.
 * @param url a PostgreSQL connection URL
 * @throws {BackupError} when there is no mirror; what the driver throws; what `signal` says
 */
export function backUp(url: string, options: BackupOptions): Backup {
  let manifest: BackupManifest | null = null;
  const files = archive(url, options, (done) => (manifest = done));
  return {
    bytes: compressed(files),
    manifest: () => {
      if (manifest === null) throw new Error('the backup is not finished');
      return manifest;
    },
  };
}

async function* compressed(
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const gzip = createGzip({ level: COMPRESSION });
  const feeding = pipeline(bytes, gzip);
  // Told to who reads; unread, it must not end the process.
  feeding.catch(() => undefined);
  yield* gzip as AsyncIterable<Uint8Array>;
  await feeding;
}

async function* archive(
  url: string,
  { signal, onProgress }: BackupOptions,
  onDone: (manifest: BackupManifest) => void,
): AsyncGenerator<Buffer, void, undefined> {
  const client = new Client({
    connectionString: url,
    application_name: 'seller-mirror backup',
    keepAlive: true,
  });
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(SAME_NOTATION);
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const { rows } = await client.query<{ now: Date }>('SELECT now()');
    const now = rows[0]?.now ?? new Date();
    const [migrations, shapes] = [await migrationsOf(client), await tablesOf(client)];
    if (shapes.length === 0 || migrations.length === 0) throw noMirror();
    const head = { format: FORMAT, createdAt: now.toISOString(), migrations };
    yield tarFile({ name: HEAD_FILE, data: jsonFile(head) }, now);
    const progress = { done: 0, total: await rowsOf(client, shapes) };
    const tables: BackupTable[] = [];
    for (const shape of shapes) {
      const table = new TableWriter(shape);
      for await (const file of table.files(client)) {
        signal.throwIfAborted();
        yield tarFile(file, now);
        onProgress?.(progress.done + table.rows, progress.total);
      }
      progress.done += table.rows;
      tables.push(table.summary());
    }
    const manifest: BackupManifest = {
      ...{ ...head, format: FORMAT },
      tables,
      sequences: await sequencesOf(client),
    };
    yield tarFile({ name: MANIFEST_FILE, data: jsonFile(manifest) }, now);
    yield TAR_END;
    onDone(manifest);
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

function jsonFile(value: unknown): Buffer {
  return Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
}

async function rowsOf(client: Client, tables: readonly TableShape[]): Promise<number> {
  let total = 0;
  for (const { name } of tables) {
    const { rows } = await client.query<{ rows: number }>(
      `SELECT count(*)::float8 AS rows FROM mirror.${name}`,
    );
    total += rows[0]?.rows ?? 0;
  }
  return total;
}

/** Writes the rows of one table, and adds up what proves that they are all there. */
class TableWriter {
  readonly #shape: TableShape;
  readonly #hash = createHash('sha256');
  #bytes = 0;
  rows = 0;

  constructor(shape: TableShape) {
    this.#shape = shape;
  }

  async *files(client: Client): AsyncGenerator<{ name: string; data: Buffer }, void, undefined> {
    const stream = client.query(copyTo(`COPY ${targetOf(this.#shape)} TO STDOUT`));
    let number = 0;
    let chunks: Buffer[] = [];
    let size = 0;
    const file = (): { name: string; data: Buffer } => {
      const data = Buffer.concat(chunks, size);
      [chunks, size] = [[], 0];
      this.#count(data);
      return { name: `${this.#shape.name}/${String(++number).padStart(6, '0')}.copy`, data };
    };
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= FILE_BYTES) yield file();
    }
    if (size > 0) yield file();
    if (this.rows !== stream.rowCount) {
      throw new Error(`${this.rows} of ${stream.rowCount} rows came of ${this.#shape.name}`);
    }
  }

  summary(): BackupTable {
    const { name, columns } = this.#shape;
    const sha256 = this.#hash.digest('hex');
    return { name, columns: [...columns], rows: this.rows, bytes: this.#bytes, sha256 };
  }

  #count(data: Buffer): void {
    this.#hash.update(data);
    this.#bytes += data.length;
    this.rows += countLines(data);
  }
}

/** Line ends within values are escaped, so that each row is one line. */
function countLines(data: Buffer): number {
  let lines = 0;
  for (let at = data.indexOf(NEW_LINE); at >= 0; at = data.indexOf(NEW_LINE, at + 1)) lines++;
  return lines;
}
