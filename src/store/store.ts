import { PrismaPg } from '@prisma/adapter-pg';
import type { Pool } from 'pg';
import type { Budget } from '../domain/budget.js';
import type { Decision } from '../domain/removals.js';
import type { RetentionPlan } from '../domain/retention.js';
import { saveAccount, type AccountChange, type AccountRecord } from './accounts.js';
import { AuditStore } from './audits/audit-store.js';
import { storedBudget } from './budget.js';
import {
  decisionsOn,
  readHeldRun,
  recordDecision,
  type DecisionRecord,
  type HeldRunRecord,
} from './decisions.js';
import { readFreshness, type Freshness } from './freshness.js';
import { tellUndecided } from './history.js';
import { PrismaClient } from './generated/prisma/client.js';
import {
  countChanges,
  feedEnd,
  feedReach,
  readChanges,
  readRunFields,
  type ChangeCount,
  type ChangeFilter,
  type ChangeLimit,
  type ItemChange,
  type RunField,
} from './history-read.js';
import type { RowStamp } from './item-rows.js';
import {
  historyStarts,
  itemsWithId,
  priceHistory,
  type HistoryStart,
  type TextRows,
} from './items-read.js';
import { lockSeller, type SellerLock } from './lock.js';
import { createPools, STORE_TIMES, type Pools, type StoreTimes } from './pools.js';
import { measurePrune, prune, type Pruned, type PruneOptions } from './prune/prune.js';
import { chooseLookups, otherLiveItem, type LookupChoice } from './removals.js';
import {
  coveringRun,
  finishRun,
  startRun,
  type Covering,
  type Need,
  type RunCounts,
  type RunEnd,
  type RunKind,
} from './runs.js';
import {
  bindSeller,
  bindingOf,
  ensureSeller,
  forgetSeller,
  historySince,
  parkingOf,
  parkSeller,
  type Binding,
  type Parking,
} from './sellers.js';
import {
  readSchedules,
  recordTicks,
  type ScheduleKey,
  type ScheduleState,
  type TickDone,
} from './schedules.js';
import { ItemSession } from './session.js';
import {
  getRun,
  laterGoodRun,
  listRuns,
  sellerStatuses,
  type Run,
  type SellerStatus,
} from './status.js';
import { assertWritable } from './writable.js';

/** The database of the mirror, for the use cases: who calls it knows neither SQL nor Prisma. */
export class Store {
  readonly #pools: Pools;
  readonly #pool: Pool;
  readonly #prisma: PrismaClient;
  /** Purchase codes, and the audits that check them. */
  readonly audits: AuditStore;

