import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { RunEvent } from '../catalogue/types.js';
import type { Verdict } from '../codes/rules.js';
import { shareUsed } from '../codes/look-up-store.js';
import { callsAllowed, type Config } from '../config/index.js';
import { ITEM_STATES } from '../domain/item.js';
import type { CallRecord } from '../marketplace/types.js';
import { VERSION } from '../version.js';
import type { Board } from './board.js';
import { withTimeout } from './concurrency.js';
import type { QueueCounts } from './queue/queues.js';
import type { QueueName } from './queue/tasks.js';
import type { JobEvent } from './queue/worker.js';

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

export interface MetricSources {
  /** Only its sellers and feeds become labels. Sellers may come and go. */
  readonly config: Config;
  /** Resolves to null until the store is open. */
  readonly board: () => Promise<Board | null>;
  /** Resolves to null until the queue is open. */
  readonly counts: () => Promise<Readonly<Record<QueueName, QueueCounts>> | null>;
}

export type Metrics = ReturnType<typeof createMetrics>;

const KINDS = ['account', 'items'] as const;
const RUN_STATES = ['succeeded', 'held', 'failed', 'interrupted'] as const;
const CHANGES = ['added', 'changed', 'removed', 'missing', 'restored', 'quarantined'] as const;
const VERDICTS = ['valid', 'invalid', 'no_longer_valid', 'unproven'] as const;

/** Buckets in seconds, from a call in the same data centre to the longest timeout. */
const CALL_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
/** Buckets in seconds. The default budget allows one request a second. */
const WAIT_SECONDS = [0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
/** Buckets in seconds, from an unchanged account to a huge catalogue on a small budget. */
const WORK_SECONDS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400];

/** Timeout of queries to store and queue (ms). */
const TIMEOUT_MS = 3_000;

/** Creates the metrics. Its `on…` methods count events; `text` also queries the sources. */
export function createMetrics({ config, board, counts }: MetricSources) {
  const series = createSeries();
  const startedAt = Date.now();
  const begun = new Set<string>();
  /** Whether the seller is configured. Its counters begin with 0: `increase()` misses the first event of others. */
  const isOurs = (seller: string): boolean => {
    if (config.sellers.every(({ name }) => name !== seller)) return false;
    if (!begun.has(seller)) startAtZero(series, seller);
    begun.add(seller);
    return true;
  };
  /** Queries a source. If that fails, it counts the error and returns null. */
  const ask = async <T>(source: 'store' | 'queue', call: () => Promise<T>): Promise<T | null> => {
    const errors = series.scrapeErrors.labels(source);
    errors.inc(0);
    try {
      return await withTimeout(TIMEOUT_MS, call());
    } catch {
      errors.inc();
      return null;
    }
  };
  return {
    onCall(seller: string, { operation, outcome, durationMs, waitedMs }: CallRecord): void {
      if (!isOurs(seller)) return;
      series.calls.inc({ seller, operation, outcome });
      series.callSeconds.observe({ operation }, durationMs / 1000);
      series.waitSeconds.observe(waitedMs / 1000);
    },
    onRun(seller: string, event: RunEvent): void {
      if (!isOurs(seller) || event.phase === 'started') return;
      const { kind, state, counts, durationMs } = event;
      series.runs.inc({ seller, kind, state });
      series.runSeconds.observe({ kind }, durationMs / 1000);
      // Account runs have no items.
      if (kind === 'account') return;
      for (const change of CHANGES) series.items.inc({ seller, change }, counts[change]);
    },
    onJob({ queue, name, outcome, durationMs }: JobEvent): void {
      series.jobs.inc({ queue, name, outcome });
      series.jobSeconds.observe({ queue, name }, durationMs / 1000);
    },
    onVerdict(seller: string, verdict: Verdict): void {
      if (isOurs(seller)) series.codes.inc({ seller, verdict });
    },
    onAnswer(seller: string, verdict: string, asked: boolean): void {
      if (isOurs(seller)) series.lookUps.inc({ seller, verdict, asked: String(asked) });
    },
    /** Returns Prometheus's text format, without the series of sources that don't answer in time. */
    async text(): Promise<string> {
      const [found, queues] = await Promise.all([ask('store', board), ask('queue', counts)]);
      config.sellers.forEach(({ name }) => isOurs(name));
      const { queried } = series;
      for (const gauge of Object.values(queried)) gauge.reset();
      if (found !== null) setBoard(queried, found, callsAllowed(config), startedAt);
      for (const [queue, counts] of Object.entries(queues ?? {})) {
        for (const [state, jobs] of Object.entries(counts)) {
          queried.queueJobs.set({ queue, state }, jobs);
        }
      }
      return await series.registry.metrics();
    },
  };
}

