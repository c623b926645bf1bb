import { isSameCode } from '../domain/codes/code.js';
import { decodeAccount, decodeItem, decodePurchase } from '../domain/decode.js';
import type { Account, Decoding, Item, Json, Purchase } from '../domain/item.js';
import { isObject, type JsonObject } from '../domain/values.js';
import type { Operation } from './types.js';

/** How an operation is sent, and how its data and its errors are recognized (spec 4 and 7). */
export interface Endpoint {
  readonly operation: Operation;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** The documented error text (spec 7): a refused key on account details, a denial elsewhere. */
  readonly errorText: string;
  find(envelope: JsonObject): Found | null;
}

export interface RecordEndpoint<T> extends Endpoint {
  readonly numbers: readonly string[];
  decode(json: Json): Decoding<T>;
  /** Why a decoded record is not the one asked for; null when it is. */
  mismatch(value: T): string | null;
}

/** Paths of an item's documented numbers (spec 2.3). */
export const ITEM_NUMBERS = ['id', 'price.regular', 'price.extended'];

export interface Found {
  readonly json: Json;
  /** Name of the quirk when it was elsewhere than documented. */
  readonly quirk: string | null;
}

/** Account details (spec 4.1). */
export const accountEndpoint: RecordEndpoint<Account> = {
  operation: 'account',
  method: 'GET',
  path: '/api/account/details',
  parameters: {},
  errorText: 'Invalid request',
  find: (envelope) => objectAt(envelope, 'data'),
  numbers: ['balance'],
  decode: decodeAccount,
  mismatch: () => null,
};

/** All items (spec 4.2). Read as a stream, so there is no decoding here. */
export const listEndpoint: Endpoint = {
  operation: 'list',
  method: 'GET',
  path: '/api/items/all',
  parameters: {},
  errorText: 'No items found',
  find: ({ items }) => {
    if (Array.isArray(items)) return { json: items, quirk: null };
    if (!isObject(items)) return null;
    return Object.keys(items).every((name) => /^\d+$/.test(name))
      ? { json: items, quirk: 'envelope.items-object' }
      : null;
  },
};

/** One item (spec 4.3). */
export function itemEndpoint(id: number): RecordEndpoint<Item> {
  return {
    operation: 'item',
    method: 'GET',
    path: '/api/items/item',
    parameters: { item_id: String(id) },
    errorText: 'Item Not Found',
    find: (envelope) => objectAt(envelope, 'item'),
    numbers: ITEM_NUMBERS,
    decode: decodeItem,
    mismatch: (item) =>
      item.id === id ? null : `item ${id} was asked for and item ${item.id} came`,
  };
}

/** Validation of a purchase code (spec 4.4). It changes nothing, so the POST may be repeated. */
export function validationEndpoint(code: string): RecordEndpoint<Purchase> {
  return {
    operation: 'validate',
    method: 'POST',
    path: '/api/purchases/validation',
    parameters: { purchase_code: code },
    errorText: 'Invalid purchase code',
    find: findPurchase,
    numbers: ['price', ...ITEM_NUMBERS.map((path) => `item.${path}`)],
    decode: decodePurchase,
    mismatch: ({ purchaseCode }) =>
      purchaseCode === null || isSameCode(purchaseCode, code)
        ? null
        : 'the answer is about another purchase code than the one asked for',
  };
}

/** `data.purchase`, or top-level `purchase` or `item` (field notes: envelope and shapes). */
function findPurchase(envelope: JsonObject): Found | null {
  const data = envelope['data'];
  if (isObject(data)) {
    const documented = someObjectAt(data, 'purchase');
    if (documented !== null) return documented;
  }
  const named = someObjectAt(envelope, 'purchase');
  if (named !== null) return { ...named, quirk: 'envelope.purchase-at-top' };
  const item = envelope['item'];
  if (!isObject(item)) return null;
  return 'purchase_code' in item || isObject(item['item'])
    ? { json: item, quirk: 'envelope.purchase-at-item' }
    : null;
}

function objectAt(envelope: JsonObject, name: string): Found | null {
  const json = envelope[name];
  return isObject(json) ? { json, quirk: null } : null;
}

/** As `objectAt`, but not an empty object: that proves nothing about a code. */
function someObjectAt(envelope: JsonObject, name: string): Found | null {
  const found = objectAt(envelope, name);
  return found !== null && Object.keys(found.json as JsonObject).length > 0 ? found : null;
}
