import { createHash, type Hash } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { errorCode } from '../errors.js';
import { BackupError } from './error.js';
import {
  checkHead,
  HEAD_FILE,
  MANIFEST_FILE,
  readManifest,
  type BackupManifest,
} from './manifest.js';
import { readTar, type TarFile } from './tar.js';
import { countLines } from './write.js';

/** Takes rows of a table; those of one table come one after the other, in the manifest's order. */
export type TakeRows = (table: string, rows: Buffer) => Promise<void> | void;

/**
 * Reads a backup to its end, and makes sure that all of it is there, as it was written.
 * @param file its bytes from the beginning
 * @throws {BackupError} when it is none, is damaged or cut off, or was made by a newer program; what
 *   reading and `take` throw
 */
export async function readBackup(
  file: AsyncIterable<Uint8Array>,
  take: TakeRows,
): Promise<BackupManifest> {
  const found = new Map<string, Found>();
  let manifest: BackupManifest | null = null;
  let isFirst = true;
  for await (const { name, data } of readTar(unpacked(file))) {
    if (isFirst) checkFirst({ name, data });
    else if (manifest !== null) throw BackupError.damaged('something follows its list of contents');
    else if (name === MANIFEST_FILE) manifest = readManifest(data);
    else await takeFile(found, { name, data }, take);
    isFirst = false;
  }
  if (manifest === null) throw BackupError.damaged('its list of contents is missing');
  compare(manifest, found);
  return manifest;
}

/** What came of a table. */
interface Found {
  readonly hash: Hash;
  files: number;
  rows: number;
}

function checkFirst({ name, data }: TarFile): void {
  if (name !== HEAD_FILE) throw BackupError.damaged('it is no backup of this program');
  checkHead(data);
}

async function takeFile(
  found: Map<string, Found>,
  { name, data }: TarFile,
  take: TakeRows,
): Promise<void> {
  const [, table = '', number] = /^(\w+)\/(\d+)\.copy$/.exec(name) ?? [];
  const one = found.get(table) ?? { hash: createHash('sha256'), files: 0, rows: 0 };
  found.set(table, one);
  if (Number(number) !== ++one.files) throw BackupError.damaged('its parts are not in their order');
  one.hash.update(data);
  one.rows += countLines(data);
  await take(table, data);
}

function compare({ tables }: BackupManifest, found: ReadonlyMap<string, Found>): void {
  const empty = createHash('sha256').digest('hex');
  for (const { name, rows, sha256 } of tables) {
    const one = found.get(name);
    const same = one === undefined ? empty : one.hash.digest('hex');
    if (same !== sha256 || (one?.rows ?? 0) !== rows) {
      throw BackupError.damaged(`the rows of ${name} are not those that were written`);
    }
  }
  const known = new Set(tables.map(({ name }) => name));
  const stranger = [...found.keys()].find((name) => !known.has(name));
  if (stranger !== undefined) throw BackupError.damaged('it holds what its list does not name');
}

async function* unpacked(file: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  const gunzip = createGunzip();
  const feeding = pipeline(file, gunzip);
  feeding.catch(() => undefined);
  try {
    yield* gunzip as AsyncIterable<Buffer>;
    await feeding;
  } catch (error) {
    if (!errorCode(error).startsWith('Z_')) throw error;
    const what = errorCode(error) === 'Z_BUF_ERROR' ? 'it ends too early' : 'it can’t be unpacked';
    throw BackupError.damaged(what, { cause: error });
  } finally {
    gunzip.destroy();
  }
}
