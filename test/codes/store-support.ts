import { hash } from 'node:crypto';
import { foundPurchase } from '../../src/codes/known-code.js';
import { Ledger } from '../../src/codes/ledger-store.js';
import type { Json, Purchase } from '../../src/domain/item.js';
import type { AuditState } from '../../src/codes/types.js';
import type { PurchasedItem } from '../../src/domain/item.js';
import type { Entry } from '../../src/codes/lists/types.js';
import type { EnteredAudit, NewAudit } from '../../src/codes/types.js';
import type { Db } from '../../src/db/db.js';
import { enterAudit } from '../../src/codes/enter-store.js';
import type { Mirror } from '../support/mirror.js';
import {
  type CodeCheck,
  type CodeResult,
  NO_CHANCE,
  NOTHING,
  type ProvenBetween,
} from '../../src/codes/ledger.js';

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

/** A code that was not answered yet, with its id. */
export interface PendingCode {
  readonly position: number;
  readonly code: string;
  readonly codeId: bigint;
}

export async function pending(db: Db, auditId: bigint): Promise<PendingCode[]> {
  const { rows } = await db.pool.query<PendingCode>(
    `SELECT c.position, p.code, c.code_id AS "codeId"
       FROM mirror.audit_codes c JOIN mirror.purchase_codes p USING (code_id)
      WHERE c.audit_id = $1 AND c.verdict IS NULL AND c.denied_at IS NULL ORDER BY c.position`,
    [auditId],
  );
  return rows;
}

/** A purchase and its JSON. */
export type PurchaseReading = { readonly value: Purchase; readonly raw: Json };

/** The ledger of an audit, for which this many calls were made. */
function ledgerOf(db: Db, auditId: bigint, sellerId: string, calls: number): Ledger {
  let counted = 0;
  const callCount = (): number => {
    const before = counted;
    counted = calls;
    return before;
  };
  return new Ledger(db, { auditId, sellerId, callCount });
}

/** Records results. @returns the audit's state afterwards */
export async function recordResults(
  db: Db,
  auditId: bigint,
  results: readonly CodeResult[],
  calls = 0,
): Promise<AuditState> {
  const { rows } = await db.pool.query<{ seller: string }>(
    'SELECT seller_id AS seller FROM mirror.audits WHERE audit_id = $1',
    [auditId],
  );
  const ledger = ledgerOf(db, auditId, rows[0]?.seller ?? SELLER, calls);
  await ledger.record(results);
  return ledger.state;
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

function resultOf(
  { position }: Place,
  check: CodeCheck,
  end: Partial<Pick<CodeResult, 'form' | 'verdict' | 'reason' | 'adds'>>,
): CodeResult {
  const nothing = { form: null, verdict: null, reason: null, adds: NOTHING, chance: NO_CHANCE };
  return { of: { position }, check, ...nothing, ...end };
}

export function valid(place: Place, checkedAt: Date, { value, raw }: PurchaseReading): CodeResult {
  const answer = foundPurchase({ value, raw, sha256: hash('sha256', place.code) });
  const check = { at: checkedAt.getTime(), httpStatus: 200, message: null, answer, proven: null };
  return resultOf(place, { ...check, reason: 'answered' }, { form: place.code, verdict: 'valid' });
}

/** Proofs 10 s before and 2 s after an answer. */
function provenAround(at: Date): ProvenBetween {
  return { by: 'known-valid', before: at.getTime() - 10_000, after: at.getTime() + 2_000 };
}

/** A denial that counts and settles its code. */
export function invalid(place: Place, checkedAt: Date): CodeResult {
  const check = {
    at: checkedAt.getTime(),
    reason: 'denied',
    httpStatus: 404,
    message: 'Invalid purchase code',
    answer: null,
    proven: provenAround(checkedAt),
  } as const;
  const adds = { ...NOTHING, counted: 1, rounds: 1 };
  return resultOf(place, check, { form: place.code, verdict: 'invalid', adds });
}

/** No answer, so that the code is given up. */
export function unproven(place: Place, checkedAt: Date): CodeResult {
  const check = {
    at: checkedAt.getTime(),
    reason: 'unavailable',
    httpStatus: 503,
    message: null,
    answer: null,
    proven: null,
  } as const;
  return resultOf(place, check, { verdict: 'unproven', reason: 'unavailable' });
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
