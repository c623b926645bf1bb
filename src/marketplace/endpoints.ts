import { isSameCode } from './code.js';
import { decodeAccount, decodeItem, decodePurchase } from './decode.js';
import type { Account, Decoding, Item, Json, Purchase } from '../domain/item.js';
import { isObject, type JsonObject } from '../domain/values.js';
import type { Operation } from './types.js';

/**
 * An answer is believed only if nothing in it says error, and if its record carries facts. This file has both
 * rules. An answer that fails one of them is unreadable: it proves neither that a record exists nor that the
 * API key is good.
 */

/** What an envelope says of itself. `open`: neither success nor error, as where the status is translated or absent. */
export type Said = 'success' | 'error' | 'open';

const ERROR_WORDS = new Set([
  'error',
  'errors',
  'fail',
  'failed',
  'failure',
  'false',
  'no',
  'invalid',
]);

/** Reads an envelope's `status` and the other members that may say error (API 7; servers: wording, outages). */
export function saidBy(envelope: JsonObject): Said {
  const { status, msg, message, data } = envelope;
  const purchase = findPurchase(envelope)?.json;
  if (
    namesError(envelope) ||
    (isObject(data) && ('purchase' in data || 'items' in data) && namesError(data)) ||
    // Its status may be a number of the fork's own, such as 0 for paid.
    (isObject(purchase) && namesError(purchase, wordOf(purchase['status'])))
  ) {
    return 'error';
  }
  const said = statusSays(status);
  // An error always has a message, in whatever language. Success may have one.
  return said === 'open' && (hasFacts(msg) || hasFacts(message)) ? 'error' : said;
}

function namesError(json: JsonObject, status = json['status']): boolean {
  const { success, ok, valid, is_valid, result, type, state } = json;
  const { error, errors, exception, code, status_code, statusCode, http_code } = json;
  return (
    [status, success, ok].some((flag) => statusSays(flag) === 'error') ||
    [valid, is_valid].some((flag) => flag === false || flag === 0 || isErrorWord(flag)) ||
    [result, type, state].some((flag) => flag === false || isErrorWord(flag)) ||
    [code, status_code, statusCode, http_code].some(isErrorStatus) ||
    [error, errors, exception].some(hasFacts)
  );
}

function wordOf(json: Json | undefined): Json {
  return typeof json === 'string' && json.trim() !== '' ? json : null;
}

function isErrorWord(json: Json | undefined): boolean {
  if (typeof json !== 'string') return false;
  const word = json.trim().toLowerCase();
  return word === '0' || ERROR_WORDS.has(word);
}

/** An HTTP status of 400 or more, as a number or as text. */
function isErrorStatus(json: Json | undefined): boolean {
  return (typeof json === 'number' || typeof json === 'string') && /^[45]\d\d$/.test(`${json}`);
}

function statusSays(status: Json | undefined): Said {
  if (status === undefined || status === null || status === true) return 'open';
  if (typeof status === 'number') return isGoodNumber(status) ? 'open' : 'error';
  if (typeof status !== 'string') return 'error';
  const word = status.trim().toLowerCase();
  if (word === 'success') return 'success';
  if (word === '' || ERROR_WORDS.has(word)) return 'error';
  return /^-?\d+$/.test(word) && !isGoodNumber(Number(word)) ? 'error' : 'open';
}

/** True for PHP's true and for a repeated HTTP status of success. */
function isGoodNumber(status: number): boolean {
  return status === 1 || (status >= 200 && status <= 299);
}

/** True if JSON holds anything but blanks, zeros, `false`, `null` and empty containers. */
export function hasFacts(json: Json | undefined): boolean {
  if (typeof json === 'string') return isFact(json);
  if (typeof json === 'object' && json !== null) return Object.values(json).some(hasFacts);
  return !!json;
}

/** Notations of nothing: zeros and punctuation, or one of these words between punctuation. */
const NOTHING =
  /^(?:[^\p{L}\p{N}]|0)*$|^[^\p{L}\p{N}]*(?:false|null|none|nil|undefined|n\/a)[^\p{L}\p{N}]*$/iu;

/** False for blanks, zeros, punctuation, and words such as `null`. */
function isFact(text: string | null): boolean {
  return text !== null && !NOTHING.test(text.replace(/\p{Default_Ignorable_Code_Point}/gu, ''));
}

/**
 * How much of a record an answer carries. `some` is enough beside the word `success`. `whole` is enough
 * without it.
 */
type Substance = 'none' | 'some' | 'whole';

/** A licence, a date or an item with an id: a validated purchase has all of them (API 2.5). */
function purchaseSubstance(purchase: Purchase): Substance {
  const { purchaseCode, licenseType, purchasedAt, item } = purchase;
  // A purchase may leave out its code. An empty one is an empty record.
  if (purchaseCode?.trim() === '') return 'none';
  const isDated = purchasedAt !== null && !/^(?:1970-01-01|1969-12-31)/.test(purchasedAt);
  const hasTerms = isFact(licenseType) || isDated;
  const hasItem = (item?.id ?? 0) > 0;
  if (hasTerms && hasItem) return 'whole';
  return hasTerms || hasItem ? 'some' : 'none';
}

/** An item has a name in every shape (API 2.3; servers: shapes). */
function itemSubstance({ id, name, publishedAt }: Item): Substance {
  if (id <= 0) return 'none';
  if (isFact(name)) return 'whole';
  return publishedAt === null ? 'none' : 'some';
}

/** The user name identifies an account; a whole one says more about its owner (API 2.1). */
function accountSubstance(account: Account): Substance {
  const { username, email, firstname, lastname, fullName, registeredAt } = account;
  if (username.trim() === '') return 'none';
  const others = [email, firstname, lastname, fullName, registeredAt];
  return others.some(isFact) ? 'whole' : 'some';
}

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
  /** Largest answer in bytes, decompressed. */
  readonly maxBytes: number;
}

const MIB = 1024 * 1024;

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
  maxBytes: MIB,
};

/** All items (API 4.2). `list.ts` reads them; nothing is decoded here. */
export const listEndpoint: Endpoint = {
  operation: 'list',
  method: 'GET',
  path: '/api/items/all',
  parameters: {},
  errorText: 'No items found',
  find: ({ items: atTop, data }) => {
    const items = atTop ?? (isObject(data) ? data['items'] : undefined);
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
    maxBytes: 4 * MIB,
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
    maxBytes: MIB,
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
