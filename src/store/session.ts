import type { KnownItems } from '../domain/known-items.js';
import type { PreparedItem } from '../domain/prepare-item.js';
import type { RemovalPlan, LookupOutcome } from '../domain/removals.js';
import {
  applyStage,
  createStage,
  insertItems,
  loadKnownItems,
  stageItems,
  storedHashes,
  type Applied,
  type Staged,
  type StoredHashes,
} from './catalogue.js';
import type { RowStamp } from './item-rows.js';
import type { SellerLock } from './lock.js';
import { saveQuarantine, type QuarantineEntry } from './quarantine.js';
import { recordLookups, removeItems } from './removals.js';
import { saveCounts, type RunCounts } from './runs.js';

/**
 * One transaction in which a run writes items. Everything is visible to others at `commit`, or
 * nothing is.
 */
export class ItemSession {
  readonly #lock: SellerLock;
  readonly #stamp: RowStamp;
  #staged = false;

  private constructor(lock: SellerLock, stamp: RowStamp) {
    this.#lock = lock;
    this.#stamp = stamp;
  }

  static async begin(lock: SellerLock, stamp: RowStamp): Promise<ItemSession> {
    await lock.client.query('BEGIN');
    return new ItemSession(lock, stamp);
  }

  loadKnown(): Promise<KnownItems> {
    return loadKnownItems(this.#lock.client, this.#stamp.sellerId);
  }

  hashesOf(ids: readonly number[]): Promise<Map<number, StoredHashes>> {
    return storedHashes(this.#lock.client, this.#stamp.sellerId, ids);
  }

  /** Writes items that are not in the table yet. */
  async insert(items: readonly PreparedItem[]): Promise<void> {
    if (items.length > 0) await insertItems(this.#lock.client, this.#stamp, items);
  }

  /** Puts records aside that differ, or may differ, from stored ones. */
  async stage(items: readonly Staged[]): Promise<void> {
    if (items.length === 0) return;
    if (!this.#staged) await createStage(this.#lock.client);
    this.#staged = true;
    await stageItems(this.#lock.client, this.#stamp, items);
  }

  /** Applies what was staged. */
  async apply(): Promise<Applied> {
    if (!this.#staged) return { changed: 0, extraChanged: 0, restored: 0 };
    return applyStage(this.#lock.client, this.#stamp);
  }

  quarantine(entries: readonly QuarantineEntry[]): Promise<void> {
    return saveQuarantine(this.#lock.client, this.#stamp, entries);
  }

  lookedUp(lookups: ReadonlyMap<number, LookupOutcome>): Promise<void> {
    return recordLookups(this.#lock.client, this.#stamp, lookups);
  }

  remove(plan: RemovalPlan): Promise<{ removed: number; missing: number }> {
    return removeItems(this.#lock.client, this.#stamp, plan);
  }

  /** Writes the run's counts so far, in this transaction. */
  counts(counts: Partial<RunCounts>): Promise<void> {
    return saveCounts(this.#lock.client, this.#stamp.runId, counts);
  }

  async commit(): Promise<void> {
    await this.#lock.client.query('COMMIT');
  }

  /** Undoes everything; safe after any failure, a lost connection included. */
  async rollback(): Promise<void> {
    await this.#lock.client.query('ROLLBACK').catch(() => undefined);
  }
}
