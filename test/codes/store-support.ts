import { hash } from 'node:crypto';
import type { PurchaseReading } from '../../src/codes/known-code.js';
import { StoredLedger } from '../../src/codes/ledger-store.js';
import type { CodeResult, OpenCode, ProvenBetween } from '../../src/codes/ledger.js';
import type { Denials } from '../../src/codes/evidence.js';
import type { AuditState } from '../../src/codes/types.js';
import type { PurchasedItem } from '../../src/domain/item.js';
import type { Entry } from '../../src/codes/lists/types.js';
import type { AuditResult, EnteredAudit, NewAudit } from '../../src/codes/types.js';
import type { Db } from '../../src/db/db.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { enterAudit } from '../../src/codes/enter-store.js';
import { readAuditResults } from '../../src/codes/results-store.js';
import type { Mirror } from '../support/mirror.js';

export const SELLER = 'main';

export const AUDIT: NewAudit = {
  sellerId: SELLER,
  source: 'customers.csv',
  layout: { lists: [{ format: 'csv', delimiter: ',' }] },
  columns: ['code', 'customer'],
  maxAgeSeconds: null,
  knownValid: null,
  confirmAfterMs: 60_000,
};

/** The time `n` minutes after the start of 2026. */
export const at = (n: number): Date => new Date(Date.UTC(2026, 0, 1) + n * 60_000);

/** Creates the seller of the audits. */
export async function enterSeller({ db }: Mirror, sellerId = SELLER): Promise<Db> {
  await ensureSeller(db, sellerId, 'example.com');
  return db;
}

/** Rows of a list with the code in the first of two columns. Null: a line without a code. */
export function rowsOf(codes: readonly (string | null)[]): Entry[] {
  return codes.map((code, index) =>
    code === null
      ? { line: index + 2, rejected: 'the code is empty', columns: ['', `customer ${index}`] }
      : { line: index + 2, code, columns: [code, `customer ${index}`] },
  );
}

export async function load(
  db: Db,
  codes: readonly (string | null)[],
  options: Partial<NewAudit> = {},
): Promise<EnteredAudit> {
  return enterAudit(db, { ...AUDIT, ...options }, rowsOf(codes));
}

/** An open code with its id. */
export interface PendingCode extends OpenCode {
  readonly codeId: bigint;
}

export async function pending(db: Db, auditId: bigint): Promise<PendingCode[]> {
  const codes = await ledgerOf(db, auditId, 0).open(-1, 1_000_000);
  const { rows } = await db.pool.query<{ position: number; codeId: bigint }>(
    'SELECT position, code_id AS "codeId" FROM mirror.audit_codes WHERE audit_id = $1',
    [auditId],
  );
  const ids = new Map(rows.map(({ position, codeId }) => [position, codeId]));
  return codes.map((code) => ({ ...code, codeId: ids.get(code.position) ?? 0n }));
}

/** The ledger of an audit, for which this many calls were made. */
function ledgerOf(db: Db, auditId: bigint, calls: number): StoredLedger {
  let counted = 0;
  const callCount = (): number => {
    const before = counted;
    counted = calls;
    return before;
  };
  return new StoredLedger(db, { auditId, sellerId: SELLER, knownValid: null, callCount });
}

/** Records results. @returns the audit's state afterwards */
export async function recordResults(
  db: Db,
  auditId: bigint,
  results: readonly CodeResult[],
  calls = 0,
): Promise<AuditState> {
  const ledger = ledgerOf(db, auditId, calls);
  await ledger.record(results);
  return ledger.state;
}

export async function resultsOf(db: Db, auditId: bigint): Promise<AuditResult[]> {
  const out: AuditResult[] = [];
  for await (const row of readAuditResults(db, auditId)) out.push(row);
  return out;
}

