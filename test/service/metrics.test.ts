import { describe, expect, it } from 'vitest';
import { syncAccount } from '../../src/catalogue/account.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import type { RunEvent } from '../../src/catalogue/types.js';
import type { CallRecord } from '../../src/marketplace/types.js';
import { TimeoutError, cachedCall } from '../../src/service/concurrency.js';
import type { QueueCounts } from '../../src/service/queue/queues.js';
import type { QueueName } from '../../src/service/queue/tasks.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { PAUSED } from '../../src/catalogue/sellers-store.js';
import {
  type Copy,
  createMetrics,
  type Metrics,
  type MetricSources,
} from '../../src/service/metrics.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { readSellerStatuses } from '../../src/catalogue/status-store.js';
import { parseExposition, valueOf } from './exposition.js';

const NO_JOBS: QueueCounts = { waiting: 0, active: 0, delayed: 0, completed: 0, failed: 0 };
const COUNTS: Record<QueueName, QueueCounts> = {
  mirror: { ...NO_JOBS, waiting: 3, failed: 1 },
  audits: NO_JOBS,
  alerts: NO_JOBS,
  feeds: NO_JOBS,
};

/** What the store says. */
const stateOf =
  (
    sellers: readonly Copy[],
    more: Partial<Awaited<ReturnType<MetricSources['state']>>> = {},
  ): MetricSources['state'] =>
  () =>
    Promise.resolve({ sellers, feeds: [], needs: [], ...more });

function metricsOf(sources: Partial<MetricSources> = {}): Metrics {
  return createMetrics({
    sellers: ['main', 'second'],
    counts: () => Promise.resolve(COUNTS),
    state: stateOf([]),
    audits: () => Promise.resolve([]),
    lookUps: () => Promise.resolve([]),
    feeds: [],
    ...sources,
  });
}

/** Scrapes the metrics. Returns a function that looks up a value, by a name without its prefix. */
async function scrape(metrics: Metrics) {
  const samples = parseExposition(await metrics.text());
  return (name: string, labels: Readonly<Record<string, string>> = {}): number | undefined =>
    valueOf(samples, `seller_mirror_${name}`, labels);
}

function copy(sellerId: string, parts: Partial<Copy> = {}): Copy {
  return {
    sellerId,
    knownSince: new Date('2026-01-01T00:00:00Z'),
    accountMirroredAt: null,
    itemsMirroredAt: null,
    parked: null,
    items: { live: 0, missing: 0, removed: 0 },
    ...parts,
  };
}

const CALL: CallRecord = {
  operation: 'list',
  attempt: 1,
  outcome: 'answered',
  httpStatus: 200,
  redirects: 0,
  durationMs: 700,
  waitedMs: 1_500,
  server: null,
};

const FINISHED: RunEvent & { phase: 'finished' } = {
  phase: 'finished',
  runId: 1n,
  kind: 'items',
  state: 'succeeded',
  counts: {
    listed: 9,
    added: 1,
    changed: 2,
    extraChanged: 0,
    unchanged: 4,
    restored: 3,
    missing: 4,
    removed: 5,
    quarantined: 6,
    duplicates: 0,
    apiCalls: 2,
    bytes: 1_000,
    tolerated: {},
  },
  problem: null,
  durationMs: 2_000,
};

/** Their counts in `FINISHED` are 1, 2, 3 and so on. */
const CHANGES = ['added', 'changed', 'restored', 'missing', 'removed', 'quarantined'] as const;

