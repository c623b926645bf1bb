import * as access from './access.js';
import * as chunks from './audits/chunks.js';
import * as codes from './audits/codes.js';
import * as denied from './audits/denied.js';
import { begin } from './audits/loader.js';
import * as progress from './audits/progress.js';
import { record } from './audits/record.js';
import * as results from './audits/results.js';
import type { LockedChunk } from './audits/types.js';
import { storedBudget } from './budget.js';
import * as decisions from './decisions.js';
import * as feeds from './feeds.js';
import { publishUndecided } from './history.js';
import * as itemChanges from './item-changes.js';
import type { RowStamp } from './item-rows.js';
import * as items from './items-read.js';
import { lockSeller, type SellerLock } from './locks.js';
import * as overview from './overview.js';
import {
  assertWritable,
  type Connections,
  createPools,
  type Pools,
  STORE_TIMES,
  type StoreTimes,
} from './pools.js';
import * as processes from './processes.js';
import { measurePrune, prune } from './prune.js';
import { chooseLookups, otherLiveItem } from './removals.js';
import * as reports from './reports.js';
import { addRequests, lastHour } from './request-counts.js';
import * as runs from './runs.js';
import { readSchedules, recordTicks } from './schedules.js';
import * as sellers from './sellers.js';
import { ItemSession } from './session.js';
import { sellerStatuses } from './status.js';

/**
 * The mirror's database, grouped by subject: `store.runs.list(…)`. Functions that need a seller's lock take
 * it as their first argument.
 */
export interface Store extends ReturnType<typeof openStore> {}

/**
 * Opens the store. Connects on first use.
 * @param url a PostgreSQL connection URL; the schema must be migrated before use
 */
export function openStore(url: string, applicationName: string, times: StoreTimes = STORE_TIMES) {
  const pools = createPools(url, applicationName, times);
  const pool = pools.general;
  let opened: Promise<Connections> | null = null;
  const withPrisma = (): Promise<Connections> => (opened ??= openConnections(pools));
  return {
    sellers: {
      lock: (sellerId: string) => lockSeller(pools, sellerId),
      ...withLazyFirst(withPrisma, { delete: sellers.deleteSeller }),
      ...withFirst(pool, {
        statuses: sellerStatuses,
        ensure: sellers.ensureSeller,
        bindingOf: sellers.bindingOf,
        bind: sellers.bindSeller,
        parkingOf: sellers.parkingOf,
        park: sellers.parkSeller,
        pause: sellers.pauseSeller,
        resume: sellers.resumeSeller,
      }),
      saveAccount: sellers.saveAccount,
    },
    runs: {
      start: runs.startRun,
      findFinished: runs.findFinishedRun,
      decisionsOn: decisions.decisionsOn,
      decide: decisions.recordDecision,
      ...withLazyFirst(withPrisma, {
        list: runs.listRuns,
        get: runs.getRun,
        laterGood: runs.laterGoodRun,
      }),
      ...withFirst(pool, {
        finish: runs.finishRun,
        progress: runs.writeProgress,
        held: decisions.readHeldRun,
        heldItemStates: decisions.readHeldItemStates,
        fields: itemChanges.readRunFields,
      }),
    },
    items: {
      begin: (lock: SellerLock, stamp: RowStamp) => ItemSession.begin(lock, stamp),
      chooseLookups,
      publishUndecided,
      otherLive: otherLiveItem,
      ...withFirst(pool, {
        withId: items.itemsWithId,
        search: items.searchItems,
        lastDays: items.lastDays,
        priceHistory: items.priceHistory,
        historyStarts: items.historyStarts,
        changes: itemChanges.readChanges,
        changeCounts: itemChanges.countChanges,
        lastChangeNumber: itemChanges.lastChangeNumber,
        greatestChangeNumber: itemChanges.greatestChangeNumber,
      }),
    },
    access: withLazyFirst(withPrisma, access),
    overview: withFirst(pool, overview),
    reports: {
      ...withFirst(pool, { figures: reports.figures, rows: reports.rows }),
      ...withFirst(url, { download: reports.download }),
    },
    feeds: withFirst(pool, feeds),
    schedules: withFirst(pool, { read: readSchedules, record: recordTicks }),
    processes: withFirst(pool, {
      heartbeat: processes.heartbeat,
      remove: processes.removeProcess,
      live: processes.liveProcesses,
    }),
    audits: {
      ...withFirst(pools, { begin, results: results.results }),
      withChunk: <T>(auditId: bigint, chunk: number, work: (held: LockedChunk) => Promise<T>) =>
        chunks.withChunk(pools, auditId, chunk, work),
      ...withFirst(pool, progress),
      ...withFirst(pool, codes),
      ...withFirst(pool, denied),
      ...withFirst(pool, {
        record,
        nextChunks: chunks.nextChunks,
        pendingOf: chunks.pendingOf,
        unprovenCounts: results.unprovenCounts,
        accountProven: results.accountProven,
      }),
    },
    ...withFirst(pools, { prune, measurePrune }),
    requests: withFirst(pool, { add: addRequests, lastHour }),
    ...withFirst(pool, { budget: storedBudget, ping: assertWritable }),
    async close(): Promise<void> {
      await (await opened)?.prisma.$disconnect();
      await pools.end();
    },
  };
}

async function openConnections(pools: Pools): Promise<Connections> {
  const { openPrisma } = await import('./prisma.js');
  return { ...pools, prisma: openPrisma(pools.general) };
}

/** The functions, without their first parameter. */
type WithFirst<First, Functions> = {
  readonly [Name in keyof Functions]: Functions[Name] extends (
    first: First,
    ...rest: infer Rest
  ) => infer Result
    ? (...rest: Rest) => Result
    : never;
};

/** Binds the first argument of each function. */
function withFirst<
  First,
  Functions extends Readonly<Record<string, (first: First, ...rest: never[]) => unknown>>,
>(first: First, functions: Functions): WithFirst<First, Functions> {
  const bound = Object.entries(functions).map(([name, call]) => [name, call.bind(null, first)]);
  return Object.fromEntries(bound) as WithFirst<First, Functions>;
}

/** The same, with a first argument that is created at the first call. */
function withLazyFirst<
  First,
  Functions extends Readonly<Record<string, (first: First, ...rest: never[]) => Promise<unknown>>>,
>(first: () => Promise<First>, functions: Functions): WithFirst<First, Functions> {
  const later = Object.entries(functions).map(([name, call]) => [
    name,
    async (...rest: never[]): Promise<unknown> =>
      Reflect.apply(call, null, [await first(), ...rest]),
  ]);
  return Object.fromEntries(later) as WithFirst<First, Functions>;
}
