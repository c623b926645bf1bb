import { hash } from 'node:crypto';
import { escapeLiteral, type PoolClient } from 'pg';
import type { WideChange } from '../domain/changes.js';
import type { ItemState, Json } from '../domain/item.js';
import type { KnownItems } from '../domain/known-items.js';
import type { PreparedItem } from '../domain/prepare-item.js';
import type { LookupOutcome, RemovalPlan, Removals } from '../domain/removals.js';
import { type Applied, applyStage, loadKnownItems, NOTHING_APPLIED } from './apply-items.js';
import { CopyIn } from './copy.js';
import {
  type DecisionRecord,
  type HeldItems,
  type HeldItemStates,
  readHeldItemStates,
  readHeldItems,
  recordDecision,
  saveHeldItems,
} from './decisions.js';
import {
  CHANGE_COLUMNS,
  NEXT_CHANGE_NUMBER,
  LOCK_CHANGE_NUMBERS,
  clearUndecidedSql,
} from './history.js';
import { ITEM_COLUMNS, ItemRows, type RowStamp } from './item-rows.js';
import { itemsLockSql, type SellerLock } from './locks.js';
import { delistItems, recordLookups, removeItems, undoDelisting } from './removals.js';
import { finishRun, markWideFields, type RunCounts, type RunEnd, saveCounts } from './runs.js';

/**
 * Foreign keys are checked when a COPY ends. Small COPYs spread the checks over the time in which the list
 * is read. With 10,000 rows, the records that arrive during a check take 30 MB more.
 */
const ROWS_PER_COPY = 2_000;

/** Longer records are cut in quarantine. */
const MAX_RAW_BYTES = 1 << 20;

/** A staged record. A rival competes with the stored row, because the list has the record of that row too. */
export interface Staged {
  readonly prepared: PreparedItem;
  readonly rival: boolean;
}

/** A record that could not be decoded. */
export interface QuarantineEntry {
  readonly itemId: number | null;
  readonly reason: string;
  readonly bytes: Uint8Array;
}

/** One transaction in which a run writes items. */
export class ItemSession {
  readonly #lock: SellerLock;
  readonly #stamp: RowStamp;
  readonly #seller: string;
  #inserting: CopyIn | null = null;
  #rowsOfCopy = 0;
  /** Encodes the records of `stage`, reusing its buffer; null until first used. */
  #staging: ItemRows | null = null;
  #hasStage = false;
  /** Number of records staged since the last `apply`. */
  #staged = 0;
  /** Whether the temporary table of changes exists. */
  #hasChanges = false;
  /** Number of items by state before the run; null unless they were loaded. */
  #countsBefore: Readonly<Record<ItemState, number>> | null = null;
  /** Number of inserted items, which are all live. */
  #inserted = 0;
  /** Whether the state of an existing item changed. */
  #statesChanged = false;
  /** New items, which are published as changes; null for the first list. */
  #added: number[] | null = [];
  /** Statements that take change numbers; sent with the COMMIT. */
  readonly #publications: string[] = [];
  #over = false;

  private constructor(lock: SellerLock, stamp: RowStamp) {
    this.#lock = lock;
    this.#stamp = stamp;
    this.#seller = escapeLiteral(stamp.sellerId);
  }

