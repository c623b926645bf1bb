import { createHash, type Hash } from 'node:crypto';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { errorCode } from '../errors.js';
import {
  BackupError,
  NotABackupError,
  checkHead,
  HEAD_FILE,
  MANIFEST_FILE,
  readManifest,
  type BackupManifest,
} from './format.js';
import { readTar } from './tar.js';

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
