import { existsSync } from 'node:fs';
import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { ConfigError } from '../../config/index.js';
import { normalizeCode } from '../../domain/codes/code.js';
import { CONFIRM_MODES } from '../../domain/codes/second-look.js';
import { cellMaskOf } from '../../domain/redact.js';
import type { Secret } from '../../domain/secret.js';
import { FORMATS } from '../../intake/index.js';
import { beginRecheck, type RecheckPlan } from '../../jobs/codes/recheck.js';
import { answerCodes, showCode } from '../codes/answer.js';
import { checkLists } from '../codes/check-lists.js';
import {
  closeLists,
  listOf,
  openLists,
  sortArguments,
  type CheckInput,
  type ListOptions,
} from '../codes/lists.js';
import {
  RESULT_HELP,
  VERDICT_EXIT_CODES,
  lengthOfTime,
  oneSeller,
  purchaseCode,
  type CheckOptions,
  type FailOptions,
  type OutOptions,
  withFailOption,
  withOutOptions,
} from '../codes/options.js';
import { proveKey } from '../codes/prove-key.js';
import { checkOut, keepLists, placeOf, type OutPlace } from '../codes/result-file.js';
import { runAudit } from '../codes/run-audit.js';
import { print, printJson } from '../console.js';
import { usageError } from '../errors.js';
import { execute, readSettings, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { positiveInteger, type CommonOptions, withCommonOptions } from '../options.js';

/** `codes check|show|recheck`: purchase codes and their verdicts. */
export function addCodes(program: Command): void {
  const codes = program
    .command('codes')
    .description(
      'Checks purchase codes, one or a million. A code is called invalid only when the marketplace denied it between two proofs of the API key; what can’t be proven either way is unproven. Answers are kept: a resumed audit does not ask again. `audits` lists, resumes and exports audits.',
    )
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror codes check 86781236-23d0-4b3c-7dfa-c1c147e0dece\n  $ seller-mirror codes check customers.csv --column code --out result.csv',
    );
  for (const add of [addCheck, addShow, addRecheck]) add(codes);
}

function addCheck(codes: Command): void {
  const command = codes
    .command('check')
    .summary('check codes, or lists of codes')
    .description(
      'Checks the codes of lists, or codes given as arguments. What exists as a file is a list: text, CSV, JSON or NDJSON, also compressed with gzip; `-` is a list on stdin; anything else is a code. Several lists with the same columns make one result. The same code is asked for once. When more than half of the first 1,000 lines do not look like codes, or like the valid codes that are known of the seller, a person is asked; in scripts the list is refused without --yes.',
    )
    .argument('<codes...>', 'files, - for stdin, or codes')
    .option('--column <name>', 'the column that holds the codes, by name or number from 1')
    .addOption(new Option('--input-format <format>', 'read lists as this').choices(FORMATS))
    .option(
      '--max-age <time>',
      'take verdicts younger than this as they are: 12h, 7d',
      lengthOfTime,
    )
    .option('--canary <code>', 'a code that you know is valid, for more proof', purchaseCode)
    .option('--yes', 'check lists most lines of which do not look like codes')
    .addOption(
      new Option(
        '--confirm <which>',
        'denied codes that are asked for again, a minute later (5 s for codes given as arguments), before they are invalid: auto is all of 1,000 or of a tenth of the list, else one in 12, at least 1,000',
      )
        .choices(CONFIRM_MODES)
        .default('auto'),
    )
    .addOption(
      new Option('--dry-run', 'only say what it would cost; nothing is kept').conflicts('detach'),
    )
    .addOption(
      new Option('--detach', 'leave the work to `run` or `worker`').conflicts(['out', 'format']),
    );
  withOutOptions(withFailOption(command, ['detach', 'dryRun'])).addHelpText(
    'after',
    `${RESULT_HELP}\n\nExamples:\n  $ seller-mirror codes check 86781236-23d0-4b3c-7dfa-c1c147e0dece\n  $ seller-mirror codes check "$CODE" --fail-on invalid && activate "$CODE"\n  $ seller-mirror codes check customers.csv --column code --out result.csv\n  $ seller-mirror codes check customers.csv --max-age 7d --dry-run\n  $ mysql shop -Ne 'select code from licences' | seller-mirror codes check - --out - > result.csv\n\n${VERDICT_EXIT_CODES}`,
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
  const keys = configuredKeys();
  refuseKeys([...given, options.canary ?? ''], keys);
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
      ? [listOf(input.codes)]
      : await openLists(input.places, { ...listOptions(options), keys }, signal);
  try {
    return await withApp('codes check', 'sellers', signal, (app) => {
      const seller = oneSeller(app.config, options.seller);
      return checkLists(app, seller, lists, { ...options, place }, signal);
    });
  } finally {
    await closeLists(lists);
  }
}

/** The API keys of all sellers; none when the settings can't be read, which the command reports later. */
function configuredKeys(): readonly Secret[] {
  try {
    return readSettings('sellers').sellers.map(({ key }) => key);
  } catch (error) {
    if (error instanceof ConfigError) return [];
    throw error;
  }
}

/** Refuses API keys given as codes: they would be sent, kept and printed. */
function refuseKeys(given: readonly string[], keys: readonly Secret[]): void {
  const mask = cellMaskOf(keys);
  if (given.every((text) => mask(normalizeCode(text)) === normalizeCode(text))) return;
  throw usageError(
    'an API key was given in place of a purchase code: it was not sent, and is not kept',
    'give the code of a purchase; the history of the shell may hold the key now',
  );
}

function listOptions({ column, inputFormat }: CheckOptions): Omit<ListOptions, 'keys'> {
  return {
    ...(column === undefined ? {} : { column }),
    ...(inputFormat === undefined ? {} : { format: inputFormat }),
  };
}

function wantsAnswers(codes: readonly string[], { out, detach, dryRun }: CheckOptions): boolean {
  const asList = out !== undefined || detach === true || dryRun === true;
  return !asList && codes.length <= MOST_ANSWERS;
}

function refuseListOptions(input: CheckInput, { column, inputFormat }: CheckOptions): void {
  if (input.kind === 'lists' || (column === undefined && inputFormat === undefined)) return;
  throw usageError(
    `${column === undefined ? '--input-format' : '--column'} goes with a list, and a code was given`,
    'is the name of the file misspelt?',
  );
}

function addShow(codes: Command): void {
  const command = codes
    .command('show')
    .summary('show what is known of a code')
    .description(
      'Shows what is known of a code and every check of it. The marketplace is not asked.',
    )
    .argument('<code>', 'the code', purchaseCode)
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror codes show 86781236-23d0-4b3c-7dfa-c1c147e0dece',
    );
  withCommonOptions(command, { seller: true }).action((code: string, options: CommonOptions) =>
    execute((signal) =>
      withApp('codes show', 'store', signal, (app) => {
        refuseKeys(
          [code],
          app.config.sellers.map(({ key }) => key),
        );
        return showCode(app, code, options);
      }),
    ),
  );
}

