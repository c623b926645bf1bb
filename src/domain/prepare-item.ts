import { isUtf8 } from 'node:buffer';
import { decodeItem } from './decode-item.js';
import { extraHash, itemHash, wireHash } from './fingerprint.js';
import type { Item, Json } from './item.js';
import { Tolerated, isObject, storableJson } from './values.js';

/** An item ready to be stored. */
export interface PreparedItem {
  readonly item: Item;
  readonly extra: { readonly [path: string]: Json };
  readonly contentHash: Uint8Array;
  readonly extraHash: Uint8Array;
  readonly wireHash: Uint8Array;
  /** The record as JSON text in UTF-8 that PostgreSQL's jsonb accepts. */
  readonly raw: Uint8Array;
}

export type Preparation =
  | { readonly ok: true; readonly prepared: PreparedItem; readonly tolerated: readonly string[] }
  | { readonly ok: false; readonly reason: string; readonly id: number | null };

/**
 * What jsonb refuses in JSON that JavaScript reads: NUL and surrogate escapes, and numbers with
 * huge exponents or digits beyond `numeric`. A match is only a suspicion; such a record is written anew.
 */
const RISKY_JSON = /\\u(?:0000|d[89a-f])|\d[eE][-+]?\d{3}|\d{400}/i;

/**
 * Reads one record of the list, from bytes to storable row.
 * @param wire the record's wire hash, when the caller has it already
 */
export function prepareItem(bytes: Uint8Array, wire: Uint8Array = wireHash(bytes)): Preparation {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('utf8');
  let json: Json;
  try {
    json = JSON.parse(text) as Json;
  } catch (error) {
    return { ok: false, reason: `is no JSON: ${(error as Error).message.slice(0, 200)}`, id: null };
  }
  const decoding = decodeItem(json);
  if (!decoding.ok) return decoding;
  const { value, extra, tolerated } = decoding.decoded;
  return {
    ok: true,
    tolerated,
    prepared: {
      item: value,
      extra,
      contentHash: itemHash(value),
      extraHash: extraHash(extra),
      wireHash: wire,
      raw: isUtf8(buffer) && !RISKY_JSON.test(text) ? buffer : storableRaw(json),
    },
  };
}

/** Reads an item that came by itself. */
export function prepareAnswer(raw: Json): Preparation {
  return prepareItem(Buffer.from(JSON.stringify(raw), 'utf8'));
}

const REDUCED_MEDIA = new Set(['preview_image', 'screenshots']);

/**
 * An item as it came by itself, with the media that a reduced answer leaves out (spec 2.4) taken
 * from the stored record: what an answer does not speak of has not changed.
 */
export function completeMedia(raw: Json, stored: Json | undefined): Json {
  if (!isObject(raw) || !isObject(raw['media']) || !isObject(stored)) return raw;
  const { media } = raw;
  if (!isObject(stored['media']) || Object.keys(media).some((key) => !REDUCED_MEDIA.has(key))) {
    return raw;
  }
  const left = Object.entries(stored['media']).filter(([key]) => !REDUCED_MEDIA.has(key));
  return { ...raw, media: { ...Object.fromEntries(left), ...media } };
}

function storableRaw(json: Json): Buffer {
  return Buffer.from(JSON.stringify(storableJson(json, new Tolerated())), 'utf8');
}
