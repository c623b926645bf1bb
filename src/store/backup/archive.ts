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
    throw BackupError.damaged('it is no archive that this program wrote');
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
