import { Option } from 'commander';
import { COMMA_CSV, PLAIN_CSV, type CsvDialect } from '../domain/csv.js';
import { roomFault } from '../intake/types.js';
import { assertWritable } from '../intake/write-whole.js';
import { usageError } from './errors.js';

export interface CsvOptions {
  readonly decimalComma?: boolean;
}

/** For commands that write CSV. */
export const DECIMAL_COMMA = new Option(
  '--decimal-comma',
  'write CSV for an Excel with decimal commas: 19,90; semicolons between cells',
);

/**
 * How CSV is written.
 * @param format what is written
 * @throws {CommandError} when decimal commas are asked for, and it is not CSV
 */
export function csvDialect({ decimalComma }: CsvOptions, format: string): CsvDialect {
  if (decimalComma !== true) return PLAIN_CSV;
  if (format === 'csv') return COMMA_CSV;
  throw usageError(
    `--decimal-comma is for CSV, and this writes ${format}`,
    format === 'xlsx'
      ? 'leave it out: Excel shows numbers as its country does'
      : 'add --format csv, or leave it out',
  );
}

export interface OutOptions<Format extends string> extends CsvOptions {
  /** Default: stdout. */
  readonly out?: string;
  readonly format?: Format;
}

/** In place of a file's name. */
export const STDOUT = '-';

/** Where something is written, and how. */
export interface OutPlace<Format extends string> {
  /** null: stdout. */
  readonly path: string | null;
  readonly format: Format;
  readonly decimalComma: boolean;
}

/**
 * The format is the given one, or that of the file's ending; CSV on stdout.
 * @throws {CommandError} when the ending is of no format, or decimal commas are asked for and it is not CSV
 */
export function outPlace<Format extends string>(
  { out = STDOUT, format: asked, decimalComma = false }: OutOptions<Format>,
  formats: readonly (Format | 'csv')[],
): OutPlace<Format | 'csv'> {
  const path = out === STDOUT ? null : out;
  const format = asked ?? (path === null ? 'csv' : formatOfFile(path, formats));
  if (format === null) {
    const endings = formats.map((one) => `.${one}`);
    throw usageError(
      `the ending of ${JSON.stringify(out)} says no format`,
      `name a file ending in ${endings.slice(0, -1).join(', ')} or ${endings.at(-1)}, or say --format ${formats.join('|')}`,
    );
  }
  csvDialect({ decimalComma }, format);
  return { path, format, decimalComma };
}

/** The format of a file's ending; null for other endings. */
export function formatOfFile<Format extends string>(
  path: string,
  formats: readonly Format[],
): Format | null {
  const ending = /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase();
  return formats.find((format) => format === (ending === 'jsonl' ? 'ndjson' : ending)) ?? null;
}

/** Formats that are not text. */
const BINARY: Readonly<Record<string, string>> = { xlsx: 'a workbook', parquet: 'Parquet' };

/** Checks that something can be written there, before work is spent. @throws {CommandError | IntakeError} */
export async function checkOut(place: OutPlace<string> | null): Promise<void> {
  if (place === null) return;
  const { path, format } = place;
  if (path !== null) await assertWritable(path);
  else if (process.stdout.isTTY && BINARY[format] !== undefined) {
    throw usageError(
      `${BINARY[format]} is not for terminals`,
      'name a file with --out, or pipe it on',
    );
  }
}

/**
 * Refuses a workbook with more rows than a sheet has, before it is begun.
 * @param rows without the header
 * @throws {CommandError} that says `remedy`
 */
export function checkRoom(format: string, rows: number, remedy: string): void {
  const fault = roomFault(format, rows);
  if (fault !== null) throw usageError(fault, remedy);
}
