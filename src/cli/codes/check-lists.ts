import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { hostName } from '../../domain/address.js';
import type { AuditCost } from '../../domain/codes/cost.js';
import { chunkSizeFor } from '../../jobs/codes/pace.js';
import type { AuditLoader, AuditSize, NewAudit } from '../../store/audits/types.js';
import { doubtOf } from '../../intake/index.js';
import { note, printJson } from '../console.js';
import { CommandError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import type { CheckOptions } from './options.js';
import { costOf, costText } from './cost-text.js';
import { layoutJson, type OpenList } from './lists.js';
import { LoadProgress } from './load-progress.js';
import { doubtLines, layoutLines, reportLines, sizeLine } from './load-text.js';
import { loadLists, type LoadReport } from './load.js';
import type { OutPlace } from './out-place.js';
import { proveKey } from './prove-key.js';
import { pursue } from './pursue.js';

/** Makes an audit of the lists and sees it to its end; or, for a dry run, tells what it would cost. */
export async function checkLists(
  app: App,
  seller: SellerConfig,
  lists: readonly OpenList[],
  options: CheckOptions & { readonly place: OutPlace | null },
  signal: AbortSignal,
): Promise<ExitCode> {
  const { dryRun, detach, json, place, maxAge, failOn } = options;
  tell(layoutLines(lists));
  if (options.yes !== true) await settleDoubts(app, seller, lists, dryRun === true, signal);
  const prove = () => proveKey(app, seller, options.canary, signal);
  // A bad key is told before a million lines are read; with --max-age perhaps none is needed.
  if (dryRun !== true && maxAge === undefined) await prove();
  if (options.canary === undefined) await warnOfWeakProof(app, seller);
  const loader = await app.store.audits.begin(newAudit(seller, lists, options));
  let auditId: bigint;
  try {
    const report = await load(lists, loader, signal);
    if (dryRun === true) {
      const size = await loader.measure();
      const cost = tellSize(seller, size);
      if (json === true) await printJson(dryRunJson(size, cost, report));
      return EXIT.done;
    }
    if (maxAge !== undefined && toAsk(await loader.measure()) > 0) await prove();
    await app.store.sellers.ensure(seller.name, hostName(seller.url));
    const entered = await loader.finish();
    tellSize(seller, entered);
    auditId = entered.auditId;
  } finally {
    // Of a list that was entered nothing is taken back.
    await loader.abort();
  }
  const how = { json: json === true, detach: detach === true, place, failOn };
  return pursue(app, auditId, how, signal);
}

/** As many known codes as tell what the codes of a seller look like. */
const MOST_KNOWN = 200;

/**
 * Has a person look at lists that are likely not lists of codes. A dry run only says so.
 * @throws {CommandError} when the answer is no, or nobody can be asked
 */
async function settleDoubts(
  { store }: App,
  { name: seller }: SellerConfig,
  lists: readonly OpenList[],
  dryRun: boolean,
  signal: AbortSignal,
): Promise<void> {
  const known = await store.audits.canariesOf(seller, MOST_KNOWN);
  const doubts = lists.flatMap(({ name, intake }) => {
    const doubt = doubtOf(intake, known);
    return doubt === null ? [] : doubtLines(name, doubt, seller);
  });
  if (doubts.length === 0) return;
  tell(doubts);
  if (dryRun || (canAsk(lists) && (await isConfirmed(signal)))) return;
  throw new CommandError(
    'this does not look like a list of purchase codes: nothing was asked for',
    'name the right file, or the right column with --column; --yes checks the list as it is',
    EXIT.usage,
  );
}

function canAsk(lists: readonly OpenList[]): boolean {
  const isTerminal = process.stdin.isTTY && process.stderr.isTTY;
  return isTerminal && lists.every(({ isStdin }) => !isStdin);
}

async function isConfirmed(signal: AbortSignal): Promise<boolean> {
  // Of a terminal's own handling: Ctrl-C would not end the program.
  const asking = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = once(asking, 'close', { signal }).then(() => '');
    const answer = asking.question('Check it all the same? [y/N] ', { signal });
    return /^\s*y(?:es)?\s*$/i.test(await Promise.race([answer, ended]));
  } finally {
    asking.close();
  }
}

/** Before the first code of a seller was found, account details alone speak for the API key. */
async function warnOfWeakProof({ store }: App, { name }: SellerConfig): Promise<void> {
  const known = await store.audits.canariesOf(name, 1);
  if (known.length === 0) tell([NO_VALID_CODE]);
}

const NO_VALID_CODE =
  'warning: no valid code of this seller is known yet; until one is found, "invalid" is proven by account details alone → give one with --canary CODE';

function newAudit(
  seller: SellerConfig,
  lists: readonly OpenList[],
  { maxAge, canary, confirm = 'auto' }: CheckOptions,
): NewAudit {
  return {
    sellerId: seller.name,
    source: lists.map(({ name }) => name).join(', '),
    layout: layoutJson(lists),
    columns: lists[0]?.intake.layout.columns ?? [],
    maxAgeSeconds: maxAge === undefined ? null : Math.floor(maxAge / 1000),
    canary: canary ?? null,
    confirm,
    chunkSize: chunkSizeFor(seller.requestsPerMinute),
  };
}

async function load(
  lists: readonly OpenList[],
  loader: AuditLoader,
  signal: AbortSignal,
): Promise<LoadReport> {
  const progress = new LoadProgress();
  try {
    const report = await loadLists(lists, loader, signal, {
      onRows: (list, rows) => progress.show(list, rows),
    });
    progress.finish();
    tell(reportLines(report, lists.length));
    return report;
  } finally {
    progress.finish();
  }
}

function tellSize(seller: SellerConfig, size: AuditSize): AuditCost {
  const chunkSize = chunkSizeFor(seller.requestsPerMinute);
  const cost = costOf(seller, toAsk(size), chunkSize, Date.now());
  tell([sizeLine(size), costText(cost, seller.requestsPerMinute, size.codes)]);
  return cost;
}

/** What a dry run found, for scripts: its time as all others are written. */
function dryRunJson(size: AuditSize, cost: AuditCost, { firstRejected }: LoadReport): object {
  const finishAt = new Date(cost.finishAt);
  return { dryRun: true, size, cost: { ...cost, finishAt }, rejected: firstRejected };
}

/** Codes without a verdict that is fresh. */
function toAsk({ codes, reused }: AuditSize): number {
  return codes - reused;
}

/** What is no result goes to stderr, so that results can be piped. */
function tell(lines: readonly string[]): void {
  note(lines.map((line) => `${line}\n`).join(''));
}
