import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Verdict } from '../domain/codes/proof.js';
import type { RunEvent } from '../jobs/types.js';
import type { CallRecord } from '../marketplace/types.js';
import type { QueueCounts } from '../queue/queues.js';
import type { QueueName } from '../queue/tasks.js';
import type { JobEvent } from '../queue/worker.js';
import type { AuditBacklog } from '../store/audits/types.js';
import { feedDelay } from '../domain/feeds.js';
import type { FeedState } from '../store/feeds.js';
import { PAUSED } from '../store/sellers.js';
import type { SellerStatus } from '../store/status.js';
import { VERSION } from '../version.js';
import { cachedCall } from './cached-call.js';

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/** What is shown of a seller's copy. */
export type Copy = Pick<
  SellerStatus,
  'sellerId' | 'knownSince' | 'accountMirroredAt' | 'itemsMirroredAt' | 'parked' | 'items'
>;

export interface MetricSources {
  /** Names of the configured sellers; no other becomes a label. */
  readonly sellers: readonly string[];
  /** Null while there is no queue yet. */
  readonly counts: () => Promise<Readonly<Record<QueueName, QueueCounts>> | null>;
  readonly copies: () => Promise<readonly Copy[]>;
  /** Sellers without an audit that runs may be left out. */
  readonly audits: () => Promise<readonly AuditBacklog[]>;
  /** Names and views of the configured feeds; no other becomes a label. */
  readonly feeds: readonly { readonly name: string; readonly views: readonly string[] }[];
  readonly feedStates: () => Promise<readonly FeedState[]>;
}

export type Metrics = ReturnType<typeof createMetrics>;

const KINDS = ['account', 'items'] as const;
const RUN_STATES = ['succeeded', 'held', 'failed', 'interrupted'] as const;
const CHANGES = ['added', 'changed', 'removed', 'missing', 'restored', 'quarantined'] as const;
const VERDICTS = ['valid', 'invalid', 'unproven'] as const;
const ITEM_STATES = ['live', 'missing', 'removed'] as const;

/** Seconds, from a call within one machine room to the longest wait for a reply. */
const CALL_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
/** Seconds; the usual budget lets one request leave a second. */
const WAIT_SECONDS = [0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
/** Seconds, from an unchanged account to a huge catalogue behind a small budget. */
const WORK_SECONDS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400];

/** Longest wait for store and queue, milliseconds. */
const TIMEOUT_MS = 3_000;

/**
 * Store and queue are asked no more often than every few seconds, and spend no more than a
 * twentieth of the time on it, however many ask and however large they are.
 */
const freshMs = (tookMs: number): number => Math.max(2_000, 20 * tookMs);

