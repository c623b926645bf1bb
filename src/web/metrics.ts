import { readFileSync } from 'node:fs';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Verdict } from '../domain/codes/proof.js';
import type { RunEvent } from '../jobs/types.js';
import type { CallRecord } from '../marketplace/types.js';
import type { QueueCounts } from '../queue/queues.js';
import type { QueueName } from '../queue/tasks.js';
import type { JobEvent } from '../queue/worker.js';
import type { AuditBacklog } from '../store/audits/types.js';
import type { Freshness } from '../store/sellers.js';
import { cachedCall } from './cached-call.js';

/** Content type of the metrics' text. */
export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/** The product's version, as its package states it. */
export const VERSION = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  }
).version;

export interface MetricSources {
  /** Names of the configured sellers; no other becomes a label. */
  readonly sellers: readonly string[];
  /** Null while there is no queue yet. */
  readonly counts: () => Promise<Readonly<Record<QueueName, QueueCounts>> | null>;
  readonly freshness: () => Promise<readonly Freshness[]>;
  /** Sellers without an audit that runs may be left out. */
  readonly audits: () => Promise<readonly AuditBacklog[]>;
}

/** What is counted, to be told of it and to be read by Prometheus. */
export interface Metrics {
  onCall(seller: string, call: CallRecord): void;
  onRun(seller: string, event: RunEvent): void;
  onJob(event: JobEvent): void;
  onVerdict(seller: string, verdict: Verdict): void;
  /** In Prometheus's text format. Series of a source that does not answer in time are left out. */
  text(): Promise<string>;
}

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

/**
 * Store and queue are asked no more often than every few seconds, and spend no more than a
 * twentieth of the time on it, however many ask and however large they are.
 */
const CACHE = {
  timeoutMs: 3_000,
  freshMs: (tookMs: number) => Math.max(2_000, 20 * tookMs),
};

