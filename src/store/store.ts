import { PrismaPg } from '@prisma/adapter-pg';
import { saveAccount } from './accounts.js';
import { nextChunks, pendingOf, withChunk } from './audits/chunks.js';
import {
  canariesOf,
  checksOf,
  countRunning,
  knownCodes,
  recheckCandidates,
} from './audits/codes.js';
import {
  codesToLookAt,
  deniedCanaries,
  deniedCodes,
  recordDeniedCanaries,
  settleDenied,
} from './audits/denied.js';
import { beginAudit } from './audits/loader.js';
import {
  auditBacklogs,
  cancelAudit,
  failAudit,
  getList,
  getProgress,
  listProgress,
  markResultWritten,
  noteProblem,
  resumeAudit,
  setResultFile,
} from './audits/progress.js';
import { recordResults } from './audits/record.js';
import { accountProven, auditResults, unprovenCounts } from './audits/results.js';
import type { HeldChunk } from './audits/types.js';
import { storedBudget } from './budget.js';
import { decisionsOn, readHeldRun, recordDecision } from './decisions.js';

import { PrismaClient } from './generated/prisma/client.js';
import { countChanges, feedEnd, feedReach, readChanges, readRunFields } from './history-read.js';
import { tellUndecided } from './history.js';
import type { RowStamp } from './item-rows.js';
import { historyStarts, itemsWithId, priceHistory } from './items-read.js';
import { lockSeller, type SellerLock } from './lock.js';
import { createPools, STORE_TIMES, type StoreTimes, assertWritable } from './pools.js';
import { beat, endBeat, liveProcesses } from './processes.js';
import { measurePrune, prune } from './prune/prune.js';
import { chooseLookups, otherLiveItem } from './removals.js';
import { coveringRun, finishRun, startRun } from './runs.js';
import { readSchedules, recordTicks } from './schedules.js';
import {
  bindingOf,
  bindSeller,
  ensureSeller,
  forgetSeller,
  parkingOf,
  parkSeller,
  readFreshness,
} from './sellers.js';
import { ItemSession } from './session.js';
import { getRun, laterGoodRun, listRuns, sellerStatuses } from './status.js';

/**
 * The database of the mirror, by subject: `store.runs.list(…)`. Those who use it know neither SQL nor
 * Prisma. What needs a seller's lock takes it as its first argument.
 */
export interface Store extends ReturnType<typeof openStore> {}

/**
 * Opens no connection before one is needed.
 * @param url a PostgreSQL connection URL; the schema must be migrated before use
 */
export function openStore(url: string, applicationName: string, times: StoreTimes = STORE_TIMES) {
  const pools = createPools(url, applicationName, times);
  const pool = pools.others;
  const prisma = new PrismaClient({ adapter: new PrismaPg(pool) });
  const connections = { ...pools, prisma };
  return {
    sellers: {
      ...withFirst(connections, {
        lock: lockSeller,
        forget: forgetSeller,
        statuses: sellerStatuses,
      }),
      ...withFirst(pool, {
        ensure: ensureSeller,
        bindingOf,
        bind: bindSeller,
        parkingOf,
        park: parkSeller,
        freshness: readFreshness,
      }),
      saveAccount,
    },
    runs: {
      start: startRun,
      covering: coveringRun,
      decisionsOn,
      decide: recordDecision,
      ...withFirst(connections, { list: listRuns, get: getRun, laterGood: laterGoodRun }),
      ...withFirst(pool, { finish: finishRun, held: readHeldRun, fields: readRunFields }),
    },
    items: {
      begin: (lock: SellerLock, stamp: RowStamp) => ItemSession.begin(lock, stamp),
      chooseLookups,
      tellUndecided,
      otherLive: otherLiveItem,
      ...withFirst(pool, {
        withId: itemsWithId,
        priceHistory,
        historyStarts,
        changes: readChanges,
        changeCounts: countChanges,
        feedEnd,
        feedReach,
      }),
    },
    schedules: withFirst(pool, { read: readSchedules, record: recordTicks }),
    processes: withFirst(pool, { beat, end: endBeat, live: liveProcesses }),
    audits: {
      ...withFirst(connections, { begin: beginAudit, results: auditResults, recheckCandidates }),
      withChunk: <T>(auditId: bigint, chunk: number, work: (held: HeldChunk) => Promise<T>) =>
        withChunk(pools, auditId, chunk, work),
      ...withFirst(pool, {
        get: getProgress,
        list: listProgress,
        backlogs: auditBacklogs,
        listOf: getList,
        nextChunks,
        pendingOf,
        record: recordResults,
        cancel: cancelAudit,
        fail: failAudit,
        note: noteProblem,
        resume: resumeAudit,
        setResultFile,
        markResultWritten,
        unprovenCounts,
        accountProven,
        countRunning,
        deniedCodes,
        codesToLookAt,
        settleDenied,
        canariesOf,
        deniedCanaries,
        recordDeniedCanaries,
        knownCodes,
        checksOf,
      }),
    },
    ...withFirst(connections, { prune, measurePrune }),
    ...withFirst(pool, { budget: storedBudget, ping: assertWritable }),
    async close(): Promise<void> {
      await prisma.$disconnect();
      await pools.end();
    },
  };
}

/** The functions without their first parameter. */
type WithFirst<First, Functions> = {
  readonly [Name in keyof Functions]: Functions[Name] extends (
    first: First,
    ...rest: infer Rest
  ) => infer Result
    ? (...rest: Rest) => Result
    : never;
};

/** The functions with their first argument given. */
function withFirst<
  First,
  Functions extends Readonly<Record<string, (first: First, ...rest: never[]) => unknown>>,
>(first: First, functions: Functions): WithFirst<First, Functions> {
  const bound = Object.entries(functions).map(([name, call]) => [name, call.bind(null, first)]);
  return Object.fromEntries(bound) as WithFirst<First, Functions>;
}