/** Counts what it is told; nothing is read from the sources before `text`. */
export function createMetrics(sources: MetricSources) {
  const series = createSeries();
  const sellers = new Set(sources.sellers);
  const startedAt = Date.now();
  for (const seller of sellers) beginAtZero(series, seller);
  /** Returns a function that asks a source: null, and a count of the failure, without an answer. */
  const asking = <T>(
    source: 'store' | 'queue',
    call: () => Promise<T>,
  ): (() => Promise<T | null>) => {
    const ask = cachedCall(call, TIMEOUT_MS, freshMs);
    const errors = series.scrapeErrors.labels(source);
    errors.inc(0);
    return () =>
      ask().catch(() => {
        errors.inc();
        return null;
      });
  };
  const askCopies = asking('store', sources.copies);
  const audits = asking('store', sources.audits);
  const feeds = asking('store', () =>
    sources.feeds.length === 0 ? Promise.resolve([]) : sources.feedStates(),
  );
  const counts = asking('queue', sources.counts);
  return {
    onCall(seller: string, { operation, outcome, durationMs, waitedMs }: CallRecord): void {
      if (!sellers.has(seller)) return;
      series.calls.inc({ seller, operation, outcome });
      series.callSeconds.observe({ operation }, durationMs / 1000);
      series.waitSeconds.observe(waitedMs / 1000);
    },
    onRun(seller: string, event: RunEvent): void {
      if (!sellers.has(seller) || event.phase === 'started') return;
      const { kind, state, counts: figures, durationMs } = event;
      series.runs.inc({ seller, kind, state });
      series.runSeconds.observe({ kind }, durationMs / 1000);
      // The figures of an account run are about the account.
      if (kind === 'account') return;
      for (const change of CHANGES) series.items.inc({ seller, change }, figures[change]);
    },
    onJob({ queue, name, outcome, durationMs }: JobEvent): void {
      series.jobs.inc({ queue, name, outcome });
      series.jobSeconds.observe({ queue, name }, durationMs / 1000);
    },
    onVerdict(seller: string, verdict: Verdict): void {
      if (sellers.has(seller)) series.codes.inc({ seller, verdict });
    },
    /** In Prometheus's text format. Series of a source that does not answer in time are left out. */
    async text(): Promise<string> {
      const [copies, backlogs, states, queues] = await Promise.all([
        askCopies(),
        audits(),
        feeds(),
        counts(),
      ]);
      const { lookedUp } = series;
      for (const gauge of Object.values(lookedUp)) gauge.reset();
      if (copies !== null) showCopies(lookedUp, sellers, copies, startedAt);
      if (backlogs !== null) showAudits(lookedUp, sellers, backlogs);
      if (states !== null) showFeeds(lookedUp, sources.feeds, states);
      if (queues !== null) showQueues(lookedUp, queues);
      return await series.registry.metrics();
    },
  };
}

/** Everything that is counted and measured, each under the name it has for Prometheus. */
type Series = ReturnType<typeof createSeries>;

/** All series on a registry of their own, those of the process included. */
function createSeries() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
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

  gauge('build_info', ['version'], 'Always 1; the label tells which version runs.').set(
    { version: VERSION },
    1,
  );
  const lookedUp = {
    lastSuccess: gauge(
      'last_success_timestamp_seconds',
      ['seller', 'kind'],
      'When the copy was last known to be current; 0: never.',
    ),
    age: gauge(
      'last_success_age_seconds',
      ['seller', 'kind'],
      'Time since then, or since the seller was first met when there was no success.',
    ),
    parked: gauge(
      'seller_parked',
      ['seller'],
      '1 while schedules leave the seller alone until a person has mended what went wrong.',
    ),
    paused: gauge('seller_paused', ['seller'], '1 while a person has paused the seller.'),
    itemsNow: gauge('items', ['seller', 'state'], 'Items in the copy, by state.'),
    audits: gauge('audits_running', ['seller'], 'Audits of purchase codes that run.'),
    pendingCodes: gauge(
      'codes_pending',
      ['seller'],
      'Codes of running audits that are not settled yet.',
    ),
    feedLag: gauge(
      'feed_lag_seconds',
      ['feed', 'view'],
      'How long the target of a feed has lacked something that it should have; 0: it lacks nothing.',
    ),
    feedSuccess: gauge(
      'feed_last_success_timestamp_seconds',
      ['feed', 'view'],
      'When a view was last delivered, or found to be the same; 0: never.',
    ),
    feedFailures: gauge('feed_failures', ['feed'], 'Deliveries of a feed that failed in a row.'),
    queueJobs: gauge(
      'queue_jobs',
      ['queue', 'state'],
      'Jobs in the queue, by state; finished ones are kept a while.',
    ),
  };
  return {
    registry,
    lookedUp,
    runs: counter('runs', ['seller', 'kind', 'state'], 'Runs that ended here, by how they ended.'),
    items: counter(
      'items',
      ['seller', 'change'],
      'Items that runs found changed; quarantined and missing ones count in every run that meets them.',
    ),
    runSeconds: seconds('run_duration', ['kind'], WORK_SECONDS, 'How long runs took.'),
    calls: counter(
      'api_calls',
      ['seller', 'operation', 'outcome'],
      'Calls of the marketplace, each repetition counted.',
    ),
    callSeconds: seconds(
      'api_call_duration',
      ['operation'],
      CALL_SECONDS,
      'How long calls took, without waits for the budget; of a list, up to its beginning.',
    ),
    waitSeconds: seconds(
      'budget_wait',
      [],
      WAIT_SECONDS,
      'How long calls waited for the request budget.',
    ),
    jobs: counter(
      'jobs',
      ['queue', 'name', 'outcome'],
      'Jobs that were worked on here, by what became of them.',
    ),
    jobSeconds: seconds(
      'job_duration',
      ['queue', 'name'],
      WORK_SECONDS,
      'How long work on jobs took.',
    ),
    codes: counter(
      'codes_checked',
      ['seller', 'verdict'],
      'Purchase codes that audits settled here, by verdict; unproven ones were given up.',
    ),
    scrapeErrors: counter(
      'scrape_errors',
      ['source'],
      'Times that series were left out because their source did not answer.',
    ),
  };
}

