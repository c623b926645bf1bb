import { afterEach, describe, expect, it, vi } from 'vitest';
import type { App } from '../../src/app.js';
import { auditHandler, mirrorHandler, recheckPlan, runLog } from '../../src/service/handlers.js';
import { performRecheck } from '../../src/codes/enter-list.js';
import { watchAudits } from '../../src/service/watches.js';
import { silentLog, type Log } from '../../src/domain/log.js';
import type { Queues } from '../../src/service/queue/queues.js';
import type { JobContext } from '../../src/service/queue/worker.js';
import {
  auditDeps,
  auditVerdicts,
  enter,
  listOf,
  openShop,
  progress,
  type Shop,
  truthOf,
} from '../codes/support.js';
import { describeOnRedis, postgresQueueAt, redisQueue, type TestQueue } from './queue/support.js';
import { never, useMirror } from '../support/mirror.js';
import { redisTarget } from '../support/redis.js';
import { cancelAudit, resumeAudit, listAudits } from '../../src/codes/audits-store.js';
import { until } from '../support/until.js';

const mirror = useMirror();
const SELLER = {
  name: 'main',
  requestsPerMinute: 0,
  auditCron: '0 4 * * *',
  timeZone: 'UTC',
};

/** An app whose seller sells in the shop. */
function appOf(shop: Shop): App {
  const { db } = mirror();
  return {
    db,
    config: {
      sellers: [SELLER],
      recheck: { share: 0.5, olderThanDays: 30 },
      alertWebhook: {},
      alertMail: null,
      feeds: [],
    },
    withMarketplace: (_seller: unknown, _options: unknown, work: (deps: unknown) => unknown) =>
      work({ ...auditDeps(mirror(), shop.marketplace), callCount: () => shop.sim.requestCount }),
  } as unknown as App;
}

const CONTEXT: JobContext = {
  jobId: 'a job',
  attempt: 1,
  attempts: 12,
  log: silentLog,
  signal: never,
  closing: never,
};

async function isFinished(auditId: bigint): Promise<boolean> {
  return (await progress(mirror(), auditId)).state === 'finished';
}

/** These tests are about work, not about outages: a machine that is busy with other tests may take its time. */
const PATIENT = { tuning: { commandMs: 10_000, answerMs: 20_000 } };

