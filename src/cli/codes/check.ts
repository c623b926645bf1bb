/** Checks lists or a few codes: enters them, follows the check to its end, and tells what it found. */

import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import type { App } from '../../app.js';
import { setResultFile } from '../../codes/audits-store.js';
import {
  type AuditOptions,
  codesToCheck,
  costOf,
  countRepeated,
  enterLists,
  type EnterEvents,
  measureLists,
  reportOf,
  verifyKey,
} from '../../codes/enter-list.js';
import { doubtOf, type Doubt } from '../../codes/lists/doubt.js';
import type { List } from '../../codes/lists/types.js';
import { SHORT_WAIT_MS } from '../../codes/rules.js';
import { readKnownValid } from '../../codes/situation-store.js';
import type { AuditSize } from '../../codes/types.js';
import type { SellerConfig } from '../../config/index.js';
import { count, plural } from '../../domain/text.js';
import { UserError } from '../../domain/user-error.js';
import { noteWait, print, printJson, printNote, printProblem } from '../console.js';
import { usageError } from '../errors.js';
import { openQueuesOf } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { safeLine } from '../output/text.js';
import { withProgress } from '../output/progress.js';
import { ownCommand } from '../own-command.js';
import { askSellers, mostPurchasesFirst, refuseSeveral } from './ask-sellers.js';
import { costText } from './audit-view.js';
import { follow } from './follow.js';
import { readingLines } from './input.js';
import { findAudit, type CheckOptions, type FailOptions } from './options.js';
import { checkResultRows, type ResultDestination } from './result-file.js';
import { tellAnswers, tellResult } from './tell.js';

interface Check extends CheckOptions {
  /** True: the codes were given one by one, so they are meant as codes, whatever they look like. */
  readonly areArguments: boolean;
  /** True if a list came from stdin, so that it can't answer questions. */
  readonly usesStdin: boolean;
  readonly destination: ResultDestination | null;
}

/** More codes than this, given as arguments, are checked as a list. */
const MOST_ANSWERS = 25;

/** Checks lists with the seller, or with each seller, to the end. A dry run only prints the cost. */
export async function check(
  app: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  options: Check,
): Promise<ExitCode> {
  const { dryRun, detach, yes, destination, areArguments } = options;
  const [seller, another] = sellers;
  if (seller === undefined) throw usageError('no seller is configured', null);
  if (another !== undefined) refuseSeveral(sellers, options);
  noteLines(readingLines(lists));
  const lines = linesOf(lists);
  if (destination !== null) checkResultRows(destination, lines);
  if (!areArguments && yes !== true) await confirmDoubts(app, sellers, lists, options);
  if (dryRun === true) return tellCost(app, sellers, lists, options);
  const terms = termsOf(options);
  const isList = !areArguments || destination !== null || detach === true;
  if (!isList && lines <= MOST_ANSWERS) {
    const known = options.knownValid;
    const audits = await askSellers(app, sellers, lists, {
      isAnswer: true,
      terms: { ...terms, confirmAfterMs: terms.confirmAfterMs ?? SHORT_WAIT_MS },
      // Without a known-valid code the key is proven later: a valid code then costs few calls.
      onLoaded: async (size) => known && assertKey(app, seller, known, size),
    });
    return tellAnswers(app, audits, options, another !== undefined);
  }
  if (another !== undefined) {
    const audits = await askSellers(app, sellers, lists, { isAnswer: false, terms }).catch(
      (error: unknown) => {
        if (app.signal.aborted) problemLines([STOPPED]);
        throw error;
      },
    );
    return tellResult(app, audits, options);
  }
  const { knownValid } = options;
  const known = knownValid ?? (await readKnownValid(app.db, seller.name, null, 1))[0];
  if (known === undefined) noteLines([NO_VALID_CODE]);
  const onLoaded = (size: AuditSize): Promise<void> => assertKey(app, seller, knownValid, size);
  const entered = await saving(app, lists, (events) =>
    enterLists(app.db, seller, lists, terms, { ...events, onLoaded }),
  );
  const cost = await costOf(app.db, seller, codesToCheck(entered), options.confirmAfter);
  const pace = seller.requestsPerMinute;
  noteLines([sizeLine(entered), costText(cost, pace, entered.codes)]);
  return runAudit(app, entered.auditId, options);
}