type Series = ReturnType<typeof createSeries>;

/** Creates all series in a new registry, with Node's default metrics. */
function createSeries() {
  const registry = new Registry();
  // Every 10 ms, its default, would take 0.4 % of a core from an idle process.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
  const options = <T extends string>(name: string, labelNames: T[], help: string) => ({
    name: `seller_mirror_${name}`,
    labelNames,
    help,
    registers: [registry],
  });
  const counter = <T extends string>(name: string, labels: T[], help: string) =>
    new Counter(options(`${name}_total`, labels, help));
  const gauge = <T extends string>(name: string, labels: T[], help: string) =>
    new Gauge(options(name, labels, help));
  const seconds = <T extends string>(name: string, labels: T[], buckets: number[], help: string) =>
    new Histogram({ ...options(`${name}_seconds`, labels, help), buckets });

  gauge('build_info', ['version'], 'Always 1; the label is the version that runs.').set(
    { version: VERSION },
    1,
  );
  /** Gauges that every scrape sets from the sources. */
  const queried = {
    lastSuccess: gauge(
      'last_success_timestamp_seconds',
      ['seller', 'kind'],
      'When the copy was last confirmed to be current; 0: never.',
    ),
    age: gauge(
      'last_success_age_seconds',
      ['seller', 'kind'],
      'Time since the last success, or since the seller was added when there was none.',
    ),
    needs: gauge(
      'needs',
      ['kind', 'seller', 'feed'],
      'What needs a person, as `status` says; absent: nothing.',
    ),
    paused: gauge('seller_paused', ['seller'], '1 while a person has paused the seller.'),
    itemsNow: gauge('items', ['seller', 'state'], 'Items in the copy, by state.'),
    audits: gauge('audits_running', ['seller'], 'Running checks of purchase codes.'),
    pendingCodes: gauge('codes_pending', ['seller'], 'Codes without a verdict in running checks.'),
    lookUpCalls: gauge(
      'look_up_calls_today',
      ['seller'],
      'Calls that look-ups made since midnight, with the second checks of denied codes.',
    ),
    lookUpShare: gauge(
      'look_up_share_used',
      ['seller'],
      'The part of API_SHARE that look-ups used since midnight; 0 without a request budget.',
    ),
    lookUpPending: gauge(
      'look_ups_pending',
      ['seller'],
      'Denied codes of look-ups that wait for their second check.',
    ),
    feedLag: gauge(
      'feed_lag_seconds',
      ['feed', 'view'],
      'How long a view has waited for delivery to the target of its feed; 0: it is up to date.',
    ),
    feedSuccess: gauge(
      'feed_last_success_timestamp_seconds',
      ['feed', 'view'],
      'When a view was last delivered, or found unchanged; 0: never.',
    ),
    feedFailures: gauge('feed_failures', ['feed'], 'Consecutive failed deliveries of a feed.'),
    queueJobs: gauge('queue_jobs', ['queue', 'state'], 'Jobs in the queue, by state.'),
  };
  return {
    registry,
    queried,
    runs: counter('runs', ['seller', 'kind', 'state'], 'Runs that ended in this process.'),
    items: counter(
      'items',
      ['seller', 'change'],
      'Items that runs found changed; every run counts its quarantined and missing items again.',
    ),
    runSeconds: seconds('run_duration', ['kind'], WORK_SECONDS, 'Duration of runs.'),
    calls: counter('api_calls', ['seller', 'operation', 'outcome'], 'Requests, with retries.'),
    callSeconds: seconds(
      'api_call_duration',
      ['operation'],
      CALL_SECONDS,
      'Duration of requests, without waits for the budget; for a list, until its first record.',
    ),
    waitSeconds: seconds('budget_wait', [], WAIT_SECONDS, 'Waits for the request budget.'),
    jobs: counter('jobs', ['queue', 'name', 'outcome'], 'Jobs that this process ran.'),
    jobSeconds: seconds('job_duration', ['queue', 'name'], WORK_SECONDS, 'Duration of jobs.'),
    codes: counter(
      'codes_checked',
      ['seller', 'verdict'],
      'Purchase codes that this process checked, by verdict; unproven codes were given up.',
    ),
    lookUps: counter(
      'look_ups',
      ['seller', 'verdict', 'asked'],
      'Answers of the look-up API; asked: the marketplace was asked; refused: too many unknown codes.',
    ),
    scrapeErrors: counter('scrape_errors', ['source'], 'Failed queries of store or queue.'),
  };
}