  static async begin(lock: SellerLock, stamp: RowStamp): Promise<ItemSession> {
    const session = new ItemSession(lock, stamp);
    const shared = itemsLockSql('pg_advisory_xact_lock_shared', session.#seller);
    await lock.client.query(`BEGIN; SELECT ${shared}`);
    return session;
  }

  /** Loads the stored items before a list is read. Items of the first list are not published as changes. */
  async loadKnown(): Promise<KnownItems> {
    const known = await loadKnownItems(await this.#connection(), this.#stamp.sellerId);
    this.#countsBefore = known.items.stateCounts();
    if (!known.loaded) this.#added = null;
    return known.items;
  }

  /** Call this after reading a whole list that was not empty. */
  markListLoaded(): void {
    if (this.#added === null) this.#publishPosition('loaded');
  }

  /** Stored items as received, by id. */
  async rawRecords(ids: readonly number[]): Promise<Map<number, Json>> {
    const rows = await this.#query<{ readonly id: number; readonly raw: Json }>(
      `SELECT item_id::float8 AS id, raw FROM mirror.items
        WHERE seller_id = $1 AND item_id = ANY($2::bigint[])`,
      [this.#stamp.sellerId, ids],
    );
    return new Map(rows.map(({ id, raw }) => [id, raw]));
  }

  /** Returns an empty buffer of rows for `insertRows`. */
  newRows(): ItemRows {
    return new ItemRows(this.#stamp);
  }

  /** Inserts new items, and empties `rows`. */
  async insertRows(rows: ItemRows): Promise<void> {
    if (rows.rows === 0) return;
    this.#inserting ??= new CopyIn(
      await this.#connection(),
      `mirror.items (${ITEM_COLUMNS.join(', ')})`,
    );
    this.#rowsOfCopy += rows.rows;
    this.#inserted += rows.rows;
    for (const id of rows.ids) this.#added?.push(id);
    await this.#inserting.write(rows.data());
    rows.clear();
    if (this.#rowsOfCopy >= ROWS_PER_COPY) await this.#connection();
  }

  async insert(items: readonly PreparedItem[]): Promise<void> {
    const rows = this.newRows();
    for (const item of items) rows.add(item);
    await this.insertRows(rows);
  }

  /** Stages records that may differ from stored items; see `apply`. */
  async stage(items: readonly Staged[]): Promise<void> {
    const rows = (this.#staging ??= this.newRows());
    rows.clear();
    for (const { prepared, rival } of items) rows.add(prepared, rival);
    await this.stageRows(rows);
  }

  /** Stages rows with the column `rival`, and empties `rows`. */
  async stageRows(rows: ItemRows): Promise<void> {
    if (rows.rows === 0) return;
    if (!this.#hasStage) {
      await this.#query(
        // With the same TOAST limit as mirror.items, so that neither table compresses rows of the other.
        `CREATE TEMP TABLE incoming_items (LIKE mirror.items, rival boolean NOT NULL)
           WITH (toast_tuple_target = 4080) ON COMMIT DROP`,
      );
      this.#hasStage = true;
    }
    const copy = new CopyIn(
      await this.#connection(),
      `pg_temp.incoming_items (${ITEM_COLUMNS.join(', ')}, rival)`,
    );
    await copy.write(rows.data());
    await copy.end();
    this.#staged += rows.rows;
    rows.clear();
  }

  /** Applies the records staged since the last call. */
  async apply(): Promise<Applied> {
    if (this.#staged === 0) return NOTHING_APPLIED;
    this.#staged = 0;
    const applied = await applyStage(await this.#connectionForChanges(), this.#stamp);
    if (applied.returned > 0) this.#statesChanged = true;
    return applied;
  }

  /** Stores records that could not be decoded. A known record only gets a new date. */
  async quarantine(entries: readonly QuarantineEntry[]): Promise<void> {
    if (entries.length === 0) return;
    const { sellerId, runId, at } = this.#stamp;
    const distinct = new Map(entries.map((entry) => [hash('sha256', entry.bytes, 'hex'), entry]));
    const rows = [...distinct.values()];
    const storable = (text: string): string => text.replaceAll('\0', '\uFFFD');
    await this.#query(
      `INSERT INTO mirror.quarantine
         (seller_id, item_id, reason, raw, raw_hash, first_run_id, last_run_id, first_seen_at, last_seen_at)
       SELECT $1, item_id, reason, raw, decode(raw_hash, 'hex'), $2, $2, $3, $3
         FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[])
           AS entry (item_id, reason, raw, raw_hash)
       ON CONFLICT (seller_id, raw_hash) DO UPDATE
         SET last_run_id = excluded.last_run_id, last_seen_at = excluded.last_seen_at,
             reason = excluded.reason`,
      [
        ...[sellerId, runId, at],
        rows.map(({ itemId }) => itemId),
        rows.map(({ reason }) => storable(reason)),
        rows.map(({ bytes }) => storable(Buffer.from(bytes.subarray(0, MAX_RAW_BYTES)).toString())),
        [...distinct.keys()],
      ],
    );
  }

  /** Marks items as missing that are no longer listed; see `delistItems`. */
  async delist(
    unlisted: readonly number[],
  ): Promise<{ readonly delisted: number; readonly missing: number }> {
    const counts = await delistItems(await this.#connection(), this.#stamp, unlisted);
    if (counts.delisted > 0) {
      this.#statesChanged = true;
      this.#publishPosition('undecided');
    }
    return counts;
  }

  /** Undoes `delist` for items that look-ups found. @returns the number of restored items */
  async undoDelisting(ids: readonly number[]): Promise<number> {
    const restored = await undoDelisting(await this.#connection(), this.#stamp, ids);
    if (restored > 0) {
      this.#statesChanged = true;
      this.#publications.push(
        `UPDATE mirror.item_lookups SET found_seq = ${NEXT_CHANGE_NUMBER}
          WHERE seller_id = ${this.#seller} AND item_id = ANY('{${ids.join(',')}}'::bigint[])`,
      );
    }
    return restored;
  }

  /** Publishes the delisted items that are still missing. */
  async publishUndecided(): Promise<void> {
    const client = await this.#connectionForChanges();
    // Items that became missing in this transaction already have a staged change.
    await client.query(
      `INSERT INTO pg_temp.outgoing_changes (${CHANGE_COLUMNS})
       SELECT item_id, 'missing', 'state', '"live"', '"missing"'
         FROM mirror.undecided_items u
        WHERE seller_id = $1 AND NOT EXISTS (SELECT FROM pg_temp.outgoing_changes c
                                              WHERE c.item_id = u.item_id AND c.field = 'state')`,
      [this.#stamp.sellerId],
    );
    this.#publications.push(clearUndecidedSql(this.#seller));
  }

  async recordLookups(lookups: ReadonlyMap<number, LookupOutcome>): Promise<void> {
    return recordLookups(await this.#connection(), this.#stamp, lookups);
  }

  async remove(plan: Removals): Promise<number> {
    if (plan.remove.length + plan.missing.length === 0) return 0;
    this.#statesChanged = true;
    return removeItems(await this.#connectionForChanges(), this.#stamp, plan);
  }

  async saveCounts(counts: Partial<RunCounts>): Promise<void> {
    return saveCounts(await this.#connection(), this.#stamp.runId, counts);
  }

  /** Records the items that the run holds. @param present number of items before the run */
  async holdItems(plan: RemovalPlan, present: number): Promise<HeldItems | null> {
    const client = await this.#connection();
    await saveHeldItems(client, this.#stamp, plan, present);
    return readHeldItems(client, this.#stamp.runId);
  }

  async heldItemStates(heldRunId: bigint): Promise<HeldItemStates> {
    return readHeldItemStates(await this.#connection(), this.#stamp, heldRunId);
  }

  async recordDecision(heldRunId: bigint, record: DecisionRecord): Promise<void> {
    return recordDecision({ client: await this.#connection() }, heldRunId, record);
  }

  async finish(end: RunEnd, counts: Partial<RunCounts>): Promise<void> {
    return finishRun(await this.#connection(), this.#stamp.runId, end, counts);
  }

  async markWideFields(marks: readonly WideChange[]): Promise<void> {
    if (marks.length === 0) return;
    await markWideFields(await this.#connection(), this.#stamp.runId, marks);
  }

  /** Publishes the changes and commits; see `LOCK_CHANGE_NUMBERS`. */
  async commit(): Promise<void> {
    const { runId, at } = this.#stamp;
    await this.#saveStateCounts();
    if (this.#added !== null && this.#added.length > 0) {
      const client = await this.#connectionForChanges();
      await client.query(
        `INSERT INTO pg_temp.outgoing_changes (${CHANGE_COLUMNS})
         SELECT id, 'added', 'state', NULL, '"live"' FROM unnest($1::bigint[]) AS id`,
        [this.#added],
      );
    }
    if (this.#hasChanges) {
      this.#publications.unshift(
        `INSERT INTO mirror.item_changes (seller_id, run_id, changed_at, ${CHANGE_COLUMNS})
         SELECT ${this.#seller}, ${runId}, ${escapeLiteral(at)}::timestamptz, ${CHANGE_COLUMNS}
           FROM pg_temp.outgoing_changes`,
      );
    }
    if (this.#publications.length > 0) this.#publications.unshift(LOCK_CHANGE_NUMBERS);
    const client = await this.#connection();
    await client.query([...this.#publications, 'COMMIT'].join(';\n'));
    this.#over = true;
  }

  /**
   * Saves the seller's number of items by state. Counting 100,000 items takes at least 60 ms, so it
   * counts only if the state of one changed.
   */
  async #saveStateCounts(): Promise<void> {
    const { sellerId } = this.#stamp;
    if (this.#statesChanged || (this.#countsBefore === null && this.#inserted > 0)) {
      await this.#query(
        `UPDATE mirror.sellers s SET (live_items, missing_items, removed_items) = (
           SELECT count(*) FILTER (WHERE state = 'live'), count(*) FILTER (WHERE state = 'missing'),
                  count(*) FILTER (WHERE state = 'removed')
             FROM mirror.items i WHERE i.seller_id = s.seller_id)
          WHERE s.seller_id = $1`,
        [sellerId],
      );
    } else if (this.#countsBefore !== null) {
      const { live, missing, removed } = this.#countsBefore;
      await this.#query(
        `UPDATE mirror.sellers SET live_items = $2, missing_items = $3, removed_items = $4
          WHERE seller_id = $1
            AND (live_items, missing_items, removed_items) IS DISTINCT FROM ($2::int, $3::int, $4::int)`,
        [sellerId, live + this.#inserted, missing, removed],
      );
    }
  }

  /** Undoes everything. Safe after any failure, even of the connection. */
  async rollback(): Promise<void> {
    this.#over = true;
    this.#inserting?.abandon();
    this.#inserting = null;
    await this.#lock.client.query('ROLLBACK').catch(() => undefined);
  }

  /** Records the change number of the seller's first list, or of its undecided items. */
  #publishPosition(what: 'loaded' | 'undecided'): void {
    this.#publications.push(
      `UPDATE mirror.sellers SET ${what}_run_id = ${this.#stamp.runId}, ${what}_seq = ${NEXT_CHANGE_NUMBER}
        WHERE seller_id = ${this.#seller}`,
    );
  }

  async #query<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    const client = await this.#connection();
    return (await client.query<Row>(sql, [...values])).rows;
  }

  /** The connection, with the temporary table of changes. */
  async #connectionForChanges(): Promise<PoolClient> {
    const client = await this.#connection();
    if (!this.#hasChanges) {
      await client.query(
        `CREATE TEMP TABLE outgoing_changes
           (item_id bigint NOT NULL, class mirror.change_class NOT NULL, field text NOT NULL,
            old_value jsonb, new_value jsonb) ON COMMIT DROP`,
      );
    }
    this.#hasChanges = true;
    return client;
  }

  /** The connection, after ending any COPY on it. */
  async #connection(): Promise<PoolClient> {
    // A concurrent step must not continue outside of the transaction after another one failed.
    if (this.#over) throw new Error('the transaction is over');
    const inserting = this.#inserting;
    this.#inserting = null;
    this.#rowsOfCopy = 0;
    await inserting?.end();
    return this.#lock.client;
  }
}