const STOPPED = 'stopped; all answers are kept: with --max-age 1d the same command goes on';

const NO_VALID_CODE =
  'warning: no valid code of this seller is known yet; until one is found, "invalid" is proven by account details alone → give one with --known-valid CODE';

/** What an audit keeps of the options. */
function termsOf({ maxAge, knownValid, confirmAfter }: CheckOptions): AuditOptions {
  return { maxAge, knownValid, confirmAfterMs: confirmAfter };
}

/**
 * With a bad key, an audit would only wait for a person.
 * @param size of the list; none of its codes may need a call
 * @throws {UserError} when the key opens no account, or the known-valid code is denied
 */
export async function assertKey(
  app: App,
  seller: SellerConfig,
  knownValid: string | undefined,
  size?: AuditSize,
): Promise<void> {
  if (size !== undefined && codesToCheck(size) === 0) return;
  const fault = await app.withMarketplace(
    seller,
    { onWait: noteWait(seller.name) },
    ({ marketplace }) => verifyKey(marketplace, knownValid, app.signal),
  );
  if (fault !== null) throw new UserError(fault.message, fault.remedy, 'FAILED');
}

function linesOf(lists: readonly List[]): number {
  return lists.reduce((sum, { entries }) => sum + entries.length, 0);
}

/** Shows how far a list is sent to the store. */
function saving<T>(
  { signal }: App,
  lists: readonly List[],
  work: (events: EnterEvents) => Promise<T>,
): Promise<T> {
  return withProgress(
    'saving the list',
    (bar) => work({ signal, onSaved: (saved) => bar.update(saved) }),
    { total: linesOf(lists) },
  );
}

/** Prints what lists would cost. Several sellers are asked about each code: one at least, and all at most. */
async function tellCost(
  app: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  options: CheckOptions,
): Promise<ExitCode> {
  const factor = sellers.length;
  const told = [];
  for (const seller of await mostPurchasesFirst(app, sellers)) {
    const size = await saving(app, lists, (events) =>
      measureLists(app.db, seller, lists, termsOf(options), events),
    );
    const cost = await costOf(app.db, seller, codesToCheck(size), options.confirmAfter);
    const finishAt = cost.finishAt === null ? null : new Date(cost.finishAt);
    told.push({ seller: seller.name, size, cost: { ...cost, finishAt } });
    const text = costText(cost, seller.requestsPerMinute, size.codes);
    noteLines(factor === 1 ? [sizeLine(size), text] : [`${safeLine(seller.name)}: ${text}`]);
  }
  if (factor > 1) noteLines([`${plural(factor, 'seller')}: up to ${factor} × the calls of one`]);
  if (options.json !== true) return EXIT.done;
  const [{ seller: _, ...one } = {}] = told;
  const { firstRejected } = reportOf(lists);
  const found = factor === 1 ? { ...one, rejected: firstRejected } : { factor, sellers: told };
  await printJson({ dryRun: true, ...found });
  return EXIT.done;
}

/** Formats `10,012 lines: 10,000 codes to check, 8 repeated, 1 checked recently enough, 3 rejected`. */
function sizeLine(size: AuditSize): string {
  const { lines, rejected, codes, reused } = size;
  const repeated = countRepeated(size);
  const parts = [
    `${plural(codes - reused, 'code')} to check`,
    ...(repeated > 0 ? [`${count(repeated)} repeated`] : []),
    ...(reused > 0 ? [`${count(reused)} checked recently enough`] : []),
    ...(rejected > 0 ? [`${count(rejected)} rejected`] : []),
  ];
  return `${plural(lines, 'line')}: ${parts.join(', ')}`;
}

/** Most known codes that show what the seller's codes look like. */
const MAX_KNOWN = 200;

/**
 * Asks the user to confirm lists that do not look like lists of codes. A dry run only warns.
 * @throws {UserError} when the user declines, or can't be asked
 */
