import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Scheduler, type SchedulerOptions } from '../../src/queue/scheduler.js';
import type { ScheduleRecord } from '../../src/store/schedules.js';
import { at, JobList, nightly } from './scheduler-support.js';
import { listeningLog } from './support.js';

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
