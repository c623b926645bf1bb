import { Option } from 'commander';
import { COMMA_CSV, PLAIN_CSV, type CsvDialect } from '../domain/csv.js';
import { roomFault } from '../listing/file-error.js';
import { assertWritable } from '../listing/write-file.js';
import { usageError } from './errors.js';

export interface CsvOptions {
  readonly decimalComma?: boolean;
}

export const DECIMAL_COMMA = new Option(
  '--decimal-comma',
  'CSV for Excel in countries with decimal commas: 19,90; semicolons between cells',
);

/** @throws {UserError} when --decimal-comma is given for another format than CSV */
export function csvDialect({ decimalComma }: CsvOptions, format: string): CsvDialect {
  if (decimalComma !== true) return PLAIN_CSV;
  if (format === 'csv') return COMMA_CSV;
  throw usageError(
    `--decimal-comma is for CSV, and this writes ${format}`,
    format === 'xlsx'
      ? 'leave it out: Excel formats numbers by its own settings'
      : 'add --format csv, or leave it out',
  );
}

export interface OutOptions<Format extends string> extends CsvOptions {
  /** Default: stdout. */
  readonly out?: string;
  readonly format?: Format;
}

/** An option that gives the value of another one. */
class Alias extends Option {
  override attributeName(): string {
    return 'out';
  }
}

/** `-o FILE` of commands that write a file, and its older name `--out`. @param fallback used without the option */
export function outOption(about: string, fallback?: string): readonly Option[] {
  const options = [new Alias('-o, --output <file>', about), new Alias('--out <file>').hideHelp()];
  if (fallback !== undefined) for (const option of options) option.default(fallback);
  return options;
}

/** The name of stdout, in place of a file name. */
export const STDOUT = '-';

/** Where to write output, and in which format. */
export interface Destination<Format extends string> {
  /** Null: stdout. */
  readonly path: string | null;
  readonly format: Format;
  readonly decimalComma: boolean;
}

/**
 * Reads `--out` and `--format`. The default format is that of the file's ending, or CSV on stdout.
 * @throws {UserError} when the ending is unknown, or --decimal-comma is given for another format than CSV
 */
export function destinationOf<Format extends string>(
  { out = STDOUT, format: chosen, decimalComma = false }: OutOptions<Format>,
  formats: readonly (Format | 'csv')[],
): Destination<Format | 'csv'> {
  const path = out === STDOUT ? null : out;
  const format = chosen ?? (path === null ? 'csv' : formatOfFile(path, formats));
  if (format === null) {
    const endings = formats.map((one) => `.${one}`);
    throw usageError(
      `can’t tell the format from the file name ${JSON.stringify(out)}`,
      `name a file ending in ${endings.slice(0, -1).join(', ')} or ${endings.at(-1)}, or add --format ${formats.join('|')}`,
    );
  }
  csvDialect({ decimalComma }, format);
  return { path, format, decimalComma };
}

/** Returns the format by the file's ending, or null if the ending is unknown. */
export function formatOfFile<Format extends string>(
  path: string,
  formats: readonly Format[],
): Format | null {
  const ending = /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase();
  return formats.find((format) => format === (ending === 'jsonl' ? 'ndjson' : ending)) ?? null;
}

/** The format of `--json`. @throws {UserError} when the ending of the file is that of another format */
export function jsonOf(out: string, formats: readonly string[]): 'json' {
  if ((formatOfFile(out, formats) ?? 'json') === 'json') return 'json';
  throw usageError(
    `--json and the ending of ${JSON.stringify(out)} differ`,
    'leave --json out, or choose JSON in both places',
  );
}

/** Formats that can't be shown on a terminal. */
const BINARY: Readonly<Record<string, string>> = { xlsx: 'a workbook', parquet: 'Parquet' };

/** Checks that the output can be written, before any work is done. @throws {UserError} */
export async function checkDestination(destination: Destination<string> | null): Promise<void> {
  if (destination === null) return;
  const { path, format } = destination;
  if (path !== null) await assertWritable(path);
  else if (process.stdout.isTTY && BINARY[format] !== undefined) {
    throw usageError(
      `${BINARY[format]} can’t be written to a terminal`,
      'name a file with --out, or pipe the output to a program',
    );
  }
}

/** @param rows without the header @throws {UserError} when a workbook can't have that many rows */
export function checkRowLimit(format: string, rows: number, remedy: string): void {
  const fault = roomFault(format, rows);
  if (fault !== null) throw usageError(fault, remedy);
}
