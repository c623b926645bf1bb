import { isUtf8 } from 'node:buffer';
import { decodeItem, NO_WIRE_HASH, wireHash } from '../marketplace/decode.js';
import {
  type Item,
  type Json,
  ITEM_FIELDS,
  type FieldType,
  type FieldTypes,
} from '../domain/item.js';
import { isObject, LARGE_EXPONENT, parseJson, storableJson } from '../domain/values.js';
import { BinaryRows } from '../db/binary-rows.js';

export interface PreparedItem {
  readonly item: Item;
  readonly extra: { readonly [path: string]: Json };
  readonly wireHash: string;
  /** The record as JSON text in UTF-8, as received if PostgreSQL can read it. */
  readonly raw: Uint8Array;
}

type Preparation =
  | { readonly ok: true; readonly prepared: PreparedItem; readonly tolerated: readonly string[] }
  | { readonly ok: false; readonly reason: string; readonly id: number | null };

/** Valid JSON whose texts PostgreSQL can't read: NUL, lone surrogates. It can't read huge exponents either. */
const UNREADABLE_TEXT = /\\u(?:0000|[dD][89a-fA-F])/;

/** Decodes and hashes a record. @param wire the record's wire hash, if the caller has it already */
export function prepareItem(bytes: Uint8Array, wire: string = wireHash(bytes)): Preparation {
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
    isUtf8(buffer) && !(hasEscapes && UNREADABLE_TEXT.test(text)) && !LARGE_EXPONENT.test(text);
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

/** What the mirror has of an item. */
export interface StoredItem {
  /** The record as received. */
  readonly raw: Json;
  /** Its fields and unknown fields, if the record was pruned; otherwise null. */
  readonly fields: Partial<Item> | null;
  readonly extra: PreparedItem['extra'];
}

/**
 * The same for the answer to a look-up of one item, whose bytes no list has. What a reduced answer lacks keeps what
 * is stored.
 */
export function prepareAnswer(raw: Json, stored: StoredItem | undefined): Preparation {
  const whole = completeRecord(raw, stored?.raw);
  const preparation = prepareItem(Buffer.from(JSON.stringify(whole), 'utf8'), NO_WIRE_HASH);
  if (!preparation.ok || stored === undefined || stored.fields === null) return preparation;
  const { item, extra } = preparation.prepared;
  const isEmpty = (value: unknown): boolean =>
    value === null || (Array.isArray(value) && value.length === 0);
  const kept = Object.entries(stored.fields).filter(([key]) => isEmpty(item[key as keyof Item]));
  const prepared = {
    ...preparation.prepared,
    item: { ...item, ...Object.fromEntries(kept) },
    extra: { ...stored.extra, ...extra },
  };
  return { ...preparation, prepared };
}

/** Fields that hold fields, of which a reduced answer may lack some. */
const NESTED = ['media', 'price'];

/**
 * Adds the fields that a reduced answer leaves out (API 2.4, 2.5), from the stored record: what an answer for one
 * item does not name is not gone. Only a list says so.
 */
function completeRecord(raw: Json, stored: Json | undefined): Json {
  if (!isObject(raw) || !isObject(stored)) return raw;
  const whole: Record<string, Json> = { ...stored, ...raw };
  for (const name of NESTED) {
    const [ours, theirs] = [stored[name], raw[name]];
    if (isObject(ours) && isObject(theirs)) whole[name] = { ...ours, ...theirs };
  }
  return whole;
}

/** Values that a run puts into every row it writes. */
export interface RowStamp {
  readonly sellerId: string;
  readonly runId: bigint;
  /** When the run began, ISO 8601 in UTC. */
  readonly at: string;
}

type WriteField = (row: BinaryRows, prepared: PreparedItem) => void;

/** Make the writers of fields. The table of fields guarantees that a field has values of its type. */
const WRITERS: Readonly<Record<FieldType, (key: keyof Item) => WriteField>> = {
  text:
    (key) =>
    (row, { item }) =>
      row.text(item[key] as FieldTypes['text']),
  texts:
    (key) =>
    (row, { item }) =>
      row.textArray(item[key] as FieldTypes['texts']),
  integer:
    (key) =>
    (row, { item }) =>
      row.bigint(item[key] as FieldTypes['integer']),
  money:
    (key) =>
    (row, { item }) =>
      row.money(item[key] as FieldTypes['money']),
  time:
    (key) =>
    (row, { item }) =>
      row.timestamp(item[key] as FieldTypes['time']),
};

/** The columns of `mirror.items` that differ between items. */
const VALUES: Readonly<Record<string, WriteField>> = {
  ...Object.fromEntries(ITEM_FIELDS.map(({ key, column, type }) => [column, WRITERS[type](key)])),
  wire_hash: (row, { wireHash }) => row.bytes(Buffer.from(wireHash, 'latin1')),
  extra: (row, { extra }) => row.jsonb(jsonOf(extra)),
  raw: (row, { raw }) => row.bytes(raw),
};

/** The columns with the same value in all rows of a run. */
const STAMPED: Readonly<Record<string, (row: BinaryRows, stamp: RowStamp) => void>> = {
  seller_id: (row, { sellerId }) => row.text(sellerId),
  state: (row) => row.text('live'),
  first_seen_at: (row, { at }) => row.timestamp(at),
  changed_at: (row, { at }) => row.timestamp(at),
  synced_run_id: (row, { runId }) => row.bigint(Number(runId)),
  valid_from: (row, { at }) => row.timestamp(at),
};

const WRITE_VALUES = Object.values(VALUES);
export const ITEM_VALUE_COLUMNS = Object.keys(VALUES);
/** Columns of `mirror.items` in the order of `ItemRows`. */
export const ITEM_COLUMNS = [...Object.keys(STAMPED), 'item_id', ...ITEM_VALUE_COLUMNS];

const NO_EXTRA = Buffer.from('{}');

function jsonOf(extra: PreparedItem['extra']): Uint8Array {
  for (const _ in extra) return Buffer.from(JSON.stringify(extra));
  return NO_EXTRA;
}

/**
 * Items for a COPY into the table. They are encoded as they are added, since the bytes of a catalogue
 * take far less memory than its objects.
 */
export class ItemRows extends BinaryRows {
  /** The encoded fields of `STAMPED`. */
  readonly #stamped: Uint8Array;

  constructor(stamp: RowStamp) {
    super();
    const stamped = new BinaryRows(256);
    for (const write of Object.values(STAMPED)) write(stamped, stamp);
    this.#stamped = stamped.data();
  }

  /** Adds a live row with `ITEM_COLUMNS`. */
  add(prepared: PreparedItem): void {
    this.startRow(ITEM_COLUMNS.length);
    this.append(this.#stamped);
    this.bigint(prepared.item.id);
    for (const write of WRITE_VALUES) write(this, prepared);
  }
}
