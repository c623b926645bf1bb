import type { UserError } from '../domain/user-error.js';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { App } from '../app.js';
import type { Config, SellerConfig } from '../config/index.js';
import { readMoment } from '../domain/moment.js';
import { usageError } from './errors.js';
import { DECIMAL_COMMA } from './out-file.js';
import { readBinding } from '../catalogue/sellers-store.js';
import { readSellerStatuses } from '../catalogue/status-store.js';
import { withRunnableCommands } from './own-command.js';

export interface CommonOptions {
  readonly json?: boolean;
  readonly seller?: string;
}

export interface TableOptions {
  readonly vertical?: boolean;
  readonly pager?: boolean;
}

/** Options that several commands share. */
const SHARED = {
  json: new Option('--json', 'print JSON for scripts'),
  seller: new Option('--seller <name>', 'only this seller (default: all)'),
  listSeller: new Option(
    '--seller <name>',
    'which seller; required for lists if several are configured (default for codes: all)',
  ),
  oneSeller: new Option('--seller <name>', 'which seller; required if several are configured'),
  decimalComma: DECIMAL_COMMA,
  quiet: new Option('-q, --quiet', 'print only results and errors, no progress and notes'),
  vertical: new Option('--vertical', 'each field on a separate line, uncut'),
  pager: new Option('--no-pager', 'no PAGER, also for tables longer than the terminal'),
  /** For commands that work on an audit. */
  detach: new Option('--detach', 'leave the work to `run` or `worker`').conflicts([
    'out',
    'format',
    'decimalComma',
  ]),
} as const;

export interface CommandParts {
  /** Shown in the help of the parent command. For top-level commands, see COMMANDS in program.ts. */
  readonly summary?: string;
  /** Default: the summary, as a sentence. */
  readonly about?: string;
  /** Shown before the examples. */
  readonly notes?: string;
  /** Shown after the examples. */
  readonly more?: string;
  readonly examples: readonly string[];
  /** Added after the options that the command has already. */
  readonly options?: readonly (keyof typeof SHARED | Option)[];
}

/** Adds help texts and options to a command. */
export function describeCommand(command: Command, parts: CommandParts): Command {
  const { summary = '', notes = '', more = '', examples, options = [] } = parts;
  const { about = `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.` } = parts;
  for (const one of options) command.addOption(typeof one === 'string' ? SHARED[one] : one);
  const title = examples.length === 1 ? 'Example' : 'Examples';
  const text = [notes, `${title}:${examples.map((line) => `\n  $ ${line}`).join('')}`, more];
  const help = text.filter((part) => part !== '').join('\n\n');
  return command.summary(summary).description(about).addHelpText('after', `\n${help}`);
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

/** @param known names of the sellers that are configured or in the store */
export function unknownSeller(name: string, known: readonly string[]): UserError {
  return usageError(
    `no seller "${name}" is configured or in the store`,
    `known: ${known.join(', ') || 'none'}`,
  );
}

/** @throws {UserError} when a seller is named that is neither configured nor in the store */
export async function assertSeller(
  { db, config }: Pick<App, 'db' | 'config'>,
  name: string | undefined,
): Promise<void> {
  const configured = config.sellers.map((seller) => seller.name);
  if (name === undefined || configured.includes(name)) return;
  if ((await readBinding(db, name)) !== null) return;
  const stored = (await readSellerStatuses(db)).map(({ sellerId }) => sellerId);
  throw unknownSeller(name, [...new Set([...configured, ...stored])]);
}

export function positiveInteger(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number === 0) {
    throw new InvalidArgumentError(`"${text}" is not a whole number above zero.`);
  }
  return number;
}

export function parseMoment(text: string): Date {
  const reading = readMoment(text, new Date());
  if ('at' in reading) return reading.at;
  throw new InvalidArgumentError(`${reading.fault}.`);
}

const MAX_BIGINT = 2n ** 63n - 1n;

/** Returns a parser of ids that the store assigns, such as those of runs. @param fault for invalid ids */
export function idParser(fault: string): (text: string) => bigint {
  return (text) => {
    if (/^\d{1,19}$/.test(text) && BigInt(text) > 0n && BigInt(text) <= MAX_BIGINT) {
      return BigInt(text);
    }
    throw new InvalidArgumentError(withRunnableCommands(fault));
  };
}

/** Removes undefined members, for parameters with exact optional properties. */
export function withoutUndefined<T extends object>(members: T) {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

export function sellerFilter(name: string | undefined): { readonly sellerIds?: readonly string[] } {
  return name === undefined ? {} : { sellerIds: [name] };
}

export function sellerSuffix(name: string | undefined): string {
  return name === undefined ? '' : ' of this seller';
}
