import { UserError } from '../../domain/user-error.js';
import { hostname } from 'node:os';
import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { ConfigError } from '../../config/index.js';
import { normalizeCode } from '../../marketplace/code.js';
import { cellMasker } from '../../domain/redact.js';
import type { Secret } from '../../domain/secret.js';
import { CHECKS } from '../../codes/codes-listing.js';
import { readCodeChecks, readCodeState } from '../../codes/codes-store.js';
import { FORMATS } from '../../codes/lists/types.js';
import { answerFromChecks } from '../../codes/result.js';
import { answerJson, answerLines } from '../codes/audit-view.js';
import { beginRecheck, listOfCodes } from '../../codes/enter-list.js';
import { assertKey, check, runAudit } from '../codes/check.js';
import { type CheckInput, classifyArguments, codeIn, readLists, STDIN } from '../codes/input.js';
import {
  RESULT_HELP,
  VERDICT_EXIT_CODES,
  parseAge,
  oneSeller,
  type CheckOptions,
  VERDICT_OPTIONS,
  type ResultOptions,
  type ConfirmOptions,
  checkConditions,
  type FailOptions,
} from '../codes/options.js';
import { protectLists, resultDestination } from '../codes/result-file.js';
import { print, printJson, printResult, stdoutLook, userName, write } from '../console.js';
import { usageError } from '../errors.js';
import { type Erased, eraseCode } from '../../codes/erase-store.js';
import { readSellerStatuses } from '../../catalogue/status-store.js';
import { logAction } from '../../dashboard/access-store.js';
import { plural } from '../../domain/text.js';
import { safeLine } from '../output/text.js';
import { action, appAction, readSettings, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { listingTable } from '../listing.js';
import { ownCommand, shellWord } from '../own-command.js';
import {
  assertSeller,
  chosenSellers,
  describeCommand,
  withoutUndefined,
  positiveInteger,
  type CommonOptions,
} from '../options.js';
import { checkDestination } from '../out-file.js';

export function add(program: Command): void {
  const codes = describeCommand(program.command('codes'), {
    about:
      'Checks purchase codes, one or a million. Every code is checked once; those that were denied are checked again a minute later, between two proofs of the API key, before they are invalid. A code that can’t be proven either way is unproven. Answers are kept, so a resumed check does not check them again. `audits` lists, resumes and exports checks.',
    examples: [
      'seller-mirror codes check 86781236-23d0-4b3c-7dfa-c1c147e0dece',
      'seller-mirror codes check customers.csv --column code --out result.csv',
    ],
  });
  const dryRun = new Option('--dry-run', 'only show what it would cost; keeps nothing');
  const command = codes
    .command('check')
    .argument('<codes...>', 'files, - for stdin, or codes')
    .option('--column <name>', 'the column that holds the codes, by name or number from 1')
    .option('--sheet <name>', 'the sheet of an Excel workbook, by name or number from 1')
    .addOption(new Option('--input-format <format>', 'read lists as this').choices(FORMATS))
    .option('--max-age <time>', 'reuse verdicts younger than this: 12h, 7d', parseAge)
    .option('--known-valid <code>', 'a code that you know is valid, for a stronger proof')
    .option('--yes', 'check lists even if most lines do not look like codes')
    .addOption(dryRun.conflicts(['detach', 'out']));
  describeCommand(command, {
    summary: 'check codes, or lists of codes',
    about:
      'Checks the codes of lists, or codes given as arguments. An argument that exists as a file is a list: text, CSV or an Excel workbook (.xlsx); `-` is a list on stdin; anything else is a code. Several lists with the same columns make one result. A code that is listed twice is checked once. Without --seller, all sellers are asked, up to 20, one after another until one has sold the code; only codes that nobody sold are checked a second time. If more than half of the first 1,000 lines do not look like codes, or not like the seller’s known valid codes, the command asks whether to go on; in scripts it refuses the list without --yes.',
    notes: RESULT_HELP,
    examples: [
      'seller-mirror codes check 86781236-23d0-4b3c-7dfa-c1c147e0dece',
      'seller-mirror codes check --fail-on invalid,expired,other-item --item 4711 -- "$CODE" && activate "$CODE"',
      'seller-mirror codes check customers.csv --column code --out result.csv',
      'seller-mirror codes check customers.xlsx --sheet 2026 --out result.xlsx',
      'seller-mirror codes check customers.csv --max-age 7d --dry-run',
      "mysql shop -Ne 'select code from licences' | seller-mirror codes check - --out - > result.csv",
    ],
    more: VERDICT_EXIT_CODES,
    options: ['detach', ...VERDICT_OPTIONS, 'json', 'listSeller'],
  }).action(action(checkCodes));
  describeCommand(codes.command('show').argument('<code>', 'the code'), {
    summary: 'show what is known about a code, without a request to the marketplace',
    examples: ['seller-mirror codes show 86781236-23d0-4b3c-7dfa-c1c147e0dece'],
    options: ['json', 'oneSeller'],
  }).action(appAction('store', showCode));
  describeCommand(codes.command('erase').argument('<code>', 'the code'), {
    summary: 'erase a code’s text and the own columns of its lines, for a customer who asks',
    about:
      'Erases the text of a code, in every spelling, and the own columns of the lines of lists that have it, in the store; workbooks with it are deleted. Verdicts, prices and dates stay, so that sums stay right. Nothing can bring the text back but a backup or a list.',
    examples: ['seller-mirror codes erase 86781236-23d0-4b3c-7dfa-c1c147e0dece'],
    options: ['json', 'seller'],
  }).action(appAction('store', erase));
  const again = codes
    .command('recheck')
    .requiredOption(
      '--older-than <time>',
      'only codes not checked for this long: 12h, 30d (required)',
      parseAge,
    )
    .option('--valid-only', 'leave out codes that were invalid')
    .option('--limit <n>', 'check at most this many codes', positiveInteger);
  describeCommand(again, {
    summary: 'check known codes again',
    about:
      'Checks known codes again, the most useful first: valid ones whose support ends soon or has ended since their last check, then those whose last check is the oldest. It is listed with the other checks.',
    notes: RESULT_HELP,
    examples: [
      'seller-mirror codes recheck --older-than 30d --valid-only --limit 1000 --out again.csv',
    ],
    more: VERDICT_EXIT_CODES,
    options: ['detach', ...VERDICT_OPTIONS, 'json', 'oneSeller'],
  }).action(appAction('sellers', recheck));
}

/** Maximum number of checks to show, the newest first. All are in mirror.code_checks. */
const SHOWN_CHECKS = 50;

/** Prints what is known about a code, and its checks. Makes no request to the marketplace. */
async function showCode(
  app: App,
  text: string,
  { seller, json }: CommonOptions,
): Promise<ExitCode> {
  const { db, config } = app;
  const code = storedCode(text, app);
  await assertSeller(app, seller);
  const sellerId = seller ?? oneSeller(config, undefined).name;
  const state = await readCodeState(db, sellerId, code);
  if (state === null) {
    const program = ownCommand();
    // A few digits are probably the id of an audit.
    const audit = /^\d{1,9}$/.test(code)
      ? `; \`${program} audits show ${code}\` shows the check`
      : '';
    throw usageError(
      'this code was never in a list, and never checked',
      `\`${program} codes check ${shellWord(code)}\` checks it${audit}`,
    );
  }
  const checks = await readCodeChecks(db, state.codeId, SHOWN_CHECKS);
  const answer = answerFromChecks(state, checks);
  const now = new Date();
  if (json === true) {
    const { verdictSince, firstCheckedAt } = state;
    await printJson({ ...answerJson(answer, now), verdictSince, firstCheckedAt, checks });
  } else {
    const look = stdoutLook();
    await print(answerLines(answer, now, look), '\n');
    if (checks.length > 0) await write(listingTable(CHECKS, checks));
  }
  return EXIT.done;
}

/** The code in an argument. @throws {UserError} for a secret, or what is no code */
function storedCode(text: string, { config }: App): string {
  refuseKeys(
    [text],
    config.sellers.map(({ key }) => key),
  );
  return codeIn(text);
}

/** Erases a code of one seller, or of all that have it. */
async function erase(app: App, text: string, options: CommonOptions): Promise<void> {
  const code = storedCode(text, app);
  await assertSeller(app, options.seller);
  const stored = (await readSellerStatuses(app.db)).map(({ sellerId }) => sellerId);
  const erased: Erased[] = [];
  for (const seller of options.seller === undefined ? stored : [options.seller]) {
    const one = await eraseCode(app.db, seller, code);
    if (one !== null) erased.push(one);
  }
  if (erased.length === 0) {
    throw new UserError(
      'the store does not have this code',
      '`seller-mirror codes show` needs it exactly',
      'FAILED',
    );
  }
  const who = `${userName()} on ${hostname()}`;
  for (const { codeId } of erased) {
    const target = `code ${codeId}`;
    await logAction(app.db, { who, action: 'erase code', target, outcome: 'done' });
  }
  await printResult(options, erased, () =>
    erased
      .map(({ sellerId, codeId, lines, workbooks }) => {
        const files = workbooks === 0 ? '' : `; ${plural(workbooks, 'workbook')} with it deleted`;
        return `${safeLine(sellerId)} · erased as code ${codeId}, with ${plural(lines, 'line')} of lists${files}\n`;
      })
      .join(''),
  );
}

async function checkCodes(
  signal: AbortSignal,
  words: readonly string[],
  options: CheckOptions,
): Promise<ExitCode> {
  const keys = configuredKeys();
  refuseKeys([...words, options.knownValid ?? ''], keys);
  const { knownValid: known } = options;
  const knownValid = known === undefined ? known : codeIn(known, 'the code of --known-valid');
  checkConditions(options);
  const input = classifyArguments(words);
  const destination = resultDestination(options);
  refuseListOptions(input, options);
  if (input.kind === 'lists') protectLists(destination, input.paths);
  await checkDestination(destination);
  const { column, sheet, inputFormat: format } = options;
  const areArguments = input.kind === 'codes';
  const lists = areArguments
    ? [listOfCodes(input.codes)]
    : await readLists(
        input.paths,
        { ...withoutUndefined({ column, sheet, format }), keys },
        signal,
      );
  const usesStdin = !areArguments && input.paths.includes(STDIN);
  return withApp('codes check', 'sellers', signal, (app) => {
    const sellers = chosenSellers(app.config, options.seller);
    const how = { ...options, ...withoutUndefined({ knownValid }) };
    return check(app, sellers, lists, { ...how, areArguments, usesStdin, destination });
  });
}

/** The API keys of all sellers; none if the settings can't be read, which the command reports later. */
function configuredKeys(): readonly Secret[] {
  try {
    return readSettings('sellers').sellers.map(({ key }) => key);
  } catch (error) {
    if (error instanceof ConfigError) return [];
    throw error;
  }
}

/** Refuses API keys given in place of codes: they would be sent, stored and printed. */
function refuseKeys(codes: readonly string[], keys: readonly Secret[]): void {
  const mask = cellMasker(keys);
  if (codes.every((text) => mask(normalizeCode(text)) === normalizeCode(text))) return;
  throw usageError(
    'an API key or a look-up token was given instead of a purchase code; it was neither sent nor stored',
    'give a purchase code; your shell’s history may now hold the secret',
  );
}

function refuseListOptions(input: CheckInput, options: CheckOptions): void {
  const { column, sheet, inputFormat } = options;
  const given = Object.entries({
    '--column': column,
    '--sheet': sheet,
    '--input-format': inputFormat,
  });
  const [option] = given.find(([, value]) => value !== undefined) ?? [];
  if (input.kind === 'lists' || option === undefined) return;
  throw usageError(
    `${option} goes with a list, but a code was given`,
    'check the spelling of the file’s name',
  );
}

interface RecheckOptions extends CommonOptions, ResultOptions, FailOptions, ConfirmOptions {
  /** Milliseconds. */
  readonly olderThan: number;
  readonly validOnly?: boolean;
  readonly limit?: number;
  readonly detach?: boolean;
}

async function recheck(app: App, options: RecheckOptions): Promise<ExitCode | void> {
  checkConditions(options);
  const { json = false, detach = false, failOn, item, olderThan, validOnly = false } = options;
  const { limit = Infinity, confirmAfter } = options;
  const destination = resultDestination(options);
  await checkDestination(destination);
  const seller = oneSeller(app.config, options.seller);
  await assertKey(app, seller, undefined);
  const plan = { olderThan, validOnly, limit, confirmAfterMs: confirmAfter };
  const auditId = await beginRecheck(app.db, seller.name, plan, app.db.clock.now());
  if (auditId !== null) return runAudit(app, auditId, { json, detach, destination, failOn, item });
  await printResult(
    options,
    { audit: null },
    () => 'No code is due: all known codes were checked more recently.\n',
  );
}
