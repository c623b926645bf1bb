import { hostName } from '../domain/address.js';
import { normalizeCode } from '../marketplace/code.js';
import { layoutJson } from './layout.js';
import type { Entry, List } from './lists/types.js';
import { checkCost, type CheckCost } from './progress.js';
import { enterAudit, measureAudit, keepAuditWorkbook } from './enter-store.js';
import type { AuditSize, EnteredAudit, NewAudit } from './types.js';
import type { Db } from '../db/db.js';
import { ensureSeller, readParking } from '../catalogue/sellers-store.js';
import { type RecheckFilter, findCodesToRecheck } from './codes-store.js';
import type { JobOutcome } from '../catalogue/types.js';
import { listRunningAudits } from './audits-store.js';
import type { CheckDeps } from './check.js';
import { describeFailure, isOutage } from '../marketplace/reply.js';
import { maskCode } from '../domain/secret.js';
import { failureRemedy } from '../catalogue/problem.js';
import type { Marketplace } from '../marketplace/types.js';
import { WAIT_MS } from './rules.js';
import { readFoundEver } from './situation-store.js';

export interface AuditOptions {
  /** Milliseconds. */
  readonly maxAge?: number | undefined;
  /** A code that a person says is valid. */
  readonly knownValid?: string | undefined;
  /** From a denial to the second check, milliseconds; default a minute. */
  readonly confirmAfterMs?: number | undefined;
  /** The uploaded list that becomes this audit. */
  readonly draftId?: bigint;
}

interface AuditSeller {
  readonly name: string;
  readonly url: URL;
}

function newAudit(
  { name }: AuditSeller,
  lists: readonly List[],
  { maxAge, knownValid, confirmAfterMs, draftId }: AuditOptions,
): NewAudit {
  return {
    sellerId: name,
    source: lists.map((list) => list.name).join(', '),
    layout: layoutJson(lists),
    columns: lists[0]?.layout.columns ?? [],
    maxAgeSeconds: maxAge === undefined ? null : Math.floor(maxAge / 1000),
    knownValid: knownValid ?? null,
    confirmAfterMs: confirmAfterMs ?? WAIT_MS,
    draftId,
  };
}

export interface EnterEvents {
  readonly signal: AbortSignal;
  /** Called with the number of entries that were sent to the store so far. */
  readonly onSaved?: (entries: number) => void;
  /** Which entries are entered; default: all. */
  readonly keeps?: (entry: Entry) => boolean;
  /** Called when all entries are in the store. If it throws, nothing is kept. */
  readonly onLoaded?: ((size: AuditSize) => Promise<unknown>) | undefined;
}

/** Creates an audit of lists, which become one. Does not start it. */
export async function enterLists(
  db: Db,
  seller: AuditSeller,
  lists: readonly List[],
  options: AuditOptions,
  { onLoaded, ...events }: EnterEvents,
): Promise<EnteredAudit> {
  const audit = newAudit(seller, lists, options);
  const entered = await enterAudit(db, audit, rowsOf(lists, events), async (size) => {
    if (onLoaded !== undefined) await onLoaded(await size());
    await ensureSeller(db, seller.name, hostName(seller.url));
  });
  const [list, other] = lists;
  if (list?.workbook && other === undefined) {
    const { auditId } = entered;
    await keepAuditWorkbook(db, { auditId, sellerId: seller.name }, list.workbook);
  }
  return entered;
}

/** Measures lists as `enterLists` would enter them, and keeps nothing. */
export function measureLists(
  db: Db,
  seller: AuditSeller,
  lists: readonly List[],
  options: AuditOptions,
  events: Omit<EnterEvents, 'onLoaded'>,
): Promise<AuditSize> {
  return measureAudit(db, newAudit(seller, lists, options), rowsOf(lists, events));
}

/** Entries after which progress is told. */
const STEP = 1_000;

