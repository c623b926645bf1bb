import { count } from '../domain/text.js';
import type { Db } from '../db/db.js';
import type { FieldValue } from '../domain/item.js';
import type { FilterValues, Listing } from '../listing/listing.js';
import {
  changeText,
  fieldLabel,
  percentChange,
  CHANGE_CLASSES,
  FEW_CHANGES,
  type ChangeClass,
  type ChangeFold,
} from './changes.js';
import {
  countChanges,
  readChanges,
  readRunFields,
  type ChangeFilter,
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
    { name: 'class', about: 'changes of this class', type: 'choice', choices: CHANGE_CLASSES },
    { name: 'item', about: 'changes of this item', type: 'number' },
    { name: 'run', about: 'changes that this run found', type: 'number' },
    { name: 'since', about: 'changes since this day', type: 'since' },
    {
      name: 'all',
      about: 'single items: a line for each, also for the same change of many items',
      type: 'flag',
    },
  ],
  next: ({ seq }) => seq,
  count: async (db, filters) => {
    const counts = await countChanges(db, filterOf(filters));
    return counts.reduce((sum, { changes }) => sum + changes, 0);
  },
  async read(db, filters, { from, limit, face }) {
    const before = from === null ? {} : { before: from };
    const query = { ...filterOf(filters), ...before, limit, newest: true };
    const isEach = face === 'files' || filters['all'] === 'yes' || filters['item'] !== undefined;
    const changes = await readShownChanges(db, query, isEach ? null : new FoldFinder(db));
    return changes.toReversed();
  },
};

function filterOf({ class: kind, item, run, since, seller }: FilterValues): ChangeFilter {
  return {
    ...(kind === undefined ? {} : { classes: [kind as ChangeClass] }),
    ...(item === undefined ? {} : { itemId: Number(item) }),
    ...(run === undefined ? {} : { runId: BigInt(run) }),
    ...(since === undefined ? {} : { from: new Date(since) }),
    ...(seller === undefined ? {} : { sellerIds: [seller] }),
  };
}

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
export function currencyOf({ field, currencies }: Pick<ItemChange, 'field' | 'currencies'>) {
  return field === 'currency' ? null : (currencies?.new ?? null);
}

/** How much a price changed, such as `-20.00`; null for other fields, and if its currency changed. */
export function percentOf(change: Omit<ItemChange, 'itemId'>): string | null {
  const { field, currencies, old, new: now } = change;
  if (field === 'currency' || currencies === null || currencies.old !== currencies.new) return null;
  if (typeof old !== 'string' || typeof now !== 'string') return null;
  return percentChange(old, now)?.exact ?? null;
}

/**
 * Reads changes as people see them, in the order of their numbers. One that stands for many counts as one, so that
 * it does not fill the page.
 * @param finder null: each change
 */
export async function readShownChanges(
  db: Db,
  filter: ChangeFilter & { readonly limit: number; readonly newest?: boolean },
  finder: FoldFinder | null,
): Promise<ShownChange[]> {
  let without: readonly ChangeFold[] = [];
  let found: readonly ItemChange[] = [];
  // Folding makes room for more changes, and those may need folding too.
  for (let isDone = false; !isDone;) {
    found = await readChanges(db, { ...filter, without });
    const newFolds = (await finder?.find(found)) ?? [];
    without = [...without, ...newFolds];
    isDone = newFolds.length === 0;
  }
  const { after = 0n, before, classes, newest = false, limit } = filter;
  const folds = without.filter(
    ({ place, class: kind }) =>
      place > after &&
      (before === undefined || place < before) &&
      classes?.includes(kind) !== false,
  );
  const rows = inOrder(found, folds);
  return newest ? rows.slice(-limit) : rows.slice(0, limit);
}

function inOrder(changes: readonly ItemChange[], folds: readonly ChangeFold[]): ShownChange[] {
  const rows = [
    ...changes.map((change): ShownChange => ({ ...change, fold: null })),
    ...folds.map((fold): ShownChange => {
      const itemName = `${count(fold.items)} of ${count(fold.of)} items`;
      const values = fold.same ?? { old: null, new: null };
      return {
        ...fold,
        ...values,
        fold,
        seq: fold.place,
        itemId: null,
        itemName,
        currencies: null,
      };
    }),
  ];
  return rows.sort((a, b) => Number(a.seq - b.seq));
}

/** Finds the changes that many items of a run share, and remembers them. */
export class FoldFinder {
  readonly #db: Db;
  readonly #known = new Map<bigint, readonly ChangeFold[]>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** Returns the folds of the runs of these changes, without those returned before. */
  async find(changes: readonly ItemChange[]): Promise<readonly ChangeFold[]> {
    const unknown = changes.filter(({ runId }) => !this.#known.has(runId));
    for (const { runId } of unknown) this.#known.set(runId, []);
    const fields = await readRunFields(this.#db, unknown, FEW_CHANGES);
    const found = fields.flatMap((field) => foldOf(field) ?? []);
    for (const fold of found) {
      this.#known.set(fold.runId, [...(this.#known.get(fold.runId) ?? []), fold]);
    }
    return found;
  }

  /** Folds consecutive changes. A fold replaces the last of its changes. */
  async fold(changes: readonly ItemChange[]): Promise<ShownChange[]> {
    await this.find(changes);
    const folds: ChangeFold[] = [];
    const rest = changes.filter((change) => {
      const fold = this.#known.get(change.runId)?.find((one) => isPart(change, one));
      if (fold?.place === change.seq) folds.push(fold);
      return fold === undefined;
    });
    return inOrder(rest, folds);
  }
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

function isPart(change: ItemChange, { class: kind, field, same }: ChangeFold): boolean {
  if (change.class !== kind || change.field !== field) return false;
  return (
    same === null ||
    JSON.stringify([change.old, change.new]) === JSON.stringify([same.old, same.new])
  );
}
