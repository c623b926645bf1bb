import type { Json, Purchase, PurchasedItem } from '../item.js';
import { isObject, readsAsTimestamp } from '../values.js';

/** A purchase as read, beside the JSON it was read from: a field that is null may not have been sent. */
export interface PurchaseReading {
  readonly value: Purchase;
  readonly raw: Json;
}

/** Whether a purchase is supported at a moment; `none` also where nothing is known of it. */
export type Support = 'active' | 'expired' | 'none';

/**
 * What is known of a purchase after a new answer. What the answer says replaces what was known, price
 * and licence too; what it does not say is kept, since reduced shapes leave out what full ones hold
 * (spec 2.5; field notes: reduced shapes). Support is taken away only where the answer holds the
 * field and it is empty: its absence may mean "not supported" in one shape and nothing in the other,
 * and what can't be read says nothing.
 */
export function mergePurchase(known: Purchase | null, { value, raw }: PurchaseReading): Purchase {
  if (known === null) return value;
  const saysSupport =
    isObject(raw) && 'supported_until' in raw && readsAsTimestamp(raw['supported_until']);
  return {
    purchaseCode: value.purchaseCode ?? known.purchaseCode,
    licenseType: value.licenseType ?? known.licenseType,
    price: value.price ?? known.price,
    currency: value.currency ?? known.currency,
    item: mergeItem(known.item, value.item),
    supportedUntil: saysSupport ? value.supportedUntil : known.supportedUntil,
    downloaded: value.downloaded ?? known.downloaded,
    purchasedAt: value.purchasedAt ?? known.purchasedAt,
  };
}

/**
 * Two items are never mixed: of another one than before, only what the answer says is known. Where
 * there is no telling whether it is another, what was known is kept as it is, since nothing speaks
 * against it; unless that is no more than an address, which anything that names an item replaces.
 */
function mergeItem(known: PurchasedItem | null, fresh: PurchasedItem | null): PurchasedItem | null {
  if (fresh === null) return known;
  if (known === null) return fresh;
  const same = areSame(known, fresh);
  if (same === null) return known.id === null && known.name === null ? fresh : known;
  if (!same) return fresh;
  return {
    id: fresh.id ?? known.id,
    name: fresh.name ?? known.name,
    url: fresh.url ?? known.url,
    previewImageUrl: fresh.previewImageUrl ?? known.previewImageUrl,
    full: fresh.full ?? known.full,
  };
}

/**
 * Whether two items are one: by their ids or, where one of those is missing, by their names. Null
 * where neither can be compared.
 */
function areSame(a: PurchasedItem, b: PurchasedItem): boolean | null {
  if (a.id !== null && b.id !== null) return a.id === b.id;
  return a.name === null || b.name === null ? null : a.name === b.name;
}

/** @param now milliseconds since 1970 */
export function supportAt(
  { supportedUntil }: Pick<Purchase, 'supportedUntil'>,
  now: number,
): Support {
  if (supportedUntil === null) return 'none';
  return Date.parse(supportedUntil) > now ? 'active' : 'expired';
}
