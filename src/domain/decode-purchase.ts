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
  type JsonObject,
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
 * Reads a purchase (spec 2.5), its item full or reduced. A field that can't be read does not make
 * the purchase unreadable: the code is valid all the same. It is null then, and noted as tolerated.
 * Only the code itself must be readable, since it tells which question was answered.
 */
export function decodePurchase(json: Json): Decoding<Purchase> {
  if (!isObject(json)) return { ok: false, reason: `is no object: ${shown(json)}`, id: null };
  const tolerated = new Tolerated();
  try {
    const value: Purchase = {
      purchaseCode: readText(json['purchase_code'], 'purchase_code', tolerated),
      licenseType: readField(json, 'license_type', readText, tolerated),
      price: readField(json, 'price', readMoney, tolerated),
      currency: readField(json, 'currency', readText, tolerated),
      item: readField(json, 'item', readPurchasedItem, tolerated),
      supportedUntil: readField(json, 'supported_until', readTimestamp, tolerated),
      downloaded: readField(json, 'downloaded', readFlag, tolerated),
      purchasedAt: readField(json, 'date', readTimestamp, tolerated),
    };
    const extra = emptyExtra();
    collectExtra(json, PURCHASE_FIELDS, '', extra, tolerated);
    return { ok: true, decoded: { value, extra, tolerated: tolerated.names } };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id: null };
    throw error;
  }
}

type FieldReader<T> = (json: Json | undefined, path: string, tolerated: Tolerated) => T;

/** Null where the field holds something else than it should. */
function readField<T>(
  json: JsonObject,
  name: string,
  read: FieldReader<T>,
  tolerated: Tolerated,
): T | null {
  try {
    return read(json[name], name, tolerated);
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    tolerated.note(`${name}.unreadable`);
    return null;
  }
}

function readPurchasedItem(
  json: Json | undefined,
  path: string,
  tolerated: Tolerated,
): PurchasedItem {
  const map = readMap(json, path, tolerated);
  const media = readMap(map['media'], `${path}.media`, tolerated);
  return {
    id: readId(map['id'], `${path}.id`, tolerated),
    name: readRequiredText(map['name'], `${path}.name`, tolerated),
    url: readText(map['url'], `${path}.url`, tolerated),
    previewImageUrl: readText(media['preview_image'], `${path}.media.preview_image`, tolerated),
    full: readFullItem(map),
  };
}

/** The full item when the answer holds one: only the full shape has prices. */
function readFullItem(json: Json): PurchasedItem['full'] {
  if (!isObject(json) || !isObject(json['price'])) return null;
  const decoding = decodeItem(json);
  return decoding.ok ? decoding.decoded.value : null;
}

function readFlag(json: Json | undefined, path: string, tolerated: Tolerated): boolean | null {
  if (typeof json === 'boolean') return json;
  if (json === undefined || json === null) return null;
  tolerated.note(`${path}.not-boolean`);
  if (json === 1 || json === '1' || json === 'true') return true;
  if (json === 0 || json === '0' || json === 'false' || json === '') return false;
  throw new FieldError(path, `is neither true nor false: ${shown(json)}`);
}
