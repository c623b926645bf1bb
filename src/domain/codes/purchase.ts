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

/** Two items are never mixed: of another one than before, only what the answer says is known. */
function mergeItem(known: PurchasedItem | null, fresh: PurchasedItem | null): PurchasedItem | null {
  if (fresh === null) return known;
  if (known === null || known.id !== fresh.id) return fresh;
  return {
    id: fresh.id,
    name: fresh.name,
    url: fresh.url ?? known.url,
    previewImageUrl: fresh.previewImageUrl ?? known.previewImageUrl,
    full: fresh.full ?? known.full,
  };
}

/** @param now milliseconds since 1970 */
export function supportAt(
  { supportedUntil }: Pick<Purchase, 'supportedUntil'>,
  now: number,
): Support {
  if (supportedUntil === null) return 'none';
  return Date.parse(supportedUntil) > now ? 'active' : 'expired';
}
