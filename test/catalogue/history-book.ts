import pg from 'pg';
import type { Item, Json } from '../../src/domain/item.js';
import { prepareItem, type PreparedItem } from '../../src/catalogue/prepare-item.js';
import type { ItemRow } from '../support/mirror.js';
import { lockSeller, type SellerLock } from '../../src/db/locks.js';
import {
  begin,
  changeStates,
  commit,
  compareStage,
  discard,
  loadKnownItems,
  openStage,
  writeItems,
} from '../../src/catalogue/merge-store.js';
import { recordLookups } from '../../src/catalogue/lookups-store.js';
import { stageItems } from '../../src/catalogue/stage-list.js';
import type { RowStamp } from '../../src/catalogue/prepare-item.js';
import {
  type ItemChange,
  readChanges,
  readLastChangeNumber,
} from '../../src/catalogue/item-changes-store.js';
import { type Db, openDb } from '../../src/db/db.js';
import { prune } from '../../src/db/prune.js';
import { DbClient } from '../../src/db/connection.js';
import { createTestDatabase, emptyTables } from '../support/postgres.js';

/** What one nightly run finds. */
export interface Night {
  /** Records of the list. */
  readonly listed: readonly Json[];
  /** Unlisted items by the result of their look-ups. */
  readonly missing?: readonly number[];
  readonly removed?: readonly number[];
  readonly found?: readonly number[];
  /** Called during the look-ups, before anything is stored. */
  readonly meanwhile?: () => Promise<void>;
  /** Whether the process is killed during the look-ups. */
  readonly isKilled?: boolean;
}

export type { ItemChange };

export function prepared(record: Json): PreparedItem {
  const preparation = prepareItem(Buffer.from(JSON.stringify(record)));
  if (!preparation.ok) throw new Error(preparation.reason);
  return preparation.prepared;
}

/** An item in its canonical form. */
export function canonical(record: Json): Item {
  return prepared(record).item;
}

/** A store to which tests write nightly runs directly, without a marketplace. */
export class HistoryBook {
  readonly #locks = new Map<string, SellerLock>();
  #runs = 0n;

  private constructor(
    readonly db: Db,
    readonly pool: pg.Pool,
    readonly url: string,
    readonly drop: () => Promise<void>,
  ) {}

  static async open(): Promise<HistoryBook> {
    const database = await createTestDatabase();
    const pool = new pg.Pool({ Client: DbClient, connectionString: database.url, max: 4 });
    pool.on('error', () => undefined);
    return new HistoryBook(openDb(database.url, 'test'), pool, database.url, () => database.drop());
  }

  async rows<T extends Record<string, unknown>>(sql: string, values: unknown[] = []): Promise<T[]> {
    return (await this.pool.query<T>(sql, values)).rows;
  }

  async lock(sellerId: string): Promise<SellerLock> {
    const held = this.#locks.get(sellerId);
    if (held !== undefined) return held;
    const lock = await lockSeller(this.db, sellerId);
    this.#locks.set(sellerId, lock);
    return lock;
  }

  /** Writes a night as runs do: the list is staged first, and one transaction follows the look-ups. */
  async night(at: string, night: Night, sellerId = 'main'): Promise<void> {
    const runId = ++this.#runs;
    await this.pool.query(
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ($1, 'x') ON CONFLICT DO NOTHING`,
      [sellerId],
    );
    await this.pool.query(
      `INSERT INTO mirror.runs (run_id, seller_id, kind, state, holder, started_at)
       VALUES ($1, $2, 'items', 'running', 'a test', $3)`,
      [runId, sellerId, at],
    );
    await writeNight(await this.lock(sellerId), { sellerId, runId, at }, night);
  }

  /** The changes, as `changes` lists them. */
  changes(filter: Partial<Parameters<typeof readChanges>[1]> = {}): Promise<ItemChange[]> {
    return readChanges(this.db, { limit: 10_000, ...filter });
  }

  prune(
    ...[plan, options]: Parameters<typeof prune> extends [unknown, ...infer Rest] ? Rest : never
  ) {
    return prune(this.db, plan, options);
  }

  lastChangeNumber(): Promise<bigint> {
    return readLastChangeNumber(this.db);
  }

  present(): Promise<ItemRow[]> {
    return this.rows<ItemRow>('SELECT * FROM reporting.items ORDER BY seller_id, item_id');
  }

  asOf(moment: string): Promise<ItemRow[]> {
    return this.rows<ItemRow>(
      'SELECT * FROM reporting.items_as_of($1) ORDER BY seller_id, item_id',
      [moment],
    );
  }

  async empty(): Promise<void> {
    await emptyTables(this.pool, 'mirror');
  }

  async close(): Promise<void> {
    for (const lock of this.#locks.values()) await lock.release();
    await this.db.close();
    await this.pool.end();
    await this.drop();
  }
}

/** Writes a night on a seller's lock. */
export async function writeNight(lock: SellerLock, stamp: RowStamp, night: Night): Promise<void> {
  const { missing = [], removed: remove = [], found = [] } = night;
  try {
    const { hadList } = await loadKnownItems(lock);
    await openStage(lock);
    await stageItems({ lock, stamp }, night.listed.map(prepared));
    await night.meanwhile?.();
    if (night.isKilled === true) return;
    await begin(lock);
    const input = { publishesAdded: hadList, repeats: false };
    const { extraChanged } = await compareStage(lock, input);
    await changeStates(lock, { remove, missing });
    await writeItems(lock, stamp);
    await recordLookups(lock.client, stamp, new Map(found.map((id) => [id, 'found'])));
    const isFirstList = !hadList && night.listed.length > 0;
    await commit(lock, stamp, { isFirstList, extraChanged: extraChanged > 0 });
  } finally {
    await discard(lock);
  }
}
