import { isUtf8 } from 'node:buffer';
import { decodeItem } from '../marketplace/decode.js';
import type { Item, Json } from '../domain/item.js';
import { isObject, mayLoseDigits, parseJson, storableJson } from '../domain/values.js';
import { NO_WIRE_HASH, wireHash } from '../marketplace/wire-hash.js';

export interface PreparedItem {
  readonly item: Item;
  readonly extra: { readonly [path: string]: Json };
  readonly wireHash: Uint8Array;
  /** The record as JSON text in UTF-8, as received if PostgreSQL can read it. */
  readonly raw: Uint8Array;
}

type Preparation =
  | { readonly ok: true; readonly prepared: PreparedItem; readonly tolerated: readonly string[] }
  | { readonly ok: false; readonly reason: string; readonly id: number | null };

/** Valid JSON whose texts or numbers PostgreSQL can't read: NUL, lone surrogates, huge exponents. */
const UNREADABLE_TEXT = /\\u(?:0000|[dD][89a-fA-F])/;
const UNREADABLE_NUMBER = /\d[eE][-+]?\d{3}/;

/** Decodes and hashes a record. @param wire the record's wire hash, if the caller has it already */
export function prepareItem(bytes: Uint8Array, wire: Uint8Array = wireHash(bytes)): Preparation {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('utf8');
  let json: Json;
  try {
    json = parseJson(text);
  } catch (error) {
    const problem = (error as Error).message.slice(0, 200);
    return { ok: false, reason: `is not JSON: ${problem}`, id: null };
  }
  const hasEscapes = text.includes('\\u');
  const decoding = decodeItem(json, hasEscapes);
  if (!decoding.ok) return decoding;
  const { value, extra, tolerated } = decoding.decoded;
  const isReadable =
    isUtf8(buffer) &&
    !(hasEscapes && UNREADABLE_TEXT.test(text)) &&
    !(mayLoseDigits(text) && UNREADABLE_NUMBER.test(text));
  return {
    ok: true,
    tolerated,
    prepared: {
      item: value,
      extra,
      wireHash: wire,
      raw: isReadable ? buffer : Buffer.from(JSON.stringify(storableJson(json))),
    },
  };
}

/** The same for the answer to a look-up of one item, whose bytes no list has. */
export function prepareAnswer(raw: Json): Preparation {
  return prepareItem(Buffer.from(JSON.stringify(raw), 'utf8'), NO_WIRE_HASH);
}

const REDUCED_MEDIA = new Set(['preview_image', 'screenshots']);

/** Adds the media that a reduced answer leaves out (API 2.4), from the stored record. */
export function completeMedia(raw: Json, stored: Json | undefined): Json {
  if (!isObject(raw) || !isObject(raw['media']) || !isObject(stored)) return raw;
  const { media } = raw;
  if (!isObject(stored['media']) || Object.keys(media).some((key) => !REDUCED_MEDIA.has(key))) {
    return raw;
  }
  const left = Object.entries(stored['media']).filter(([key]) => !REDUCED_MEDIA.has(key));
  return { ...raw, media: { ...Object.fromEntries(left), ...media } };
}
