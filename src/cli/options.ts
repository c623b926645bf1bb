import { InvalidArgumentError, type Command } from 'commander';
import type { Config, SellerConfig } from '../config/index.js';
import { readMoment } from '../domain/moment.js';
import { type CommandError, usageError } from './errors.js';

/** Options that most commands have. */
export interface CommonOptions {
  readonly json?: true;
  readonly seller?: string;
}

/** Adds `--json`, and `--seller` where a command is about sellers, or about `one` of them. */
export function withCommonOptions(
  command: Command,
  what: { readonly seller: boolean | 'one' },
): Command {
  command.option('--json', 'print JSON for scripts');
  if (what.seller !== false) {
    command.option('--seller <name>', what.seller === 'one' ? ONE_SELLER : ANY_SELLER);
  }
  return command;
}

/** How a table is shown. */
export interface TableOptions {
  readonly vertical?: true;
  readonly pager?: boolean;
}

/** Adds `--vertical` and `--no-pager`. */
export function withTableOptions(command: Command): Command {
  return command
    .option('--vertical', 'each field on a line of its own, uncut')
    .option('--no-pager', 'no PAGER, also for tables longer than the terminal');
}

const ANY_SELLER = 'only this seller (default: all)';
const ONE_SELLER = 'which seller; needed where several are configured';

/** The sellers a command is for. @throws {CommandError} when the name is not configured */
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

/** The error for a seller of whom the store holds nothing. */
export function notInStore(seller: string): CommandError {
  return usageError(
    `no seller "${seller}" is in the store`,
    '`seller-mirror status` lists the sellers',
  );
}

/** Reads a positive whole number given on the command line. */
export function positiveInteger(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number === 0) {
    throw new InvalidArgumentError(`"${text}" is no whole number above zero.`);
  }
  return number;
}

/** Reads a moment given on the command line. */
export function momentOf(text: string): Date {
  const reading = readMoment(text, new Date());
  if ('at' in reading) return reading.at;
  throw new InvalidArgumentError(`${reading.fault}.`);
}

const MOST_RUNS = 2n ** 63n - 1n;

/** Reads the number of a run. */
export function runNumber(text: string): bigint {
  if (/^\d{1,19}$/.test(text) && BigInt(text) > 0n && BigInt(text) <= MOST_RUNS) {
    return BigInt(text);
  }
  throw new InvalidArgumentError('Runs are numbered 1, 2, 3 and so on.');
}
