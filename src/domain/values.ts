import type { Json, Money, Timestamp } from './item.js';

/** A field can't be read. Thrown and caught within decoders only. */
export class FieldError extends Error {
  constructor(path: string, problem: string) {
    super(`${path} ${problem}`);
  }
}

export type Tolerated = Set<string>;

/** @param json undefined when the field is absent @throws {FieldError} when it can't be read */
export type FieldReader<T> = (json: Json | undefined, path: string, tolerated: Tolerated) => T;

export type JsonObject = { [key: string]: Json };

export function isObject(json: Json | undefined): json is JsonObject {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

export function excerpt(json: Json | undefined): string {
  const text = JSON.stringify(json) ?? 'nothing';
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** NUL and lone surrogates. `includes('\0')` takes longer in texts of two bytes a character, half of them 0. */
const UNSTORABLE = /[\0\p{Cs}]/u;

/** PostgreSQL refuses NUL characters and lone surrogates: they become U+FFFD. */
export function storableText(text: string, tolerated: Tolerated = new Set()): string {
  if (!UNSTORABLE.test(text)) return text;
  tolerated.add('text.unstorable-characters');
  return text.toWellFormed().replaceAll('\0', '\uFFFD');
}

/** A JSON value of which every string, keys included, is storable. */
export function storableJson(json: Json, tolerated: Tolerated = new Set()): Json {
  if (typeof json === 'string') return storableText(json, tolerated);
  if (typeof json === 'number') return Number.isFinite(json) ? json : String(json);
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return json.map((value) => storableJson(value, tolerated));
  const out: JsonObject = Object.create(null) as JsonObject;
  for (const [key, value] of Object.entries(json)) {
    out[storableText(key, tolerated)] = storableJson(value, tolerated);
  }
  return out;
}

/** Optional text: absent and null are null; numbers and booleans are taken as their text. */
export const readText: FieldReader<string | null> = (json, path, tolerated) => {
  if (typeof json === 'string') return storableText(json, tolerated);
  if (json === undefined || json === null) return null;
  if (typeof json === 'object') throw new FieldError(path, `is not text: ${excerpt(json)}`);
  tolerated.add(`${path}.not-text`);
  return String(json);
};

export const readRequiredText: FieldReader<string> = (json, path, tolerated) => {
  const text = readText(json, path, tolerated);
  if (text === null) throw new FieldError(path, 'is missing');
  return text;
};

const INTEGER_TEXT = /^\s*([+-]?\d+)(?:\.0*)?\s*$/;

/** An identifier: an integer, also as text or as a float without fraction (field notes: numbers). */
export const readId: FieldReader<number> = (json, path, tolerated) => {
  let id: number;
  if (typeof json === 'number') {
    id = json;
  } else {
    const match = typeof json === 'string' ? INTEGER_TEXT.exec(json) : null;
    if (match === null) throw new FieldError(path, `is not an integer: ${excerpt(json)}`);
    id = Number(match[1]);
    tolerated.add(`${path}.text`);
  }
  if (!Number.isInteger(id)) throw new FieldError(path, `is not an integer: ${excerpt(json)}`);
  if (!Number.isSafeInteger(id))
    throw new FieldError(path, 'is beyond 2^53 and can’t be read exactly');
  return id;
};

/** Amounts from here on don't fit into `numeric(14,2)`. */
const MONEY_LIMIT = 999_999_999_999.995;
const MONEY_TEXT = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/**
 * Money (spec 2: two decimals) as exact decimal text. Integers, numeric strings and float noise are
 * read as what they mean (field notes: money); more than two decimals are rounded.
 */
export const readMoney: FieldReader<Money | null> = (json, path, tolerated) => {
  if (json === undefined || json === null) return null;
  let amount: number;
  if (typeof json === 'number') {
    amount = json;
  } else if (typeof json === 'string' && MONEY_TEXT.test(json)) {
    amount = Number(json);
    tolerated.add('money.text');
  } else {
    throw new FieldError(path, `is not an amount of money: ${excerpt(json)}`);
  }
  if (!(Math.abs(amount) < MONEY_LIMIT)) {
    throw new FieldError(path, `is too large for an amount of money: ${excerpt(json)}`);
  }
  const text = amount.toFixed(2);
  const rest = Math.abs(Number(text) - amount);
  if (rest > 0) tolerated.add(rest > 1e-6 ? 'money.rounded' : 'money.float-noise');
  return text === '-0.00' ? '0.00' : text;
};

const TIMESTAMP =
  /^\s*(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?)?\s*$/i;
/** The contract's notation, of a day that every month has. */
const CANONICAL =
  /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$/;
/** MySQL's zero date, and its form in PHP's date classes. */
const ZERO_DATE = /^\s*(?:0000-00-00|-0001-11-30)/;

/**
 * A moment (spec 2: ISO 8601 UTC) in the one notation of `Timestamp`. Microseconds, other offsets,
 * a missing zone (taken as UTC), an empty text and PHP's zero date (both null) are tolerated.
 */
export const readTimestamp: FieldReader<Timestamp | null> = (json, path, tolerated) => {
  if (json === undefined || json === null) return null;
  if (typeof json !== 'string') throw new FieldError(path, `is not a timestamp: ${excerpt(json)}`);
  if (CANONICAL.test(json)) return json;
  if (json.trim() === '' || ZERO_DATE.test(json)) {
    tolerated.add('timestamp.empty');
    return null;
  }
  const match = TIMESTAMP.exec(json);
  if (match === null) throw new FieldError(path, `is not a timestamp: ${excerpt(json)}`);
  const [, year, month, day, hour = '00', minute = '00', second = '00', digits = '', zone] = match;
  const fraction = digits.slice(0, 6).replace(/0+$/, '');
  const wall = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const utc = Date.parse(`${wall}Z`);
  // Date.parse reads 30 February as a day of March.
  if (Number.isNaN(utc) || new Date(utc).toISOString().slice(0, 19) !== wall || year === '0000') {
    throw new FieldError(path, `is not a date of the calendar: ${excerpt(json)}`);
  }
  if (zone === undefined) tolerated.add('timestamp.no-zone');
  const offset = offsetMinutes(zone);
  if (offset === null) throw new FieldError(path, `is in no zone of the world: ${excerpt(json)}`);
  const moment = new Date(utc - offset * 60_000).toISOString().slice(0, 19);
  if (!/^\d{4}-/.test(moment)) throw new FieldError(path, `is out of range: ${excerpt(json)}`);
  return fraction === '' ? `${moment}Z` : `${moment}.${fraction}Z`;
};

/** True when `readTimestamp` can read it, also as null. */
export function readsAsTimestamp(json: Json | undefined): boolean {
  try {
    readTimestamp(json, '', new Set());
    return true;
  } catch (error) {
    if (error instanceof FieldError) return false;
    throw error;
  }
}

/** Zones are from 12 hours behind UTC to 14 before it. */
const LARGEST_OFFSET = 14 * 60;

/** The offset of a zone; null for one that no zone has. */
function offsetMinutes(zone: string | undefined): number | null {
  if (zone === undefined || zone === 'Z' || zone === 'z') return 0;
  const beyondHour = Number(zone.slice(3).replace(':', '') || 0);
  const minutes = Number(zone.slice(1, 3)) * 60 + beyondHour;
  if (beyondHour > 59 || minutes > LARGEST_OFFSET) return null;
  return zone.startsWith('-') ? -minutes : minutes;
}

/** A map: `{}`; null, absent and PHP's empty array count as empty (field notes: empty maps). */
export const readMap: FieldReader<JsonObject> = (json, path, tolerated) => {
  if (isObject(json)) return json;
  if (json === undefined || json === null) return {};
  if (Array.isArray(json) && json.length === 0) {
    tolerated.add('map.empty-array');
    return {};
  }
  throw new FieldError(path, `is not an object: ${excerpt(json)}`);
};

/**
 * A list of texts: an array, an object with numeric keys, one text, null or absent (field notes:
 * tags, screenshots). Empty entries are dropped; an entry that is an object is kept as its JSON.
 */
export const readTexts: FieldReader<string[]> = (json, path, tolerated) => {
  if (json === undefined || json === null) return [];
  if (typeof json === 'string') {
    tolerated.add(`${path}.one-text`);
    return json === '' ? [] : [storableText(json, tolerated)];
  }
  if (Array.isArray(json)) {
    const texts: string[] = [];
    for (const entry of json) {
      if (typeof entry === 'string') texts.push(storableText(entry, tolerated));
      else for (const text of readEntry(entry, path, tolerated)) texts.push(text);
    }
    return texts;
  }
  if (isObject(json)) {
    tolerated.add(`${path}.object`);
    return Object.values(json).flatMap((entry) => readEntry(entry, path, tolerated));
  }
  throw new FieldError(path, `is not a list: ${excerpt(json)}`);
};

function readEntry(entry: Json, path: string, tolerated: Tolerated): string[] {
  if (typeof entry === 'string') return [storableText(entry, tolerated)];
  if (entry === null) return [];
  tolerated.add(`${path}.entry-not-text`);
  return [
    typeof entry === 'object' ? JSON.stringify(storableJson(entry, tolerated)) : String(entry),
  ];
}

const MOST_CHARACTERS = 60;

/** A name from the marketplace for a sentence: one safe line of at most 60 characters. */
export function displayName(name: string): string {
  const plain = name
    .slice(0, MOST_CHARACTERS * 8)
    .toWellFormed()
    .replaceAll(/\p{Cc}|[\u202A-\u202E\u2066-\u2069\u2028\u2029\uFEFF]/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const characters = Array.from(plain);
  return characters.length <= MOST_CHARACTERS
    ? plain
    : `${characters
        .slice(0, MOST_CHARACTERS - 1)
        .join('')
        .trimEnd()}…`;
}
