import { hash } from 'node:crypto';
import { escapeLiteral, type PoolClient } from 'pg';
import type { WideChange } from '../domain/changes.js';
import type { Json } from '../domain/item.js';
import type { KnownItems } from '../domain/known-items.js';
import type { PreparedItem } from '../domain/prepare-item.js';
import type { LookupOutcome, RemovalPlan, Removals } from '../domain/removals.js';
import {
  type Applied,
  applyStage,
  createStage,
  loadKnownCatalogue,
  NOTHING_APPLIED,
  openItems,
  type Staged,
  stageItems,
  storedHashes,
  type StoredHashes,
  storedRaw,
} from './catalogue.js';
import type { CopyIn } from './copy.js';
import {
  type DecisionRecord,
  type HeldBack,
  type HeldFates,
  readFates,
  readHeldBack,
  recordDecision,
  saveHeldBack,
} from './decisions.js';
import { createChangeStage, publishAndCommit, stageAdded } from './history.js';
import { ItemRows, type RowStamp } from './item-rows.js';
import { itemsLockSql, type SellerLock } from './lock.js';
import { delistItems, recordLookups, removeItems, takeBackDelisting } from './removals.js';
import { finishRun, markWideFields, type RunCounts, type RunEnd, saveCounts } from './runs.js';

/** Checks of foreign keys wait for a COPY's end: in portions, they are made while the list is read. */
const ROWS_PER_COPY = 10_000;

/**
 * One transaction in which a run writes items. Everything is visible to others at `commit`, or
 * nothing is.
 */
export class ItemSession {
  readonly #lock: SellerLock;
  readonly #stamp: RowStamp;
  #inserting: CopyIn | null = null;
  #rowsOfCopy = 0;
  #staged = false;
  /** New items, each of which makes a change; null while the first list is read. */
  #added: number[] | null = [];
  #changes = false;
  #firstList = false;
  #undecided = false;
  #found: readonly number[] = [];
  #decided = false;
  #over = false;

  private constructor(lock: SellerLock, stamp: RowStamp) {
    this.#lock = lock;
    this.#stamp = stamp;
  }

  /** Begins the transaction in which a run writes items. */
  static async begin(lock: SellerLock, stamp: RowStamp): Promise<ItemSession> {
    const shared = itemsLockSql('pg_advisory_xact_lock_shared', escapeLiteral(stamp.sellerId));
    await lock.client.query(`BEGIN; SELECT ${shared}`);
    return new ItemSession(lock, stamp);
  }

