/**
 * Checks codes with several sellers, since nobody may know who sold them: an audit for each. One seller after another is
 * asked in a first pass about what the earlier ones denied. Second checks follow for codes that nobody sold.
 */

import type { App } from '../../app.js';
import type { JobOutcome } from '../../catalogue/types.js';
import { cancelAudit, getAudit } from '../../codes/audits-store.js';
import {
  codesToCheck,
  enterLists,
  entriesOf,
  measureLists,
  type AuditOptions,
} from '../../codes/enter-list.js';
import type { Entry, List } from '../../codes/lists/types.js';
import { MOST_SELLERS } from '../../codes/look-up.js';
import { checkCost } from '../../codes/progress.js';
import {
  holdAudits,
  readFoundLines,
  readHomes,
  withdrawLines,
} from '../../codes/sellers-asked-store.js';
import { readFoundEver } from '../../codes/situation-store.js';
import type { AuditProgress, AuditSize } from '../../codes/types.js';
import type { SellerConfig } from '../../config/index.js';
import { plural } from '../../domain/text.js';
import { printJson, printNote } from '../console.js';
import { usageError } from '../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { safeLine } from '../output/text.js';
import { costText } from './audit-view.js';
import type { CheckOptions } from './options.js';
import { workOrWatch } from './run-audit.js';

/** No second check begins for so long after this process was last seen, milliseconds. It renews that. */
const HOLD_MS = 600_000;
/** A seller whose marketplace needs longer (ms) is asked again after the others. */
const PATIENCE_MS = 10_000;

/** Whether the first pass is over, or goes on much later. */
function isFirstPassOver(outcome: JobOutcome): boolean {
  if (outcome.kind === 'retry') return true;
  if (outcome.kind !== 'later' || outcome.isBusy === true) return false;
  return outcome.reason === 'second-check' || outcome.delayMs > PATIENCE_MS;
}

/** How a command works on the audits of a search. */
interface SearchWork {
  /** Somebody reads the answer at the terminal: no alerts. */
  readonly isWatched: boolean;
  /** Called before each list is kept. If it throws, nothing is kept. */
  readonly onLoaded?: (size: AuditSize) => Promise<void>;
  /** Works on an audit to its end. */
  readonly finish: (audit: AuditProgress) => Promise<void>;
}

/**
 * Asks all sellers about the codes of lists; one seller is asked like several.
 * @returns the audit of each seller who was asked; all are cancelled if this throws
 */
export async function askSellers(
  app: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  terms: AuditOptions,
  work: SearchWork,
): Promise<readonly AuditProgress[]> {
  const search = new Search(app, await mostPurchasesFirst(app, sellers), lists, terms, work);
  try {
    await search.ask();
    await search.settle();
    app.signal.throwIfAborted();
    return await search.audits();
  } catch (error) {
    await search.cancel();
    throw error;
  }
}

class Search {
  readonly #app: App;
  readonly #sellers: readonly SellerConfig[];
  readonly #lists: readonly List[];
  readonly #terms: AuditOptions;
  readonly #work: SearchWork;
  readonly #asked: bigint[] = [];
  /** Lines whose code was found. */
  readonly #found = new Set<number>();

  constructor(
    app: App,
    sellers: readonly SellerConfig[],
    lists: readonly List[],
    terms: AuditOptions,
    work: SearchWork,
  ) {
    this.#app = app;
    this.#sellers = sellers;
    this.#lists = lists;
    this.#terms = terms;
    this.#work = work;
  }

