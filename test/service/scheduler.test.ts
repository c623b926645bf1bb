import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Scheduler, type TickRecords } from '../../src/service/scheduler.js';
import { describeSchedule } from '../../src/service/ticks.js';
import type { ScheduleRecord } from '../../src/store/schedules.js';
import { useMirror } from '../support/mirror.js';
import {
  at,
  FakeQueue,
  nightly,
  startScheduler,
  ticksIn,
  type TestScheduler,
  type TestSchedulerOptions,
} from './scheduler-support.js';
import { ensureSeller } from '../../src/store/sellers.js';
import { recordingLog } from './queue/support.js';

const mirror = useMirror();

function start(
  queue: FakeQueue,
  options: Partial<TestSchedulerOptions> & { readonly from: string },
): Promise<TestScheduler> {
  return startScheduler({ queue, ticks: ticksIn(mirror().db), ...options });
}

async function addRun(kind: 'account' | 'items', startedAt: string): Promise<void> {
  await ensureSeller(mirror().db, 'acme', 'market.example');
  await mirror().rows(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at)
     VALUES ('acme', $1::mirror.run_kind, 'succeeded', 'a test', $2)`,
    [kind, startedAt],
  );
}

const lastTicks = (): Promise<{ cron: string; last_tick: Date }[]> =>
  mirror().rows('SELECT cron, last_tick FROM mirror.schedules ORDER BY seller_id, kind');

describe('a schedule', () => {
  it('adds one job for each tick, and records the tick', async () => {
    const queue = new FakeQueue();
    const one = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    expect(queue.requested).toEqual([]);
    await one.advanceTo('2026-11-23T12:00:00Z');
    expect(queue.requested).toEqual([
      'sync.acme.20261121T020000Z',
      'sync.acme.20261122T020000Z',
      'sync.acme.20261123T020000Z',
    ]);
    expect(queue.jobs.get('sync.acme.20261121T020000Z')).toEqual({
      kind: 'sync',
      seller: 'acme',
      tick: '2026-11-21T02:00:00.000Z',
      askedAt: '2026-11-21T02:00:00.000Z',
    });
    expect(await lastTicks()).toEqual([
      { cron: '0 2 * * *', last_tick: at('2026-11-23T02:00:00Z') },
    ]);
  });

  it('is described with its next three ticks', () => {
    const schedule = nightly({ timeZone: 'Europe/Berlin' });
    const { next, ...rest } = describeSchedule(schedule, at('2026-10-24T12:00:00Z'));
    expect(rest).toEqual(schedule);
    expect(next).toEqual([
      at('2026-10-25T00:00:00Z'),
      at('2026-10-26T01:00:00Z'),
      at('2026-10-27T01:00:00Z'),
    ]);
  });
});

describe('when a scheduler starts', () => {
  const both = [nightly(), nightly({ kind: 'account', cron: '0 * * * *' })];

  it('a seller that was never mirrored is due at once', async () => {
    const queue = new FakeQueue();
    await start(queue, { from: '2026-11-21T12:30:00Z', schedules: both });
    expect(queue.ids()).toEqual(['sync.acme.20261121T020000Z', 'account.acme.20261121T120000Z']);
  });

  it('only the newest of several missed ticks is added, once', async () => {
    const queue = new FakeQueue();
    const before = await start(queue, { from: '2026-11-10T01:00:00Z', catchUp: false });
    await before.advanceTo('2026-11-10T03:00:00Z');
    await before.scheduler.stop();
    queue.requested.length = 0;
    const one = await start(queue, { from: '2026-11-21T12:00:00Z' });
    await one.advanceTo('2026-11-21T18:00:00Z');
    const two = await start(queue, { from: '2026-11-21T18:00:00Z' });
    await two.advanceTo('2026-11-21T19:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261121T020000Z']);
  });

  it('a missed tick is skipped if a run of its kind began since', async () => {
    await addRun('account', '2026-11-21T12:10:00Z');
    await addRun('items', '2026-11-21T01:00:00Z');
    const queue = new FakeQueue();
    const one = await start(queue, { from: '2026-11-21T12:30:00Z', schedules: both });
    expect(queue.ids()).toEqual(['sync.acme.20261121T020000Z']);
    await one.advanceTo('2026-11-21T13:00:00Z');
    expect(queue.ids()).toEqual(['sync.acme.20261121T020000Z', 'account.acme.20261121T130000Z']);
  });

  it('missed ticks are skipped, recorded and logged if catch-up is off', async () => {
    const queue = new FakeQueue();
    const one = await start(queue, { from: '2026-11-21T12:30:00Z', catchUp: false });
    expect(queue.requested).toEqual([]);
    expect(await lastTicks()).toEqual([
      { cron: '0 2 * * *', last_tick: at('2026-11-21T02:00:00Z') },
    ]);
    expect(one.lines.map(({ message, fields }) => [message, fields['missed']])).toEqual([
      [
        'a schedule missed a tick while no scheduler ran; catch-up is off',
        '2026-11-21T02:00:00.000Z',
      ],
    ]);
    await one.scheduler.stop();
    await start(queue, { from: '2026-11-21T13:00:00Z', catchUp: true });
    expect(queue.requested).toEqual([]);
  });

  it('a changed schedule does not fire for times before the change', async () => {
    const queue = new FakeQueue();
    const before = await start(queue, { from: '2026-11-21T01:00:00Z', catchUp: false });
    await before.advanceTo('2026-11-21T03:00:00Z');
    await before.scheduler.stop();
    const changed = [nightly({ cron: '0 12 * * *' })];
    const one = await start(queue, { from: '2026-11-21T15:00:00Z', schedules: changed });
    expect(queue.requested).toEqual(['sync.acme.20261121T020000Z']);
    expect(one.lines.map(({ message }) => message)).toEqual(['a schedule was changed']);
    await one.advanceTo('2026-11-22T15:00:00Z');
    await one.scheduler.stop();
    const moved = [nightly({ cron: '0 12 * * *', timeZone: 'America/New_York' })];
    const two = await start(queue, { from: '2026-11-22T18:00:00Z', schedules: moved });
    await two.advanceTo('2026-11-23T16:45:00Z');
    expect(queue.requested.slice(1)).toEqual(['sync.acme.20261122T120000Z']);
    await two.advanceTo('2026-11-23T17:00:00Z');
    expect(queue.requested.slice(2)).toEqual(['sync.acme.20261123T170000Z']);
  });

  it('a missed tick of a schedule is not lost by changing the schedule', async () => {
    const queue = new FakeQueue();
    const before = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    await before.scheduler.stop();
    const changed = [nightly({ cron: '0 3 * * *' })];
    const one = await start(queue, { from: '2026-11-21T12:00:00Z', schedules: changed });
    await one.advanceTo('2026-11-22T12:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261121T020000Z', 'sync.acme.20261122T030000Z']);
  });

  it('a schedule with an unreadable record counts as changed', async () => {
    const queue = new FakeQueue();
    const before = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    await before.scheduler.stop();
    await mirror().rows(`UPDATE mirror.schedules SET time_zone = 'Old/Name'`);
    const one = await start(queue, { from: '2026-11-21T12:00:00Z' });
    expect(queue.requested).toEqual([]);
    await one.advanceTo('2026-11-22T12:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261122T020000Z']);
  });
});

describe('while a scheduler runs', () => {
  it.each([true, false])(
    'an outage of the queue delays ticks, loses none and causes one warning (catch-up %s)',
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

  it('an outage of the database repeats ticks with the same job id', async () => {
    let isDown = false;
    const { read, record } = ticksIn(mirror().db);
    const ticks: TickRecords = {
      read,
      record: (done, credible) =>
        isDown ? Promise.reject(new Error('the database is down')) : record(done, credible),
    };
    const queue = new FakeQueue();
    const one = await start(queue, { ticks, from: '2026-11-20T12:00:00Z', catchUp: false });
    isDown = true;
    await one.checkAt('2026-11-21T02:00:00Z');
    await one.checkAt('2026-11-21T02:00:30Z');
    isDown = false;
    await one.checkAt('2026-11-21T02:01:00Z');
    await one.advanceTo('2026-11-21T12:00:00Z');
    expect(new Set(queue.requested)).toEqual(new Set(['sync.acme.20261121T020000Z']));
    expect(queue.requested).toHaveLength(3);
    expect(queue.jobs.size).toBe(1);
  });

  it('a clock that goes back does not repeat a tick', async () => {
    const queue = new FakeQueue();
    const one = await start(queue, { from: '2026-11-20T12:00:00Z' });
    await one.advanceTo('2026-11-21T02:00:00Z');
    queue.requested.length = 0;
    await one.checkAt('2026-11-21T01:30:00Z');
    await one.advanceTo('2026-11-21T12:00:00Z');
    expect(queue.requested).toEqual([]);
    await one.advanceTo('2026-11-22T02:00:00Z');
    expect(queue.requested).toEqual(['sync.acme.20261122T020000Z']);
  });

  it.each([true, false])(
    'a clock that was wrong by years and is corrected delays no tick (catch-up %s)',
    async (catchUp) => {
      const queue = new FakeQueue();
      const one = await start(queue, { from: '2036-01-01T12:00:00Z', catchUp });
      queue.requested.length = 0;
      await one.checkAt('2026-11-21T01:30:00Z');
      queue.requested.length = 0;
      await one.advanceTo('2026-11-22T12:00:00Z');
      expect(queue.requested).toEqual(['sync.acme.20261121T020000Z', 'sync.acme.20261122T020000Z']);
      const warnings = one.lines.filter(({ level }) => level === 'warn');
      expect(warnings.map(({ message }) => message)).toEqual([
        'recorded ticks lie in the future: a clock is or was wrong',
      ]);
    },
  );

  it('stopping it ends all additions', async () => {
    const queue = new FakeQueue();
    const one = await start(queue, { from: '2026-11-21T01:00:00Z', catchUp: false });
    await one.scheduler.stop();
    await one.checkAt('2026-11-21T02:00:00Z');
    expect(queue.requested).toEqual([]);
  });
});

describe('several schedulers', () => {
  it('whose clocks differ add each tick once, without unneeded calls', async () => {
    const queue = new FakeQueue();
    const schedules = [nightly({ cron: '*/10 * * * *' })];
    const options = { from: '2026-11-20T12:00:00Z', schedules, catchUp: false };
    const all = await Promise.all(
      [-180_000, 0, 180_000].map((skewMs) => start(queue, { ...options, skewMs })),
    );
    for (let minute = 1; minute <= 180; minute += 1) {
      const time = new Date(at(options.from).getTime() + minute * 60_000);
      for (const one of all) await one.checkAt(time);
    }
    const expected = Array.from({ length: 18 }, (_, n) => {
      const tick = new Date(at(options.from).getTime() + (n + 1) * 600_000).toISOString();
      return `sync.acme.${tick.replaceAll(/[-:]|\.\d+/g, '')}`;
    });
    expect(queue.requested).toEqual(expected);
  });
});

describe('a thousand sellers', () => {
  it('cost a few statements and a limited number of calls at a time', async () => {
    const { read, record } = ticksIn(mirror().db);
    let statements = 0;
    const ticks: TickRecords = {
      read: (keys) => {
        statements += 1;
        return read(keys);
      },
      record: (done, credible) => {
        statements += 1;
        return record(done, credible);
      },
    };
    const schedules = Array.from({ length: 1_000 }, (_, n) => [
      nightly({ seller: `seller-${n}`, cron: `${n % 60} 2 * * *` }),
      nightly({ seller: `seller-${n}`, cron: `${n % 60} * * * *`, kind: 'account' }),
    ]).flat();
    const queue = new FakeQueue();
    const one = await start(queue, { ticks, from: '2026-11-21T12:00:00Z', schedules });
    expect(queue.jobs.size).toBe(2_000);
    expect(queue.load.most).toBeLessThanOrEqual(16);
    expect(statements).toBe(2);
    await one.checkAt('2026-11-21T12:00:30Z');
    expect(statements).toBe(2);
    await one.checkAt('2026-11-21T13:59:00Z');
    expect(statements).toBe(4);
    expect(queue.jobs.size).toBe(3_000);
  });

  it('cost few attempts per check while the queue is down', async () => {
    const schedules = Array.from({ length: 1_000 }, (_, n) => nightly({ seller: `seller-${n}` }));
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

/** Records in memory: a real database could not keep up with a fake clock. */
function memoryTicks(): TickRecords {
  const records = new Map<string, ScheduleRecord>();
  return {
    read: (keys) =>
      Promise.resolve(
        keys.map(({ seller, kind }) => {
          const record = records.get(`${kind} ${seller}`) ?? null;
          return { seller, kind, record, enqueuedAt: null, lastRunAt: null };
        }),
      ),
    record: (done) => {
      for (const { seller, kind, cron, timeZone, lastTick } of done) {
        records.set(`${kind} ${seller}`, { cron, timeZone, lastTick });
      }
      return Promise.resolve();
    },
  };
}

/** The ticks of three days, each with the seconds by which its job was late. */
async function threeDays(
  from: string,
  cron: string,
  timeZone: string,
): Promise<readonly (readonly [tick: string, lateBy: number])[]> {
  vi.setSystemTime(at(from));
  const queue = new FakeQueue();
  const scheduler = new Scheduler({
    schedules: [nightly({ cron, timeZone })],
    ticks: memoryTicks(),
    enqueue: queue.enqueue,
    log: recordingLog().log,
    catchUp: false,
  });
  await vi.advanceTimersByTimeAsync(3 * 24 * 3_600_000);
  await scheduler.stop();
  return [...queue.jobs.values()].map(({ tick, askedAt }) => {
    const lateBy = Date.parse(askedAt) - Date.parse(tick ?? '');
    return [(tick ?? '').slice(5, 16), lateBy / 1_000] as const;
  });
}

describe('the timers of the cron library, on a fake clock', () => {
  beforeEach(() => {
    vi.useFakeTimers({
      toFake: ['Date', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([
    ['Europe/Berlin', '30 2', '2026-03-28T00:00:10Z', '03-28T01:30 03-29T01:00 03-30T00:30'],
    ['Europe/Berlin', '30 2', '2026-10-24T00:00:10Z', '10-24T00:30 10-25T00:30 10-26T01:30'],
    ['America/New_York', '30 2', '2026-03-07T05:00:10Z', '03-07T07:30 03-08T07:00 03-09T06:30'],
    ['America/New_York', '30 1', '2026-10-31T05:00:10Z', '10-31T05:30 11-01T05:30 11-02T06:30'],
    ['Australia/Lord_Howe', '30 2', '2026-10-03T00:00:10Z', '10-03T15:30 10-04T15:30 10-05T15:30'],
  ])('skip and repeat no night: in %s at %s (from %s)', async (timeZone, time, from, ticks) => {
    const jobs = await threeDays(from, `${time} * * *`, timeZone);
    expect(jobs.map(([tick]) => tick).join(' ')).toBe(ticks);
    // If the timer skips a time when clocks change, the next check finds it.
    for (const [, lateBy] of jobs) expect(lateBy).toBeLessThanOrEqual(30);
  });

  it('are on time on ordinary days', async () => {
    const jobs = await threeDays('2026-06-01T00:00:10Z', '0 2 * * *', 'Europe/Berlin');
    expect(jobs).toEqual([
      ['06-02T00:00', 0],
      ['06-03T00:00', 0],
      ['06-04T00:00', 0],
    ]);
  });
});
