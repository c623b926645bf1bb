import { UserError } from '../../domain/user-error.js';
import { once } from 'node:events';
import { basename } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { addAbortSignal } from 'node:stream';
import type { App } from '../../app.js';
import {
  codesToCheck,
  countRepeated,
  enterLists,
  measureLists,
  reportOf,
  verifyKey,
  type KeyFault,
  type LoadReport,
} from '../../codes/enter-list.js';
import { doubtOf, type Doubt } from '../../codes/lists/columns.js';
import { readList } from '../../codes/lists/read-list.js';
import { openFile, readBytes } from '../../codes/lists/source.js';
import type { List, ListOptions } from '../../codes/lists/types.js';
import { checkCost, type CheckCost } from '../../codes/progress.js';
import { readFoundEver, readKnownValid } from '../../codes/situation-store.js';
import type { AuditProgress, AuditSize, EnteredAudit } from '../../codes/types.js';
import type { SellerConfig } from '../../config/index.js';
import { count, plural } from '../../domain/text.js';
import { readCell } from '../../marketplace/code.js';
import { noteWait, printJson, printNote } from '../console.js';
import { usageError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/progress.js';
import { safeLine } from '../output/text.js';
import { askSellers, costOfAny } from './ask-sellers.js';
import { costText } from './audit-view.js';
import { auditOptions, type CheckOptions } from './options.js';
import { checkResultRows, type ResultDestination } from './result-file.js';
import { report, runAudit, workOrWatch } from './run-audit.js';

export const STDIN = '-';

export type CheckInput =
  /** Paths of files, and `-` for stdin, in their order. */
  | { readonly kind: 'lists'; readonly paths: readonly string[] }
  /** The codes, without repetitions. */
  | { readonly kind: 'codes'; readonly codes: readonly string[] };

/** File endings. No known code ends in one. */
const FILE_ENDING = /\.(?:csv|tsv|tab|psv|txt|json|ndjson|jsonl|xls[xmb]?|ods|zip|gz|log|bak)$/i;

/**
 * Decides whether the arguments are lists or codes. Existing files and `-` are lists. Everything else is a code,
 * because codes have no known format; but a path to a missing file is an error.
 * @param exists returns true if there is a file at a path
 * @throws {UserError} when a file is missing, or some arguments are lists and others codes
 */
export function classifyArguments(
  args: readonly string[],
  exists: (path: string) => boolean,
): CheckInput {
  const lists = args.filter((text) => text === STDIN || exists(text));
  const missing = args.find((text) => !lists.includes(text) && looksLikePath(text));
  if (missing !== undefined) {
    throw usageError(
      `there is no file ${JSON.stringify(missing)}`,
      'check the path; give a code that looks like a path on stdin, to `seller-mirror codes check -`',
    );
  }
  if (lists.length === 0) return { kind: 'codes', codes: parseCodes(args) };
  if (lists.length < args.length) {
    throw usageError(
      'some arguments are lists and others are codes',
      'check the spelling of the file names, or check lists and codes one after the other',
    );
  }
  if (new Set(lists).size < lists.length) {
    throw usageError('a list is named twice', 'name each list once');
  }
  return { kind: 'lists', paths: lists };
}

function looksLikePath(text: string): boolean {
  return /[/\\]/.test(text) || FILE_ENDING.test(text);
}

function parseCodes(args: readonly string[]): readonly string[] {
  const codes = args.map((text, index) => {
    const read = readCell(text);
    if ('code' in read) return read.code;
    const subject = args.length === 1 ? 'the code' : `code ${index + 1}`;
    throw usageError(`${subject} ${read.fault}`, EXAMPLE);
  });
  return [...new Set(codes)];
}

const EXAMPLE = 'for example: `seller-mirror codes check customers.csv --column code`';

/**
 * Reads lists that make one audit, and detects their layouts.
 * @throws {UserError} when one can't be read
 * @throws {UserError} when they have different columns: their result has one header
 */
export async function readLists(
  paths: readonly string[],
  options: Omit<ListOptions, 'name'>,
  signal: AbortSignal,
): Promise<readonly List[]> {
  const lists: List[] = [];
  for (const path of paths) {
    lists.push(await readOne(path, options, signal));
    checkColumns(lists);
  }
  return lists;
}

async function readOne(
  path: string,
  options: Omit<ListOptions, 'name'>,
  signal: AbortSignal,
): Promise<List> {
  const isStdin = path === STDIN;
  const name = isStdin ? 'stdin' : basename(path);
  const bytes = addAbortSignal(signal, isStdin ? process.stdin : await openFile(path));
  if (isStdin && process.stdin.isTTY) process.stderr.write(TYPE_CODES);
  return readList(() => readBytes(bytes), { ...options, name, signal });
}

const TYPE_CODES = 'reading codes from the terminal, one per line; end with Ctrl-D\n';

function checkColumns(lists: readonly List[]): void {
  const [first, last] = [lists[0], lists.at(-1)];
  if (first === undefined || last === undefined) return;
  const [expected, columns] = [first.layout.columns, last.layout.columns];
  const same =
    columns.length === expected.length && columns.every((name, i) => name === expected[i]);
  if (same) return;
  throw usageError(
    `${JSON.stringify(last.name)} has other columns than ${JSON.stringify(first.name)}`,
    'several lists make one result, so their columns must be the same; check the lists one by one',
  );
}

interface ListSource {
  /** True if a list came from stdin, so that it can't answer questions. */
  readonly usesStdin: boolean;
}

/** Checks lists with the seller, or with each seller, to the end. A dry run only prints the cost. */
export async function checkLists(
  app: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  options: CheckOptions & ListSource & { readonly destination: ResultDestination | null },
): Promise<ExitCode> {
  const { dryRun, json = false, yes, destination, confirmAfter } = options;
  const [seller, another] = sellers;
  if (seller === undefined) throw usageError('no seller is configured', null);
  noteLines(layoutLines(lists));
  const report = reportOf(lists);
  noteLines(loadLines(report, lists.length));
  const lines = lists.reduce((sum, { entries }) => sum + entries.length, 0);
  if (destination !== null) checkResultRows(destination, lines);
  if (yes !== true) await confirmDoubts(app, sellers, lists, options);
  const terms = auditOptions(options);
  if (another !== undefined) {
    return dryRun === true
      ? costOfAny(app, sellers, lists, terms, json)
      : checkWithAll(app, sellers, lists, options);
  }
  const bar = new Progress('saving the list', { total: lines });
  const loading = { signal: app.signal, onSaved: (saved: number) => bar.update(saved) };
  if (dryRun === true) {
    const measuring = measureLists(app.db, seller, lists, terms, loading);
    const size = await measuring.finally(() => bar.finish());
    const cost = await noteSize(app, seller, size, confirmAfter);
    if (json) await printJson(dryRunJson(size, cost, report));
    return EXIT.done;
  }
  const entered = await enterWithKey(app, seller, lists, options, loading).finally(() =>
    bar.finish(),
  );
  await noteSize(app, seller, entered, confirmAfter);
  return runAudit(app, entered.auditId, options);
}

/** Enters lists, once the key opens the seller's account. With --max-age there may be no code to check. */
async function enterWithKey(
  app: App,
  seller: SellerConfig,
  lists: readonly List[],
  options: CheckOptions,
  loading: Pick<Parameters<typeof enterLists>[4], 'signal' | 'onSaved'>,
): Promise<EnteredAudit> {
  const { maxAge, knownValid } = options;
  const checkKey = async (): Promise<void> =>
    throwKeyFault(
      await app.withMarketplace(seller, { onWait: noteWait(seller.name) }, ({ marketplace }) =>
        verifyKey(marketplace, knownValid, app.signal),
      ),
    );
  if (maxAge === undefined) await checkKey();
  const known = knownValid ?? (await readKnownValid(app.db, seller.name, null, 1))[0];
  if (known === undefined) noteLines([NO_VALID_CODE]);
  const onLoaded = async (size: AuditSize): Promise<void> =>
    codesToCheck(size) > 0 ? checkKey() : undefined;
  const events = maxAge === undefined ? loading : { ...loading, onLoaded };
  return enterLists(app.db, seller, lists, auditOptions(options), events);
}

/** Asks each seller about the lists, and reports one result of all. */
async function checkWithAll(
  app: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  options: CheckOptions & { readonly destination: ResultDestination | null },
): Promise<ExitCode> {
  const finish = async (audit: AuditProgress): Promise<void> =>
    void (await workOrWatch(app, audit, { resume: null }));
  const work = { isWatched: false, finish };
  const [first, ...others] = await askSellers(
    app,
    sellers,
    lists,
    auditOptions(options),
    work,
  ).catch((error: unknown) => {
    if (app.signal.aborted) noteLines([STOPPED]);
    throw error;
  });
  return first === undefined ? EXIT.done : report(app, [first, ...others], options);
}

const STOPPED = 'stopped; all answers are kept: with --max-age 1d the same command goes on';

/** @throws {UserError} when there is a fault */
export function throwKeyFault(fault: KeyFault | null): void {
  if (fault !== null) throw new UserError(fault.message, fault.remedy, 'FAILED');
}

const NO_VALID_CODE =
  'warning: no valid code of this seller is known yet; until one is found, "invalid" is proven by account details alone → give one with --known-valid CODE';

/** Maximum number of known codes that show what the seller's codes look like. */
const MAX_KNOWN = 200;

/**
 * Asks the user to confirm lists that do not look like lists of codes. A dry run only warns.
 * @throws {UserError} when the user declines, or can't be asked
 */
async function confirmDoubts(
  { db, signal }: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  { dryRun, usesStdin }: Pick<CheckOptions, 'dryRun'> & ListSource,
): Promise<void> {
  const known: string[] = [];
  for (const { name } of sellers) {
    for (const { form } of await readKnownValid(db, name, null, MAX_KNOWN)) known.push(form);
  }
  const seller = sellers.map(({ name }) => name).join(', ');
  const doubts = lists.flatMap((list) => {
    const doubt = doubtOf(list, known);
    return doubt === null ? [] : doubtLines(list.name, doubt, seller);
  });
  if (doubts.length === 0) return;
  noteLines(doubts);
  const canAsk = process.stdin.isTTY && process.stderr.isTTY && !usesStdin;
  if (dryRun === true || (canAsk && (await isConfirmed(signal)))) return;
  throw usageError(
    'this does not look like a list of purchase codes; no code was checked',
    'name the right file, or the right column with --column; --yes checks the list anyway',
  );
}

/** Formats why a list does not look like codes, with some of its lines. */
function doubtLines(name: string, doubt: Doubt, seller: string): readonly string[] {
  const { odd, total, known, samples } = doubt;
  const like =
    known === null
      ? 'purchase codes'
      : `the known valid codes of ${safeLine(seller)} (${safeLine(known)})`;
  return [
    `warning: ${safeLine(name)}: ${count(odd)} of the first ${plural(total, 'record')} do not look like ${like}:`,
    ...samples.map((sample) => `    ${safeLine(sample)}`),
  ];
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

/** Formats how each list is read, and why. */
export function layoutLines(lists: readonly List[]): readonly string[] {
  return lists.flatMap(({ name, layout }) => {
    const reasons = layout.reasons.map((reason) => `  ${safeLine(reason)}`);
    return reasons.length === 0 ? [] : [`${safeLine(name)}:`, ...reasons];
  });
}

/** Formats what was tolerated or skipped while reading, and the lines without a code. */
export function loadLines(report: LoadReport, lists: number): readonly string[] {
  const { firstRejected, rejected, blankLines, notes } = report;
  const more = rejected - firstRejected.length;
  return [
    ...notes.map((note) => `  ${safeLine(note)}`),
    ...(blankLines === 0 ? [] : [`  ${plural(blankLines, 'blank line')} skipped`]),
    ...(rejected === 0 ? [] : [`  ${plural(rejected, 'line')} can’t be checked:`]),
    ...firstRejected.map(({ list, place, why }) => {
      const where = lists === 1 ? place : `${safeLine(list)}, ${place}`;
      return `    ${where}: ${safeLine(why)}`;
    }),
    ...(more > 0
      ? [`    and ${count(more)} more; all of them are in the result as "rejected"`]
      : []),
  ];
}

async function noteSize(
  { db }: App,
  { name, requestsPerMinute }: SellerConfig,
  size: AuditSize,
  confirmAfterMs: number | undefined,
): Promise<CheckCost> {
  const toCheck = codesToCheck(size);
  const foundEver = await readFoundEver(db, name);
  const work = { toCheck, requestsPerMinute, foundEver, confirmAfterMs };
  const cost = checkCost(work, db.clock.now());
  noteLines([sizeLine(size), costText(cost, requestsPerMinute, size.codes)]);
  return cost;
}

/** Formats `10,012 lines: 10,000 codes to check, 8 repeated, 1 checked recently enough, 3 rejected`. */
export function sizeLine(size: AuditSize): string {
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

/** Formats the result of a dry run for `--json`. */
function dryRunJson(size: AuditSize, cost: CheckCost, { firstRejected }: LoadReport): object {
  const finishAt = cost.finishAt === null ? null : new Date(cost.finishAt);
  return { dryRun: true, size, cost: { ...cost, finishAt }, rejected: firstRejected };
}

/** Prints lines to stderr, so that results on stdout can be piped. */
function noteLines(lines: readonly string[]): void {
  printNote(lines.map((line) => `${line}\n`).join(''));
}
