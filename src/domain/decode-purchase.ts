import { decodeItem } from './decode-item.js';
import type { Decoding, Json, Purchase, PurchasedItem } from './item.js';
import {
  FieldError,
  Tolerated,
  collectExtra,
  emptyExtra,
  isObject,
  readId,
  readMap,
  readMoney,
  readRequiredText,
  readText,
  readTimestamp,
  shown,
} from './values.js';

const PURCHASE_FIELDS = new Set([
  'purchase_code',
  'license_type',
  'price',
  'currency',
  'item',
  'supported_until',
  'downloaded',
  'date',
]);

/**
 * Reads a purchase (spec 2.5), its item full or reduced. An item that can't be read does not make
 * the purchase unreadable: the code is valid all the same.
 */
export function decodePurchase(json: Json): Decoding<Purchase> {
  if (!isObject(json)) return { ok: false, reason: `is no object: ${shown(json)}`, id: null };
  const tolerated = new Tolerated();
  try {
    const value: Purchase = {
      purchaseCode: readText(json['purchase_code'], 'purchase_code', tolerated),
      licenseType: readText(json['license_type'], 'license_type', tolerated),
      price: readMoney(json['price'], 'price', tolerated),
      currency: readText(json['currency'], 'currency', tolerated),
      item: readPurchasedItem(json['item'], tolerated),
      supportedUntil: readTimestamp(json['supported_until'], 'supported_until', tolerated),
      downloaded: readFlag(json['downloaded'], tolerated),
      purchasedAt: readTimestamp(json['date'], 'date', tolerated),
    };
    const extra = emptyExtra();
    collectExtra(json, PURCHASE_FIELDS, '', extra, tolerated);
    return { ok: true, decoded: { value, extra, tolerated: tolerated.names } };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id: null };
    throw error;
  }
}

function readPurchasedItem(json: Json | undefined, tolerated: Tolerated): PurchasedItem | null {
  try {
    const map = readMap(json, 'item', tolerated);
    const media = readMap(map['media'], 'item.media', tolerated);
    return {
      id: readId(map['id'], 'item.id', tolerated),
      name: readRequiredText(map['name'], 'item.name', tolerated),
      url: readText(map['url'], 'item.url', tolerated),
      previewImageUrl: readText(media['preview_image'], 'item.media.preview_image', tolerated),
      full: readFullItem(map),
    };
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    tolerated.note('item.unreadable');
    return null;
  }
}

/** The full item when the answer holds one: only the full shape has prices. */
function readFullItem(json: Json): PurchasedItem['full'] {
  if (!isObject(json) || !isObject(json['price'])) return null;
  const decoding = decodeItem(json);
  return decoding.ok ? decoding.decoded.value : null;
}

function readFlag(json: Json | undefined, tolerated: Tolerated): boolean | null {
  if (typeof json === 'boolean') return json;
  if (json === undefined || json === null) return null;
  tolerated.note('downloaded.not-boolean');
  if (json === 1 || json === '1' || json === 'true') return true;
  if (json === 0 || json === '0' || json === 'false' || json === '') return false;
  throw new FieldError('downloaded', `is neither true nor false: ${shown(json)}`);
}
