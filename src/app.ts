import { hostname } from 'node:os';
import type { Config, SellerConfig } from './config/index.js';
import type { JobDeps, Progress, RunEvent } from './jobs/types.js';
import { progressWriter } from './jobs/run.js';
import { hostName } from './domain/address.js';
import type { CallRecord, Marketplace } from './marketplace/types.js';
import { openDatabase, type Database } from './store/open.js';
import { openStore, type Store } from './store/store.js';

export interface AppEvents {
  readonly onCall?: (seller: string, call: CallRecord) => void;
  readonly onProgress?: (seller: string, progress: Progress) => void;
  readonly onRun?: (seller: string, event: RunEvent) => void;
}

export interface JobOptions {
  readonly acceptAccount?: boolean;
  readonly jobId?: string;
  readonly onRun?: (event: RunEvent) => void;
  readonly onProgress?: (progress: Progress) => void;
}

/** Everything wired: the store open and current, a marketplace client for each seller. */
export interface App {
  readonly config: Config;
  readonly database: Database;
  readonly store: Store;
  /** Aborted when the process must end. */
  readonly signal: AbortSignal;
  /** Does work for a seller, with a marketplace client of its own that is closed afterwards. */
  withJobs<T>(
    seller: SellerConfig,
    options: JobOptions,
    work: (deps: JobDeps) => Promise<T>,
  ): Promise<T>;
  close(): Promise<void>;
}

/** Opens the store and wires the rest on it. @throws {StoreError} when the store can't be opened */
export async function openApp(
  config: Config,
  command: string,
  signal: AbortSignal,
  events: AppEvents = {},
): Promise<App> {
  const applicationName = `seller-mirror ${command}`.slice(0, 63);
  const { databaseUrl, dataDir } = config;
  const database = await openDatabase({ databaseUrl, dataDir, applicationName, signal });
  const store = openStore(database.url, applicationName);
  return {
    config,
    database,
    store,
    signal,
    async withJobs(seller, options, work) {
      let calls = 0;
      const written = progressWriter(store);
      const counter = requestCounter(store, seller.name);
      const marketplace = await openMarketplace(config, seller, store, (call) => {
        calls += 1 + call.redirects;
        counter.add(1 + call.redirects);
        events.onCall?.(seller.name, call);
      });
      try {
        return await work({
          store,
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
      // In reverse order of opening, each whether or not the one before could be closed.
      try {
        await store.close();
      } finally {
        await database.close();
      }
    },
  };
}

/**
 * The client of a seller's marketplace, on the budget that its host's sellers share in the store. It takes
 * a tenth of a second to load, which commands that only read the store need not wait for.
 */
async function openMarketplace(
  config: Config,
  seller: SellerConfig,
  store: Store,
  onCall: (call: CallRecord) => void,
): Promise<Marketplace> {
  const { createMarketplace } = await import('./marketplace/client.js');
  return createMarketplace({
    baseUrl: seller.url,
    key: seller.key,
    carriage: seller.carriage,
    allowPlainHttp: config.allowPlainHttp,
    budget: store.budget(hostName(seller.url), seller.requestsPerMinute),
    onCall,
  });
}

/** Longest time that requests stay uncounted in the store (ms). */
const WRITE_EVERY_MS = 5_000;

/**
 * Counts a seller's requests in the store, for those who watch how much of the budget is used. Work
 * does not depend on it and never waits for it: what the store does not take is left out.
 */
export function requestCounter(
  { requests }: Pick<Store, 'requests'>,
  sellerId: string,
): { add(count: number): void; close(): void } {
  let waiting = 0;
  let timer: NodeJS.Timeout | null = null;
  const write = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const count = waiting;
    waiting = 0;
    if (count > 0) void requests.add(sellerId, count).catch(() => undefined);
  };
  return {
    add(count) {
      waiting += count;
      timer ??= setTimeout(write, WRITE_EVERY_MS).unref();
    },
    close: write,
  };
}
