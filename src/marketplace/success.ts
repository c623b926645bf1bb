import type { Account, Item, Json, Purchase } from '../domain/item.js';
import { isObject, type JsonObject } from '../domain/values.js';

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
  if (namesError(envelope) || (isObject(data) && 'purchase' in data && namesError(data))) {
    return 'error';
  }
  const said = statusSays(status);
  // An error always has a message, in whatever language. Success may have one.
  return said === 'open' && (hasFacts(msg) || hasFacts(message)) ? 'error' : said;
}

function namesError({ status, success, ok, error, errors, exception }: JsonObject): boolean {
  return (
    [status, success, ok].some((flag) => statusSays(flag) === 'error') ||
    [error, errors, exception].some(hasFacts)
  );
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
export type Substance = 'none' | 'some' | 'whole';

/** A licence, a date or an item with an id: a validated purchase has all of them (API 2.5). */
export function purchaseSubstance(purchase: Purchase): Substance {
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
export function itemSubstance({ id, name, publishedAt }: Item): Substance {
  if (id <= 0) return 'none';
  if (isFact(name)) return 'whole';
  return publishedAt === null ? 'none' : 'some';
}

/** The user name identifies an account; a whole one says more about its owner (API 2.1). */
export function accountSubstance(account: Account): Substance {
  const { username, email, firstname, lastname, fullName, registeredAt } = account;
  if (username.trim() === '') return 'none';
  const others = [email, firstname, lastname, fullName, registeredAt];
  return others.some(isFact) ? 'whole' : 'some';
}
