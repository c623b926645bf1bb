import { UserError } from '../../domain/user-error.js';
import { pipeline } from 'node:stream';
import { createGzip } from 'node:zlib';
import type { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { pack, type Pack } from 'tar-stream';
import { onlyRow } from '../connection.js';
import { readHistory } from '../migrate.js';
import {
  type BackupManifest,
  type BackupOptions,
  connect,
  countRows,
  MANIFEST_FILE,
  sumOf,
  tablesOf,
} from './format.js';

/** The archive has files of about this size. One is in memory. */
const PART_BYTES = 1 << 20;
/** Half the time of the default level, for 10 % more bytes. */
const GZIP_LEVEL = 4;

/**
 * Writes a snapshot of the store. Blocks nobody and changes nothing. Leaves out the queue: schedules and audits create
 * their jobs again.
 * @param url a PostgreSQL connection URL
 * @param write writes the bytes of the archive, which it must read to their end
 * @throws {UserError} when there is no mirror; errors of the driver and of `write`; the reason of `signal`
 */
export async function backUp(
  url: string,
  write: (bytes: AsyncIterable<Uint8Array>) => Promise<void>,
  { signal, onProgress }: BackupOptions,
): Promise<BackupManifest> {
  const client = await connect(url, 'seller-mirror backup');
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const manifest = await describe(client);
    const archive = pack();
    const fill = async (): Promise<void> => {
      await addFile(archive, MANIFEST_FILE, Buffer.from(JSON.stringify(manifest, null, 2)));
      let done = 0;
      for (const table of Object.keys(manifest.tables)) {
        let parts = 0;
        for await (const rows of rowsOf(client, table)) {
          signal.throwIfAborted();
          await addFile(archive, `${table}/${++parts}.copy`, rows);
          onProgress?.((done += countRows(rows)), sumOf(manifest));
        }
      }
      archive.finalize();
    };
    const filling = fill().catch((error: unknown) => archive.destroy(error as Error));
    await write(pipeline(archive, createGzip({ level: GZIP_LEVEL }), () => undefined));
    await filling;
    return manifest;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Describes the snapshot of the connection's transaction. */
async function describe(client: Client): Promise<BackupManifest> {
  const { saved } = await tablesOf(client);
  if (saved.length === 0) {
    throw new UserError(
      'there is no mirror in this database yet',
      '`seller-mirror sync` creates one. DATABASE_URL and DATA_DIR say where.',
      'BACKUP',
    );
  }
  const counts = saved.map((name) => `'${name}', (SELECT count(*) FROM mirror.${name})`);
  const { now, ...contents } = onlyRow(
    await client.query<Pick<BackupManifest, 'tables' | 'sequences'> & { now: Date }>(
      `SELECT now(), json_build_object(${counts.join(', ')}) AS tables,
              (SELECT coalesce(json_object_agg(sequencename, last_value::text), '{}')
                 FROM pg_sequences WHERE schemaname = 'mirror' AND last_value IS NOT NULL) AS sequences`,
    ),
  );
  const history = await readHistory(client);
  const migrations = [...history].map(([name, checksum]) => `${name} ${checksum}`).sort();
  return { createdAt: now.toISOString(), migrations, ...contents };
}

/** Resolves when there is room for more. */
function addFile(archive: Pack, name: string, data: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const entry = archive.entry({ name, size: data.length, mode: 0o600 }, (error) =>
      error ? reject(error) : resolve(),
    );
    entry.end(data);
  });
}

/** The rows of a table, in parts of whole lines: COPY escapes line ends within values, so each row is one line. */
async function* rowsOf(client: Client, table: string): AsyncGenerator<Buffer> {
  let part: Buffer[] = [];
  let size = 0;
  for await (const chunk of client.query(copyTo(`COPY mirror.${table} TO STDOUT`))) {
    const bytes = chunk as Buffer;
    // A row may be larger than a part. Only the new bytes are searched for its end.
    const end = size + bytes.length < PART_BYTES ? 0 : bytes.lastIndexOf('\n') + 1;
    if (end > 0) {
      part.push(bytes.subarray(0, end));
      yield Buffer.concat(part);
      [part, size] = [[], 0];
    }
    part.push(bytes.subarray(end));
    size += bytes.length - end;
  }
  if (size > 0) yield Buffer.concat(part);
}
