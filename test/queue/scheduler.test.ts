import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Scheduler, type SchedulerOptions } from '../../src/queue/scheduler.js';
import { describeSchedule } from '../../src/queue/ticks.js';
import type { ScheduleRecord } from '../../src/store/schedules.js';
import { useMirror } from '../support/mirror.js';
import { at, JobList, nightly, rig, type Rig, type RigOptions } from './scheduler-support.js';
import { listeningLog } from './support.js';

const mirror = useMirror();

function start(queue: JobList, options: Omit<RigOptions, 'queue' | 'store'>): Promise<Rig> {
  return rig({ queue, store: mirror().store, ...options });
}

async function addRun(kind: 'account' | 'items', startedAt: string): Promise<void> {
  await mirror().store.sellers.ensure('acme', 'market.example');
  await mirror().rows(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at)
     VALUES ('acme', $1::mirror.run_kind, 'succeeded', 'a test', $2)`,
    [kind, startedAt],
  );
}

const lastTicks = (): Promise<{ cron: string; last_tick: Date }[]> =>
  mirror().rows('SELECT cron, last_tick FROM mirror.schedules ORDER BY seller_id, kind');

describe('a schedule', () => {
  it('puts each of its ticks into the queue once, and on record', async () => {
    const queue = new JobList();
    const one = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    expect(queue.asked).toEqual([]);
    await one.pass('2026-11-23T12:00:00Z');
    expect(queue.asked).toEqual([
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

  it('is told to people with its next three ticks', () => {
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

describe('at start', () => {
  const both = [nightly(), nightly({ kind: 'account', cron: '0 * * * *' })];

  it('a seller that was never mirrored is due at once, so that a fresh install has a copy soon', async () => {
    const queue = new JobList();
    await start(queue, { from: '2026-11-21T12:30:00Z', schedules: both });
    expect(queue.ids()).toEqual(['sync.acme.20261121T020000Z', 'account.acme.20261121T120000Z']);
  });

  it('of several missed ticks the newest is caught up, once', async () => {
    const queue = new JobList();
    const before = await start(queue, { from: '2026-11-10T01:00:00Z', catchUp: false });
    await before.pass('2026-11-10T03:00:00Z');
    await before.scheduler.stop();
    queue.asked.length = 0;
    const one = await start(queue, { from: '2026-11-21T12:00:00Z' });
    await one.pass('2026-11-21T18:00:00Z');
    const two = await start(queue, { from: '2026-11-21T18:00:00Z' });
    await two.pass('2026-11-21T19:00:00Z');
    expect(queue.asked).toEqual(['sync.acme.20261121T020000Z']);
  });

  it('a missed tick is not caught up when a run of its kind began since', async () => {
    await addRun('account', '2026-11-21T12:10:00Z');
    await addRun('items', '2026-11-21T01:00:00Z');
    const queue = new JobList();
    const one = await start(queue, { from: '2026-11-21T12:30:00Z', schedules: both });
    expect(queue.ids()).toEqual(['sync.acme.20261121T020000Z']);
    await one.pass('2026-11-21T13:00:00Z');
    expect(queue.ids()).toEqual(['sync.acme.20261121T020000Z', 'account.acme.20261121T130000Z']);
  });

  it('nothing is caught up when that is switched off; it is on record as passed, and said', async () => {
    const queue = new JobList();
    const one = await start(queue, { from: '2026-11-21T12:30:00Z', catchUp: false });
    expect(queue.asked).toEqual([]);
    expect(await lastTicks()).toEqual([
      { cron: '0 2 * * *', last_tick: at('2026-11-21T02:00:00Z') },
    ]);
    expect(one.lines.map(({ message, fields }) => [message, fields['missed']])).toEqual([
      ['a tick passed while nothing ran, and is not caught up', '2026-11-21T02:00:00.000Z'],
    ]);
    await one.scheduler.stop();
    await start(queue, { from: '2026-11-21T13:00:00Z', catchUp: true });
    expect(queue.asked).toEqual([]);
  });

  it('a changed schedule does not fire for the past, in which it said something else', async () => {
    const queue = new JobList();
    const before = await start(queue, { from: '2026-11-21T01:00:00Z', catchUp: false });
    await before.pass('2026-11-21T03:00:00Z');
    await before.scheduler.stop();
    const changed = [nightly({ cron: '0 12 * * *' })];
    const one = await start(queue, { from: '2026-11-21T15:00:00Z', schedules: changed });
    expect(queue.asked).toEqual(['sync.acme.20261121T020000Z']);
    expect(one.lines.map(({ message }) => message)).toEqual(['a schedule was changed']);
    await one.pass('2026-11-22T15:00:00Z');
    await one.scheduler.stop();
    const moved = [nightly({ cron: '0 12 * * *', timeZone: 'America/New_York' })];
    const two = await start(queue, { from: '2026-11-22T18:00:00Z', schedules: moved });
    await two.pass('2026-11-23T16:45:00Z');
    expect(queue.asked.slice(1)).toEqual(['sync.acme.20261122T120000Z']);
    await two.pass('2026-11-23T17:00:00Z');
    expect(queue.asked.slice(2)).toEqual(['sync.acme.20261123T170000Z']);
  });

  it('a night that the schedule asked for before it was changed is not lost by the change', async () => {
    const queue = new JobList();
    const before = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    await before.scheduler.stop();
    const changed = [nightly({ cron: '0 3 * * *' })];
    const one = await start(queue, { from: '2026-11-21T12:00:00Z', schedules: changed });
    await one.pass('2026-11-22T12:00:00Z');
    expect(queue.asked).toEqual(['sync.acme.20261121T020000Z', 'sync.acme.20261122T030000Z']);
  });

  it('a record that can no longer be read counts as changed', async () => {
    const queue = new JobList();
    const before = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp: false });
    await before.scheduler.stop();
    await mirror().rows(`UPDATE mirror.schedules SET time_zone = 'Old/Name'`);
    const one = await start(queue, { from: '2026-11-21T12:00:00Z' });
    expect(queue.asked).toEqual([]);
    await one.pass('2026-11-22T12:00:00Z');
    expect(queue.asked).toEqual(['sync.acme.20261122T020000Z']);
  });
});

describe('while it runs', () => {
  it.each([true, false])(
    'an outage of the queue delays a tick and loses none, with one warning (catch-up %s)',
    async (catchUp) => {
      const queue = new JobList();
      const one = await start(queue, { from: '2026-11-20T12:00:00Z', catchUp });
      queue.asked.length = 0;
      queue.broken = true;
      await one.pass('2026-11-21T03:00:00Z');
      expect(queue.asked).toEqual([]);
      queue.broken = false;
      await one.pass('2026-11-21T05:00:00Z');
      expect(queue.asked).toEqual(['sync.acme.20261121T020000Z']);
      const told = one.lines.filter(({ message }) => message.startsWith('schedules'));
      expect(told.map(({ level }) => level)).toEqual(['warn', 'info']);
      expect(told[0]?.fields['reason']).toBe('the queue is away');
    },
  );

  it('an outage of the database delays a tick, which then gets the id that it had before', async () => {
    const { store } = mirror();
    let broken = false;
    const away = (): Promise<never> => Promise.reject(new Error('the database is away'));
    const { read, record } = store.schedules;
    const brittle = {
      schedules: {
        read,
        record: (...given: Parameters<typeof record>) => (broken ? away() : record(...given)),
      },
    };
    const queue = new JobList();
    const one = await rig({ queue, store: brittle, from: '2026-11-20T12:00:00Z', catchUp: false });
    broken = true;
    await one.wakeAt('2026-11-21T02:00:00Z');
    await one.wakeAt('2026-11-21T02:00:30Z');
    broken = false;
    await one.wakeAt('2026-11-21T02:01:00Z');
    await one.pass('2026-11-21T12:00:00Z');
    expect(new Set(queue.asked)).toEqual(new Set(['sync.acme.20261121T020000Z']));
    expect(queue.asked).toHaveLength(3);
    expect(queue.jobs.size).toBe(1);
  });

  it('a clock that jumps back does not repeat a tick', async () => {
    const queue = new JobList();
    const one = await start(queue, { from: '2026-11-20T12:00:00Z' });
    await one.pass('2026-11-21T02:00:00Z');
    queue.asked.length = 0;
    await one.wakeAt('2026-11-21T01:30:00Z');
    await one.pass('2026-11-21T12:00:00Z');
    expect(queue.asked).toEqual([]);
    await one.pass('2026-11-22T02:00:00Z');
    expect(queue.asked).toEqual(['sync.acme.20261122T020000Z']);
  });

  it.each([true, false])(
    'a clock that was wrong by years and is put right holds up nothing (catch-up %s)',
    async (catchUp) => {
      const queue = new JobList();
      const one = await start(queue, { from: '2036-01-01T12:00:00Z', catchUp });
      queue.asked.length = 0;
      await one.wakeAt('2026-11-21T01:30:00Z');
      queue.asked.length = 0;
      await one.pass('2026-11-22T12:00:00Z');
      expect(queue.asked).toEqual(['sync.acme.20261121T020000Z', 'sync.acme.20261122T020000Z']);
      const warnings = one.lines.filter(({ level }) => level === 'warn');
      expect(warnings.map(({ message }) => message)).toEqual([
        'ticks of a time to come are on record: a clock is or was wrong',
      ]);
    },
  );

  it('nothing is put into the queue after it was stopped', async () => {
    const queue = new JobList();
    const one = await start(queue, { from: '2026-11-21T01:00:00Z', catchUp: false });
    await one.scheduler.stop();
    await one.wakeAt('2026-11-21T02:00:00Z');
    expect(queue.asked).toEqual([]);
  });
});

describe('several schedulers', () => {
  it('with clocks that differ put a tick into the queue once, and ask for it rarely', async () => {
    const queue = new JobList();
    const schedules = [nightly({ cron: '*/10 * * * *' })];
    const options = { from: '2026-11-20T12:00:00Z', schedules, catchUp: false };
    const all = await Promise.all(
      [-180_000, 0, 180_000].map((skewMs) => start(queue, { ...options, skewMs })),
    );
    for (let minute = 1; minute <= 180; minute += 1) {
      const time = new Date(at(options.from).getTime() + minute * 60_000);
      for (const one of all) await one.wakeAt(time);
    }
    const expected = Array.from({ length: 18 }, (_, n) => {
      const tick = new Date(at(options.from).getTime() + (n + 1) * 600_000).toISOString();
      return `sync.acme.${tick.replaceAll(/[-:]|\.\d+/g, '')}`;
    });
    expect(queue.asked).toEqual(expected);
  });
});

describe('a thousand sellers', () => {
  it('cost a few statements and a bounded number of calls at a time', async () => {
    const { store } = mirror();
    let statements = 0;
    const counting = {
      schedules: {
        read: (...given: Parameters<typeof store.schedules.read>) => {
          statements += 1;
          return store.schedules.read(...given);
        },
        record: (...given: Parameters<typeof store.schedules.record>) => {
          statements += 1;
          return store.schedules.record(...given);
        },
      },
    };
    const schedules = Array.from({ length: 1_000 }, (_, n) => [
      nightly({ seller: `seller-${n}`, cron: `${n % 60} 2 * * *` }),
      nightly({ seller: `seller-${n}`, cron: `${n % 60} * * * *`, kind: 'account' }),
    ]).flat();
    const queue = new JobList();
    const one = await rig({ queue, store: counting, from: '2026-11-21T12:00:00Z', schedules });
    expect(queue.jobs.size).toBe(2_000);
    expect(queue.load.most).toBeLessThanOrEqual(16);
    expect(statements).toBe(2);
    await one.wakeAt('2026-11-21T12:00:30Z');
    expect(statements).toBe(2);
    await one.wakeAt('2026-11-21T13:59:00Z');
    expect(statements).toBe(4);
    expect(queue.jobs.size).toBe(3_000);
  });

  it('without a queue cost few attempts at each look', async () => {
    const schedules = Array.from({ length: 1_000 }, (_, n) => nightly({ seller: `seller-${n}` }));
    const queue = new JobList();
    let attempts = 0;
    const enqueue = (): Promise<never> => {
      attempts += 1;
      return Promise.reject(new Error('the queue is away'));
    };
    await rig({ queue, store: mirror().store, from: '2026-11-21T12:00:00Z', schedules, enqueue });
    expect(attempts).toBeLessThanOrEqual(32);
  });
});

/** Records in memory: a real database would not keep up with a clock that is made to run. */
function memoryStore(): SchedulerOptions['store'] {
  const records = new Map<string, ScheduleRecord>();
  return {
    schedules: {
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
    },
  };
}

/** The jobs of three days from a time on, with how many seconds after its tick each was asked for. */
async function threeDays(
  from: string,
  cron: string,
  timeZone: string,
): Promise<readonly (readonly [tick: string, lateBy: number])[]> {
  vi.setSystemTime(at(from));
  const queue = new JobList();
  const scheduler = new Scheduler({
    schedules: [nightly({ cron, timeZone })],
    store: memoryStore(),
    enqueue: queue.enqueue,
    log: listeningLog().log,
    catchUp: false,
  });
  await vi.advanceTimersByTimeAsync(3 * 24 * 3_600_000);
  await scheduler.stop();
  return [...queue.jobs.values()].map(({ tick, askedAt }) => {
    const lateBy = Date.parse(askedAt) - Date.parse(tick ?? '');
    return [(tick ?? '').slice(5, 16), lateBy / 1_000] as const;
  });
}

describe('alarms of the cron library, on a clock that is made to run', () => {
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
  ])(
    'leave out and double no night: in %s at %s (from %s)',
    async (timeZone, time, from, ticks) => {
      const jobs = await threeDays(from, `${time} * * *`, timeZone);
      expect(jobs.map(([tick]) => tick).join(' ')).toBe(ticks);
      // What the alarm leaves out when clocks change, the next look makes good.
      for (const [, lateBy] of jobs) expect(lateBy).toBeLessThanOrEqual(30);
    },
  );

  it('ring on the second on ordinary days', async () => {
    const jobs = await threeDays('2026-06-01T00:00:10Z', '0 2 * * *', 'Europe/Berlin');
    expect(jobs).toEqual([
      ['06-02T00:00', 0],
      ['06-03T00:00', 0],
      ['06-04T00:00', 0],
    ]);
  });
});
