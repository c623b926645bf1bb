import type { PreparedItem } from '../domain/prepare-item.js';
import { BinaryRows } from './copy.js';

/** The columns that a run puts on every row it writes. */
export interface RowStamp {
  readonly sellerId: string;
  readonly runId: bigint;
  /** The run's moment, ISO 8601 in UTC. */
  readonly at: string;
}

type WriteField = (row: ItemRows, prepared: PreparedItem, stamp: RowStamp) => void;

/** The columns of `mirror.items` that hold what the marketplace said, and the hashes over it. */
const VALUES: Readonly<Record<string, WriteField>> = {
  name: (row, { item }) => row.text(item.name),
  description: (row, { item }) => row.text(item.description),
  category: (row, { item }) => row.text(item.category),
  sub_category: (row, { item }) => row.text(item.subCategory),
  options: (row, { item }) => row.textArray(item.options),
  version: (row, { item }) => row.text(item.version),
  demo_link: (row, { item }) => row.text(item.demoLink),
  tags: (row, { item }) => row.textArray(item.tags),
  thumbnail_url: (row, { item }) => row.text(item.thumbnailUrl),
  preview_image_url: (row, { item }) => row.text(item.previewImageUrl),
  preview_video_url: (row, { item }) => row.text(item.previewVideoUrl),
  preview_audio_url: (row, { item }) => row.text(item.previewAudioUrl),
  screenshots: (row, { item }) => row.textArray(item.screenshots),
  price_regular: (row, { item }) => row.money(item.priceRegular),
  price_extended: (row, { item }) => row.money(item.priceExtended),
  currency: (row, { item }) => row.text(item.currency),
  published_at: (row, { item }) => row.timestamp(item.publishedAt),
  content_hash: (row, { contentHash }) => row.bytes(contentHash),
  extra_hash: (row, { extraHash }) => row.bytes(extraHash),
  wire_hash: (row, { wireHash }) => row.bytes(wireHash),
  extra: (row, { extra }) => row.jsonb(Buffer.from(JSON.stringify(extra))),
  raw: (row, { raw }) => row.jsonb(raw),
};

const COLUMNS: Readonly<Record<string, WriteField>> = {
  seller_id: (row, _, { sellerId }) => row.text(sellerId),
  item_id: (row, { item }) => row.bigint(item.id),
  ...VALUES,
  state: (row) => row.text('live'),
  first_seen_at: (row, _, { at }) => row.timestamp(at),
  changed_at: (row, _, { at }) => row.timestamp(at),
  synced_run_id: (row, _, { runId }) => row.bigint(Number(runId)),
  valid_from: (row, _, { at }) => row.timestamp(at),
};

const WRITE_FIELDS = Object.values(COLUMNS);
/** Columns of `mirror.items` in the order in which rows have them. */
export const ITEM_COLUMNS = Object.keys(COLUMNS);
export const ITEM_VALUE_COLUMNS = Object.keys(VALUES);

/**
 * Items to be copied into the table, encoded as they are added: the bytes of a catalogue take far less
 * time and memory than its objects.
 */
export class ItemRows extends BinaryRows {
  readonly #stamp: RowStamp;
  /** Of the items added since `clear`. */
  ids: number[] = [];

  constructor(stamp: RowStamp) {
    super();
    this.#stamp = stamp;
  }

  /** Adds a live row of `ITEM_COLUMNS`, and `rival` when it is given. */
  add(prepared: PreparedItem, rival?: boolean): void {
    this.startRow(WRITE_FIELDS.length + (rival === undefined ? 0 : 1));
    for (const write of WRITE_FIELDS) write(this, prepared, this.#stamp);
    if (rival !== undefined) this.boolean(rival);
    this.ids.push(prepared.item.id);
  }

  override clear(): void {
    super.clear();
    this.ids = [];
  }
}
