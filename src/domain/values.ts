import type { Json, Money, Timestamp } from './item.js';

/** A field can't be read. Only decoders throw and catch it. */
export class FieldError extends Error {
  constructor(path: string, problem: string) {
    super(`${path} ${problem}`);
  }
}

/** Names of the quirks found while reading a record. */
export class Tolerated extends Set<string> {
  /**
   * False if the record's JSON has no escape like `\u0000`: then none of its texts needs a test. Such a test
   * of each text takes as long as parsing.
   */
  mayBeUnstorable = true;
}

/** @param json undefined if the field is absent @throws {FieldError} if it can't be read */
export type FieldReader<T> = (json: Json | undefined, path: string, tolerated: Tolerated) => T;

export type JsonObject = { [key: string]: Json };

export function isObject(json: Json | undefined): json is JsonObject {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

export function shownJson(json: Json | undefined): string {
  const text = JSON.stringify(json) ?? 'nothing';
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** NUL and lone surrogates. For text of two bytes a character, `includes('\0')` is slower. */
const UNSTORABLE = /[\0\p{Cs}]/u;

/** Replaces NUL characters and lone surrogates by U+FFFD: PostgreSQL refuses them. */
export function storableText(text: string, tolerated: Tolerated = new Tolerated()): string {
  if (!tolerated.mayBeUnstorable || !UNSTORABLE.test(text)) return text;
  tolerated.add('text.unstorable-characters');
  return text.toWellFormed().replaceAll('\0', '\uFFFD');
}

/** A number with a large exponent: not in the middle of a text, such as a code of hexadecimal digits. */
export const LARGE_EXPONENT = /(?:^|[[:,\s])-?\d[\d.]*[eE][-+]?\d{3}/;
/** Texts, which may hold digits, and numbers. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
/** A double holds every number with fewer digits and points. */
const LONG_RUN = 17;

/** Whether `JSON.parse` may lose digits of a number in this text. */
export function mayLoseDigits(text: string): boolean {
  return hasLongRun(text) || LARGE_EXPONENT.test(text);
}

/** Looks at every 17th character first, because a long run has one of them: a regular expression takes ten times as long. */
function hasLongRun(text: string): boolean {
  for (let at = LONG_RUN - 1; at < text.length; at += LONG_RUN) {
    if (!isDigitOrPoint(text.charCodeAt(at))) continue;
    let [start, end] = [at, at + 1];
    while (end - start < LONG_RUN && isDigitOrPoint(text.charCodeAt(start - 1))) start--;
    while (end - start < LONG_RUN && isDigitOrPoint(text.charCodeAt(end))) end++;
    if (end - start >= LONG_RUN) return true;
  }
  return false;
}

function isDigitOrPoint(code: number): boolean {
  return code >= 0x30 ? code <= 0x39 : code === 0x2e;
}

/**
 * Parses JSON. A number that a double does not hold, such as 12345678901234567890, becomes a text with all
 * its digits.
 * @throws {SyntaxError} if the text is not JSON
 */
export function parseJson(text: string): Json {
  if (!mayLoseDigits(text)) return JSON.parse(text) as Json;
  // First as it is: what is not JSON must not become JSON.
  const json = JSON.parse(text) as Json;
  let changed = false;
  const exact = text.replace(TOKENS, (token) => {
    if (token.startsWith('"') || isExact(token)) return token;
    changed = true;
    return `"${token}"`;
  });
  return changed ? (JSON.parse(exact) as Json) : json;
}

/** Whether the double of a number has the same significant digits, apart from zeros at the end. */
function isExact(token: string): boolean {
  return significant(token) === significant(String(Number(token)));
}

function significant(number: string): string {
  const digits = (number.split(/[eE]/)[0] ?? '').replace(/[-.]/g, '');
  return digits.replace(/^0+|0+$/g, '') || (/[1-9I]/.test(number) ? number : '');
}

/** Makes every string of a JSON value storable, including keys. */
export function storableJson(json: Json, tolerated: Tolerated = new Tolerated()): Json {
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

/** Optional text. Absent is null; numbers and booleans become text. */
export const readText: FieldReader<string | null> = (json, path, tolerated) => {
  if (typeof json === 'string') return storableText(json, tolerated);
  if (json === undefined || json === null) return null;
  if (typeof json === 'object') throw new FieldError(path, `is not text: ${shownJson(json)}`);
  tolerated.add(`${path}.not-text`);
  return String(json);
};

export const readRequiredText: FieldReader<string> = (json, path, tolerated) => {
  const text = readText(json, path, tolerated);
  if (text === null) throw new FieldError(path, 'is missing');
  return text;
};

const INTEGER_TEXT = /^\s*([+-]?\d+)(?:\.0*)?\s*$/;

/** An integer, also as text or as a float without fraction (servers: values). */
export const readId: FieldReader<number> = (json, path, tolerated) => {
  let id: number;
  if (typeof json === 'number') {
    id = json;
  } else {
    const match = typeof json === 'string' ? INTEGER_TEXT.exec(json) : null;
    if (match === null) throw new FieldError(path, `is not an integer: ${shownJson(json)}`);
    id = Number(match[1]);
    tolerated.add(`${path}.text`);
  }
  if (!Number.isInteger(id)) throw new FieldError(path, `is not an integer: ${shownJson(json)}`);
  if (!Number.isSafeInteger(id))
    throw new FieldError(path, 'is beyond 2^53 and can’t be read exactly');
  return id;
};

/** Larger amounts don't fit into `numeric(14,2)`. */
const MONEY_LIMIT = 999_999_999_999.995;
const MONEY_TEXT = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/**
 * Money as exact decimal text with two decimals (API 2). Accepts integers, numeric strings and float noise
 * (servers: values), and rounds them.
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
    throw new FieldError(path, `is not an amount of money: ${shownJson(json)}`);
  }
  if (!(Math.abs(amount) < MONEY_LIMIT)) {
    throw new FieldError(path, `is too large for an amount of money: ${shownJson(json)}`);
  }
  const text = amount.toFixed(2);
  const rest = Math.abs(Number(text) - amount);
  if (rest > 0) tolerated.add(rest > 1e-6 ? 'money.rounded' : 'money.float-noise');
  return text === '-0.00' ? '0.00' : text;
};

const TIMESTAMP =
  /^\s*(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?)?\s*$/i;
/** The contract's notation, for the days 1 to 28: these exist in every month. */
const CANONICAL =
  /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$/;
/** MySQL's zero date, and its form in PHP's date classes. */
const ZERO_DATE = /^\s*(?:0000-00-00|-0001-11-30)/;

/**
 * A time, ISO 8601 in UTC (API 2), in the notation of `Timestamp`. Accepts microseconds, other offsets and a
 * missing zone, which means UTC. An empty text and PHP's zero date become null.
 */
export const readTimestamp: FieldReader<Timestamp | null> = (json, path, tolerated) => {
  if (json === undefined || json === null) return null;
  if (typeof json !== 'string')
    throw new FieldError(path, `is not a timestamp: ${shownJson(json)}`);
  if (CANONICAL.test(json)) return json;
  if (json.trim() === '' || ZERO_DATE.test(json)) {
    tolerated.add('timestamp.empty');
    return null;
  }
  const match = TIMESTAMP.exec(json);
  if (match === null) throw new FieldError(path, `is not a timestamp: ${shownJson(json)}`);
  const [, year, month, day, hour = '00', minute = '00', second = '00', digits = '', zone] = match;
  const fraction = digits.slice(0, 6).replace(/0+$/, '');
  const wall = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const utc = Date.parse(`${wall}Z`);
  // Date.parse reads 30 February as a day in March.
  if (Number.isNaN(utc) || new Date(utc).toISOString().slice(0, 19) !== wall || year === '0000') {
    throw new FieldError(path, `is not a date in the calendar: ${shownJson(json)}`);
  }
  if (zone === undefined) tolerated.add('timestamp.no-zone');
  const offset = offsetMinutes(zone);
  if (offset === null)
    throw new FieldError(path, `has no valid offset from UTC: ${shownJson(json)}`);
  const moment = new Date(utc - offset * 60_000).toISOString().slice(0, 19);
  if (!/^\d{4}-/.test(moment)) throw new FieldError(path, `is out of range: ${shownJson(json)}`);
  return fraction === '' ? `${moment}Z` : `${moment}.${fraction}Z`;
};

/** True if `readTimestamp` can read it, even as null. */
export function readsAsTimestamp(json: Json | undefined): boolean {
  try {
    readTimestamp(json, '', new Tolerated());
    return true;
  } catch (error) {
    if (error instanceof FieldError) return false;
    throw error;
  }
}

/** Minutes. Time zones reach from UTC-12 to UTC+14. */
const LARGEST_OFFSET = 14 * 60;

/** The offset from UTC; null if no time zone has it. */
function offsetMinutes(zone: string | undefined): number | null {
  if (zone === undefined || zone === 'Z' || zone === 'z') return 0;
  const beyondHour = Number(zone.slice(3).replace(':', '') || 0);
  const minutes = Number(zone.slice(1, 3)) * 60 + beyondHour;
  if (beyondHour > 59 || minutes > LARGEST_OFFSET) return null;
  return zone.startsWith('-') ? -minutes : minutes;
}

/** A map. Null, absent and PHP's empty array become an empty one (servers: shapes). */
export const readMap: FieldReader<JsonObject> = (json, path, tolerated) => {
  if (isObject(json)) return json;
  if (json === undefined || json === null) return {};
  if (Array.isArray(json) && json.length === 0) {
    tolerated.add('map.empty-array');
    return {};
  }
  throw new FieldError(path, `is not an object: ${shownJson(json)}`);
};

/**
 * A list of texts: an array, an object with numeric keys, one text, null or absent (servers: values).
 * Drops null entries, and keeps an object as its JSON.
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
  throw new FieldError(path, `is not a list: ${shownJson(json)}`);
};

function readEntry(entry: Json, path: string, tolerated: Tolerated): string[] {
  if (typeof entry === 'string') return [storableText(entry, tolerated)];
  if (entry === null) return [];
  tolerated.add(`${path}.entry-not-text`);
  return [
    typeof entry === 'object' ? JSON.stringify(storableJson(entry, tolerated)) : String(entry),
  ];
}
