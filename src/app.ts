import { hostname } from 'node:os';
import type { Config, SellerConfig } from './config/index.js';
import type { RunDeps, Progress, RunEvent } from './catalogue/types.js';
import { hostName } from './domain/address.js';
import type { OnWait } from './domain/budget.js';
import type { CallRecord, Marketplace } from './marketplace/types.js';
import { openDatabase, type Database } from './db/open.js';
import { type Db, openDb } from './db/db.js';
import { storedBudget, addRequests, storedRandomParameter } from './db/budget.js';
import { type RunProgress, writeRunProgress } from './catalogue/runs-store.js';

export interface AppEvents {
  readonly onCall?: (seller: string, call: CallRecord) => void;
  readonly onProgress?: (seller: string, progress: Progress) => void;
  readonly onRun?: (seller: string, event: RunEvent) => void;
  /** Something that a person should see to, such as a clock that is wrong. */
  readonly onWarning?: (warning: string) => void;
}

export type MirrorRunOptions = Pick<RunDeps, 'acceptAccount' | 'jobId' | 'onRun' | 'onProgress'> & {
  /** Called when a request waits long for the budget. */
  readonly onWait?: OnWait;
};

/** The open, migrated store, and marketplace clients. */
export interface App {
  readonly config: Config;
  readonly database: Database;
  readonly db: Db;
  /** Aborted when the process must end. */
  readonly signal: AbortSignal;
  /** Opens a client of a seller's marketplace for `work`, and closes it afterwards. */
  withMarketplace<T>(
    seller: SellerConfig,
    options: MirrorRunOptions,
    work: (deps: RunDeps) => Promise<T>,
  ): Promise<T>;
  close(): Promise<void>;
}

/** Opens the store, and migrates it. @throws {UserError} when the store can't be opened */
export async function openApp(
  config: Config,
  command: string,
  signal: AbortSignal,
  events: AppEvents = {},
): Promise<App> {
  const applicationName = `seller-mirror ${command}`.slice(0, 63);
  const { databaseUrl, dataDir } = config;
  const database = await openDatabase({ databaseUrl, dataDir, applicationName, signal });
  const db = openDb(database.url, applicationName);
  try {
    await db.clock.start((warning) => events.onWarning?.(warning));
  } catch (error) {
    await db.close().catch(() => undefined);
    await database.close();
    throw error;
  }
  return {
    config,
    database,
    db,
    signal,
    async withMarketplace(seller, options, work) {
      let calls = 0;
      const written = progressWriter(db);
      const counter = requestCounter((count) => addRequests(db, seller.name, count));
      const marketplace = await openMarketplace(config, seller, db, {
        onCall: (call) => {
          calls += 1 + call.redirects;
          counter.add(1 + call.redirects);
          events.onCall?.(seller.name, call);
        },
        onWait: options.onWait,
      });
      try {
        return await work({
          db,
          marketplace,
          sellerId: seller.name,
          removalGuard: config.removalGuard,
          lookupsPerRun: config.lookupsPerRun,
          requestsPerMinute: seller.requestsPerMinute,
          holder: `${command} (process ${process.pid} on ${hostname()})`,
          acceptAccount: options.acceptAccount ?? false,
          jobId: options.jobId ?? null,
          callCount: () => calls,
          onProgress: (progress) => {
            events.onProgress?.(seller.name, progress);
            options.onProgress?.(progress);
            written.onProgress(progress);
          },
          onRun: (event) => {
            events.onRun?.(seller.name, event);
            options.onRun?.(event);
            written.onRun(event);
          },
        });
      } finally {
        counter.close();
        await marketplace.close();
      }
    },
    async close() {
      // In reverse order. The database is closed even if closing the store fails.
      try {
        await db.close();
      } finally {
        await database.close();
      }
    },
  };
}

/**
 * Opens a client of the seller's marketplace. All sellers on its host share a budget in the store. The client
 * takes 0.1 s to load, which commands that only read the store should not spend.
 */
async function openMarketplace(
  config: Config,
  seller: SellerConfig,
  db: Db,
  {
    onCall,
    onWait,
  }: { readonly onCall: (call: CallRecord) => void; readonly onWait: OnWait | undefined },
): Promise<Marketplace> {
  const { createMarketplace } = await import('./marketplace/client.js');
  const host = hostName(seller.url);
  const options = {
    baseUrl: seller.url,
    key: seller.key,
    carriage: seller.carriage,
    listMarks: seller.listMarks,
    maxListBytes: config.maxListBytes,
    allowPlainHttp: config.allowPlainHttp,
    budget: storedBudget(db, host, seller.requestsPerMinute, onWait),
    randomParameter: storedRandomParameter(db, host),
    onCall,
  };
  // What a server says about time is told by the same clock that runs are recorded by.
  return createMarketplace(options, { now: () => db.clock.now() });
}

/** Interval of writing request counts to the store. */
const WRITE_COUNTS_EVERY_MS = 5_000;

/** Counts a seller's requests in the store, for display. Never waits or fails: lost counts don't matter. */
export function requestCounter(write: (count: number) => Promise<void>): {
  add(count: number): void;
  close(): void;
} {
  let unwritten = 0;
  let timer: NodeJS.Timeout | null = null;
  const writeCount = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const count = unwritten;
    unwritten = 0;
    if (count > 0) void write(count).catch(() => undefined);
  };
  return {
    add(count) {
      unwritten += count;
      timer ??= setTimeout(writeCount, WRITE_COUNTS_EVERY_MS).unref();
    },
    close: writeCount,
  };
}

/** Shortest time between two writes of a run's progress. */
const WRITE_PROGRESS_EVERY_MS = 1_000;

/**
 * Returns listeners that write the progress of runs into the store, for other processes to show. They
 * never throw and never block the run.
 */
function progressWriter(db: Db): Required<Pick<RunDeps, 'onRun' | 'onProgress'>> {
  let runId: bigint | null = null;
  let wroteAt = -Infinity;
  let isWriting = false;
  return {
    onRun(event) {
      runId = event.phase === 'started' ? event.runId : null;
      wroteAt = -Infinity;
    },
    onProgress(progress) {
      const now = performance.now();
      if (runId === null || isWriting || now - wroteAt < WRITE_PROGRESS_EVERY_MS) return;
      wroteAt = now;
      isWriting = true;
      void writeRunProgress(db, runId, stepOf(progress))
        .catch(() => undefined)
        .finally(() => (isWriting = false));
    },
  };
}

function stepOf(progress: Progress): RunProgress {
  const { phase } = progress;
  if (phase === 'list') {
    const { records, bytes, expected } = progress;
    // No record is read before the whole list has arrived.
    if (records === 0) return { phase: 'receive', done: bytes, total: null };
    return { phase, done: records, total: expected === null ? null : Math.max(records, expected) };
  }
  if (phase === 'look-up') return { phase, done: progress.done, total: progress.total };
  return { phase, done: 0, total: null };
}
