import { createHash } from 'node:crypto';
import type { PurchaseReading } from '../../../src/domain/codes/known-code.js';
import type { Checkpoints } from '../../../src/domain/codes/proof.js';
import type { Denial } from '../../../src/domain/codes/evidence.js';
import type { PurchasedItem } from '../../../src/domain/item.js';
import type {
  AuditResult,
  AuditRow,
  CodeResult,
  EnteredAudit,
  NewAudit,
  PendingCode,
} from '../../../src/store/audits/types.js';
import type { Db } from '../../../src/store/db.js';
import { ensureSeller } from '../../../src/store/sellers.js';
import { beginAudit } from '../../../src/store/audits/loader.js';
import { getAudit } from '../../../src/store/audits/progress.js';
import { findNextChunks, readPendingCodes } from '../../../src/store/audits/chunks.js';
import { readAuditResults } from '../../../src/store/audits/results.js';
import type { Mirror } from '../../support/mirror.js';

export const SELLER = 'main';

export const AUDIT: NewAudit = {
  sellerId: SELLER,
  source: 'customers.csv',
  layout: { format: 'csv', delimiter: ',' },
  columns: ['code', 'customer'],
  maxAgeSeconds: null,
  canary: null,
  chunkSize: 10,
};

/** The time `n` minutes after the start of 2026. */
export const at = (n: number): Date => new Date(Date.UTC(2026, 0, 1) + n * 60_000);

/** Creates the seller of the audits. */
export async function enterSeller({ db }: Mirror, sellerId = SELLER): Promise<Db> {
  await ensureSeller(db, sellerId, 'example.com');
  return db;
}

/** Rows of a list with the code in the first of two columns. Null: a line without a code. */
export function rowsOf(codes: readonly (string | null)[]): AuditRow[] {
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
  const loader = await beginAudit(db, { ...AUDIT, ...options });
  await loader.add(rowsOf(codes));
  return loader.finish();
}

export async function pending(db: Db, auditId: bigint): Promise<PendingCode[]> {
  const out: PendingCode[] = [];
  const chunkSize = (await getAudit(db, auditId))?.chunkSize ?? 0;
  for (const chunk of await findNextChunks(db, auditId, 0, 1_000_000)) {
    out.push(...(await readPendingCodes(db, auditId, chunk, chunkSize)));
  }
  return out;
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

type Place = Pick<PendingCode, 'position' | 'codeId'>;

export function valid(
  { position, codeId }: Place,
  checkedAt: Date,
  purchase: PurchaseReading,
): CodeResult {
  return {
    position,
    codeId,
    checkedAt,
    checkpoints: null,
    finding: { verdict: 'valid', purchase },
    reason: 'answered',
    proof: 'purchase',
    httpStatus: 200,
    message: null,
    rawHash: createHash('sha256').update(String(codeId)).digest('hex'),
    final: false,
  };
}

/** Checkpoints 10 s before and 2 s after an answer. */
export function checkpointsAround(at: Date): Checkpoints {
  return { before: at.getTime() - 10_000, after: at.getTime() + 2_000 };
}

/** A denial as read from the checks. */
export function denialAt(at: Date): Denial {
  return { at: at.getTime(), checkpoints: checkpointsAround(at) };
}

export function invalid({ position, codeId }: Place, checkedAt: Date): CodeResult {
  return {
    position,
    codeId,
    checkedAt,
    finding: { verdict: 'invalid' },
    checkpoints: checkpointsAround(checkedAt),
    reason: 'denied',
    proof: 'canary',
    httpStatus: 404,
    message: 'Invalid purchase code',
    rawHash: null,
    final: false,
  };
}

/** A denial that counts, of a code that will be checked again. */
export function denied(place: Place, checkedAt: Date): CodeResult {
  const again = { finding: { verdict: 'unproven' }, reason: 'unconfirmed', denied: true } as const;
  return { ...invalid(place, checkedAt), ...again };
}

export function unproven(place: Place, checkedAt: Date, final = false): CodeResult {
  const outage = { reason: 'unavailable', proof: 'none', httpStatus: 503, message: null, final };
  const finding = { verdict: 'unproven' } as const;
  return { ...invalid(place, checkedAt), checkpoints: null, finding, ...outage };
}