function* rowsOf(
  lists: readonly List[],
  { signal, onSaved, keeps = () => true }: Omit<EnterEvents, 'onLoaded'>,
): Generator<Entry, void, undefined> {
  let saved = 0;
  for (const entry of entriesOf(lists)) {
    if (saved % STEP === 0) {
      signal.throwIfAborted();
      onSaved?.(saved);
    }
    if (keeps(entry)) yield entry;
    saved++;
  }
  onSaved?.(saved);
}

/** The entries of all lists as one list: the second list's line numbers continue the first's. */
export function* entriesOf(lists: readonly List[]): Generator<Entry, void, undefined> {
  let before = 0;
  for (const { entries } of lists) {
    for (const entry of entries) {
      yield before === 0 ? entry : { ...entry, line: before + entry.line };
    }
    before += entries.at(-1)?.line ?? 0;
  }
}

/** Makes a list of codes given as arguments. */
export function listOfCodes(codes: readonly string[]): List {
  return {
    name: 'arguments',
    layout: {
      format: 'txt',
      encoding: 'utf-8',
      bom: false,
      delimiter: null,
      header: false,
      columns: ['code'],
      codeColumn: 0,
      reasons: [],
    },
    entries: codes.map((text, index) => {
      return { line: index + 1, code: normalizeCode(text), columns: [text] };
    }),
    rejected: 0,
    blankLines: 0,
    notes: [],
    workbook: null,
  };
}

interface RejectedLine {
  readonly list: string;
  /** `line 5`; in a workbook `row 5`. */
  readonly place: string;
  readonly why: string;
}

export interface LoadReport {
  readonly rejected: number;
  readonly blankLines: number;
  /** The first `SHOWN_REJECTED`; the result has all of them. */
  readonly firstRejected: readonly RejectedLine[];
  /** Oddities that were tolerated, as sentences. */
  readonly notes: readonly string[];
}

/** Rejected lines shown to a person. */
const SHOWN_REJECTED = 20;

/** Collects what was tolerated or skipped while the lists were read, and their entries without a code. */
export function reportOf(lists: readonly List[]): LoadReport {
  const firstRejected: RejectedLine[] = [];
  for (const { name, layout, entries } of lists) {
    const unit = layout.format === 'xlsx' ? 'row' : 'line';
    for (const entry of entries) {
      if (firstRejected.length >= SHOWN_REJECTED) break;
      if (!('rejected' in entry)) continue;
      firstRejected.push({ list: name, place: `${unit} ${entry.line}`, why: entry.rejected });
    }
  }
  return {
    rejected: lists.reduce((sum, { rejected }) => sum + rejected, 0),
    blankLines: lists.reduce((sum, { blankLines }) => sum + blankLines, 0),
    firstRejected,
    notes: lists.flatMap(({ name, notes }) =>
      notes.map((note) => (lists.length === 1 ? note : `${name}: ${note}`)),
    ),
  };
}

/** Counts codes without a fresh verdict. */
export function codesToCheck({ codes, reused }: Pick<AuditSize, 'codes' | 'reused'>): number {
  return codes - reused;
}

/** What a check costs a seller. @param confirmAfterMs from a denial to the second check; default a minute */
export async function costOf(
  db: Db,
  seller: { readonly name: string; readonly requestsPerMinute: number },
  toCheck: number,
  confirmAfterMs?: number,
  denied = 0,
): Promise<CheckCost> {
  const { name, requestsPerMinute } = seller;
  const foundEver = await readFoundEver(db, name);
  const work = { toCheck, denied, requestsPerMinute, foundEver, confirmAfterMs };
  return checkCost(work, db.clock.now());
}

/** Counts records that repeat the code of an earlier record. */
export function countRepeated({
  lines,
  rejected,
  codes,
}: Pick<AuditSize, 'lines' | 'rejected' | 'codes'>): number {
  return lines - rejected - codes;
}

/** `source` of audits that check known codes again. */
export const RECHECK_SOURCE = 'recheck';
/** Most codes of a re-check: they are held in memory. */
const MAX_CODES = 200_000;