interface RecheckOptions extends CommonOptions, OutOptions, FailOptions {
  /** Milliseconds. */
  readonly olderThan: number;
  readonly validOnly?: true;
  readonly limit?: number;
  readonly detach?: true;
}

function addRecheck(codes: Command): void {
  const command = codes
    .command('recheck')
    .summary('ask again for codes that are known')
    .description(
      'Asks again for known codes, the most useful first: valid ones whose support ends soon or has ended since, then those that were not asked for the longest time. A recheck is an audit like any other.',
    )
    .requiredOption(
      '--older-than <time>',
      'only codes not asked for this long: 12h, 30d (required)',
      lengthOfTime,
    )
    .option('--valid-only', 'leave out codes that were invalid')
    .option('--limit <n>', 'no more codes than this', positiveInteger)
    .addOption(
      new Option('--detach', 'leave the work to `run` or `worker`').conflicts(['out', 'format']),
    );
  withOutOptions(withFailOption(command, ['detach'])).addHelpText(
    'after',
    `${RESULT_HELP}\n\nExample:\n  $ seller-mirror codes recheck --older-than 30d --valid-only --limit 1000 --out again.csv\n\n${VERDICT_EXIT_CODES}`,
  );
  withCommonOptions(command, { seller: 'one' }).action((options: RecheckOptions) =>
    execute(async (signal) => {
      const place = placeOf(options);
      await checkOut(place);
      return withApp('codes recheck', 'sellers', signal, (app) =>
        recheck(app, place, options, signal),
      );
    }),
  );
}

async function recheck(
  app: App,
  place: OutPlace | null,
  options: RecheckOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { json, detach, failOn } = options;
  const seller = oneSeller(app.config, options.seller);
  await proveKey(app, seller, undefined, signal);
  const auditId = await beginRecheck(app.store, seller.name, planOf(options), Date.now());
  if (auditId === null) {
    if (json === true) await printJson({ audit: null });
    else await print('No code is due: all known ones were asked for more recently.\n');
    return EXIT.done;
  }
  const how = { json: json === true, detach: detach === true, place, failOn };
  return runAudit(app, auditId, how, signal);
}

/** Takes as many codes as wanted, whatever their share of the budget. */
function planOf({ olderThan, validOnly, limit = 0 }: RecheckOptions): RecheckPlan {
  const once = { requestsPerMinute: limit, share: 1, windowMs: 60_000 };
  return { olderThan, validOnly: validOnly === true, ...once };
}