function describeWork(title: string, testQueue: () => TestQueue): void {
  describe(title, () => {
    it('completes an audit piece by piece, with one job in the queue, and alerts at its end', async () => {
      const shop = await openShop();
      const queues = await testQueue().open(PATIENT);
      const codes = listOf(shop, 160);
      const auditId = await enter(mirror(), shop.marketplace.host, codes);
      await queues.addAudit('main', auditId);
      expect((await queues.counts()).audits.waiting).toBe(1);
      await queues.addAudit('main', auditId);
      expect((await queues.counts()).audits.waiting).toBe(1);
      const handle = auditHandler(appOf(shop), queues);
      let running = 0;
      let mostRunning = 0;
      const counted: typeof handle = async (task, context) => {
        mostRunning = Math.max(mostRunning, ++running);
        return handle(task, context).finally(() => running--);
      };
      queues.work('audits', counted, { concurrency: 4 });
      let mostQueued = 0;
      await until(async () => {
        const { waiting, active, delayed } = (await queues.counts()).audits;
        mostQueued = Math.max(mostQueued, waiting + active + delayed);
        return isFinished(auditId);
      });
      expect(mostQueued).toBeLessThanOrEqual(1);
      expect(mostRunning).toBe(1);
      expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
      await until(async () => (await queues.counts()).alerts.waiting === 1);
      await until(async () => (await queues.counts()).audits.active === 0);
      // The queue keeps no finished audits.
      expect((await queues.counts()).audits).toMatchObject({ completed: 0, failed: 0 });
    });

    it('continues a resumed audit even if the queue has lost its jobs', async () => {
      const shop = await openShop();
      const queues = await testQueue().open(PATIENT);
      const app = appOf(shop);
      const { db } = mirror();
      const codes = listOf(shop, 120);
      const auditId = await enter(mirror(), shop.marketplace.host, codes);
      shop.sim.afterRequests(50, () => void cancelAudit(db, auditId));
      await queues.addAudit('main', auditId);
      const worker = queues.work('audits', auditHandler(app, queues), { concurrency: 2 });
      await until(async () => (await progress(mirror(), auditId)).state === 'cancelled');
      await until(async () => {
        const { waiting, active } = (await queues.counts()).audits;
        return waiting + active === 0;
      });
      expect((await progress(mirror(), auditId)).pending).toBeGreaterThan(0);
      await resumeAudit(db, auditId);
      // Only the watch enqueues audits.
      const stopWatch = watchAudits(app, queues, silentLog);
      await until(() => isFinished(auditId));
      stopWatch();
      await worker.stop(1_000);
      expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
    });

    it.each(['locked by a dead worker', 'delayed'])(
      'continues a resumed audit at once although its job is %s',
      async (jobState) => {
        const shop = await openShop();
        const place = testQueue();
        const queues = await place.open(PATIENT);
        const codes = listOf(shop, 100);
        const auditId = await enter(mirror(), shop.marketplace.host, codes);
        await queues.addAudit('main', auditId);
        let seen = 0;
        const holder = queues.work(
          'audits',
          async (task, { signal }) => {
            if (task.kind !== 'audit' || task.auditId !== String(auditId)) {
              return { kind: 'done', result: {} };
            }
            seen++;
            if (jobState === 'delayed')
              return { kind: 'later', reason: 'a pause', delayMs: 3_600_000 };
            await new Promise((resolve) => signal.addEventListener('abort', resolve));
            return { kind: 'hand-back' };
          },
          { concurrency: 1 },
        );
        await until(() => seen === 1);
        if (jobState === 'delayed') await holder.stop(1_000);
        const others = await place.open(PATIENT);
        await others.addAudit('main', auditId);
        expect((await others.counts()).audits.waiting).toBe(0);
        await others.addAudit('main', auditId, { force: true });
        others.work('audits', auditHandler(appOf(shop), others), { concurrency: 2 });
        await until(() => isFinished(auditId));
        expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
        await holder.stop(0);
      },
    );

    it('rechecks known codes, and starts no second audit of them while one runs', async () => {
      const shop = await openShop();
      const queues = await testQueue().open(PATIENT);
      const codes = listOf(shop, 60);
      const handle = auditHandler(appOf(shop), queues);
      const auditId = await enter(mirror(), shop.marketplace.host, codes);
      await queues.addAudit('main', auditId);
      const worker = queues.work('audits', handle, { concurrency: 1 });
      await until(() => isFinished(auditId));
      await worker.stop(1_000);
      await mirror().rows(
        `UPDATE mirror.purchase_codes SET last_checked_at = last_checked_at - interval '31 days'
          WHERE code LIKE '%1%' RETURNING code`,
      );
      const due = codes.filter((code) => code.includes('1'));
      const askedAt = new Date().toISOString();
      const task = { kind: 'recheck', seller: 'main', tick: null, askedAt } as const;
      const first = await handle(task, CONTEXT);
      const again = await handle(task, CONTEXT);
      expect(again).toEqual(first);
      const [newest, ...others] = await listAudits(mirror().db, { limit: 10 });
      expect(newest).toMatchObject({ source: 'recheck', state: 'running', codes: due.length });
      expect(others.length).toBe(1);
    });
  });
}

describeWork('on PostgreSQL', () => postgresQueueAt(mirror().databaseUrl));

describeOnRedis('on Redis', (redis) => {
  describeWork('on one server', () => redisQueue(redisTarget(redis())));
});

