import { ITEM_FIELDS, type FieldType, type FieldTypes, type Item } from '../domain/item.js';
import type { PreparedItem } from './prepare-item.js';
import { BinaryRows } from '../db/copy.js';

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
  wire_hash: (row, { wireHash }) => row.bytes(wireHash),
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