function startAtZero({ runs, items, codes }: Series, seller: string): void {
  for (const kind of KINDS) {
    for (const state of RUN_STATES) runs.inc({ seller, kind, state }, 0);
  }
  for (const change of CHANGES) items.inc({ seller, change }, 0);
  for (const verdict of VERDICTS) codes.inc({ seller, verdict }, 0);
}

/** Sets the gauges of configured sellers and feeds. @param allowed calls a minute that look-ups of a seller may make */
function setBoard(
  gauges: Series['queried'],
  { now, sellers, feeds, checks, lookUps, needs }: Board,
  allowed: (seller: string) => number,
  startedAt: number,
): void {
  for (const card of sellers) {
    if (!card.configured) continue;
    const seller = card.sellerId;
    for (const kind of KINDS) {
      const at = card[`${kind}MirroredAt` as const]?.getTime() ?? 0;
      const since = at === 0 ? (card.knownSince?.getTime() ?? startedAt) : at;
      gauges.lastSuccess.set({ seller, kind }, at / 1000);
      // Not below 0: the database's clock may be ahead of this one.
      gauges.age.set({ seller, kind }, Math.max(0, now.getTime() - since) / 1000);
    }
    gauges.paused.set({ seller }, card.copy === 'paused' ? 1 : 0);
    for (const state of ITEM_STATES) gauges.itemsNow.set({ seller, state }, card.items[state]);
    const check = checks.find(({ sellerId }) => sellerId === seller);
    gauges.audits.set({ seller }, check?.running ?? 0);
    gauges.pendingCodes.set({ seller }, check?.pending ?? 0);
    const load = lookUps.find(({ sellerId }) => sellerId === seller);
    gauges.lookUpCalls.set({ seller }, load?.calls ?? 0);
    gauges.lookUpShare.set({ seller }, load === undefined ? 0 : shareUsed(load, allowed(seller)));
    gauges.lookUpPending.set({ seller }, load?.pending ?? 0);
  }
  for (const { name: feed, place, failures, views } of feeds) {
    if (place === null) continue;
    gauges.feedFailures.set({ feed }, failures);
    for (const { view, lagSeconds, deliveredAt } of views) {
      gauges.feedLag.set({ feed, view }, lagSeconds);
      gauges.feedSuccess.set({ feed, view }, (deliveredAt?.getTime() ?? 0) / 1000);
    }
  }
  for (const { kind, seller, feed } of needs) {
    gauges.needs.inc({ kind, seller: seller ?? '', feed: feed ?? '' });
  }
}