describe('counters', () => {
  it('exist with 0 before the first event', async () => {
    const of = await scrape(metricsOf());
    for (const seller of ['main', 'second']) {
      for (const kind of ['account', 'items']) {
        for (const state of ['succeeded', 'held', 'failed', 'interrupted']) {
          expect(of('runs_total', { seller, kind, state })).toBe(0);
        }
        expect(of('last_success_timestamp_seconds', { seller, kind })).toBe(0);
      }
      for (const change of CHANGES) expect(of('items_total', { seller, change })).toBe(0);
      expect(of('seller_paused', { seller })).toBe(0);
    }
    for (const source of ['store', 'queue']) expect(of('scrape_errors_total', { source })).toBe(0);
    expect(of('budget_wait_seconds_count')).toBe(0);
  });

  it('count runs by seller, kind and state, and the items that they changed', async () => {
    const metrics = metricsOf();
    metrics.onRun('main', { phase: 'started', runId: 1n, kind: 'items' });
    metrics.onRun('main', FINISHED);
    metrics.onRun('main', { ...FINISHED, state: 'failed' });
    const of = await scrape(metrics);
    const runs = ['succeeded', 'failed', 'held'].map((state) =>
      of('runs_total', { seller: 'main', kind: 'items', state }),
    );
    expect(runs).toEqual([1, 1, 0]);
    const items = CHANGES.map((change) => of('items_total', { seller: 'main', change }));
    expect(items).toEqual([2, 4, 6, 8, 10, 12]);
    expect(of('run_duration_seconds_sum', { kind: 'items' })).toBe(4);
    expect(of('run_duration_seconds_count', { kind: 'items' })).toBe(2);
  });

  it('count codes by verdict; gauges show running audits and their pending codes', async () => {
    const backlog = { sellerId: 'main', running: 2, pending: 900 };
    const stranger = { sellerId: 'gone', running: 1, pending: 1 };
    const metrics = metricsOf({ audits: () => Promise.resolve([backlog, stranger]) });
    for (const verdict of ['valid', 'valid', 'unproven'] as const)
      metrics.onVerdict('main', verdict);
    metrics.onVerdict('gone', 'valid');
    const of = await scrape(metrics);
    const codes = (seller: string) =>
      ['valid', 'unproven', 'invalid'].map((verdict) =>
        of('codes_checked_total', { seller, verdict }),
      );
    expect([codes('main'), codes('second')]).toEqual([
      [2, 1, 0],
      [0, 0, 0],
    ]);
    const audits = ['main', 'second', 'gone'].map((seller) => of('audits_running', { seller }));
    expect(audits).toEqual([2, 0, undefined]);
    expect(of('codes_pending', { seller: 'main' })).toBe(900);
    expect(codes('gone')).toEqual([undefined, undefined, undefined]);
  });

  it('show what look-ups called, and how much of their share that is', async () => {
    const load = { sellerId: 'main', codes: 9, calls: 30, pending: 4, minutes: 10, shareUsed: 0.2 };
    const of = await scrape(metricsOf({ lookUps: () => Promise.resolve([load]) }));
    const names = ['look_up_calls_today', 'look_up_share_used', 'look_ups_pending'];
    const shown = (seller: string) => names.map((name) => of(name, { seller }));
    expect(shown('main')).toEqual([30, 0.2, 4]);
    // Sellers whom nobody asks about.
    expect(shown('second')).toEqual([0, 0, 0]);
  });

  it('count no items for account runs', async () => {
    const metrics = metricsOf();
    metrics.onRun('main', { ...FINISHED, kind: 'account' });
    const of = await scrape(metrics);
    expect(of('items_total', { seller: 'main', change: 'added' })).toBe(0);
  });

  it('count calls by outcome; histograms separate their duration from the wait for the budget', async () => {
    const metrics = metricsOf();
    metrics.onCall('main', CALL);
    metrics.onCall('main', { ...CALL, outcome: 'limited' });
    const of = await scrape(metrics);
    for (const outcome of ['answered', 'limited']) {
      expect(of('api_calls_total', { seller: 'main', operation: 'list', outcome })).toBe(1);
    }
    expect(of('api_call_duration_seconds_sum', { operation: 'list' })).toBe(1.4);
    expect(of('budget_wait_seconds_sum')).toBe(3);
    const buckets = ['1', '2', '+Inf'].map((le) => of('budget_wait_seconds_bucket', { le }));
    expect(buckets).toEqual([0, 2, 2]);
  });

  it('count jobs by outcome', async () => {
    const metrics = metricsOf();
    const labels = { queue: 'mirror', name: 'sync' } as const;
    metrics.onJob({ ...labels, durationMs: 500, outcome: 'done' });
    metrics.onJob({ ...labels, durationMs: 500, outcome: 'retry' });
    const of = await scrape(metrics);
    for (const outcome of ['done', 'retry']) {
      expect(of('jobs_total', { ...labels, outcome })).toBe(1);
    }
    expect(of('job_duration_seconds_sum', labels)).toBe(1);
  });

  it('have only configured sellers as labels', async () => {
    const metrics = metricsOf({
      state: stateOf([copy('gone')], { needs: [{ kind: 'stopped', seller: 'gone', feed: null }] }),
    });
    metrics.onRun('stranger', FINISHED);
    metrics.onCall('stranger', CALL);
    const samples = parseExposition(await metrics.text());
    const sellers = samples.flatMap(({ labels }) => labels['seller'] ?? []);
    expect(new Set(sellers)).toEqual(new Set(['main', 'second']));
  });
});

