import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { auditCost, type AuditCost } from '../../codes/cost.js';
import { doubtOf, type Doubt } from '../../codes/lists/doubt.js';
import type { List } from '../../codes/lists/types.js';
import {
  enterLists,
  measureLists,
  countRepeated,
  codesToCheck,
  reportOf,
  type LoadReport,
} from '../../codes/enter-list.js';
import { verifyKey, type KeyFault } from '../../codes/verify-key.js';
import type { AuditSize } from '../../codes/types.js';
import { printNote, printJson } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/progress.js';
import { safeLine } from '../output/text.js';
import { count, plural } from '../../domain/text.js';
import { costText } from './audit-view.js';
import { auditOptions, type CheckOptions } from './options.js';
import { checkResultRows, type ResultDestination } from './result-file.js';
import { readCanaries } from '../../codes/codes-store.js';
import { runAudit } from './run-audit.js';

interface ListSource {
  /** True if a list came from stdin, so that it can't answer questions. */
  readonly usesStdin: boolean;
}

/** Creates an audit of the lists and runs it to its end. A dry run only prints its cost. */
export async function checkLists(
  app: App,
  seller: SellerConfig,
  lists: readonly List[],
  options: CheckOptions & ListSource & { readonly destination: ResultDestination | null },
): Promise<ExitCode> {
  const { dryRun, json, maxAge, yes, knownValid, destination } = options;
  const { signal } = app;
  noteLines(layoutLines(lists));
  const report = reportOf(lists);
  noteLines(loadLines(report, lists.length));
  const lines = lists.reduce((sum, { entries }) => sum + entries.length, 0);
  if (destination !== null) checkResultRows(destination, lines);
  if (yes !== true) await confirmDoubts(app, seller, lists, options);
  const checkKey = async (): Promise<void> =>
    throwKeyFault(
      await app.withMarketplace(seller, {}, ({ marketplace }) =>
        verifyKey(marketplace, knownValid, signal),
      ),
    );
  // With --max-age there may be no code to check.
  if (dryRun !== true && maxAge === undefined) await checkKey();
  const known = knownValid ?? (await readCanaries(app.db, seller.name, 1))[0];
  if (known === undefined) noteLines([NO_VALID_CODE]);
  const bar = new Progress('saving the list', { total: lines });
  const loading = { signal, onSaved: (saved: number) => bar.update(saved) };
  if (dryRun === true) {
    const measuring = measureLists(app.db, seller, lists, auditOptions(options), loading);
    const size = await measuring.finally(() => bar.finish());
    const cost = noteSize(seller, size);
    if (json === true) await printJson(dryRunJson(size, cost, report));
    return EXIT.done;
  }
  const entered = await enterLists(app.db, seller, lists, auditOptions(options), {
    ...loading,
    ...(maxAge === undefined
      ? {}
      : { onLoaded: async (size) => (codesToCheck(size) > 0 ? checkKey() : undefined) }),
  }).finally(() => bar.finish());
  noteSize(seller, entered);
  return runAudit(app, entered.auditId, options);
}

/** @throws {CommandError} when there is a fault */
export function throwKeyFault(fault: KeyFault | null): void {
  if (fault !== null) throw new CommandError(fault.message, fault.remedy);
}

const NO_VALID_CODE =
  'warning: no valid code of this seller is known yet; until one is found, "invalid" is proven by account details alone → give one with --known-valid CODE';

/** Maximum number of known codes that show what the seller's codes look like. */
const MAX_KNOWN = 200;

/**
 * Asks the user to confirm lists that do not look like lists of codes. A dry run only warns.
 * @throws {CommandError} when the user declines, or can't be asked
 */
async function confirmDoubts(
  { db, signal }: App,
  { name: seller }: SellerConfig,
  lists: readonly List[],
  { dryRun, usesStdin }: Pick<CheckOptions, 'dryRun'> & ListSource,
): Promise<void> {
  const known = await readCanaries(db, seller, MAX_KNOWN);
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

function noteSize(seller: SellerConfig, size: AuditSize): AuditCost {
  const { requestsPerMinute } = seller;
  const cost = auditCost({ toCheck: codesToCheck(size), requestsPerMinute }, Date.now());
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
function dryRunJson(size: AuditSize, cost: AuditCost, { firstRejected }: LoadReport): object {
  const finishAt = cost.finishAt === null ? null : new Date(cost.finishAt);
  return { dryRun: true, size, cost: { ...cost, finishAt }, rejected: firstRejected };
}

/** Prints lines to stderr, so that results on stdout can be piped. */
function noteLines(lines: readonly string[]): void {
  printNote(lines.map((line) => `${line}\n`).join(''));
}
