import { createHash } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
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
import { readTar, type TarFile } from './tar.js';

/** Takes rows of a table; those of one table come one after the other, in the manifest's order. */
export type TakeRows = (table: string, rows: Buffer) => Promise<void> | void;

/**
 * Reads a backup to its end, and makes sure that all of it is there, as it was written.
 * @param file its bytes from the beginning
 * @throws {NotABackupError} when its beginning is not that of a backup
 * @throws {BackupError} when it is damaged or cut off, or was made by a newer program; what reading and
 *   `take` throw
 */
export async function readBackup(
  file: AsyncIterable<Uint8Array>,
  take: TakeRows,
): Promise<BackupManifest> {
  const found = new Map<string, TableRows>();
  let manifest: BackupManifest | null = null;
  let isBackup = false;
  try {
    for await (const { name, data } of readTar(unpacked(file))) {
      if (!isBackup) {
        isBackup = name === HEAD_FILE;
        if (!isBackup) break;
        checkHead(data);
      } else if (manifest !== null) {
        throw BackupError.damaged('something follows its list of contents');
      } else if (name === MANIFEST_FILE) manifest = readManifest(data);
      else await takeRows(found, { name, data }, take);
    }
  } catch (error) {
    if (isBackup || !(error instanceof BackupError)) throw error;
  }
  if (!isBackup) throw new NotABackupError();
  if (manifest === null) throw BackupError.damaged('its list of contents is missing');
  compareRows(manifest, found);
  checkSequences(manifest, found);
  return manifest;
}

async function takeRows(
  found: Map<string, TableRows>,
  { name, data }: TarFile,
  take: TakeRows,
): Promise<void> {
  const [, table = '', number] = /^(\w+)\/(\d+)\.copy$/.exec(name) ?? [];
  const rows = found.get(table) ?? new TableRows(table);
  found.set(table, rows);
  if (Number(number) !== ++rows.files)
    throw BackupError.damaged('its parts are not in their order');
  rows.take(data);
  await take(table, data);
}

/** Columns that take their numbers from a sequence. */
export const NUMBERED: readonly {
  readonly table: string;
  readonly column: string;
  /** How many cells stand before it in a row. */
  readonly place: number;
  readonly sequence: string;
}[] = [
  { table: 'audits', column: 'audit_id', place: 0, sequence: 'audits_audit_id_seq' },
  { table: 'code_checks', column: 'check_id', place: 0, sequence: 'code_checks_check_id_seq' },
  { table: 'code_transitions', column: 'seq', place: 0, sequence: 'code_transitions_seq_seq' },
  { table: 'item_changes', column: 'seq', place: 0, sequence: 'item_changes_seq_seq' },
  { table: 'purchase_codes', column: 'changed_seq', place: 23, sequence: 'item_changes_seq_seq' },
  { table: 'purchase_codes', column: 'code_id', place: 0, sequence: 'purchase_codes_code_id_seq' },
  {
    table: 'quarantine',
    column: 'quarantine_id',
    place: 0,
    sequence: 'quarantine_quarantine_id_seq',
  },
  { table: 'runs', column: 'run_id', place: 0, sequence: 'runs_run_id_seq' },
];

const NO_BYTES = Buffer.alloc(0);
const [NEW_LINE, TAB] = [0x0a, 0x09];

/** The rows of one table as they come, each a line. */
class TableRows {
  files = 0;
  count = 0;
  readonly #table: string;
  readonly #hash = createHash('sha256');
  readonly #numbered: typeof NUMBERED;
  /** The greatest number of each numbered column, in digits. */
  readonly #greatest = new Map<string, string>();
  /** The beginning of a row whose end is in the next file. */
  #rest: Buffer = NO_BYTES;

  constructor(table: string) {
    this.#table = table;
    this.#numbered = NUMBERED.filter((column) => column.table === table);
  }

  take(data: Buffer): void {
    this.#hash.update(data);
    let start = 0;
    for (let end = data.indexOf(NEW_LINE); end >= 0; end = data.indexOf(NEW_LINE, start)) {
      const row = data.subarray(start, end);
      this.#takeRow(this.#rest.length === 0 ? row : Buffer.concat([this.#rest, row]));
      this.#rest = NO_BYTES;
      this.count++;
      start = end + 1;
    }
    if (start < data.length) this.#rest = Buffer.concat([this.#rest, data.subarray(start)]);
  }

  /** Ends the rows; returns what proves that they are those that were written. */
  sha256(): string {
    if (this.#rest.length > 0) throw this.#misshapen();
    return this.#hash.digest('hex');
  }

  greatest(column: string): bigint {
    return BigInt(this.#greatest.get(column) ?? 0);
  }

  #takeRow(row: Buffer): void {
    // COPY would take it for the end of all rows.
    if (row.length === 2 && row.toString('latin1') === '\\.') throw this.#misshapen();
    for (const { column, place } of this.#numbered) {
      const cell = cellOf(row, place);
      if (cell === '\\N') continue;
      // PostgreSQL writes plain digits; it would read other notations, too.
      if (!/^[1-9]\d{0,18}$/.test(cell)) throw this.#misshapen();
      const known = this.#greatest.get(column) ?? '';
      const isGreater = cell.length === known.length ? cell > known : cell.length > known.length;
      if (isGreater) this.#greatest.set(column, cell);
    }
  }

  #misshapen(): BackupError {
    return BackupError.damaged(`its rows of ${this.#table} are not as PostgreSQL writes them`);
  }
}

function cellOf(row: Buffer, place: number): string {
  let start = 0;
  for (let before = 0; before < place; before++) {
    const tab = row.indexOf(TAB, start);
    if (tab < 0) return '\\N'; // a table of an older version, which has no such column yet
    start = tab + 1;
  }
  const tab = row.indexOf(TAB, start);
  return row.toString('latin1', start, tab < 0 ? row.length : tab);
}

function compareRows({ tables }: BackupManifest, found: ReadonlyMap<string, TableRows>): void {
  for (const { name, rows, sha256 } of tables) {
    const its = found.get(name) ?? new TableRows(name);
    if (its.sha256() !== sha256 || its.count !== rows) {
      throw BackupError.damaged(`the rows of ${name} are not those that were written`);
    }
  }
  const known = new Set(tables.map(({ name }) => name));
  const stranger = [...found.keys()].find((name) => !known.has(name));
  if (stranger !== undefined) throw BackupError.damaged('it holds what its list does not name');
}

/** Half of all numbers are left beyond it. */
const HIGHEST_LAST = 2n ** 62n;

/** A store whose sequences give out numbers that are taken, or none, could never be written to. */
function checkSequences(
  { tables, sequences }: BackupManifest,
  found: ReadonlyMap<string, TableRows>,
): void {
  for (const { name, last } of sequences) {
    if (last === null || (BigInt(last) > 0n && BigInt(last) <= HIGHEST_LAST)) continue;
    throw BackupError.damaged(`its sequence ${name} leaves no room for further numbers`);
  }
  const lasts = new Map(sequences.map(({ name, last }) => [name, BigInt(last ?? 0)]));
  for (const { table, column, place, sequence } of NUMBERED) {
    const columns = tables.find(({ name }) => name === table)?.columns ?? [];
    const where = columns.findIndex(({ name }) => name === column);
    if (where < 0) continue; // of an older version
    if (where !== place)
      throw BackupError.damaged(`the columns of ${table} are not in their order`);
    if ((found.get(table)?.greatest(column) ?? 0n) <= (lasts.get(sequence) ?? 0n)) continue;
    throw BackupError.damaged(`its sequence ${sequence} is behind the numbers of ${table}`);
  }
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