describe('gauges that each scrape queries', () => {
  it('show the last success of each copy, its age and its items', async () => {
    const now = Date.now();
    const main = copy('main', {
      accountMirroredAt: new Date(now - 60_000),
      itemsMirroredAt: new Date(now - 7_200_000),
      items: { live: 7, missing: 2, removed: 1 },
    });
    const parking = { since: new Date(now), code: 'key-refused', reason: '', runId: null };
    const second = copy('second', { knownSince: new Date(now - 30_000), parked: parking });
    const paused = { ...main, parked: { ...parking, code: PAUSED } };
    const shown = await scrape(
      metricsOf({
        state: stateOf([paused, second], {
          needs: [{ kind: 'stopped', seller: 'second', feed: null }],
        }),
      }),
    );
    const of = (seller: string, name: string, labels: Record<string, string> = {}) =>
      shown(name, { seller, ...labels });
    const ofItems = { kind: 'items' };
    expect(of('main', 'last_success_timestamp_seconds', ofItems)).toBe((now - 7_200_000) / 1000);
    expect(of('main', 'last_success_age_seconds', ofItems)).toBeGreaterThanOrEqual(7_200);
    expect(of('main', 'last_success_age_seconds', { kind: 'account' })).toBeLessThan(7_200);
    expect(of('main', 'items', { state: 'live' })).toBe(7);
    expect(of('main', 'items', { state: 'missing' })).toBe(2);
    const needs = ['main', 'second'].map((name) => of(name, 'needs', { kind: 'stopped' }));
    expect(needs).toEqual([undefined, 1]);
    expect([of('main', 'seller_paused'), of('second', 'seller_paused')]).toEqual([1, 0]);
    // Without any success, the age counts from the seller's start.
    expect(of('second', 'last_success_age_seconds', ofItems)).toBeGreaterThanOrEqual(30);
    expect(of('second', 'last_success_timestamp_seconds', ofItems)).toBe(0);
  });

  it('show an age of 0 s if the database’s clock is ahead', async () => {
    const ahead = copy('main', { accountMirroredAt: new Date(Date.now() + 60_000) });
    const of = await scrape(metricsOf({ state: stateOf([ahead]) }));
    expect(of('last_success_age_seconds', { seller: 'main', kind: 'account' })).toBe(0);
  });

  it('show the jobs in the queue', async () => {
    const of = await scrape(metricsOf());
    expect(of('queue_jobs', { queue: 'mirror', state: 'waiting' })).toBe(3);
    expect(of('queue_jobs', { queue: 'mirror', state: 'failed' })).toBe(1);
    expect(of('queue_jobs', { queue: 'audits', state: 'active' })).toBe(0);
  });

  it('show how long each view of each configured feed has waited, and the failures of the feed', async () => {
    const [waitingSince, deliveredAt] = [new Date(Date.now() - 90_000), new Date(1_000)];
    const view = { problem: null, waitingSince, deliveredAt };
    const state = {
      askedAt: new Date(),
      deliveredAt: null,
      failures: 3,
      problem: 'down',
      failedAt: null,
      staleSince: null,
      fullAt: null,
      views: [
        { ...view, view: 'items' },
        { ...view, view: 'purchases', waitingSince: null },
        { ...view, view: 'dropped' },
      ],
    };
    const metrics = metricsOf({
      feeds: [
        { name: 'bi', views: ['items', 'purchases'] },
        { name: 'new', views: ['items'] },
      ],
      state: stateOf([], {
        feeds: [
          { feed: 'bi', ...state },
          { feed: 'old', ...state },
        ],
      }),
    });
    const of = await scrape(metrics);
    expect(of('feed_lag_seconds', { feed: 'bi', view: 'items' })).toBeGreaterThanOrEqual(90);
    expect(of('feed_lag_seconds', { feed: 'bi', view: 'purchases' })).toBe(0);
    expect(of('feed_lag_seconds', { feed: 'bi', view: 'dropped' })).toBeUndefined();
    expect(of('feed_lag_seconds', { feed: 'old', view: 'items' })).toBeUndefined();
    expect(of('feed_last_success_timestamp_seconds', { feed: 'bi', view: 'items' })).toBe(1);
    expect(of('feed_last_success_timestamp_seconds', { feed: 'new', view: 'items' })).toBe(0);
    expect(of('feed_failures', { feed: 'bi' })).toBe(3);
    expect(of('feed_failures', { feed: 'new' })).toBe(0);
  });

  it('are left out if their source fails, which is counted and does not fail the scrape', async () => {
    const gone = (): Promise<never> => Promise.reject(new Error('postgresql://u:hunter2@db gone'));
    const metrics = metricsOf({ counts: gone, state: gone, audits: gone });
    metrics.onRun('main', FINISHED);
    expect(await metrics.text()).not.toContain('hunter2');
    const of = await scrape(metrics);
    for (const name of ['queue_jobs', 'items', 'seller_paused', 'last_success_age_seconds']) {
      expect(of(name)).toBeUndefined();
    }
    expect(of('codes_pending')).toBeUndefined();
    expect(of('scrape_errors_total', { source: 'store' })).toBeGreaterThan(1);
    expect(of('scrape_errors_total', { source: 'queue' })).toBeGreaterThan(0);
    expect(of('runs_total', { seller: 'main', kind: 'items', state: 'succeeded' })).toBe(1);
  });

  it('are left out if their source hangs', async () => {
    const of = await scrape(metricsOf({ counts: () => new Promise(() => undefined) }));
    expect(of('scrape_errors_total', { source: 'queue' })).toBe(1);
    expect(of('queue_jobs')).toBeUndefined();
    expect(of('seller_paused')).toBe(0);
  });

  it('are left out without an error before the queue is open', async () => {
    const of = await scrape(metricsOf({ counts: () => Promise.resolve(null) }));
    expect(of('queue_jobs')).toBeUndefined();
    expect(of('scrape_errors_total', { source: 'queue' })).toBe(0);
  });
});

