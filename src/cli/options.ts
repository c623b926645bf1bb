import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Config, SellerConfig } from '../config/index.js';
import { COMMA_CSV, PLAIN_CSV, type CsvDialect } from '../domain/csv.js';
import { readMoment } from '../domain/moment.js';
import { MOST_SHEET_ROWS } from '../intake/types.js';
import { type CommandError, usageError } from './errors.js';
import { count } from './output/text.js';
import { asTyped } from './own-command.js';

export interface CommonOptions {
  readonly json?: boolean;
  readonly seller?: string;
}

export interface TableOptions {
  readonly vertical?: boolean;
  readonly pager?: boolean;
}

export interface CsvOptions {
  readonly decimalComma?: boolean;
}

/** For commands that write CSV. */
export const DECIMAL_COMMA = new Option(
  '--decimal-comma',
  'write CSV for an Excel with decimal commas: 19,90; semicolons between cells',
);

/** Options that several commands have. */
const SHARED = {
  json: new Option('--json', 'print JSON for scripts'),
  seller: new Option('--seller <name>', 'only this seller (default: all)'),
  oneSeller: new Option('--seller <name>', 'which seller; needed where several are configured'),
  decimalComma: DECIMAL_COMMA,
  vertical: new Option('--vertical', 'each field on a line of its own, uncut'),
  pager: new Option('--no-pager', 'no PAGER, also for tables longer than the terminal'),
  /** For commands that work on an audit. */
  detach: new Option('--detach', 'leave the work to `run` or `worker`').conflicts([
    'out',
    'format',
    'decimalComma',
  ]),
} as const;

/** What `--help` says of a command, and its last options, in their order. */
interface CommandParts {
  /** Says it in the help of the command above; the program says it for those at the top. */
  readonly summary?: string;
  readonly about: string;
  /** Before the examples, and after them. */
  readonly notes?: string;
  readonly more?: string;
  readonly examples: readonly string[];
  readonly options?: readonly (keyof typeof SHARED | Option)[];
}

export function described(command: Command, parts: CommandParts): Command {
  const { summary = '', about, notes = '', more = '', examples, options = [] } = parts;
  for (const one of options) command.addOption(typeof one === 'string' ? SHARED[one] : one);
  const title = examples.length === 1 ? 'Example' : 'Examples';
  const text = [notes, `${title}:${examples.map((line) => `\n  $ ${line}`).join('')}`, more];
  const help = text.filter((part) => part !== '').join('\n\n');
  return command.summary(summary).description(about).addHelpText('after', `\n${help}`);
}

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

export function chosenSellers(config: Config, name: string | undefined): readonly SellerConfig[] {
  if (name === undefined) return config.sellers;
  const chosen = config.sellers.filter((seller) => seller.name === name);
  if (chosen.length === 0) {
    throw usageError(
      `no seller "${name}" is configured`,
      `configured: ${config.sellers.map((seller) => seller.name).join(', ') || 'none'}`,
    );
  }
  return chosen;
}

/** The error for a seller that neither settings nor store know. @param known the names of those they know */
export function unknownSeller(name: string, known: readonly string[]): CommandError {
  return usageError(
    `no seller "${name}" is configured or in the store`,
    `known: ${known.join(', ') || 'none'}`,
  );
}

export function notInStore(seller: string): CommandError {
  return usageError(
    `no seller "${seller}" is in the store`,
    '`seller-mirror status` lists the sellers',
  );
}

export function positiveInteger(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number === 0) {
    throw new InvalidArgumentError(`"${text}" is no whole number above zero.`);
  }
  return number;
}

export function momentOf(text: string): Date {
  const reading = readMoment(text, new Date());
  if ('at' in reading) return reading.at;
  throw new InvalidArgumentError(`${reading.fault}.`);
}

const MOST_ROWS = 2n ** 63n - 1n;

/** Makes a reader of numbers that the store gives, such as those of runs. @param fault for any other text */
export function rowNumber(fault: string): (text: string) => bigint {
  return (text) => {
    if (/^\d{1,19}$/.test(text) && BigInt(text) > 0n && BigInt(text) <= MOST_ROWS) {
      return BigInt(text);
    }
    throw new InvalidArgumentError(asTyped(fault));
  };
}

export function given<T extends object>(members: T) {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

export function onlySeller(name: string | undefined): { readonly sellerIds?: readonly string[] } {
  return name === undefined ? {} : { sellerIds: [name] };
}

export function ofSeller(name: string | undefined): string {
  return name === undefined ? '' : ' of this seller';
}

/** In place of a file's name. */
export const STDOUT = '-';

/** Where something is written, and in which format. */
export interface FilePlace<Format extends string> {
  /** null: stdout. */
  readonly path: string | null;
  readonly format: Format;
}

/**
 * The format is the given one, or that of the file's ending; CSV on stdout.
 * @throws {CommandError} when the ending is of no format
 */
export function outPlace<Format extends string>(
  out: string,
  asked: Format | 'csv' | undefined,
  formats: readonly (Format | 'csv')[],
): FilePlace<Format | 'csv'> {
  if (out === STDOUT) return { path: null, format: asked ?? 'csv' };
  const format = asked ?? formatOfFile(out, formats);
  if (format !== null) return { path: out, format };
  const endings = formats.map((one) => `.${one}`);
  throw usageError(
    `the ending of ${JSON.stringify(out)} says no format`,
    `name a file ending in ${endings.slice(0, -1).join(', ')} or ${endings.at(-1)}, or say --format ${formats.join('|')}`,
  );
}

/**
 * Refuses a workbook with more rows than a sheet has, before it is begun.
 * @param rows without the header
 * @throws {CommandError} that says `remedy`
 */
export function checkRoom(format: string, rows: number, remedy: string): void {
  if (format !== 'xlsx' || rows <= MOST_SHEET_ROWS) return;
  throw usageError(
    `an Excel sheet has room for ${count(MOST_SHEET_ROWS)} rows, and these are ${count(rows)}`,
    remedy,
  );
}

/** The format of a file's ending; null for other endings. */
export function formatOfFile<Format extends string>(
  path: string,
  formats: readonly Format[],
): Format | null {
  const ending = /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase();
  return formats.find((format) => format === (ending === 'jsonl' ? 'ndjson' : ending)) ?? null;
}
