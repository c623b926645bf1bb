import { count } from '../domain/text.js';
import type { Db } from '../db/db.js';
import type { FieldValue } from '../domain/item.js';
import type { FilterValues, Listing } from '../listing/listing.js';
import { changeText, fieldLabel, percentChange, FEW_CHANGES, type ChangeFold } from './changes.js';
import {
  CHANGE_FILTERS,
  countChanges,
  readChanges,
  readRunFields,
  type ItemChange,
  type RunField,
} from './item-changes-store.js';

/** A change as people see it: of an item, or one for many items of a run that share it. */
export interface ShownChange extends Omit<ItemChange, 'itemId'> {
  /** Null if it stands for many. */
  readonly itemId: bigint | null;
  readonly fold: ChangeFold | null;
}

/** Longer old and new texts are shortened to this many characters. */
const TEXT_WIDTH = 100;

/** Changes of all items, as `changes` lists them and the page shows them. */
export const CHANGES: Listing<ShownChange, Db> = {
  name: 'changes',
  about: 'What changed in your items, newest first.',
  none: 'No changes yet: the first list starts the history, and later runs find what changed.',
  columns: [
    { name: 'seq', only: 'files', type: 'number', value: ({ seq }) => seq },
    { name: 'seller_id', only: 'files', type: 'word', value: ({ sellerId }) => sellerId },
    { name: 'run_id', only: 'files', type: 'number', value: ({ runId }) => runId },
    { name: 'changed_at', only: 'files', type: 'moment', value: ({ changedAt }) => changedAt },
    { name: 'item_id', only: 'files', type: 'number', value: ({ itemId }) => itemId },
    { name: 'item_name', only: 'files', type: 'text', value: ({ itemName }) => itemName },
    { name: 'class', only: 'files', type: 'word', value: (change) => change.class },
    { name: 'field', only: 'files', type: 'word', value: ({ field }) => field },
    {
      name: 'old_value',
      only: 'files',
      type: 'text',
      value: (change) => valueText(change.old),
      isNumber: (change) => change.class === 'price',
    },
    {
      name: 'new_value',
      only: 'files',
      type: 'text',
      value: (change) => valueText(change.new),
      isNumber: (change) => change.class === 'price',
    },
    { name: 'currency', only: 'files', type: 'word', value: currencyOf },
    { name: 'percent', only: 'files', type: 'percent', value: percentOf },
    { name: 'at', only: 'tables', type: 'moment', value: ({ changedAt }) => changedAt },
    { name: 'seller', only: 'tables', type: 'seller', value: ({ sellerId }) => sellerId },
    { name: 'item', only: 'tables', type: 'number', value: ({ itemId }) => itemId },
    { name: 'name', only: 'tables', type: 'text', value: ({ itemName }) => itemName, link: linkOf },
    { name: 'what', only: 'tables', type: 'word', value: ({ field }) => fieldLabel(field) },
    {
      name: 'change',
      only: 'tables',
      type: 'long text',
      value: (change) => (change.fold?.same === null ? 'changed' : changeText(change, TEXT_WIDTH)),
    },
  ],
  filters: [
    ...CHANGE_FILTERS,
    {
      name: 'all',
      about: 'single items: a line for each, also for the same change of many items',
      type: 'flag',
    },
  ],
  next: ({ seq }) => seq,
  count: countChanges,
  json(row) {
    const { fold: _, currencies: __, old, new: now, ...change } = row;
    const money = { currency: currencyOf(row), percent: percentOf(row) };
    return { ...change, oldValue: old, newValue: now, ...money };
  },
  async read(db, filters, { from, limit, face }) {
    const isEach = face === 'files' || filters['all'] === 'yes';
    const page = { ...(from === null ? {} : { before: from }), limit, newest: true };
    return (await readShownChanges(db, filters, page, !isEach)).toReversed();
  },
};

/** The item; for many items, the list of each of their changes. */
function linkOf({ sellerId, itemId, runId, class: kind }: ShownChange): string {
  return itemId === null
    ? `/changes?run=${runId}&class=${kind}&all=yes`
    : `/items/${encodeURIComponent(sellerId)}/${itemId}`;
}

function valueText(value: FieldValue): string | null {
  return value === null || typeof value === 'string' ? value : JSON.stringify(value);
}

/** The currency of a price after the change; null for other fields. */
function currencyOf({ field, currencies }: Pick<ItemChange, 'field' | 'currencies'>) {
  return field === 'currency' ? null : (currencies?.new ?? null);
}

/** How much a price changed, such as `-20.00`; null for other fields, and if its currency changed. */
function percentOf(change: Omit<ItemChange, 'itemId'>): string | null {
  const { field, currencies, old, new: now } = change;
  if (field === 'currency' || currencies === null || currencies.old !== currencies.new) return null;
  if (typeof old !== 'string' || typeof now !== 'string') return null;
  return percentChange(old, now)?.exact ?? null;
}

/**
 * Reads changes as people see them, in the order of their numbers. One that stands for many counts as one, so that
 * it does not fill the page.
 * @param isFolded false: each change
 */
export async function readShownChanges(
  db: Db,
  filters: FilterValues,
  page: Omit<Parameters<typeof readChanges>[2], 'without'>,
  isFolded: boolean,
): Promise<ShownChange[]> {
  const folds: ChangeFold[] = [];
  const searched = new Set<bigint>();
  let found = await readChanges(db, filters, page);
  // Folding makes room for more changes, and those may need folding too.
  while (isFolded) {
    const others = found.filter(({ runId }) => !searched.has(runId));
    for (const { runId } of others) searched.add(runId);
    const fields = await readRunFields(db, others, filters, FEW_CHANGES);
    const newFolds = fields.flatMap((field) => foldOf(field) ?? []);
    if (newFolds.length === 0) break;
    for (const fold of newFolds) folds.push(fold);
    found = await readChanges(db, filters, { ...page, without: folds });
  }
  const { after = 0n, before, newest = false, limit } = page;
  const onPage = folds.filter(
    ({ place }) => place > after && (before === undefined || place < before),
  );
  const rows = [
    ...found.map((change): ShownChange => ({ ...change, fold: null })),
    ...onPage.map(lineOf),
  ].sort((a, b) => Number(a.seq - b.seq));
  return newest ? rows.slice(-limit) : rows.slice(0, limit);
}

function lineOf(fold: ChangeFold): ShownChange {
  const itemName = `${count(fold.items)} of ${count(fold.of)} items`;
  const values = fold.same ?? { old: null, new: null };
  return { ...fold, ...values, fold, seq: fold.place, itemId: null, itemName, currencies: null };
}

function foldOf({ same, listed, items, place, ...field }: RunField): ChangeFold | null {
  // The list no longer contains the items that are gone.
  const isGone = field.field === 'state' && same.new !== 'live';
  const all = (items: number): number => Math.max(isGone ? listed + items : listed, items);
  const isMost = (items: number): boolean => items * 2 > all(items);
  // Different changes of one field are one line only if most items have one: the whole catalogue changed.
  if (isMost(items) && !isMost(same.items)) {
    return { ...field, same: null, items, of: all(items), place };
  }
  if (same.items <= FEW_CHANGES) return null;
  const { items: alike, place: last, ...values } = same;
  return { ...field, same: values, items: alike, of: all(alike), place: last };
}