describe('the text', () => {
  it('has Node’s default metrics and the version', async () => {
    const samples = parseExposition(await metricsOf().text());
    for (const name of ['process_cpu_seconds_total', 'nodejs_eventloop_lag_seconds']) {
      expect(valueOf(samples, name)).toBeDefined();
    }
    const info = samples.find(({ name }) => name === 'seller_mirror_build_info');
    expect(info).toMatchObject({ labels: { version: expect.any(String) }, value: 1 });
  });

  it('follows Prometheus’s naming: _seconds for histograms, _total for counters', async () => {
    const metrics = metricsOf();
    metrics.onJob({ queue: 'mirror', name: 'sync', outcome: 'done', durationMs: 1 });
    const types = [...(await metrics.text()).matchAll(/^# TYPE (seller_mirror_\w+) (\w+)$/gm)];
    expect(types.length).toBeGreaterThan(10);
    for (const [, name, type] of types) {
      expect(name?.endsWith('_total')).toBe(type === 'counter');
      if (type === 'histogram') expect(name).toMatch(/_seconds$/);
    }
  });
});

describe('on a real store', () => {
  const mirror = useMirror();

  it('shows the events of runs and the state of the database', async () => {
    const catalogue = seededCatalogue({ seed: 7, count: 12 });
    const market = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
    const metrics = metricsOf({
      state: async () => stateOf(await readSellerStatuses(mirror().db))(),
    });
    const deps = mirror().deps(market.url, {
      onRun: (event) => metrics.onRun('main', event),
      client: { onCall: (call) => metrics.onCall('main', call) },
    });
    await syncAccount(deps, never);
    await syncItems(deps, never);
    const shown = await scrape(metrics);
    const of = (name: string, labels: Record<string, string>) =>
      shown(name, { seller: 'main', ...labels });
    expect(of('items', { state: 'live' })).toBe(12);
    expect(of('items_total', { change: 'added' })).toBe(12);
    for (const kind of ['account', 'items']) {
      expect(of('runs_total', { kind, state: 'succeeded' })).toBe(1);
      const at = of('last_success_timestamp_seconds', { kind }) ?? 0;
      expect(Math.abs(at - Date.now() / 1000)).toBeLessThan(600);
    }
    expect(of('api_calls_total', { operation: 'list', outcome: 'answered' })).toBe(1);
  });
});

const HOUR = 3_600_000;

describe('a cached call', () => {
  const forAnHour = (): number => HOUR;

  it('is made once for all callers while it is pending or its result is fresh', async () => {
    let calls = 0;
    const call = cachedCall(() => Promise.resolve(++calls), HOUR, forAnHour);
    expect(await Promise.all(Array.from({ length: 1_000 }, call))).toEqual(Array(1_000).fill(1));
    expect(await call()).toBe(1);
  });

  it('is made again when its result is no longer fresh', async () => {
    let calls = 0;
    const ages: number[] = [];
    const call = cachedCall(
      () => Promise.resolve(++calls),
      HOUR,
      (tookMs) => {
        ages.push(tookMs);
        return 0;
      },
    );
    expect([await call(), await call()]).toEqual([1, 2]);
    expect(ages).toEqual([expect.any(Number), expect.any(Number)]);
  });

  it('times out for each caller, and is not made again while it hangs', async () => {
    let calls = 0;
    let answer: (text: string) => void = () => undefined;
    const call = cachedCall(
      () => {
        calls++;
        return new Promise<string>((resolve) => (answer = resolve));
      },
      10,
      forAnHour,
    );
    const first = await Promise.allSettled(Array.from({ length: 100 }, call));
    expect(first.every(({ status }) => status === 'rejected')).toBe(true);
    await expect(call()).rejects.toThrow(TimeoutError);
    answer('late');
    expect(await call()).toBe('late');
    expect(calls).toBe(1);
  });

  it('fails once for all callers, also if it throws synchronously', async () => {
    let calls = 0;
    const call = cachedCall<never>(
      () => {
        calls++;
        throw new Error('gone');
      },
      HOUR,
      forAnHour,
    );
    const all = await Promise.allSettled(Array.from({ length: 100 }, call));
    expect(all.every(({ status }) => status === 'rejected')).toBe(true);
    expect(calls).toBe(1);
  });
});
