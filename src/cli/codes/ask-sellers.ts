/**
 * Checks codes with several sellers, since nobody may know who sold them: an audit for each. One seller after another is
 * asked in a first pass about what the earlier ones denied. Second checks follow for codes that nobody sold.
 */

import type { App } from '../../app.js';
import type { JobOutcome } from '../../catalogue/types.js';
import { cancelAudit } from '../../codes/audits-store.js';
import { giveUpCheck } from '../../codes/check.js';
import { enterLists, entriesOf, type AuditOptions } from '../../codes/enter-list.js';
import type { Entry, List } from '../../codes/lists/types.js';
import { MOST_SELLERS } from '../../codes/look-up.js';
import {
  holdAudits,
  readFoundLines,
  readHomes,
  withdrawLines,
} from '../../codes/sellers-asked-store.js';
import { readFoundEver } from '../../codes/situation-store.js';
import type { AuditProgress, AuditSize } from '../../codes/types.js';
import type { SellerConfig } from '../../config/index.js';
import { usageError } from '../errors.js';
import { follow } from './follow.js';
import { findAudit, type CheckOptions } from './options.js';

/** No second check begins for so long after this process was last seen, milliseconds. It renews that. */
const HOLD_MS = 600_000;
/**
 * A seller whose marketplace needs longer (ms) is asked again after the others. If somebody waits at the terminal, the
 * codes stay unproven then.
 */
const PATIENCE_MS = 10_000;

interface Asking {
  readonly terms: AuditOptions;
  /** Somebody waits at the terminal for an answer about each code. */
  readonly isAnswer: boolean;
  /** Called before each list is kept. If it throws, nothing is kept. */
  readonly onLoaded?: (size: AuditSize) => Promise<unknown>;
}

/**
 * Asks all sellers about the codes of lists; one seller is asked like several.
 * @returns the audit of each seller who was asked; all are cancelled if this throws
 */
export async function askSellers(
  app: App,
  sellers: readonly SellerConfig[],
  lists: readonly List[],
  { terms, isAnswer, onLoaded }: Asking,
): Promise<readonly [AuditProgress, ...AuditProgress[]]> {
  const { db, signal } = app;
  const asked: bigint[] = [];
  /** Lines whose code was found. */
  const found = new Set<number>();
  const audits = () => Promise.all(asked.map((auditId) => findAudit(app, auditId, undefined)));
  const hold = (ms = HOLD_MS) => holdAudits(db, asked, ms);
  const withdraw = (auditId: bigint) => withdrawLines(db, auditId, [...found]);
  const noteFound = async (auditId: bigint): Promise<void> => {
    for (const line of await readFoundLines(db, auditId)) found.add(line);
  };

  const firstPass = async (
    seller: SellerConfig,
    isAsked: (code: string) => boolean,
  ): Promise<void> => {
    const isFirst = asked.length === 0;
    const keeps = (entry: Entry): boolean =>
      'code' in entry ? !found.has(entry.line) && isAsked(entry.code) : isFirst;
    if (!isFirst && ![...entriesOf(lists)].some(keeps)) return;
    const { auditId } = await enterLists(db, seller, lists, terms, { signal, keeps, onLoaded });
    asked.push(auditId);
    await hold();
    const audit = await findAudit(app, auditId, undefined);
    const how = { resume: null, isAnswer, isEnough: isFirstPassOver };
    if (audit.state === 'running') await follow(app, audit, how);
    signal.throwIfAborted();
    await noteFound(auditId);
  };

  const secondCheck = async (audit: AuditProgress): Promise<void> => {
    let waitsFor: string | null = null;
    const isEnough = (outcome: JobOutcome): boolean => {
      if (outcome.kind === 'later' && outcome.isBusy !== true) waitsFor = outcome.reason;
      return isAnswer && isLong(outcome);
    };
    const ended = await follow(app, audit, { resume: null, isAnswer, isEnough });
    signal.throwIfAborted();
    // Nobody resumes it.
    if (isAnswer && ended?.state === 'running') await giveUpCheck(db, ended, waitsFor);
  };

  try {
    const ordered = await mostPurchasesFirst(app, sellers);
    const names = ordered.map(({ name }) => name);
    const codes = [...entriesOf(lists)].flatMap((one) => ('code' in one ? [one.code] : []));
    const homes = await readHomes(db, names, codes);
    const renewing = setInterval(() => void hold().catch(() => undefined), HOLD_MS / 10);
    try {
      // Who sold a code the last time is asked before all others.
      for (const isHome of [true, false]) {
        for (const seller of ordered) {
          const { name } = seller;
          await firstPass(seller, (code) => ((homes.get(code) ?? name) === name) === isHome);
        }
      }
    } finally {
      clearInterval(renewing);
    }
    for (const auditId of asked) await withdraw(auditId);
    await hold(0);
    // A seller who gave no answer comes first: it may have sold the codes that others deny.
    const openOf = ({ pending, denied }: AuditProgress): number => pending - denied;
    for (const { auditId } of (await audits()).toSorted((a, b) => openOf(b) - openOf(a))) {
      await withdraw(auditId);
      const audit = await findAudit(app, auditId, undefined);
      if (audit.state === 'running') await secondCheck(audit);
      await noteFound(auditId);
    }
    const [first, ...others] = await audits();
    if (first === undefined) throw new Error('no seller was asked');
    return [first, ...others];
  } catch (error) {
    for (const { auditId, state } of await audits()) {
      if (state === 'running') await cancelAudit(db, auditId);
    }
    throw error;
  }
}

/** Whether the first pass is over, or goes on much later. */
function isFirstPassOver(outcome: JobOutcome): boolean {
  if (outcome.kind === 'retry') return true;
  if (outcome.kind !== 'later' || outcome.isBusy === true) return false;
  return outcome.reason === 'second-check' || isLong(outcome);
}

function isLong(outcome: JobOutcome): boolean {
  return (
    outcome.kind === 'later' &&
    outcome.isBusy !== true &&
    outcome.reason !== 'second-check' &&
    outcome.delayMs > PATIENCE_MS
  );
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

export async function mostPurchasesFirst(
  { db }: App,
  sellers: readonly SellerConfig[],
): Promise<readonly SellerConfig[]> {
  const found = new Map<SellerConfig, number>();
  for (const seller of sellers) found.set(seller, await readFoundEver(db, seller.name));
  return [...sellers].sort((a, b) => (found.get(b) ?? 0) - (found.get(a) ?? 0));
}
