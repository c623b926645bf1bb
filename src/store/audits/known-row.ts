import type { ClientBase, Pool } from 'pg';
import type { Denials } from '../../domain/codes/second-look.js';
import type { KnownCode } from '../../domain/codes/transition.js';
import type { Item, Purchase, PurchasedItem, Timestamp } from '../../domain/item.js';

/** A moment in UTC as text with microseconds; the session's settings don't matter. */
const utc = (column: string): string =>
  `to_char(p.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS ${column}`;

/** Columns of `mirror.purchase_codes p` that tell the purchase, in the order of `PurchaseValues`. */
export const PURCHASE_COLUMNS = `
  p.purchase_seen_at IS NOT NULL AS has_purchase, p.answered_code, p.license_type, p.price, p.currency,
  p.item_id, p.item_name, p.item_url, p.item_preview_url, p.item_full,
  ${utc('supported_until')}, p.downloaded, ${utc('purchased_at')}`;

/**
 * A subquery of the denials in the ledger up to check `k`, which made its code invalid: those of the
 * same audit. Where no audit asked, the code was denied as a canary, and the last two
 * denials made it invalid.
 */
export const LEDGER_DENIALS = `
  SELECT count(*)::int AS denials, min(checked_at) AS first_denied_at, max(checked_at) AS last_denied_at
    FROM (SELECT checked_at FROM mirror.code_checks d
           WHERE d.code_id = k.code_id AND d.check_id <= k.check_id
             AND d.audit_id IS NOT DISTINCT FROM k.audit_id
             AND d.verdict <> 'valid' AND d.proof <> 'none'
           ORDER BY d.check_id DESC LIMIT CASE WHEN k.audit_id IS NULL THEN 2 END) denied`;

/** Columns of that subquery; all null where there is no denial. */
export interface DenialsRow {
  readonly denials: number | null;
  readonly first_denied_at: Date | null;
  readonly last_denied_at: Date | null;
}

/** The denials of a row; null when it has none. */
export function denialsIn(row: DenialsRow): Denials | null {
  const { denials: times, first_denied_at: firstAt, last_denied_at: lastAt } = row;
  if (times === null || firstAt === null || lastAt === null) return null;
  return { times, firstAt, lastAt };
}

/** A purchase as its columns tell it. */
export interface PurchaseRow {
  readonly has_purchase: boolean;
  readonly answered_code: string | null;
  readonly license_type: string | null;
  readonly price: string | null;
  readonly currency: string | null;
  readonly item_id: string | null;
  readonly item_name: string | null;
  readonly item_url: string | null;
  readonly item_preview_url: string | null;
  readonly item_full: boolean;
  readonly supported_until: string | null;
  readonly downloaded: boolean | null;
  readonly purchased_at: string | null;
}

/** Columns of `mirror.purchase_codes p` that tell what is known of a code. */
export const KNOWN_COLUMNS = `p.verdict AS known_verdict, p.last_checked_at, ${PURCHASE_COLUMNS}`;

export interface KnownRow extends PurchaseRow {
  readonly known_verdict: KnownCode['verdict'] | null;
  readonly last_checked_at: Date | null;
}

/**
 * Reads the known state of codes that have one, by code number. It is a query of its own because most
 * codes have none, and reading that many empty columns takes time.
 */
export async function readKnown(
  client: ClientBase | Pool,
  codes: readonly { readonly code_id: string; readonly is_known: boolean }[],
): Promise<ReadonlyMap<string, KnownCode | null>> {
  const ids = codes.filter((code) => code.is_known).map((code) => code.code_id);
  if (ids.length === 0) return new Map();
  const { rows } = await client.query<KnownRow & { code_id: string }>({
    // Not named: who calls may have settings of its own, and a plan that is kept has those of the first.
    text: `SELECT p.code_id, ${KNOWN_COLUMNS} FROM mirror.purchase_codes p
            WHERE p.code_id = ANY($1::bigint[])`,
    values: [ids],
  });
  return new Map(rows.map((row) => [row.code_id, knownIn(row)]));
}

/** The known state of a code; null when it was never proven. */
export function knownIn(row: KnownRow): KnownCode | null {
  const { known_verdict: verdict, last_checked_at } = row;
  if (verdict === null || last_checked_at === null) return null;
  return { verdict, purchase: purchaseIn(row), checkedAt: last_checked_at.getTime() };
}

/** The purchase; null when there never was one. */
export function purchaseIn(row: PurchaseRow): Purchase | null {
  if (!row.has_purchase) return null;
  return {
    purchaseCode: row.answered_code,
    licenseType: row.license_type,
    price: row.price,
    currency: row.currency,
    item: itemIn(row),
    supportedUntil: timestamp(row.supported_until),
    downloaded: row.downloaded,
    purchasedAt: timestamp(row.purchased_at),
  };
}

function itemIn(row: PurchaseRow): PurchasedItem | null {
  const { item_id, item_name: name, item_url: url, item_preview_url: previewImageUrl } = row;
  if (item_id === null && name === null && url === null) return null;
  const id = item_id === null ? null : Number(item_id);
  // A full item has both.
  const full =
    row.item_full && id !== null && name !== null ? fullItem({ id, name, previewImageUrl }) : null;
  return { id, name, url, previewImageUrl, full };
}

/**
 * Stands for a full item that was answered once. That it was is all that the store keeps of it here:
 * its fields are those of the item, which the mirror has, and would be the same in a million rows.
 */
function fullItem({
  id,
  name,
  previewImageUrl,
}: Pick<Item, 'id' | 'name' | 'previewImageUrl'>): Item {
  return {
    ...{ id, name, previewImageUrl, description: null, category: null, subCategory: null },
    ...{ options: [], version: null, demoLink: null, tags: [], thumbnailUrl: null },
    ...{ previewVideoUrl: null, previewAudioUrl: null, screenshots: [] },
    ...{ priceRegular: null, priceExtended: null, currency: null, publishedAt: null },
  };
}

/** The one notation of moments: a fraction only when it is not zero. */
function timestamp(text: string | null): Timestamp | null {
  return text === null ? null : text.replace(/\.?0*Z$/, 'Z');
}

/** The columns of a purchase, for the row of its code. */
export function purchaseColumns(purchase: Purchase): Omit<PurchaseRow, 'has_purchase'> {
  const { item } = purchase;
  return {
    answered_code: purchase.purchaseCode,
    license_type: purchase.licenseType,
    price: purchase.price,
    currency: purchase.currency,
    item_id: item === null || item.id === null ? null : String(item.id),
    item_name: item?.name ?? null,
    item_url: item?.url ?? null,
    item_preview_url: item?.previewImageUrl ?? null,
    item_full: (item?.full ?? null) !== null,
    supported_until: purchase.supportedUntil,
    downloaded: purchase.downloaded,
    purchased_at: purchase.purchasedAt,
  };
}
