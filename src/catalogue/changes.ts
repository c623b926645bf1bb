import { FIELD_CLASSES, ITEM_FIELDS, type FieldValue } from '../domain/item.js';

/** People and feeds filter changes by these classes. */
export const CHANGE_CLASSES = [
  ...FIELD_CLASSES,
  'added',
  'missing',
  'removed',
  'restored',
] as const;
export type ChangeClass = (typeof CHANGE_CLASSES)[number];

/** One line for a field that changed in many items of a run. */
export interface ChangeFold {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly changedAt: Date;
  readonly class: ChangeClass;
  readonly field: string;
  /** The old and new value, if they are the same for all items; otherwise null. */
  readonly same: {
    readonly old: FieldValue;
    readonly new: FieldValue;
  } | null;
  /** Changed items. */
  readonly items: number;
  /** All items of the seller. */
  readonly of: number;
  /** Number of the last of these changes: the line is shown there. */
  readonly place: bigint;
}

/** Up to this many changes are shown one by one. */
export const FEW_CHANGES = 20;

/** If a field changed in this percentage of items, the whole catalogue changed. */
const WIDE_PERCENT = 90;

/** A field that changed in all or nearly all items at once. */
export interface WideChange {
  readonly field: string;
  readonly items: number;
  /** Listed items that the mirror already had. */
  readonly of: number;
}

/** `price_regular changed in all 225 items`. */
export function describeWide({ field, items, of }: WideChange): string {
  const all = new Intl.NumberFormat('en').format(of);
  return items >= of
    ? `${field} changed in all ${all} items`
    : `${field} changed in ${new Intl.NumberFormat('en').format(items)} of ${all} items`;
}

/** Finds changes such as a new currency, a sale or a new image host. @param compared listed items known before */
export function wideChanges(changed: ReadonlyMap<string, number>, compared: number): WideChange[] {
  return ITEM_FIELDS.map(({ column }) => {
    return { field: column, items: changed.get(column) ?? 0, of: compared };
  }).filter(({ items }) => items > 1 && items * 100 >= compared * WIDE_PERCENT);
}
