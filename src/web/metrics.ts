import { Registry } from 'prom-client';
import type { Verdict } from '../domain/codes/proof.js';
import type { RunEvent } from '../jobs/types.js';
import type { CallRecord } from '../marketplace/types.js';
import type { JobEvent, QueueCounts, QueueName } from '../queue/types.js';
import type { AuditBacklog } from '../store/audits/types.js';
import type { Freshness } from '../store/freshness.js';
import { makeInstruments, type Instruments } from './instruments.js';
import { sparingly } from './sparingly.js';

/** Content type of the metrics' text. */
export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

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

/**
 * Store and queue are asked no more often than every few seconds, and spend no more than a
 * twentieth of the time on it, however many ask and however large they are.
 */
const MANNERS = {
  patienceMs: 3_000,
  goodForMs: (tookMs: number) => Math.max(2_000, 20 * tookMs),
};

/** Metrics with a registry of their own; nothing is read from the sources before `text`. */
export function createMetrics(sources: MetricSources): Metrics {
  const instruments = makeInstruments();
  const sellers = new Set(sources.sellers);
  const startedAt = Date.now();
  for (const seller of sellers) beginAtZero(instruments, seller);
  const freshness = sparingly(sources.freshness, MANNERS);
  const audits = sparingly(sources.audits, MANNERS);
  const counts = sparingly(sources.counts, MANNERS);
  /** What `ask` comes to, or null and a count. */
  const tried = async <T>(source: 'store' | 'queue', ask: () => Promise<T>): Promise<T | null> => {
    const errors = instruments.scrapeErrors.labels(source);
    errors.inc(0);
    return await ask().catch(() => {
      errors.inc();
      return null;
    });
  };
  return {
    onCall: (seller, call) => {
      if (sellers.has(seller)) noteCall(instruments, seller, call);
    },
    onRun: (seller, event) => {
      if (sellers.has(seller)) noteRun(instruments, seller, event);
    },
    onJob: (event) => noteJob(instruments, event),
    onVerdict: (seller, verdict) => {
      if (sellers.has(seller)) instruments.codes.inc({ seller, verdict });
    },
    async text() {
      const [copies, backlogs, queues] = await Promise.all([
        tried('store', freshness),
        tried('store', audits),
        tried('queue', counts),
      ]);
      showCopies(instruments, sellers, copies, startedAt, Date.now());
      showAudits(instruments, sellers, backlogs);
      showQueues(instruments, queues);
      return await instruments.registry.metrics();
    },
  };
}

/** A counter that begins with its first event hides that event from `increase()`. */
function beginAtZero({ runs, items, codes }: Instruments, seller: string): void {
  for (const kind of KINDS) {
    for (const state of RUN_STATES) runs.inc({ seller, kind, state }, 0);
  }
  for (const change of CHANGES) items.inc({ seller, change }, 0);
  for (const verdict of VERDICTS) codes.inc({ seller, verdict }, 0);
}

function noteCall(instruments: Instruments, seller: string, call: CallRecord): void {
  const { operation, outcome, durationMs, waitedMs } = call;
  instruments.calls.inc({ seller, operation, outcome });
  instruments.callSeconds.observe({ operation }, durationMs / 1000);
  instruments.waitSeconds.observe(waitedMs / 1000);
}

function noteRun(instruments: Instruments, seller: string, event: RunEvent): void {
  if (event.phase === 'started') return;
  const { kind, state, counts, durationMs } = event;
  instruments.runs.inc({ seller, kind, state });
  instruments.runSeconds.observe({ kind }, durationMs / 1000);
  // The figures of an account run are about the account.
  if (kind === 'account') return;
  for (const change of CHANGES) instruments.items.inc({ seller, change }, counts[change]);
}

function noteJob(instruments: Instruments, { queue, name, outcome, durationMs }: JobEvent): void {
  instruments.jobs.inc({ queue, name, outcome });
  instruments.jobSeconds.observe({ queue, name }, durationMs / 1000);
}

/** @param copies null: leave their series out */
function showCopies(
  { lastSuccess, age, parked, stock }: Instruments,
  sellers: ReadonlySet<string>,
  copies: readonly Freshness[] | null,
  startedAt: number,
  now: number,
): void {
  for (const gauge of [lastSuccess, age, parked, stock]) gauge.reset();
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
    for (const state of ITEM_STATES) stock.set({ seller, state }, copy?.items[state] ?? 0);
  }
}

/** @param backlogs null: leave their series out */
function showAudits(
  { audits, pendingCodes }: Instruments,
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
  { depth }: Instruments,
  queues: Readonly<Record<QueueName, QueueCounts>> | null,
): void {
  depth.reset();
  for (const [queue, counts] of Object.entries(queues ?? {})) {
    for (const [state, jobs] of Object.entries(counts)) depth.set({ queue, state }, jobs as number);
  }
}
