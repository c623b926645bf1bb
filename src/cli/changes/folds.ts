import { FEW_CHANGES, isFolded, type ChangeFold } from '../../domain/changes.js';
import type { ItemChange, RunField } from '../../store/history-read.js';
import type { Store } from '../../store/store.js';

/** Changes as a person reads them: those that most items of a run have in common are told once. */
export interface FoldedChanges {
  readonly changes: readonly ItemChange[];
  readonly folds: readonly ChangeFold[];
}

/** Finds the changes that most items of a run share, run by run. */
export class Folds {
  readonly #store: Pick<Store, 'runs'>;
  readonly #known = new Map<bigint, readonly ChangeFold[]>();

  constructor(store: Pick<Store, 'runs'>) {
    this.#store = store;
  }

  /** The folds of the runs of these changes, those not told of before. */
  async of(changes: readonly ItemChange[]): Promise<readonly ChangeFold[]> {
    const news = changes.filter(({ runId }) => !this.#known.has(runId));
    for (const { runId } of news) this.#known.set(runId, []);
    const fields = await this.#store.runs.fields(news, FEW_CHANGES);
    const found = fields.flatMap((field) => foldOf(field) ?? []);
    for (const fold of found) {
      this.#known.set(fold.runId, [...(this.#known.get(fold.runId) ?? []), fold]);
    }
    return found;
  }

  /** Folds changes that follow each other; a fold is told with the last of its changes. */
  async fold(changes: readonly ItemChange[]): Promise<FoldedChanges> {
    await this.of(changes);
    const folds: ChangeFold[] = [];
    const rest = changes.filter((change) => {
      const fold = this.#known.get(change.runId)?.find((one) => isPart(change, one));
      if (fold?.place === change.seq) folds.push(fold);
      return fold === undefined;
    });
    return { changes: rest, folds };
  }
}

function foldOf(field: RunField): ChangeFold | null {
  const { runId, sellerId, changedAt, class: kind, listed, same } = field;
  const common = { runId, sellerId, changedAt, class: kind, field: field.field };
  // The list no longer names items that are gone.
  const isGone = field.field === 'state' && same.new !== 'live';
  const all = (items: number): number => Math.max(isGone ? listed + items : listed, items);
  if (isFolded(same.items, all(same.items))) {
    const values = { old: same.old, new: same.new };
    const { items, place } = same;
    return { ...common, same: values, items, of: all(items), place };
  }
  const { items, place } = field;
  return isFolded(items, all(items))
    ? { ...common, same: null, items, of: all(items), place }
    : null;
}

function isPart(change: ItemChange, { class: kind, field, same }: ChangeFold): boolean {
  if (change.class !== kind || change.field !== field) return false;
  return same === null || (isSame(change.old, same.old) && isSame(change.new, same.new));
}

function isSame(a: ItemChange['old'], b: ItemChange['old']): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