  /** @param url a PostgreSQL connection URL; the schema must be migrated before use */
  constructor(url: string, applicationName: string, times: StoreTimes = STORE_TIMES) {
    this.#pools = createPools(url, applicationName, times);
    this.#pool = this.#pools.others;
    this.#prisma = new PrismaClient({ adapter: new PrismaPg(this.#pool) });
    this.audits = new AuditStore(this.#pools);
  }

  /** Takes the seller's lock. @throws {SellerBusyError} when another run holds it */
  lockSeller(sellerId: string): Promise<SellerLock> {
    return lockSeller(this.#pools, sellerId);
  }

  /** Enters a configured seller when it is new; returns what it is bound to. */
  ensureSeller(sellerId: string, marketplace: string): Promise<Binding> {
    return ensureSeller(this.#pool, sellerId, marketplace);
  }

  /** What a seller is bound to; null when the store has never seen the seller. */
  bindingOf(sellerId: string): Promise<Binding | null> {
    return bindingOf(this.#pool, sellerId);
  }

  bindSeller(sellerId: string, binding: Binding): Promise<void> {
    return bindSeller(this.#pool, sellerId, binding);
  }

  /** Whether and why schedules leave a seller alone; null when they don't. */
  parkingOf(sellerId: string): Promise<Parking | null> {
    return parkingOf(this.#pool, sellerId);
  }

  /** Parks a seller unless a later run went well; returns whether it was not parked before. */
  parkSeller(sellerId: string, parking: Omit<Parking, 'since'>): Promise<boolean> {
    return parkSeller(this.#pool, sellerId, parking);
  }

  /** Deletes all that the store holds of a seller. */
  forgetSeller(sellerId: string): Promise<void> {
    return forgetSeller(this.#prisma, sellerId);
  }

  /** The newest run that makes another one needless; null when there is none. */
  coveringRun(lock: SellerLock, need: Need): Promise<Covering | null> {
    return coveringRun(lock.client, lock.sellerId, need);
  }

  startRun(
    lock: SellerLock,
    kind: RunKind,
    holder: string,
    jobId: string | null,
  ): Promise<{ runId: bigint; at: string }> {
    return startRun(lock.client, lock.sellerId, kind, holder, jobId);
  }

  /** Closes a run; one of account or catalogue that went well un-parks its seller. */
  finishRun(runId: bigint, end: RunEnd, counts: Partial<RunCounts>): Promise<void> {
    return finishRun(this.#pool, runId, end, counts);
  }

  saveAccount(lock: SellerLock, stamp: RowStamp, record: AccountRecord): Promise<AccountChange> {
    return saveAccount(lock.client, stamp, record);
  }

  /** Begins the transaction in which a run writes items. */
  beginItems(lock: SellerLock, stamp: RowStamp): Promise<ItemSession> {
    return ItemSession.begin(lock, stamp);
  }

  /** Which unlisted items to look up in a run, and what need not be asked again. */
  chooseLookups(lock: SellerLock, ids: readonly number[], limit: number): Promise<LookupChoice> {
    return chooseLookups(lock.client, lock.sellerId, ids, limit);
  }

  /** Tells as missing what a run left undecided that ended before its look-ups did. */
  tellUndecided(lock: SellerLock): Promise<void> {
    return tellUndecided(lock.client, lock.sellerId);
  }

  /** What a person decided about items that have been missing ever since. */
  decisionsOn(lock: SellerLock, ids: readonly number[]): Promise<Map<number, Decision>> {
    return decisionsOn(lock.client, lock.sellerId, ids);
  }

  /** What a decision about a run depends on; null when there is no such run. */
  heldRun(runId: bigint): Promise<HeldRunRecord | null> {
    return readHeldRun(this.#pool, runId);
  }

  /** Records a decision that changes no item. */
  recordDecision(lock: SellerLock, runId: bigint, record: DecisionRecord): Promise<void> {
    return recordDecision(lock.client, runId, record);
  }

  /** An item other than this one that the mirror holds as live. */
  otherLiveItem(lock: SellerLock, id: number): Promise<number | null> {
    return otherLiveItem(lock.client, lock.sellerId, id);
  }

  budget(host: string, requestsPerMinute: number): Budget {
    return storedBudget(this.#pool, host, requestsPerMinute);
  }

  /** What is known of these schedules, in their order, in one statement. */
  schedules(keys: readonly ScheduleKey[]): Promise<ScheduleState[]> {
    return readSchedules(this.#pool, keys);
  }

  /** Records how far schedules got; a record goes back only from beyond `credible`. */
  recordTicks(done: readonly TickDone[], credible: Date): Promise<void> {
    return recordTicks(this.#pool, done, credible);
  }

  /** How current every copy is, for those who ask often. */
  freshness(): Promise<Freshness[]> {
    return readFreshness(this.#pool);
  }

  /** Resolves when the database answers and takes writes. */
  ping(): Promise<void> {
    return assertWritable(this.#pool);
  }

  statuses(): Promise<SellerStatus[]> {
    return sellerStatuses(this.#prisma, this.#pool);
  }

  runs(filter: { readonly sellerIds?: readonly string[]; readonly limit: number }): Promise<Run[]> {
    return listRuns(this.#prisma, filter);
  }

  run(runId: bigint): ReturnType<typeof getRun> {
    return getRun(this.#prisma, this.#pool, runId);
  }

  /** The newest run of the same kind after this one that went well; null when there is none. */
  laterGoodRun(run: Pick<Run, 'sellerId' | 'kind' | 'runId'>): Promise<bigint | null> {
    return laterGoodRun(this.#prisma, run);
  }

  /** What changed about items, in the order of the feed. */
  changes(filter: ChangeFilter & ChangeLimit): Promise<ItemChange[]> {
    return readChanges(this.#pool, filter);
  }

  /** How many changes there are, by seller, class and field. */
  changeCounts(filter: ChangeFilter): Promise<ChangeCount[]> {
    return countChanges(this.#pool, filter);
  }

  /** Fields that changed in more than `least` items of the runs of these changes. */
  runFields(
    changes: readonly Pick<ItemChange, 'runId' | 'changedAt'>[],
    least: number,
  ): Promise<RunField[]> {
    return readRunFields(this.#pool, changes, least);
  }

  /** The place in the feed after which those go on who have all that the mirror holds now. */
  feedEnd(): Promise<bigint> {
    return feedEnd(this.#pool);
  }

  /** The greatest number of a change that was ever given. */
  feedReach(): Promise<bigint> {
    return feedReach(this.#pool);
  }

  /** From when on the history of a seller is whole; null when nothing of it was ever deleted. */
  historySince(sellerId: string): Promise<Date | null> {
    return historySince(this.#pool, sellerId);
  }

  /** Says what `prune` would delete. */
  measurePrune(plan: RetentionPlan, options: PruneOptions): Promise<Pruned[]> {
    return measurePrune(this.#pools, plan, options);
  }

  /** Deletes what is older than the plan says. @throws {PruneBusyError} when another process does */
  prune(plan: RetentionPlan, options: PruneOptions): Promise<Pruned[]> {
    return prune(this.#pools, plan, options);
  }

  /** Each seller's item of this id, whole. */
  itemsWithId(itemId: number, sellerId: string | null): Promise<TextRows> {
    return itemsWithId(this.#pool, itemId, sellerId);
  }

  /** What an item cost and since when, the present price last. */
  priceHistory(sellerId: string, itemId: number): Promise<TextRows> {
    return priceHistory(this.#pool, sellerId, itemId);
  }

  /** Since when the store can tell what each seller's items were. */
  historyStarts(): Promise<HistoryStart[]> {
    return historyStarts(this.#pool);
  }

  async close(): Promise<void> {
    await this.#prisma.$disconnect();
    await this.#pools.end();
  }
}