  /** The first pass with each seller. Who sold a code the last time is asked before all others. */
  async ask(): Promise<void> {
    const { db } = this.#app;
    const names = this.#sellers.map(({ name }) => name);
    const codes = [...entriesOf(this.#lists)].flatMap((one) => ('code' in one ? [one.code] : []));
    const homes = await readHomes(db, names, codes);
    const renewing = setInterval(() => void this.#hold().catch(() => undefined), HOLD_MS / 10);
    try {
      for (const seller of this.#sellers) {
        const isFirst = (code: string): boolean => (homes.get(code) ?? seller.name) === seller.name;
        await this.#askAbout(seller, isFirst);
      }
      for (const seller of this.#sellers) {
        const isSecond = (code: string): boolean =>
          (homes.get(code) ?? seller.name) !== seller.name;
        await this.#askAbout(seller, isSecond);
      }
    } finally {
      clearInterval(renewing);
    }
  }

  async #askAbout(seller: SellerConfig, isAsked: (code: string) => boolean): Promise<void> {
    const { db, signal } = this.#app;
    const { isWatched, onLoaded } = this.#work;
    const isFirst = this.#asked.length === 0;
    const keeps = (entry: Entry): boolean =>
      'code' in entry ? !this.#found.has(entry.line) && isAsked(entry.code) : isFirst;
    if (!isFirst && ![...entriesOf(this.#lists)].some(keeps)) return;
    const events = { signal, keeps, ...(onLoaded === undefined ? {} : { onLoaded }) };
    const { auditId } = await enterLists(db, seller, this.#lists, this.#terms, events);
    this.#asked.push(auditId);
    await this.#hold();
    const audit = await this.#audit(auditId);
    const how = { resume: null, isWatched, isEnough: isFirstPassOver };
    if (audit.state === 'running') await workOrWatch(this.#app, audit, how);
    signal.throwIfAborted();
    await this.#noteFound(auditId);
  }

  /** Second checks of the codes that nobody sold. A seller who gave no answer comes first: it may have sold them. */
  async settle(): Promise<void> {
    for (const auditId of this.#asked) await this.#withdraw(auditId);
    await holdAudits(this.#app.db, this.#asked, 0);
    const openOf = ({ pending, denied }: AuditProgress): number => pending - denied;
    const audits = (await this.audits()).toSorted((a, b) => openOf(b) - openOf(a));
    for (const { auditId } of audits) {
      await this.#withdraw(auditId);
      const audit = await this.#audit(auditId);
      if (audit.state === 'running') await this.#work.finish(audit);
      await this.#noteFound(auditId);
    }
  }

  audits(): Promise<readonly AuditProgress[]> {
    return Promise.all(this.#asked.map((auditId) => this.#audit(auditId)));
  }

  async cancel(): Promise<void> {
    for (const { auditId, state } of await this.audits()) {
      if (state === 'running') await cancelAudit(this.#app.db, auditId);
    }
  }

  async #noteFound(auditId: bigint): Promise<void> {
    for (const line of await readFoundLines(this.#app.db, auditId)) this.#found.add(line);
  }

  #withdraw(auditId: bigint): Promise<void> {
    return withdrawLines(this.#app.db, auditId, [...this.#found]);
  }

  #hold(): Promise<void> {
    return holdAudits(this.#app.db, this.#asked, HOLD_MS);
  }

  async #audit(auditId: bigint): Promise<AuditProgress> {
    const audit = await getAudit(this.#app.db, auditId);
    if (audit === null) throw new Error(`audit ${auditId} was deleted`);
    return audit;
  }
}

/** Prints what lists would cost: each code is asked of one seller at least, and of all at most. */
export async function costOfAny(
  app: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  terms: AuditOptions,
  json: boolean,
): Promise<ExitCode> {
  const costs = [];
  for (const seller of await mostPurchasesFirst(app, sellers)) {
    const { name, requestsPerMinute } = seller;
    const size = await measureLists(app.db, seller, lists, terms, { signal: app.signal });
    const foundEver = await readFoundEver(app.db, name);
    const { confirmAfterMs } = terms;
    const work = { toCheck: codesToCheck(size), requestsPerMinute, foundEver, confirmAfterMs };
    const cost = checkCost(work, app.db.clock.now());
    costs.push({ seller: name, size, cost });
    printNote(`${safeLine(name)}: ${costText(cost, requestsPerMinute, size.codes)}\n`);
  }
  const factor = sellers.length;
  printNote(`${plural(factor, 'seller')}: up to ${factor} × the calls of one\n`);
  if (json) await printJson({ dryRun: true, factor, sellers: costs });
  return EXIT.done;
}

/** @throws {UserError} when the question needs one seller */
export function refuseSeveral(
  sellers: readonly SellerConfig[],
  { knownValid, detach }: Pick<CheckOptions, 'knownValid' | 'detach'>,
): void {
  if (sellers.length > MOST_SELLERS) {
    throw usageError(
      `${sellers.length} sellers are configured, and at most ${MOST_SELLERS} are asked about a code`,
      'choose one with --seller',
    );
  }
  const choose = `choose one with --seller: ${sellers.map(({ name }) => name).join(', ')}`;
  if (detach === true)
    throw usageError('--detach needs one seller, and several are configured', choose);
  if (knownValid === undefined) return;
  throw usageError(
    'a code that you know is valid belongs to one seller, and several are configured',
    choose,
  );
}

async function mostPurchasesFirst(
  { db }: App,
  sellers: readonly SellerConfig[],
): Promise<readonly SellerConfig[]> {
  const found = new Map<SellerConfig, number>();
  for (const seller of sellers) found.set(seller, await readFoundEver(db, seller.name));
  return [...sellers].sort((a, b) => (found.get(b) ?? 0) - (found.get(a) ?? 0));
}