  /** Loads what is known before a list is read. Items of the first list make no changes. */
  async loadKnown(): Promise<KnownItems> {
    const known = await loadKnownCatalogue(await this.#connection(), this.#stamp.sellerId);
    if (!known.loaded) this.#added = null;
    return known.items;
  }

  /** A list that names items was read to its end. */
  listTaken(): void {
    this.#firstList = this.#added === null;
  }

  async hashesOf(ids: readonly number[]): Promise<Map<number, StoredHashes>> {
    return storedHashes(await this.#connection(), this.#stamp.sellerId, ids);
  }

  /** The stored records of some items, as they were received. */
  async rawOf(ids: readonly number[]): Promise<Map<number, Json>> {
    return storedRaw(await this.#connection(), this.#stamp.sellerId, ids);
  }

  /** Empty rows of this run, to be filled for `insertRows`. */
  newRows(): ItemRows {
    return new ItemRows(this.#stamp);
  }

  /** Sends items that are not in the table yet, and empties `rows`. */
  async insertRows(rows: ItemRows): Promise<void> {
    if (rows.count === 0) return;
    this.#inserting ??= openItems(await this.#connection());
    this.#rowsOfCopy += rows.count;
    for (const id of rows.ids) this.#added?.push(id);
    await this.#inserting.write(rows.data());
    rows.clear();
    if (this.#rowsOfCopy >= ROWS_PER_COPY) await this.#connection();
  }

  /** Writes items that are not in the table yet. */
  async insert(items: readonly PreparedItem[]): Promise<void> {
    const rows = this.newRows();
    for (const item of items) rows.add(item);
    await this.insertRows(rows);
  }

  /** Stages records that differ, or may differ, from stored ones. */
  async stage(items: readonly Staged[]): Promise<void> {
    if (items.length === 0) return;
    const client = await this.#connection();
    if (!this.#staged) await createStage(client);
    this.#staged = true;
    await stageItems(client, this.#stamp, items);
  }

  /** Applies what was staged. */
  async apply(): Promise<Applied> {
    if (!this.#staged) return NOTHING_APPLIED;
    return applyStage(await this.#changing(), this.#stamp);
  }

  async quarantine(entries: readonly QuarantineEntry[]): Promise<void> {
    if (entries.length > 0) await saveQuarantine(await this.#connection(), this.#stamp, entries);
  }

  /**
   * Marks items as missing that the list no longer names. Look-ups decide which changes are published.
   * @param unlisted all items that are live or missing and that the list does not name
   * @returns how many of them went missing, and how many are missing now
   */
  async delist(
    unlisted: readonly number[],
  ): Promise<{ readonly delisted: number; readonly missing: number }> {
    const counts = await delistItems(await this.#connection(), this.#stamp, unlisted);
    this.#undecided = counts.delisted > 0;
    return counts;
  }

  /**
   * Takes back that this run marked items as missing, since look-ups have found them.
   * @returns how many of them it had marked
   */
  async takeBack(ids: readonly number[]): Promise<number> {
    const taken = await takeBackDelisting(await this.#connection(), this.#stamp, ids);
    if (taken > 0) this.#found = ids;
    return taken;
  }

  /** Publishes the items that this run marked as missing and that still are. */
  tellUndecided(): void {
    this.#decided = true;
  }

  async lookedUp(lookups: ReadonlyMap<number, LookupOutcome>): Promise<void> {
    return recordLookups(await this.#connection(), this.#stamp, lookups);
  }

  async remove(plan: Removals): Promise<number> {
    if (plan.remove.length + plan.missing.length === 0) return 0;
    return removeItems(await this.#changing(), this.#stamp, plan);
  }

  /** Writes the run's counts so far, in this transaction. */
  async counts(counts: Partial<RunCounts>): Promise<void> {
    return saveCounts(await this.#connection(), this.#stamp.runId, counts);
  }

  /** Stores with the run what it holds back, of so many items; returns it with a few names. */
  async holdBack(plan: RemovalPlan, present: number): Promise<HeldBack | null> {
    const client = await this.#connection();
    await saveHeldBack(client, this.#stamp, plan, present);
    return readHeldBack(client, this.#stamp.runId);
  }

  /** The present state of the items that another run held back. */
  async fatesOf(heldRunId: bigint): Promise<HeldFates> {
    return readFates(await this.#connection(), this.#stamp, heldRunId);
  }

  /** Records what was decided about another run, in this transaction. */
  async decide(heldRunId: bigint, record: DecisionRecord): Promise<void> {
    return recordDecision({ client: await this.#connection() }, heldRunId, record);
  }

  /** Closes the run in this transaction. */
  async finish(end: RunEnd, counts: Partial<RunCounts>): Promise<void> {
    return finishRun(await this.#connection(), this.#stamp.runId, end, counts);
  }

  /** Marks the run as one that changed these fields in the whole catalogue. */
  async markWideFields(marks: readonly WideChange[]): Promise<void> {
    if (marks.length === 0) return;
    await markWideFields(await this.#connection(), this.#stamp.runId, marks);
  }

  async commit(): Promise<void> {
    const added = this.#added ?? [];
    if (added.length > 0) await stageAdded(await this.#changing(), added);
    const client = await this.#connection();
    await publishAndCommit(client, this.#stamp, {
      changes: this.#changes,
      firstList: this.#firstList,
      undecided: this.#undecided,
      found: this.#found,
      decided: this.#decided,
    });
    this.#over = true;
  }

  /** Undoes everything; safe after any failure, a lost connection included. */
  async rollback(): Promise<void> {
    this.#over = true;
    this.#inserting?.abandon();
    this.#inserting = null;
    await this.#lock.client.query('ROLLBACK').catch(() => undefined);
  }

  /** The connection, with the table in which changes wait for the commit. */
  async #changing(): Promise<PoolClient> {
    const client = await this.#connection();
    if (!this.#changes) await createChangeStage(client);
    this.#changes = true;
    return client;
  }

  /** The connection, free for a statement: when the COPY under way on it is done. */
  async #connection(): Promise<PoolClient> {
    // A step that was under way when another one failed must not go on outside of the transaction.
    if (this.#over) throw new Error('the transaction is over');
    const inserting = this.#inserting;
    this.#inserting = null;
    this.#rowsOfCopy = 0;
    await inserting?.end();
    return this.#lock.client;
  }
}

/** A record that could not be decoded. */
export interface QuarantineEntry {
  readonly itemId: number | null;
  readonly reason: string;
  readonly bytes: Uint8Array;
}

const MAX_RAW_BYTES = 1 << 20;

/** Keeps records that could not be decoded; a record that comes again only renews its dates. */
async function saveQuarantine(
  client: PoolClient,
  stamp: RowStamp,
  entries: readonly QuarantineEntry[],
): Promise<void> {
  if (entries.length === 0) return;
  const distinct = new Map(
    entries.map((entry) => [hash('sha256', entry.bytes, 'hex'), entry] as const),
  );
  const rows = [...distinct.values()];
  await client.query(
    `INSERT INTO mirror.quarantine
       (seller_id, item_id, reason, raw, raw_hash, first_run_id, last_run_id, first_seen_at, last_seen_at)
     SELECT $1, item_id, reason, raw, decode(raw_hash, 'hex'), $2, $2, $3, $3
       FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[])
         AS entry (item_id, reason, raw, raw_hash)
     ON CONFLICT (seller_id, raw_hash) DO UPDATE
       SET last_run_id = excluded.last_run_id, last_seen_at = excluded.last_seen_at,
           reason = excluded.reason`,
    [
      stamp.sellerId,
      stamp.runId,
      stamp.at,
      rows.map((row) => row.itemId),
      rows.map((row) => storable(row.reason)),
      rows.map((row) => rawText(row.bytes)),
      [...distinct.keys()],
    ],
  );
}

function rawText(bytes: Uint8Array): string {
  return storable(Buffer.from(bytes.subarray(0, MAX_RAW_BYTES)).toString('utf8'));
}

function storable(text: string): string {
  return text.replaceAll('\0', '\uFFFD');
}