describe('an audit that runs for weeks', () => {
  /** One that runs, and 600 later ones that are finished, as of single codes at a support desk. */
  async function amongMany(shop: Shop, source: string): Promise<bigint> {
    const auditId = await enter(mirror(), shop.marketplace.host, listOf(shop, 20), { source });
    await mirror().rows(
      `INSERT INTO mirror.audits (seller_id, state, source, layout, lines, rejected, codes, reused, valid, invalid,
                                  unproven, pending)
       SELECT 'main', 'finished', 'arguments', '{}', 1, 0, 1, 0, 1, 0, 0, 0 FROM generate_series(1, 600)`,
    );
    return auditId;
  }

  it('is enqueued again however many others were made since, so that it continues after the queue lost its jobs', async () => {
    const shop = await openShop();
    const auditId = await amongMany(shop, 'list.csv');
    const enqueued: bigint[] = [];
    const addAudit: Queues['addAudit'] = (_, id) => {
      enqueued.push(id);
      return Promise.resolve({ jobId: String(id), added: true });
    };
    const stop = watchAudits(appOf(shop), { addAudit }, silentLog);
    await until(() => enqueued.length > 0);
    stop();
    expect(enqueued).toEqual([auditId]);
  });

  it('if it is a re-check, is found however many others were made since: no second one starts beside it', async () => {
    const shop = await openShop();
    const auditId = await amongMany(shop, 'recheck');
    const plan = { olderThan: 0, validOnly: false, limit: 10 };
    const outcome = await performRecheck(auditDeps(mirror(), shop.marketplace), plan, () =>
      Promise.resolve(),
    );
    expect(outcome).toEqual({ kind: 'done', result: { audit: String(auditId) } });
  });
});

it('retries the job of an unknown seller: other workers may already have the new sellers file', async () => {
  const app = {
    config: { sellers: [SELLER], alertWebhook: null, alertMail: null },
  } as unknown as App;
  const chunk = { kind: 'audit', seller: 'grace', auditId: '1' } as const;
  const sync = {
    kind: 'sync',
    seller: 'grace',
    tick: null,
    askedAt: '2026-11-21T02:00:00Z',
  } as const;
  const left = { kind: 'retry', notBefore: null };
  expect(await auditHandler(app, {} as Queues)(chunk, CONTEXT)).toMatchObject(left);
  expect(await mirrorHandler(app, {} as Queues)(sync, CONTEXT)).toMatchObject(left);
});

it('plans rechecks for the time until the next scheduled one', () => {
  vi.useFakeTimers();
  const seller = { ...SELLER, requestsPerMinute: 60, auditCron: '0 4 * * 1' };
  const settings = { share: 0.25, olderThanDays: 30 };
  const now = new Date('2026-11-16T04:00:00.000Z');
  vi.setSystemTime(now);
  const plan = recheckPlan(settings, seller as Parameters<typeof recheckPlan>[1], now);
  expect(plan).toMatchObject({ limit: 0.25 * 7 * 1_440 * 60 });
  const unlimited = { ...seller, requestsPerMinute: 0 } as Parameters<typeof recheckPlan>[1];
  expect(recheckPlan(settings, unlimited, now).limit).toBe(Infinity);
});

afterEach(() => vi.useRealTimers());

it('logs look-ups when they start, and then once a minute', () => {
  vi.useFakeTimers();
  const lines: unknown[][] = [];
  const log: Log = { ...silentLog, info: (...line) => lines.push(line), child: () => log };
  const { onRun, onProgress } = runLog(log);
  const begin = (): void => onRun({ phase: 'started', runId: 7n, kind: 'items' });
  const lookUp = (done: number): void =>
    onProgress({ phase: 'look-up', done, total: 180, saved: 0, leastMs: 376_000 });
  begin();
  onProgress({ phase: 'list', records: 1, bytes: 1, expected: null });
  for (let second = 0; second <= 120; second++) {
    lookUp(Math.floor(second / 2));
    vi.advanceTimersByTime(1_000);
  }
  begin();
  lookUp(90);
  const line = (checked: number): unknown[] => [
    ...['checking missing items', { items: 180, checked, atLeastSeconds: 376 }],
  ];
  expect(lines).toEqual([['run started'], line(0), line(30), line(60), ['run started'], line(90)]);
});
