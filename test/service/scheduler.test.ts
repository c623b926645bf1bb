import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { nextTimes } from '../../src/service/cron.js';
import { Scheduler, schedulesOf } from '../../src/service/scheduler.js';
import { listSchedules } from '../../src/service/schedules-store.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { useMirror } from '../support/mirror.js';
import { recordingLog } from './queue/support.js';
import {
  at,
  FakeQueue,
  nightly,
  startScheduler,
  type TestScheduler,
  type TestSchedulerOptions,
} from './scheduler-support.js';

const mirror = useMirror();

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
afterEach(() => void vi.useRealTimers());

function start(
  queue: FakeQueue,
  options: Partial<TestSchedulerOptions> & { readonly from: string | Date },
): Promise<TestScheduler> {
  return startScheduler({ queue, db: mirror().db, ...options });
}

async function addRun(kind: 'account' | 'items', startedAt: string): Promise<void> {
  await ensureSeller(mirror().db, 'acme', 'market.example');
  await mirror().rows(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at, finished_at)
     VALUES ('acme', $1::mirror.run_kind, 'succeeded', 'a test', $2, $2)`,
    [kind, startedAt],
  );
}

const nextAt = async (): Promise<string[]> =>
  (await listSchedules(mirror().db)).map((one) => one.nextAt.toISOString());

it('reads schedules of sellers and feeds from the settings', () => {
  const timeZone = 'UTC';
  const sellers = [
    { name: 'acme', timeZone, syncCron: '0 2 * * *', accountCron: null, auditCron: '0 5 * * 6' },
  ];
  const feeds = [
    { name: 'bi', timeZone, cron: '0 6 * * *' },
    { name: 'after-sync', timeZone, cron: null },
  ];
  expect(schedulesOf({ sellers, feeds })).toEqual([
    { kind: 'sync', name: 'acme', cron: '0 2 * * *', timeZone },
    { kind: 'recheck', name: 'acme', cron: '0 5 * * 6', timeZone },
    { kind: 'feed', name: 'bi', cron: '0 6 * * *', timeZone },
  ]);
});

describe('a schedule', () => {
  it('has one job at each of its times', async () => {
    const queue = new FakeQueue();
    const one = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    expect(queue.requested).toEqual([]);
    await one.advanceTo('2026-11-23T12:00:00Z');
    expect(queue.requested).toEqual([
      'sync.acme.20261121T020000Z',
      'sync.acme.20261122T020000Z',
      'sync.acme.20261123T020000Z',
    ]);
    expect(queue.jobs.get('sync.acme.20261121T020000Z')).toMatchObject({
      kind: 'sync',
      name: 'acme',
      dueAt: at('2026-11-21T02:00:00Z'),
    });
    expect(await nextAt()).toEqual(['2026-11-24T02:00:00.000Z']);
  });

  it('whose seller was never mirrored is due when a scheduler starts', async () => {
    const both = [nightly(), nightly({ kind: 'account', cron: '0 * * * *' })];
    await addRun('account', '2026-11-20T12:10:00Z');
    const queue = new FakeQueue();
    await start(queue, { from: '2026-11-21T12:30:00Z', schedules: both });
    expect(queue.ids()).toEqual(['sync.acme.20261121T123000Z']);
    expect(await nextAt()).toEqual(['2026-11-21T13:00:00.000Z', '2026-11-22T02:00:00.000Z']);
  });

  it('that re-checks codes waits for its first time', async () => {
    const queue = new FakeQueue();
    const schedules = [nightly({ kind: 'recheck' })];
    await start(queue, { from: '2026-11-21T12:30:00Z', schedules });
    expect(queue.requested).toEqual([]);
  });

  it('with seconds fires more than once a minute', async () => {
    const queue = new FakeQueue();
    const schedules = [nightly({ cron: '*/20 * * * * *' })];
    const one = await start(queue, { from: '2026-11-21T12:00:01Z', schedules, catchUp: false });
    await one.advanceTo('2026-11-21T12:02:00Z', 1_000);
    expect(queue.requested).toHaveLength(6);
  });
});

describe('downtime', () => {
  it('of any length is caught up with one job', async () => {
    const queue = new FakeQueue();
    const before = await start(queue, { from: '2026-11-10T01:00:00Z', catchUp: false });
    await before.advanceTo('2026-11-10T03:00:00Z');
    await before.scheduler.stop();
    queue.requested.length = 0;
    const one = await start(queue, { from: '2026-11-21T12:00:00Z' });
    await one.advanceTo('2026-11-21T18:00:00Z');
    const two = await start(queue, { from: '2026-11-21T18:00:00Z' });
    await two.advanceTo('2026-11-22T03:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261111T020000Z', 'sync.acme.20261122T020000Z']);
  });

  it('is not caught up if CATCH_UP is off, and the log says so', async () => {
    const queue = new FakeQueue();
    const before = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    await before.scheduler.stop();
    const one = await start(queue, { from: '2026-11-21T12:30:00Z', catchUp: false });
    expect(queue.requested).toEqual([]);
    expect(one.lines.map(({ message, fields }) => [message, fields['missed']])).toEqual([
      ['a schedule was missed while no scheduler ran; CATCH_UP is off', '2026-11-21T02:00:00.000Z'],
    ]);
  });

  it.each([true, false])(
    'of the queue delays jobs, loses none and causes one warning (catch-up %s)',
    async (catchUp) => {
      const queue = new FakeQueue();
      const one = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp });
      queue.requested.length = 0;
      queue.isDown = true;
      await one.advanceTo('2026-11-21T03:00:00Z');
      expect(queue.requested).toEqual([]);
      queue.isDown = false;
      await one.advanceTo('2026-11-21T05:00:00Z');
      expect(queue.requested).toEqual(['sync.acme.20261121T020000Z']);
      const lines = one.lines.filter(({ message }) => message.startsWith('schedules'));
      expect(lines.map(({ level }) => level)).toEqual(['warn', 'info']);
      expect(lines[0]?.fields['reason']).toBe('the queue is down');
    },
  );
});

describe('a schedule that was changed', () => {
  it('does not fire for times before the change', async () => {
    const queue = new FakeQueue();
    const before = await start(queue, { from: '2026-11-21T01:00:00Z', catchUp: false });
    await before.advanceTo('2026-11-21T03:00:00Z');
    await before.scheduler.stop();
    const changed = [nightly({ cron: '0 12 * * *' })];
    const one = await start(queue, { from: '2026-11-21T15:00:00Z', schedules: changed });
    expect(queue.ids()).toEqual(['sync.acme.20261121T020000Z']);
    await one.advanceTo('2026-11-22T15:00:00Z');
    await one.scheduler.stop();
    const moved = [nightly({ cron: '0 12 * * *', timeZone: 'America/New_York' })];
    const two = await start(queue, { from: '2026-11-22T18:00:00Z', schedules: moved });
    await two.advanceTo('2026-11-23T17:00:00Z');
    expect(queue.ids().slice(1)).toEqual([
      'sync.acme.20261122T120000Z',
      'sync.acme.20261123T170000Z',
    ]);
  });

  it('keeps the job that was already due', async () => {
    const queue = new FakeQueue();
    const before = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    await before.scheduler.stop();
    const changed = [nightly({ cron: '0 3 * * *' })];
    const one = await start(queue, { from: '2026-11-21T12:00:00Z', schedules: changed });
    await one.advanceTo('2026-11-22T12:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261121T020000Z', 'sync.acme.20261122T030000Z']);
  });

  it('follows the process that was started last, also in older processes', async () => {
    const queue = new FakeQueue();
    const from = '2026-11-20T12:00:00Z';
    const old = await start(queue, { from, catchUp: false });
    await start(queue, { from, catchUp: false, schedules: [nightly({ cron: '0 3 * * *' })] });
    await old.advanceTo('2026-11-22T12:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261121T030000Z', 'sync.acme.20261122T030000Z']);
  });

  it('is gone once its seller was removed from the settings', async () => {
    const queue = new FakeQueue();
    const from = '2026-11-20T12:00:00Z';
    const both = [nightly(), nightly({ name: 'other' })];
    const before = await start(queue, { from, catchUp: false, schedules: both });
    await before.scheduler.stop();
    const one = await start(queue, { from, catchUp: false });
    await one.advanceTo('2026-11-21T12:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261121T020000Z']);
    expect((await listSchedules(mirror().db)).map(({ name }) => name)).toEqual(['acme']);
  });
});

describe('clocks', () => {
  it('of the machines do not matter: the database’s clock decides', async () => {
    const queue = new FakeQueue();
    const schedules = [nightly({ cron: '*/10 * * * *' })];
    const options = { from: '2026-11-20T12:00:00Z', schedules, catchUp: false };
    const all = [];
    for (const skewMs of [-1_500_000, 0, 1_500_000]) {
      all.push(await start(queue, { ...options, skewMs }));
    }
    for (let minute = 1; minute <= 180; minute += 1) {
      const time = new Date(at(options.from).getTime() + minute * 60_000);
      for (const one of all) await one.checkAt(time);
    }
    const expected = Array.from({ length: 18 }, (_, n) => {
      const time = new Date(at(options.from).getTime() + (n + 1) * 600_000).toISOString();
      return `sync.acme.${time.replaceAll(/[-:]|\.\d+/g, '')}`;
    });
    expect(queue.requested).toEqual(expected);
  });

  it('that go back do not repeat a job', async () => {
    const queue = new FakeQueue();
    const one = await start(queue, { from: '2026-11-20T12:00:00Z' });
    await one.advanceTo('2026-11-21T02:00:00Z');
    queue.requested.length = 0;
    await one.checkAt('2026-11-21T01:30:00Z');
    await one.advanceTo('2026-11-22T02:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261122T020000Z']);
  });

  it('that were years ahead delay no job once they are right and the process was restarted', async () => {
    const queue = new FakeQueue();
    const wrong = await start(queue, { from: '2036-01-01T12:00:00Z' });
    await wrong.scheduler.stop();
    const one = await start(queue, { from: '2026-11-21T01:30:00Z' });
    queue.requested.length = 0;
    await one.advanceTo('2026-11-22T12:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261121T020000Z', 'sync.acme.20261122T020000Z']);
  });
});

describe('several schedulers', () => {
  it('that check at the same time add each job once', async () => {
    const queue = new FakeQueue();
    const schedules = Array.from({ length: 50 }, (_, n) => nightly({ name: `seller-${n}` }));
    const from = '2026-11-20T12:00:00Z';
    const all = await Promise.all(
      [1, 2, 3, 4].map(() => start(queue, { from, schedules, catchUp: false })),
    );
    await Promise.all(all.map((one) => one.checkAt('2026-11-21T02:00:00Z')));
    expect(queue.requested).toHaveLength(50);
    expect(queue.jobs.size).toBe(50);
  });

  it('give each time one job and downtime one, whatever they do and whichever of them die', async () => {
    const crons = fc.constantFrom('*/10 * * * *', '0 * * * *', '30 2 * * *', '15 1,13 * * *');
    const zones = fc.constantFrom(
      'UTC',
      'Europe/Berlin',
      'America/New_York',
      'Australia/Lord_Howe',
    );
    const skews = fc.array(fc.integer({ min: -900, max: 900 }), { minLength: 1, maxLength: 3 });
    const event = fc.record({
      /** Minutes that pass before. Long ones are downtime. */
      pause: fc.oneof(
        { weight: 5, arbitrary: fc.integer({ min: 0, max: 15 }) },
        fc.integer({ min: 60, max: 4_000 }),
      ),
      who: fc.nat(2),
      what: fc.oneof(
        { weight: 6, arbitrary: fc.constant('check' as const) },
        fc.constantFrom('restart' as const, 'lose' as const),
      ),
    });
    const events = fc.array(event, { minLength: 10, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(crons, zones, skews, events, async (cron, timeZone, seconds, story) => {
        await mirror().reset();
        const queue = new FakeQueue();
        const schedule = nightly({ cron, timeZone });
        let now = at('2026-03-27T20:00:00Z');
        const begin = (skewS: number): Promise<TestScheduler> =>
          start(queue, { from: now, skewMs: skewS * 1_000, schedules: [schedule] });
        const fleet: TestScheduler[] = [];
        for (const skewS of seconds) fleet.push(await begin(skewS));
        const nextAfter = (time: Date): Date => {
          vi.setSystemTime(time);
          return nextTimes(schedule, time)[0] ?? time;
        };
        // The seller was never mirrored, so its first job is due at once.
        const expected = [now];
        let due = nextAfter(now);
        for (const { pause, who, what } of story) {
          now = new Date(now.getTime() + pause * 60_000);
          const n: number = who % fleet.length;
          queue.losesAnswers = what === 'lose';
          if (what === 'restart') {
            await fleet[n]?.scheduler.stop();
            fleet[n] = await begin(seconds[n] ?? 0);
          }
          await fleet[n]?.checkAt(now);
          if (queue.losesAnswers) {
            queue.losesAnswers = false;
            await fleet[n]?.checkAt(now);
          }
          if (due <= now) {
            expected.push(due);
            due = nextAfter(now);
          }
        }
        for (const { scheduler } of fleet) await scheduler.stop();
        expect([...queue.jobs.values()].map(({ dueAt }) => dueAt)).toEqual(expected);
      }),
      { numRuns: 30 },
    );
  }, 120_000);
});

describe('a thousand sellers', () => {
  const schedules = Array.from({ length: 1_000 }, (_, n) => [
    nightly({ name: `seller-${n}`, cron: `${n % 60} 2 * * *` }),
    nightly({ name: `seller-${n}`, cron: `${n % 60} * * * *`, kind: 'account' }),
  ]).flat();

  it('have their jobs added a few at a time', async () => {
    const queue = new FakeQueue();
    const one = await start(queue, { from: '2026-11-21T12:00:00Z', schedules });
    expect(queue.jobs.size).toBe(2_000);
    expect(queue.load.most).toBeLessThanOrEqual(16);
    await one.checkAt('2026-11-21T13:59:00Z');
    expect(queue.jobs.size).toBe(3_000);
  });

  it('cost few attempts per check while the queue is down', async () => {
    const queue = new FakeQueue();
    let attempts = 0;
    const enqueue = (): Promise<never> => {
      attempts += 1;
      return Promise.reject(new Error('the queue is down'));
    };
    await start(queue, { from: '2026-11-21T12:00:00Z', schedules, enqueue });
    expect(attempts).toBeLessThanOrEqual(32);
  });
});

it('adds nothing after it was stopped', async () => {
  const queue = new FakeQueue();
  const one = await start(queue, { from: '2026-11-21T01:00:00Z', catchUp: false });
  await one.scheduler.stop();
  await one.checkAt('2026-11-21T02:00:00Z');
  expect(queue.requested).toEqual([]);
});

it('fires by itself, by the clock of the database', async () => {
  vi.useRealTimers();
  const { log } = recordingLog();
  const fired = await new Promise<string>((resolve) => {
    const scheduler = new Scheduler({
      schedules: [nightly({ cron: '* * * * * *' })],
      db: mirror().db,
      enqueue: ({ jobId }) => {
        resolve(jobId);
        return Promise.resolve({ added: true });
      },
      log,
      catchUp: false,
      keepJobsDays: 7,
    });
    onTestFinished(() => scheduler.stop());
  });
  expect(fired).toMatch(/^sync\.acme\.\d{8}T\d{6}Z$/);
});
