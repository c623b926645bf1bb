import type { Item } from './item.js';

/** Kinds of changes, by which people and feeds filter. */
export const CHANGE_CLASSES = [
  ...(['price', 'release', 'text', 'media'] as const),
  ...(['added', 'missing', 'removed', 'restored'] as const),
] as const;
export type ChangeClass = (typeof CHANGE_CLASSES)[number];

/** A field of an item: its column in the store, and the class of its changes. */
interface ItemField {
  readonly column: string;
  readonly class: ChangeClass;
}

/** Every canonical field of an item. Other fields are stored, but never count as a change. */
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

/** The canonical fields, in the order in which an item's changes are listed. */
export const ITEM_FIELDS: readonly ItemField[] = Object.values(FIELDS);

/** An item's state in the mirror; null when it is not in it. */
export type ItemState = 'live' | 'missing' | 'removed' | null;

/** The class of a change of state. Only removed items are restored; a missing one that is found stays `missing`. */
export function stateChangeClass(from: ItemState, to: Exclude<ItemState, null>): ChangeClass {
  if (to !== 'live') return to;
  if (from === null) return 'added';
  return from === 'removed' ? 'restored' : 'missing';
}

/** Changes of one field in many items of a run, shown as one line. */
export interface ChangeFold {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly changedAt: Date;
  readonly class: ChangeClass;
  readonly field: string;
  /** Old and new value of all of them; null when they differ. */
  readonly same: {
    readonly old: string | readonly string[] | null;
    readonly new: string | readonly string[] | null;
  } | null;
  /** Number of changed items, and of all items of the seller. */
  readonly items: number;
  readonly of: number;
  /** Place in the feed of the last of these changes, where the line is shown. */
  readonly place: bigint;
}

/** Up to so many changes are shown one by one. */
export const FEW_CHANGES = 20;

/** True when a change in `items` items is folded: in more than 20, and in more than half of all. */
export function isFolded(items: number, of: number): boolean {
  return items > FEW_CHANGES && items * 2 > of;
}

/** A field that changed in this percentage of the items changed in the whole catalogue. */
const WIDE_PERCENT = 90;

/** A field that changed in all or nearly all items at once. */
export interface WideChange {
  readonly field: string;
  /** Number of items in which it changed. */
  readonly items: number;
  /** Number of listed items that the mirror had before. */
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
 * images. Ignores fields that changed in a single item.
 * @param changed column to number of items in which it changed
 * @param compared number of listed items that the mirror had before
 */
export function wideChanges(changed: ReadonlyMap<string, number>, compared: number): WideChange[] {
  return ITEM_FIELDS.map(({ column }) => {
    return { field: column, items: changed.get(column) ?? 0, of: compared };
  }).filter(({ items }) => items > 1 && items * 100 >= compared * WIDE_PERCENT);
}

/** The parts of a change by which changes are grouped. */
export interface PlacedChange {
  readonly sellerId: string;
  readonly runId: bigint;
  readonly changedAt: Date;
  readonly itemId: bigint;
}

/** Changes of one item in a run, in their order. */
export interface ItemGroup<C extends PlacedChange> {
  readonly itemId: bigint;
  readonly changes: readonly C[];
}

/** Changes of one run, by item. */
interface RunGroup<C extends PlacedChange> {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly changedAt: Date;
  readonly items: readonly ItemGroup<C>[];
}

/**
 * Groups changes by run, in their order, and within a run by item, sorted by id. A run whose changes
 * continue after those of another one makes a second group.
 */
export function groupChanges<C extends PlacedChange>(changes: readonly C[]): RunGroup<C>[] {
  const groups: { readonly first: C; readonly items: Map<bigint, C[]> }[] = [];
  for (const change of changes) {
    let group = groups.at(-1);
    if (group === undefined || !isSameRun(group.first, change)) {
      group = { first: change, items: new Map() };
      groups.push(group);
    }
    const { items } = group;
    const known = items.get(change.itemId);
    if (known === undefined) items.set(change.itemId, [change]);
    else known.push(change);
  }
  return groups.map(({ first: { runId, sellerId, changedAt }, items }) => ({
    ...{ runId, sellerId, changedAt },
    items: [...items]
      .map(([itemId, ofItem]) => ({ itemId, changes: ofItem }))
      .sort((a, b) => Number(a.itemId - b.itemId)),
  }));
}

/** True when the same run found both changes. */
export function isSameRun(a: PlacedChange, b: PlacedChange): boolean {
  return a.runId === b.runId && a.sellerId === b.sellerId;
}