/** Loads a list of unknown codes. @returns the pending codes in list order */
export async function loadPending<const N extends readonly string[]>(
  db: Db,
  ...names: N
): Promise<{ readonly auditId: bigint; readonly codes: { [K in keyof N]: PendingCode } }> {
  const { auditId } = await load(db, names);
  const codes = await pending(db, auditId);
  return { auditId, codes: codes as { [K in keyof N]: PendingCode } };
}

/** An item as reduced answers have it. */
export const ITEM = {
  id: 7,
  name: 'Item 7',
  url: 'https://example.com/7',
  previewImageUrl: null,
  full: null,
} satisfies PurchasedItem;

export function purchaseOf(code: string, item: PurchasedItem = ITEM): PurchaseReading {
  const supportedUntil = '2027-01-02T03:04:05Z';
  return {
    value: {
      purchaseCode: code,
      licenseType: 'Regular',
      price: '19.90',
      currency: 'USD',
      item,
      supportedUntil,
      downloaded: true,
      purchasedAt: '2025-01-02T03:04:05.12Z',
    },
    raw: {
      purchase_code: code,
      supported_until: supportedUntil,
      item: { id: item.id },
      gift: true,
    },
  };
}

type Place = Pick<PendingCode, 'position' | 'code'>;

export function valid(
  { position, code }: Place,
  checkedAt: Date,
  { value, raw }: PurchaseReading,
): CodeResult {
  const answer = { value, raw, extra: {}, tolerated: [], sha256: hash('sha256', code) };
  const check = { at: checkedAt.getTime(), httpStatus: 200, message: null, answer, proven: null };
  const outcome = { outcome: 'found', reason: 'answered' } as const;
  return { position, code, check: { ...check, ...outcome }, verdict: 'valid' };
}

/** Proofs 10 s before and 2 s after an answer. */
export function provenAround(at: Date): ProvenBetween {
  return { by: 'known-valid', before: at.getTime() - 10_000, after: at.getTime() + 2_000 };
}

/** Two denials a minute apart, as read from the checks. */
export function denialsAt(first: Date, last: Date): Denials {
  const { before, after } = provenAround(last);
  return { times: 2, first: first.getTime(), last: last.getTime(), before, after };
}

/** A denial. @param isCounted whether the key was proven around it */
export function denied({ position, code }: Place, checkedAt: Date, isCounted = true): CodeResult {
  return {
    position,
    code,
    check: {
      at: checkedAt.getTime(),
      outcome: 'denied',
      reason: 'denied',
      httpStatus: 404,
      message: 'Invalid purchase code',
      answer: null,
      proven: isCounted ? provenAround(checkedAt) : null,
    },
    verdict: null,
  };
}

/** A denial that counts and settles its code. */
export function invalid(place: Place, checkedAt: Date): CodeResult {
  return { ...denied(place, checkedAt), verdict: 'invalid' };
}

/** The verdict that rests on recorded denials. */
export function settled({ position, code }: Place, verdict: 'invalid' | 'unproven'): CodeResult {
  return { position, code, check: null, verdict };
}

export function unproven({ position, code }: Place, checkedAt: Date, final = false): CodeResult {
  return {
    position,
    code,
    check: {
      at: checkedAt.getTime(),
      outcome: 'unanswered',
      reason: 'unavailable',
      httpStatus: 503,
      message: null,
      answer: null,
      proven: null,
    },
    verdict: final ? 'unproven' : null,
  };
}

/** Enters an item of the seller. */
export async function itemIn(mirrored: Mirror, itemId: number, state: string): Promise<void> {
  await mirrored.rows(
    `INSERT INTO mirror.items (seller_id, item_id, name, options, tags, screenshots, state, first_seen_at,
       changed_at, synced_run_id, valid_from, wire_hash, extra, raw)
     VALUES ($1, $2, 'item', '{}', '{}', '{}', $3::mirror.item_state, now(), now(), 1, now(), '', '{}', '{}')`,
    [SELLER, itemId, state],
  );
}
