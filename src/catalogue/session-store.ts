import { hash } from 'node:crypto';
import { escapeLiteral, type PoolClient } from 'pg';
import type { WideChange } from './changes.js';
import type { ItemState } from '../domain/item.js';
import type { KnownItems } from './known-items.js';
import {
  type PreparedItem,
  ITEM_COLUMNS,
  ItemRows,
  type RowStamp,
  type StoredItem,
} from './prepare-item.js';
import type { LookupOutcome, RemovalPlan, Removals } from './rules.js';
import {
  type Applied,
  applyStage,
  CHANGES,
  loadKnownItems,
  LOCK_CHANGE_NUMBERS,
  NEXT_CHANGE_NUMBER,
  NOTHING_APPLIED,
  readStoredItems,
  removeItems,
  STAGE,
} from './apply-items-store.js';
import { CopyIn } from '../db/copy.js';
import { type HeldItems, readHeldItems, saveHeldItems } from './held-store.js';
import { itemsLockSql, type SellerLock } from '../db/locks.js';
import { forgetFound, recordLookups } from './lookups-store.js';
import {
  finishRun,
  markWideFields,
  type RunCounts,
  type RunEnd,
  saveCounts,
} from './runs-store.js';

/**
 * Foreign keys are checked when a COPY ends. Small COPYs spread the checks over the time in which the list
 * is read. With 10,000 rows, the records that arrive during a check take 30 MB more.
 */
const ROWS_PER_COPY = 2_000;

/** Longer records are cut in quarantine. */
const MAX_RAW_BYTES = 1 << 20;

/** A record that could not be decoded. */
export interface QuarantineEntry {
  readonly itemId: number | null;
  readonly reason: string;
  readonly bytes: Uint8Array;
}

/** The run's temporary tables. They belong to its connection, so that no transaction is open while a run waits. */
const BROKEN = 'pg_temp.incoming_broken';

const CREATE: Readonly<Record<string, string>> = {
  // With the same TOAST limit as mirror.items, so that neither table compresses rows of the other.
  [STAGE]: `CREATE TEMP TABLE incoming_items (LIKE mirror.items) WITH (toast_tuple_target = 4080)`,
  [BROKEN]: `CREATE TEMP TABLE incoming_broken (item_id bigint, reason text, raw text, raw_hash text)`,
  [CHANGES]: `
    CREATE TEMP TABLE outgoing_changes
      (item_id bigint NOT NULL, place tid, old_place tid, old_state mirror.item_state, is_earlier boolean,
       is_listed boolean, extra_differs boolean, is_written boolean, has_other_bytes boolean, supersedes boolean,
       changes jsonb[] NOT NULL)`,
};

/**
 * What a run writes about items. Records are staged in temporary tables. One transaction then applies them,
 * with everything else: it begins with the first statement that writes to the mirror, and ends in `commit`.
 */
export class ItemSession {
  readonly #lock: SellerLock;
  readonly #stamp: RowStamp;
  readonly #seller: string;
  #copy: CopyIn | null = null;
  #copyTarget = '';
  #rowsOfCopy = 0;
  #inTransaction = false;
  #isOver = false;
  /** Temporary tables that exist. */
  readonly #tables = new Set<string>();
  /** Number of items by state before the run; null unless they were loaded. */
  #countsBefore: Readonly<Record<ItemState, number>> | null = null;
  /** Number of new items, which are all live. */
  #added = 0;
  /** Whether the state of a known item changed. */
  #statesChanged = false;
  /** Whether only `extra` changed in some items, which is no change in `item_changes`. */
  #extraChanged = false;
  /** False while the first list is read: its items are not published as changes. */
  #publishesAdded = true;
  /** Whether the seller's first list was read. */
  #isFirstList = false;

  constructor(lock: SellerLock, stamp: RowStamp) {
    this.#lock = lock;
    this.#stamp = stamp;
    this.#seller = escapeLiteral(stamp.sellerId);
  }