/** A counter that begins with its first event hides that event from `increase()`. */
function beginAtZero({ runs, items, codes }: Series, seller: string): void {
  for (const kind of KINDS) {
    for (const state of RUN_STATES) runs.inc({ seller, kind, state }, 0);
  }
  for (const change of CHANGES) items.inc({ seller, change }, 0);
  for (const verdict of VERDICTS) codes.inc({ seller, verdict }, 0);
}

type LookedUp = Series['lookedUp'];

function showCopies(
  { lastSuccess, age, parked, paused, itemsNow }: LookedUp,
  sellers: ReadonlySet<string>,
  copies: readonly Copy[],
  startedAt: number,
): void {
  const known = new Map(copies.map((copy) => [copy.sellerId, copy]));
  for (const seller of sellers) {
    const copy = known.get(seller);
    for (const kind of KINDS) {
      const at = copy?.[`${kind}MirroredAt` as const]?.getTime() ?? 0;
      const since = at === 0 ? (copy?.knownSince.getTime() ?? startedAt) : at;
      lastSuccess.set({ seller, kind }, at / 1000);
      // The database's clock may be ahead of this one.
      age.set({ seller, kind }, Math.max(0, Date.now() - since) / 1000);
    }
    const isPaused = copy?.parked?.code === PAUSED;
    parked.set({ seller }, (copy?.parked ?? null) !== null && !isPaused ? 1 : 0);
    paused.set({ seller }, isPaused ? 1 : 0);
    for (const state of ITEM_STATES) itemsNow.set({ seller, state }, copy?.items[state] ?? 0);
  }
}

function showAudits(
  { audits, pendingCodes }: LookedUp,
  sellers: ReadonlySet<string>,
  backlogs: readonly AuditBacklog[],
): void {
  const known = new Map(backlogs.map((one) => [one.sellerId, one]));
  for (const seller of sellers) {
    audits.set({ seller }, known.get(seller)?.running ?? 0);
    pendingCodes.set({ seller }, known.get(seller)?.pending ?? 0);
  }
}

function showFeeds(
  { feedLag, feedSuccess, feedFailures }: LookedUp,
  feeds: MetricSources['feeds'],
  states: readonly FeedState[],
): void {
  const now = new Date();
  for (const { name: feed, views } of feeds) {
    const state = states.find((one) => one.feed === feed);
    feedFailures.set({ feed }, state?.failures ?? 0);
    for (const view of views) {
      const known = state?.views.find((one) => one.view === view);
      const waiting = known === undefined ? [] : [known];
      feedLag.set({ feed, view }, feedDelay(waiting, views, now).ms / 1000);
      feedSuccess.set({ feed, view }, (known?.deliveredAt?.getTime() ?? 0) / 1000);
    }
  }
}

function showQueues(
  { queueJobs }: LookedUp,
  queues: Readonly<Record<QueueName, QueueCounts>>,
): void {
  for (const [queue, counts] of Object.entries(queues)) {
    for (const [state, jobs] of Object.entries(counts)) {
      queueJobs.set({ queue, state }, jobs as number);
    }
  }
}
