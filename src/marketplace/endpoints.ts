import { isSameCode } from './code.js';
import { decodeAccount, decodeItem, decodePurchase } from './decode.js';
import type { Account, Decoding, Item, Json, Purchase } from '../domain/item.js';
import { isObject, type JsonObject } from '../domain/values.js';
import { accountSubstance, itemSubstance, purchaseSubstance, type Substance } from './success.js';
import type { Operation } from './types.js';

/** One operation's request, and how to recognize its data and its error (API 4, 7). */
export interface Endpoint {
  readonly operation: Operation;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** The documented error text (API 7). It means a refused key on account details, a denial elsewhere. */
  readonly errorText: string;
  /** Finds the data in a response's envelope; null if it has none. */
  find(envelope: JsonObject): FoundData | null;
}

export interface RecordEndpoint<T> extends Endpoint {
  decode(json: Json): Decoding<T>;
  /** Says why a decoded record is not the requested one; null if it is. */
  mismatch(value: T): string | null;
  substance(value: T): Substance;
}

export interface FoundData {
  readonly json: Json;
  /** Name of the deviation if the data was not at its documented place. */
  readonly quirk: string | null;
}

/** Account details (API 4.1). */
export const accountEndpoint: RecordEndpoint<Account> = {
  operation: 'account',
  method: 'GET',
  path: '/api/account/details',
  parameters: {},
  errorText: 'Invalid request',
  find: (envelope) => objectAt(envelope, 'data'),
  decode: decodeAccount,
  mismatch: () => null,
  substance: accountSubstance,
};

/** All items (API 4.2). `list-stream.ts` reads them as a stream, so nothing is decoded here. */
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

/** One item (API 4.3). */
export function itemEndpoint(id: number): RecordEndpoint<Item> {
  return {
    operation: 'item',
    method: 'GET',
    path: '/api/items/item',
    parameters: { item_id: String(id) },
    errorText: 'Item Not Found',
    find: (envelope) => objectAt(envelope, 'item'),
    decode: decodeItem,
    mismatch: (item) =>
      item.id === id ? null : `the answer is item ${item.id}, but item ${id} was requested`,
    substance: itemSubstance,
  };
}

/** Validation of a purchase code (API 4.4). It changes nothing, so this POST may be retried. */
export function validationEndpoint(code: string): RecordEndpoint<Purchase> {
  return {
    operation: 'validate',
    method: 'POST',
    path: '/api/purchases/validation',
    parameters: { purchase_code: code },
    errorText: 'Invalid purchase code',
    find: findPurchase,
    decode: decodePurchase,
    mismatch: ({ purchaseCode }) =>
      purchaseCode === null || purchaseCode.trim() === '' || isSameCode(purchaseCode, code)
        ? null
        : 'the answer is about a different purchase code than the requested one',
    substance: purchaseSubstance,
  };
}

/** `data.purchase`, or top-level `purchase` or `item` (servers: shapes). */
function findPurchase(envelope: JsonObject): FoundData | null {
  const data = envelope['data'];
  if (isObject(data)) {
    const documented = nonEmptyObjectAt(data, 'purchase');
    if (documented !== null) return documented;
  }
  const topLevel = nonEmptyObjectAt(envelope, 'purchase');
  if (topLevel !== null) return { ...topLevel, quirk: 'envelope.purchase-at-top' };
  const item = envelope['item'];
  if (!isObject(item)) return null;
  return 'purchase_code' in item || isObject(item['item'])
    ? { json: item, quirk: 'envelope.purchase-at-item' }
    : null;
}

function objectAt(envelope: JsonObject, name: string): FoundData | null {
  const json = envelope[name];
  return isObject(json) ? { json, quirk: null } : null;
}

/** Like `objectAt`, but ignores an empty object: that proves nothing about a code. */
function nonEmptyObjectAt(envelope: JsonObject, name: string): FoundData | null {
  const json = envelope[name];
  return isObject(json) && Object.keys(json).length > 0 ? { json, quirk: null } : null;
}