  /** Loads the stored items before a list is read. Items of the first list are not published as changes. */
  async loadKnown(): Promise<KnownItems> {
    const known = await loadKnownItems(await this.#connection(), this.#stamp.sellerId);
    this.#countsBefore = known.items.stateCounts();
    this.#publishesAdded = known.loaded;
    return known.items;
  }

  /** Call this after reading a whole list that was not empty. */
  markListLoaded(): void {
    this.#isFirstList = !this.#publishesAdded;
  }

  /** Stored items, by id. */
  async storedItems(ids: readonly number[]): Promise<Map<number, StoredItem>> {
    return readStoredItems(await this.#connection(), this.#stamp.sellerId, ids);
  }

  /** Returns an empty buffer of rows. */
  newRows(): ItemRows {
    return new ItemRows(this.#stamp);
  }

  /** Inserts rows of items that the table lacks, without comparing them. Resolves when `rows` may be reused. */
  async insert(rows: ItemRows): Promise<void> {
    if (rows.rows === 0) return;
    await this.#transaction('mirror.items');
    this.#added += rows.rows;
    await this.#copyRows('mirror.items', rows);
  }

  /** Stages rows for `apply`. Resolves when `rows` may be reused; PostgreSQL works on while the list is read. */
  async stage(rows: ItemRows): Promise<void> {
    if (rows.rows > 0) await this.#copyRows(STAGE, rows);
  }

  /** Stages a few items for `apply`. */
  async stageItems(items: readonly PreparedItem[]): Promise<void> {
    const rows = this.newRows();
    for (const item of items) rows.add(item);
    await this.stage(rows);
  }

  /** Stages records that could not be decoded. */
  async stageBroken(entries: readonly QuarantineEntry[]): Promise<void> {
    if (entries.length === 0) return;
    const storable = (text: string): string => text.replaceAll('\0', '\uFFFD');
    const client = await this.#withTable(BROKEN);
    await client.query(
      `INSERT INTO ${BROKEN} SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])`,
      [
        entries.map(({ itemId }) => itemId),
        entries.map(({ reason }) => storable(reason)),
        entries.map(({ bytes }) =>
          storable(Buffer.from(bytes.subarray(0, MAX_RAW_BYTES)).toString()),
        ),
        entries.map(({ bytes }) => hash('sha256', bytes, 'hex')),
      ],
    );
  }

  /**
   * Writes what was staged: items and their history, and records in quarantine. Call it once.
   * @param repeats whether an item may be staged more than once; the last record counts
   */
  async apply(repeats = false): Promise<Applied> {
    let applied = NOTHING_APPLIED;
    if (this.#tables.has(STAGE)) {
      const client = await this.#transaction(CHANGES);
      const publishesAdded = this.#publishesAdded;
      applied = await applyStage(client, this.#stamp, { publishesAdded, repeats });
      if (applied.returned > 0) this.#statesChanged = true;
      if (applied.extraChanged > 0) this.#extraChanged = true;
    }
    if (this.#tables.has(BROKEN)) await this.#quarantine();
    this.#added += applied.added;
    return { ...applied, added: this.#added };
  }

  /** A known record only gets a new date. */
  async #quarantine(): Promise<void> {
    const client = await this.#transaction();
    const { sellerId, runId, at } = this.#stamp;
    await client.query(
      `WITH before AS (
         SELECT q.item_id, q.raw_hash, q.runs FROM mirror.quarantine q
          WHERE q.seller_id = $1 AND q.last_run_id = (
            SELECT max(run_id) FROM mirror.runs
             WHERE seller_id = $1 AND kind = 'items' AND state IN ('succeeded', 'held')))
       INSERT INTO mirror.quarantine
         (seller_id, item_id, reason, raw, raw_hash, first_run_id, last_run_id, first_seen_at, last_seen_at, runs)
       SELECT DISTINCT ON (b.raw_hash) $1, b.item_id, reason, raw, decode(b.raw_hash, 'hex'), $2::bigint,
              $2::bigint, $3::timestamptz, $3::timestamptz,
              1 + coalesce((SELECT max(runs) FROM before e
                             WHERE e.item_id = b.item_id OR e.raw_hash = decode(b.raw_hash, 'hex')), 0)
         FROM ${BROKEN} b
       ON CONFLICT (seller_id, raw_hash) DO UPDATE
         SET last_run_id = excluded.last_run_id, last_seen_at = excluded.last_seen_at,
             reason = excluded.reason, runs = excluded.runs`,
      [sellerId, runId, at],
    );
  }

  async recordLookups(lookups: ReadonlyMap<number, LookupOutcome>): Promise<void> {
    return recordLookups(await this.#transaction(), this.#stamp, lookups);
  }

  /** @returns the number of removed items */
  async remove(plan: Removals): Promise<number> {
    if (plan.remove.length + plan.missing.length === 0) return 0;
    this.#statesChanged = true;
    return removeItems(await this.#transaction(CHANGES), this.#stamp, plan);
  }

  async saveCounts(counts: Partial<RunCounts>): Promise<void> {
    return saveCounts(await this.#transaction(), this.#stamp.runId, counts);
  }

  /** Records the items that the run holds. @param present number of items before the run */
  async holdItems(plan: RemovalPlan, present: number): Promise<HeldItems | null> {
    const client = await this.#transaction();
    await saveHeldItems(client, this.#stamp, plan, present);
    return readHeldItems(client, this.#stamp.runId);
  }

  /** Forgets look-ups that found items which the list names by now. */
  async forgetFound(unlisted: readonly number[]): Promise<void> {
    return forgetFound(await this.#transaction(), this.#stamp.sellerId, unlisted);
  }

  async finish(end: RunEnd, counts: Partial<RunCounts>): Promise<void> {
    return finishRun(await this.#transaction(), this.#stamp.runId, end, counts);
  }

  async markWideFields(marks: readonly WideChange[]): Promise<void> {
    if (marks.length > 0) await markWideFields(await this.#transaction(), this.#stamp.runId, marks);
  }

  /**
   * Publishes the changes and commits, in one message: a transaction that takes change numbers keeps others
   * from taking theirs until it ends; see `LOCK_CHANGE_NUMBERS`.
   */
  async commit(): Promise<void> {
    const { runId, at } = this.#stamp;
    await this.#saveStateCounts();
    const client = await this.#transaction();
    const publications: string[] = [];
    if (this.#tables.has(CHANGES)) {
      publications.push(
        `INSERT INTO mirror.item_changes
                (seller_id, run_id, changed_at, item_id, field, class, old_value, new_value)
         SELECT ${this.#seller}, ${runId}, ${escapeLiteral(at)}::timestamptz, item_id, change ->> 0,
                (change ->> 1)::mirror.change_class, nullif(change -> 2, 'null'), nullif(change -> 3, 'null')
           FROM ${CHANGES} CROSS JOIN LATERAL unnest(changes) AS change`,
      );
    }
    if (this.#isFirstList) {
      publications.push(
        `UPDATE mirror.sellers SET loaded_run_id = ${runId}, loaded_seq = ${NEXT_CHANGE_NUMBER}
          WHERE seller_id = ${this.#seller}`,
      );
    }
    if (this.#extraChanged) {
      publications.push(
        `UPDATE mirror.runs SET extra_seq = ${NEXT_CHANGE_NUMBER} WHERE run_id = ${runId}`,
      );
    }
    if (publications.length > 0) publications.unshift(LOCK_CHANGE_NUMBERS);
    if (this.#tables.size > 0) publications.push(`DROP TABLE ${[...this.#tables].join(', ')}`);
    await client.query([...publications, 'COMMIT'].join(';\n'));
    this.#isOver = true;
  }

  /**
   * Saves the seller's number of items by state. Counting 100,000 items takes at least 60 ms, so it
   * counts only if the state of one changed.
   */
  async #saveStateCounts(): Promise<void> {
    const { sellerId } = this.#stamp;
    const client = await this.#transaction();
    if (this.#statesChanged || (this.#countsBefore === null && this.#added > 0)) {
      await client.query(
        `UPDATE mirror.sellers s SET (live_items, missing_items, removed_items) = (
           SELECT count(*) FILTER (WHERE state = 'live'), count(*) FILTER (WHERE state = 'missing'),
                  count(*) FILTER (WHERE state = 'removed')
             FROM mirror.items i WHERE i.seller_id = s.seller_id)
          WHERE s.seller_id = $1`,
        [sellerId],
      );
    } else if (this.#countsBefore !== null) {
      const { live, missing, removed } = this.#countsBefore;
      await client.query(
        `UPDATE mirror.sellers SET live_items = $2, missing_items = $3, removed_items = $4
          WHERE seller_id = $1
            AND (live_items, missing_items, removed_items) IS DISTINCT FROM ($2::int, $3::int, $4::int)`,
        [sellerId, live + this.#added, missing, removed],
      );
    }
  }

  /** Undoes everything. Safe after any failure, even of the connection, and after `commit`. */
  async discard(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#copy?.abandon();
    const undo = [
      ...(this.#inTransaction ? ['ROLLBACK'] : []),
      ...(this.#tables.size > 0 ? [`DROP TABLE IF EXISTS ${[...this.#tables].join(', ')}`] : []),
    ];
    for (const sql of undo) await this.#lock.client.query(sql).catch(() => undefined);
  }

  /** Copies rows into a table, by a COPY that stays open for more. */
  async #copyRows(target: string, rows: ItemRows): Promise<void> {
    const isFull = target === 'mirror.items' && this.#rowsOfCopy >= ROWS_PER_COPY;
    if (this.#copyTarget !== target || isFull) await this.endCopy();
    if (this.#copy === null) {
      const client = await this.#withTable(target);
      this.#copy = new CopyIn(client, `${target} (${ITEM_COLUMNS.join(', ')})`);
      this.#copyTarget = target;
    }
    this.#rowsOfCopy += rows.rows;
    await this.#copy.write(rows.data());
  }

  /** Ends the open COPY, so that others can use the connection. */
  async endCopy(): Promise<void> {
    const copy = this.#copy;
    this.#copy = null;
    this.#rowsOfCopy = 0;
    await copy?.end();
  }

  /** The connection, within the transaction, with this table. */
  async #transaction(table?: string): Promise<PoolClient> {
    if (!this.#inTransaction) {
      const client = await this.#connection();
      this.#inTransaction = true;
      const shared = itemsLockSql('pg_advisory_xact_lock_shared', this.#seller);
      // The statements that apply a list are long enough for JIT, which took them a quarter longer.
      await client.query(`BEGIN; SET LOCAL jit = off; SELECT ${shared}`);
    }
    if (table === 'mirror.items') return this.#lock.client;
    return table === undefined ? this.#connection() : this.#withTable(table);
  }

  /** The connection, with this table; creates it if it is a temporary one. */
  async #withTable(table: string): Promise<PoolClient> {
    const client = await this.#connection();
    const sql = CREATE[table];
    if (sql !== undefined && !this.#tables.has(table)) {
      await client.query(sql);
      this.#tables.add(table);
    }
    return client;
  }

  /** The connection, after ending any COPY on it. */
  async #connection(): Promise<PoolClient> {
    // A concurrent step must not continue outside of the transaction after another one failed.
    if (this.#isOver) throw new Error('the transaction is over');
    await this.endCopy();
    return this.#lock.client;
  }
}
