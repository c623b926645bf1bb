import type { Item } from './item.js';

/** What a change is about, for those who follow only some. */
export const CHANGE_CLASSES = [
  ...(['price', 'release', 'text', 'media'] as const),
  ...(['added', 'missing', 'removed', 'restored'] as const),
] as const;
export type ChangeClass = (typeof CHANGE_CLASSES)[number];

/** A field of an item: its column in the store, and the class of its changes. */
export interface ItemField {
  readonly column: string;
  readonly class: ChangeClass;
}

/** Every canonical field of an item. Fields outside of it are kept, but make no change. */
const FIELDS: Readonly<Record<Exclude<keyof Item, 'id'>, ItemField>> = {
  name: { column: 'name', class: 'text' },
  description: { column: 'description', class: 'text' },
  category: { column: 'category', class: 'text' },
  subCategory: { column: 'sub_category', class: 'text' },
  options: { column: 'options', class: 'text' },
  version: { column: 'version', class: 'release' },
  demoLink: { column: 'demo_link', class: 'text' },
  tags: { column: 'tags', class: 'text' },
  thumbnailUrl: { column: 'thumbnail_url', class: 'media' },
  previewImageUrl: { column: 'preview_image_url', class: 'media' },
  previewVideoUrl: { column: 'preview_video_url', class: 'media' },
  previewAudioUrl: { column: 'preview_audio_url', class: 'media' },
  screenshots: { column: 'screenshots', class: 'media' },
  priceRegular: { column: 'price_regular', class: 'price' },
  priceExtended: { column: 'price_extended', class: 'price' },
  currency: { column: 'currency', class: 'price' },
  publishedAt: { column: 'published_at', class: 'release' },
};

/** The canonical fields, in the order in which an item's changes are told. */
export const ITEM_FIELDS: readonly ItemField[] = Object.values(FIELDS);

/** What the mirror holds of an item; null for one that it does not hold. */
export type ItemState = 'live' | 'missing' | 'removed' | null;

/** The class of a change of state. A missing item that is found again never left: it is not restored. */
export function stateChangeClass(from: ItemState, to: Exclude<ItemState, null>): ChangeClass {
  if (to !== 'live') return to;
  if (from === null) return 'added';
  return from === 'removed' ? 'restored' : 'missing';
}

/** Changes that many items of a run have in common are folded: told in one line. */
export interface ChangeFold {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly changedAt: Date;
  readonly class: ChangeClass;
  readonly field: string;
  /** What all of them changed from and to; null where their values differ. */
  readonly same: {
    readonly old: string | readonly string[] | null;
    readonly new: string | readonly string[] | null;
  } | null;
  /** In how many items, of how many of the seller. */
  readonly items: number;
  readonly of: number;
  /** The place in the feed of the last of these changes: where the fold is told. */
  readonly place: bigint;
}

/** So few changes, or fewer, are told one by one. */
export const FEW_CHANGES = 20;

/** Whether a change in so many items is folded: in more than 20, and in more than half of them all. */
export function isFolded(items: number, of: number): boolean {
  return items > FEW_CHANGES && items * 2 > of;
}

/** Changes of one field, in so many percent of the items or more, are those of the whole catalogue. */
const WIDE_PERCENT = 90;

/** A field that changed in all or nearly all items at once. */
export interface WideChange {
  readonly field: string;
  /** In how many items it changed. */
  readonly items: number;
  /** Of how many that the list named and the mirror held before. */
  readonly of: number;
}

/** `price_regular changed in all 225 items`. */
export function describeWide({ field, items, of }: WideChange): string {
  const all = new Intl.NumberFormat('en').format(of);
  return items >= of
    ? `${field} changed in all ${all} items`
    : `${field} changed in ${new Intl.NumberFormat('en').format(items)} of ${all} items`;
}

/**
 * Fields that changed in all or nearly all items at once: a new currency, a sale, another host of
 * images. A change in a single item is none.
 * @param changed column to number of items in which it changed
 * @param compared items that the list named and the mirror held before
 */
export function wideChanges(changed: ReadonlyMap<string, number>, compared: number): WideChange[] {
  return ITEM_FIELDS.map(({ column }) => {
    return { field: column, items: changed.get(column) ?? 0, of: compared };
  }).filter(({ items }) => items > 1 && items * 100 >= compared * WIDE_PERCENT);
}
