import { existsSync } from 'node:fs';
import { Option, type Command } from 'commander';
import { FORMATS, type Format } from '../../intake/index.js';
import { execute, withApp } from '../execute.js';
import { CommandError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { answerCodes } from './answer-codes.js';
import { sortArguments, type CheckInput } from './arguments.js';
import { checkLists } from './check-lists.js';
import { closeLists, listOf, openLists, type ListOptions } from './lists.js';
import {
  lengthOfTime,
  oneSeller,
  purchaseCode,
  RESULT_HELP,
  withOutOptions,
  type OutOptions,
} from './options.js';
import { checkOut, keepLists, placeOf } from './out-place.js';

export interface CheckOptions extends CommonOptions, OutOptions {
  readonly column?: string;
  readonly format?: Format;
  /** Milliseconds. */
  readonly maxAge?: number;
  readonly canary?: string;
  readonly dryRun?: true;
  readonly detach?: true;
}

/** `codes check FILE…|-|CODE…`: the main command. */
export function addCheck(codes: Command): void {
  const command = codes
    .command('check')
    .summary('check codes, or lists of codes')
    .description(
      'Checks the codes of lists, or codes given as arguments. What exists as a file is a list: text, CSV, JSON or NDJSON, also compressed with gzip; `-` is a list on stdin; anything else is a code. Several lists with the same columns make one result. The same code is asked for once.',
    )
    .argument('<codes...>', 'files, - for stdin, or codes')
    .option('--column <name>', 'the column that holds the codes, by name or number from 1')
    .addOption(new Option('--format <format>', 'read lists as this').choices(FORMATS))
    .option(
      '--max-age <time>',
      'take verdicts younger than this as they are: 12h, 7d',
      lengthOfTime,
    )
    .option('--canary <code>', 'a code that you know is valid, for more proof', purchaseCode)
    .addOption(
      new Option('--dry-run', 'only say what it would cost; nothing is kept').conflicts('detach'),
    )
    .addOption(
      new Option('--detach', 'leave the work to `run` or `worker`').conflicts(['out', 'outFormat']),
    );
  withOutOptions(command).addHelpText(
    'after',
    `${RESULT_HELP}\n\nExamples:\n  $ seller-mirror codes check 86781236-23d0-4b3c-7dfa-c1c147e0dece\n  $ seller-mirror codes check customers.csv --column code --out result.csv\n  $ seller-mirror codes check customers.csv --max-age 7d --dry-run\n  $ mysql shop -Ne 'select code from licences' | seller-mirror codes check - --out - > result.csv\n\nExit codes: 0 all have a verdict, 1 failed, 2 usage, 4 some are unproven, 130 interrupted`,
  );
  withCommonOptions(command, { seller: 'one' }).action((given: string[], options: CheckOptions) =>
    execute((signal) => check(given, options, signal)),
  );
}

/** More codes than a person reads answers to are a list. */
const MOST_ANSWERS = 25;

async function check(
  given: readonly string[],
  options: CheckOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const input = sortArguments(given, existsSync);
  const place = placeOf(options);
  refuseListOptions(input, options);
  if (input.kind === 'lists') keepLists(place, input.places);
  await checkOut(place);
  if (input.kind === 'codes' && wantsAnswers(input.codes, options)) {
    const { codes } = input;
    return withApp('codes check', 'sellers', signal, (app) =>
      answerCodes(app, oneSeller(app.config, options.seller), codes, options, signal),
    );
  }
  const lists =
    input.kind === 'codes'
      ? [await listOf(input.codes)]
      : await openLists(input.places, listOptions(options), signal);
  try {
    return await withApp('codes check', 'sellers', signal, (app) => {
      const seller = oneSeller(app.config, options.seller);
      return checkLists(app, seller, lists, { ...options, place }, signal);
    });
  } finally {
    await closeLists(lists);
  }
}

function listOptions({ column, format }: CheckOptions): ListOptions {
  return {
    ...(column === undefined ? {} : { column }),
    ...(format === undefined ? {} : { format }),
  };
}

function wantsAnswers(codes: readonly string[], { out, detach, dryRun }: CheckOptions): boolean {
  const asList = out !== undefined || detach === true || dryRun === true;
  return !asList && codes.length <= MOST_ANSWERS;
}

function refuseListOptions(input: CheckInput, { column, format }: CheckOptions): void {
  if (input.kind === 'lists' || (column === undefined && format === undefined)) return;
  throw new CommandError(
    `${column === undefined ? '--format' : '--column'} goes with a list, and a code was given`,
    'is the name of the file misspelt?',
    EXIT.usage,
  );
}
