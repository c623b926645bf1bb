import type { PreparedItem } from '../domain/prepare-item.js';
import { BinaryRows } from './copy.js';

/** Columns of `mirror.items` in the order in which `writeItemRow` fills them. */
export const ITEM_COLUMNS = [
  'seller_id',
  'item_id',
  'name',
  'description',
  'category',
  'sub_category',
  'options',
  'version',
  'demo_link',
  'tags',
  'thumbnail_url',
  'preview_image_url',
  'preview_video_url',
  'preview_audio_url',
  'screenshots',
  'price_regular',
  'price_extended',
  'currency',
  'published_at',
  'content_hash',
  'extra_hash',
  'wire_hash',
  'extra',
  'raw',
  'state',
  'first_seen_at',
  'changed_at',
  'synced_run_id',
  'valid_from',
] as const;

/** The columns that hold what the marketplace said, and the hashes over it. */
export const ITEM_VALUE_COLUMNS = ITEM_COLUMNS.slice(2, 24);

/** The columns that a run puts on every row it writes. */
export interface RowStamp {
  readonly sellerId: string;
  readonly runId: bigint;
  /** The run's moment, ISO 8601 in UTC. */
  readonly at: string;
}

const NO_EXTRA = Buffer.from('{}');

/**
 * Items to be copied into the table, encoded as they are added: the bytes of a catalogue take far less
 * time and memory than its objects.
 */
export class ItemRows {
  readonly #stamp: RowStamp;
  readonly #rows = new BinaryRows();
  #ids: number[] = [];

  constructor(stamp: RowStamp) {
    this.#stamp = stamp;
  }

  /** Of the items added since `clear`. */
  get ids(): readonly number[] {
    return this.#ids;
  }

  /** How many there are. */
  get count(): number {
    return this.#rows.rows;
  }

  /** Bytes gathered so far. */
  get size(): number {
    return this.#rows.size;
  }

  /** Adds a live row of `ITEM_COLUMNS`, and `rival` when it is given. */
  add(prepared: PreparedItem, rival?: boolean): void {
    writeItemRow(this.#rows, prepared, this.#stamp, rival);
    this.#ids.push(prepared.item.id);
  }

  /** The rows as COPY data without header and trailer, good until `clear`. */
  data(): Buffer {
    return this.#rows.data();
  }

  /** Starts over in the same memory. */
  clear(): void {
    this.#rows.clear();
    this.#ids = [];
  }
}

function writeItemRow(
  rows: BinaryRows,
  prepared: PreparedItem,
  stamp: RowStamp,
  rival?: boolean,
): void {
  const { item } = prepared;
  rows.startRow(ITEM_COLUMNS.length + (rival === undefined ? 0 : 1));
  rows.text(stamp.sellerId);
  rows.bigint(item.id);
  rows.text(item.name);
  rows.text(item.description);
  rows.text(item.category);
  rows.text(item.subCategory);
  rows.textArray(item.options);
  rows.text(item.version);
  rows.text(item.demoLink);
  rows.textArray(item.tags);
  rows.text(item.thumbnailUrl);
  rows.text(item.previewImageUrl);
  rows.text(item.previewVideoUrl);
  rows.text(item.previewAudioUrl);
  rows.textArray(item.screenshots);
  rows.money(item.priceRegular);
  rows.money(item.priceExtended);
  rows.text(item.currency);
  rows.timestamp(item.publishedAt);
  rows.bytes(prepared.contentHash);
  rows.bytes(prepared.extraHash);
  rows.bytes(prepared.wireHash);
  rows.jsonb(extraJson(prepared));
  rows.jsonb(prepared.raw);
  rows.text('live');
  rows.timestamp(stamp.at);
  rows.timestamp(stamp.at);
  rows.bigint(Number(stamp.runId));
  rows.timestamp(stamp.at);
  if (rival !== undefined) rows.boolean(rival);
}

function extraJson(prepared: PreparedItem): Buffer {
  for (const _ in prepared.extra) return Buffer.from(JSON.stringify(prepared.extra), 'utf8');
  return NO_EXTRA;
}