/**
 * Creates an audit of the known codes that are most worth checking again, unless one is running: then that one goes on.
 * @param now milliseconds since 1970
 * @returns its id; null when no code is due
 */
export async function beginRecheck(
  db: Db,
  sellerId: string,
  plan: RecheckFilter,
  now: number,
): Promise<bigint | null> {
  const running = await listRunningAudits(db, [sellerId]);
  const earlier = running.find(({ source }) => source === RECHECK_SOURCE);
  if (earlier !== undefined) return earlier.auditId;
  const limit = Math.min(plan.limit, MAX_CODES);
  const codes = await findCodesToRecheck(db, sellerId, { ...plan, limit }, now);
  if (codes.length === 0) return null;
  const audit = {
    sellerId,
    source: RECHECK_SOURCE,
    layout: {},
    columns: ['code'],
    maxAgeSeconds: null,
    knownValid: null,
    confirmAfterMs: plan.confirmAfterMs ?? WAIT_MS,
  };
  const rows = codes.map((code, i) => ({ line: i + 1, code, columns: [code] }));
  return (await enterAudit(db, audit, rows)).auditId;
}

/** Performs a scheduled re-check. Does nothing for a parked seller. Repeating it is harmless. */
export async function performRecheck(
  deps: Pick<CheckDeps, 'db' | 'sellerId' | 'marketplace'>,
  plan: RecheckFilter,
  enqueueAudit: (auditId: bigint) => Promise<void>,
): Promise<JobOutcome> {
  const { db, sellerId, marketplace } = deps;
  const parked = await readParking(db, sellerId);
  if (parked !== null) return { kind: 'done', result: { parked: { code: parked.code } } };
  await ensureSeller(db, sellerId, marketplace.host);
  const auditId = await beginRecheck(db, sellerId, plan, db.clock.now());
  if (auditId !== null) await enqueueAudit(auditId);
  return { kind: 'done', result: { audit: auditId && String(auditId) } };
}

type KeyMarket = Pick<Marketplace, 'account' | 'validate'>;

/** Why an audit must not start, and what to do. */
export interface KeyFault {
  readonly message: string;
  readonly remedy: string;
  /** The marketplace, or the network to it, failed: neither the key nor the known-valid code is to blame. */
  readonly isOutage: boolean;
}

/**
 * Checks the key, and the known-valid code if one is given, before an audit. With a bad key or address, the audit
 * would only wait for a person.
 * @returns the fault when the API key opens no account or the known-valid code is denied; null: all is well
 */
export async function verifyKey(
  marketplace: KeyMarket,
  knownValid: string | undefined,
  signal: AbortSignal,
): Promise<KeyFault | null> {
  const reply = await marketplace.account({ signal, priority: 'audit' });
  // "Too many requests" says nothing about the key. The audit waits as long as it must.
  if (reply.kind === 'limited') return null;
  if (reply.kind !== 'answered') {
    const message = `${describeFailure(reply)}; no code was checked`;
    return { message, remedy: failureRemedy(reply), isOutage: isOutage(reply) };
  }
  return knownValid === undefined ? null : verifyKnownValid(marketplace, knownValid, signal);
}

/**
 * Asks for the known-valid code before an audit: with a denied one, no code could be proven invalid.
 * @returns the fault when a key that opens the account denies the code; null in all other cases, which
 * the audit handles itself
 */
async function verifyKnownValid(
  marketplace: KeyMarket,
  knownValid: string,
  signal: AbortSignal,
): Promise<KeyFault | null> {
  const call = { signal, priority: 'audit' } as const;
  if ((await marketplace.validate(knownValid, call)).kind !== 'denied') return null;
  if ((await marketplace.account(call)).kind !== 'answered') return null;
  return {
    message: `the marketplace denies ${maskCode(knownValid)}, the code that you know is valid: no code was checked`,
    remedy: 'is it mistyped, or no longer valid? leave it out, or give another code',
    isOutage: false,
  };
}
