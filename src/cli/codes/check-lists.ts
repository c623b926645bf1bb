import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { hostName } from '../../domain/address.js';
import type { AuditCost } from '../../domain/codes/cost.js';
import { chunkSizeFor } from '../../jobs/codes/chunk-size.js';
import type { AuditLoader, AuditSize, NewAudit } from '../../store/audits/types.js';
import { printJson } from '../console.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import type { CheckOptions } from './check.js';
import { costOf, costText } from './cost-text.js';
import { layoutJson, type OpenList } from './lists.js';
import { LoadProgress } from './load-progress.js';
import { layoutLines, reportLines, sizeLine } from './load-text.js';
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
  const { dryRun, detach, json, place, maxAge } = options;
  tell(layoutLines(lists));
  const prove = () => proveKey(app, seller, options.canary, signal);
  // A bad key is told before a million lines are read; with --max-age perhaps none is needed.
  if (dryRun !== true && maxAge === undefined) await prove();
  if (options.canary === undefined) await warnOfWeakProof(app, seller);
  const loader = await app.store.audits.begin(newAudit(seller, lists, options));
  try {
    const report = await load(lists, loader, signal);
    if (dryRun === true) {
      const size = await loader.measure();
      const cost = tellSize(seller, size);
      if (json === true) await printJson(dryRunJson(size, cost, report));
      return EXIT.done;
    }
    if (maxAge !== undefined && toAsk(await loader.measure()) > 0) await prove();
    await app.store.ensureSeller(seller.name, hostName(seller.url));
    tellSize(seller, await loader.finish());
  } finally {
    // Of a list that was entered nothing is taken back.
    await loader.abort();
  }
  const how = { json: json === true, detach: detach === true, place };
  return pursue(app, loader.auditId, how, signal);
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
  { maxAge, canary }: CheckOptions,
): NewAudit {
  return {
    sellerId: seller.name,
    source: lists.map(({ name }) => name).join(', '),
    layout: layoutJson(lists),
    columns: lists[0]?.intake.layout.columns ?? [],
    maxAgeSeconds: maxAge === undefined ? null : Math.floor(maxAge / 1000),
    canary: canary ?? null,
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
  process.stderr.write(lines.map((line) => `${line}\n`).join(''));
}