/** Metrics with a registry of their own; nothing is read from the sources before `text`. */
export function createMetrics(sources: MetricSources): Metrics {
  const series = createSeries();
  const sellers = new Set(sources.sellers);
  const startedAt = Date.now();
  for (const seller of sellers) beginAtZero(series, seller);
  const freshness = cachedCall(sources.freshness, CACHE);
  const audits = cachedCall(sources.audits, CACHE);
  const counts = cachedCall(sources.counts, CACHE);
  /** The answer, or null and a count of the failure. */
  const tried = async <T>(source: 'store' | 'queue', call: () => Promise<T>): Promise<T | null> => {
    const errors = series.scrapeErrors.labels(source);
    errors.inc(0);
    return await call().catch(() => {
      errors.inc();
      return null;
    });
  };
  return {
    onCall(seller, { operation, outcome, durationMs, waitedMs }) {
      if (!sellers.has(seller)) return;
      series.calls.inc({ seller, operation, outcome });
      series.callSeconds.observe({ operation }, durationMs / 1000);
      series.waitSeconds.observe(waitedMs / 1000);
    },
    onRun(seller, event) {
      if (!sellers.has(seller) || event.phase === 'started') return;
      const { kind, state, counts: figures, durationMs } = event;
      series.runs.inc({ seller, kind, state });
      series.runSeconds.observe({ kind }, durationMs / 1000);
      // The figures of an account run are about the account.
      if (kind === 'account') return;
      for (const change of CHANGES) series.items.inc({ seller, change }, figures[change]);
    },
    onJob({ queue, name, outcome, durationMs }) {
      series.jobs.inc({ queue, name, outcome });
      series.jobSeconds.observe({ queue, name }, durationMs / 1000);
    },
    onVerdict(seller, verdict) {
      if (sellers.has(seller)) series.codes.inc({ seller, verdict });
    },
    async text() {
      const [copies, backlogs, queues] = await Promise.all([
        tried('store', freshness),
        tried('store', audits),
        tried('queue', counts),
      ]);
      showCopies(series, sellers, copies, startedAt, Date.now());
      showAudits(series, sellers, backlogs);
      showQueues(series, queues);
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
  const options = <T extends string>(name: string, help: string, labelNames: T[]) => ({
    ...{ name: `seller_mirror_${name}`, help, labelNames, registers: [registry] },
  });
  const counter = <T extends string>(name: string, help: string, labels: T[]) =>
    new Counter(options(name, help, labels));
  const gauge = <T extends string>(name: string, help: string, labels: T[]) =>
    new Gauge(options(name, help, labels));
  const seconds = <T extends string>(name: string, help: string, buckets: number[], labels: T[]) =>
    new Histogram({ ...options(name, help, labels), buckets });

  const help = 'Always 1; the label tells which version runs.';
  gauge('build_info', help, ['version']).set({ version: VERSION }, 1);
  return {
    registry,
    runs: counter('runs_total', 'Runs that ended here, by how they ended.', [
      'seller',
      'kind',
      'state',
    ]),
    items: counter(
      'items_total',
      'Items that runs found changed; quarantined and missing ones count in every run that meets them.',
      ['seller', 'change'],
    ),
    runSeconds: seconds('run_duration_seconds', 'How long runs took.', WORK_SECONDS, ['kind']),
    calls: counter('api_calls_total', 'Calls of the marketplace, each repetition counted.', [
      'seller',
      'operation',
      'outcome',
    ]),
    callSeconds: seconds(
      'api_call_duration_seconds',
      'How long calls took, without waits for the budget; of a list, up to its beginning.',
      CALL_SECONDS,
      ['operation'],
    ),
    waitSeconds: seconds(
      'budget_wait_seconds',
      'How long calls waited for the request budget.',
      WAIT_SECONDS,
      [],
    ),
    jobs: counter('jobs_total', 'Jobs that were worked on here, by what became of them.', [
      'queue',
      'name',
      'outcome',
    ]),
    jobSeconds: seconds('job_duration_seconds', 'How long work on jobs took.', WORK_SECONDS, [
      'queue',
      'name',
    ]),
    scrapeErrors: counter(
      'scrape_errors_total',
      'Times that series were left out because their source did not answer.',
      ['source'],
    ),
    lastSuccess: gauge(
      'last_success_timestamp_seconds',
      'When the copy was last known to be current; 0: never.',
      ['seller', 'kind'],
    ),
    age: gauge(
      'last_success_age_seconds',
      'Time since then, or since the seller was first met when there was no success.',
      ['seller', 'kind'],
    ),
    parked: gauge('seller_parked', '1 while schedules leave the seller alone.', ['seller']),
    itemsNow: gauge('items', 'Items in the copy, by state.', ['seller', 'state']),
    codes: counter(
      'codes_checked_total',
      'Purchase codes that audits settled here, by verdict; unproven ones were given up.',
      ['seller', 'verdict'],
    ),
    audits: gauge('audits_running', 'Audits of purchase codes that run.', ['seller']),
    pendingCodes: gauge('codes_pending', 'Codes of running audits that are not settled yet.', [
      'seller',
    ]),
    queueJobs: gauge('queue_jobs', 'Jobs in the queue, by state; finished ones are kept a while.', [
      'queue',
      'state',
    ]),
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

/** @param copies null: leave their series out */
function showCopies(
  { lastSuccess, age, parked, itemsNow }: Series,
  sellers: ReadonlySet<string>,
  copies: readonly Freshness[] | null,
  startedAt: number,
  now: number,
): void {
  for (const gauge of [lastSuccess, age, parked, itemsNow]) gauge.reset();
  if (copies === null) return;
  const known = new Map(copies.map((copy) => [copy.sellerId, copy]));
  for (const seller of sellers) {
    const copy = known.get(seller);
    for (const kind of KINDS) {
      const at = copy?.[`${kind}MirroredAt` as const]?.getTime() ?? 0;
      const since = at === 0 ? (copy?.since.getTime() ?? startedAt) : at;
      lastSuccess.set({ seller, kind }, at / 1000);
      // The database's clock may be ahead of this one.
      age.set({ seller, kind }, Math.max(0, now - since) / 1000);
    }
    parked.set({ seller }, copy?.parked === true ? 1 : 0);
    for (const state of ITEM_STATES) itemsNow.set({ seller, state }, copy?.items[state] ?? 0);
  }
}

/** @param backlogs null: leave their series out */
function showAudits(
  { audits, pendingCodes }: Series,
  sellers: ReadonlySet<string>,
  backlogs: readonly AuditBacklog[] | null,
): void {
  audits.reset();
  pendingCodes.reset();
  if (backlogs === null) return;
  const known = new Map(backlogs.map((one) => [one.sellerId, one]));
  for (const seller of sellers) {
    audits.set({ seller }, known.get(seller)?.running ?? 0);
    pendingCodes.set({ seller }, known.get(seller)?.pending ?? 0);
  }
}

function showQueues(
  { queueJobs }: Series,
  queues: Readonly<Record<QueueName, QueueCounts>> | null,
): void {
  queueJobs.reset();
  for (const [queue, counts] of Object.entries(queues ?? {})) {
    for (const [state, jobs] of Object.entries(counts)) {
      queueJobs.set({ queue, state }, jobs as number);
    }
  }
}