async function confirmDoubts(
  { db, signal }: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  { dryRun, usesStdin }: Check,
): Promise<void> {
  const known: string[] = [];
  for (const { name } of sellers) {
    for (const { form } of await readKnownValid(db, name, null, MAX_KNOWN)) known.push(form);
  }
  const names = sellers.map(({ name }) => name).join(', ');
  const doubts = lists.flatMap((list) => {
    const doubt = doubtOf(list, known);
    return doubt === null ? [] : doubtLines(list.name, doubt, names);
  });
  if (doubts.length === 0) return;
  problemLines(doubts);
  const canAsk = process.stdin.isTTY && process.stderr.isTTY && !usesStdin;
  if (dryRun === true || (canAsk && (await isConfirmed(signal)))) return;
  throw usageError(
    'this does not look like a list of purchase codes; no code was checked',
    'name the right file, or the right column with --column; --yes checks the list anyway',
  );
}

/** Formats why a list does not look like codes, with some of its lines. */
function doubtLines(name: string, doubt: Doubt, sellers: string): readonly string[] {
  const { odd, total, known, samples } = doubt;
  const like = known === null ? 'purchase codes' : `the known valid codes of ${sellers} (${known})`;
  return [
    `warning: ${name}: ${count(odd)} of the first ${plural(total, 'record')} do not look like ${like}:`,
    ...samples.map((sample) => `    ${sample}`),
  ].map(safeLine);
}

async function isConfirmed(signal: AbortSignal): Promise<boolean> {
  // With terminal: true, readline would catch Ctrl-C.
  const prompt = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = once(prompt, 'close', { signal }).then(() => '');
    const answer = prompt.question('Check it anyway? [y/N] ', { signal });
    return /^\s*y(?:es)?\s*$/i.test(await Promise.race([answer, ended]));
  } finally {
    prompt.close();
  }
}

/** Prints lines to stderr, so that results on stdout can be piped. */
function noteLines(lines: readonly string[]): void {
  printNote(lines.map((line) => `${line}\n`).join(''));
}

/** The same, also with --quiet. */
function problemLines(lines: readonly string[]): void {
  printProblem(lines.map((line) => `${line}\n`).join(''));
}

interface RunOptions extends FailOptions {
  readonly json?: boolean | undefined;
  /** Leave the work to other processes. */
  readonly detach?: boolean | undefined;
  /** With `detach`: don't wait for jobs that are delayed or locked by a dead process. */
  readonly force?: boolean;
  /** Where to write the result. Saved in the store, so that `audits resume` writes it too. */
  readonly destination: ResultDestination | null;
}

/** Runs an audit to its end and prints its result; with `detach`, leaves the work to other processes. */
export async function runAudit(app: App, auditId: bigint, options: RunOptions): Promise<ExitCode> {
  const { destination, detach = false, json = false, force = false } = options;
  const path = destination?.path ?? null;
  if (destination !== null && path !== null) {
    await setResultFile(app.db, auditId, { ...destination, path: resolve(path) });
  }
  const audit = await findAudit(app, auditId, undefined);
  const commas = destination?.decimalComma === true ? ' --decimal-comma' : '';
  const onStdout =
    destination !== null && path === null ? ` --out - --format ${destination.format}${commas}` : '';
  const resume = `${ownCommand()} audits resume ${auditId}${onStdout}`;
  if (audit.state !== 'running') return tellResult(app, [audit], options);
  if (!detach) {
    const ended = await follow(app, audit, { resume });
    return ended === null ? EXIT.interrupted : tellResult(app, [ended], options);
  }
  const queues = await openQueuesOf(app, 'codes');
  try {
    await queues.addAudit(audit.sellerId, auditId, { promote: force });
  } finally {
    await queues.close();
  }
  const writes = audit.result === null ? '' : `; it writes ${safeLine(audit.result.path)}`;
  if (json) await printJson({ audit });
  else {
    await print(
      `check ${auditId} · in the queue; a process with \`run\` or \`worker\` works on it\n`,
      `→ ${ownCommand()} audits show ${auditId}\n`,
      `→ ${resume}   (works on it here, or watches${writes})\n`,
    );
  }
  return EXIT.done;
}
