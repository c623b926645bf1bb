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

/** Null where the field holds something else than it should. @param within path of `json`, with a dot */
function readField<T>(
  json: JsonObject,
  name: string,
  read: FieldReader<T>,
  tolerated: Tolerated,
  within = '',
): T | null {
  const path = within + name;
  try {
    return read(json[name], path, tolerated);
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    tolerated.note(`${path}.unreadable`);
    return null;
  }
}

/** Each field on its own: forks rename some (field notes: extra fields), and the others still tell. */
function readPurchasedItem(
  json: Json | undefined,
  path: string,
  tolerated: Tolerated,
): PurchasedItem {
  const map = readMap(json, path, tolerated);
  if (Object.keys(map).length === 0) throw new FieldError(path, 'is empty');
  const within = `${path}.`;
  const media = readField(map, 'media', readMap, tolerated, within) ?? {};
  const item = {
    id: readField(map, 'id', readId, tolerated, within),
    name: readField(map, 'name', readName, tolerated, within),
    url: readField(map, 'url', readText, tolerated, within),
  };
  if (tellsNothing(item)) throw new FieldError(path, `tells no item: ${shown(json)}`);
  return {
    ...item,
    previewImageUrl: readField(media, 'preview_image', readText, tolerated, `${within}media.`),
    full: readFullItem(map),
  };
}

function readName(json: Json | undefined, path: string, tolerated: Tolerated): string {
  const name = readRequiredText(json, path, tolerated);
  if (name.trim() === '') throw new FieldError(path, 'is blank');
  return name;
}

/** An item of which nothing is known must not count as a fact, which makes a code valid. PHP's empty number is 0. */
function tellsNothing({ id, name, url }: Pick<PurchasedItem, 'id' | 'name' | 'url'>): boolean {
  return (id ?? 0) === 0 && name === null && (url ?? '').trim() === '';
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
