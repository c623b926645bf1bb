import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nextTicks } from '../../src/domain/schedule.js';
import { parseCron } from '../../src/service/cron.js';
import {
  planTick,
  tickWithoutRun,
  type TickPlan,
  type Timetable,
} from '../../src/service/ticks.js';
import type { ScheduleRecord } from '../../src/store/schedules.js';
import { at, nightly } from './scheduler-support.js';

const START = at('2026-03-20T00:00:00Z').getTime();

const crons = fc.constantFrom(
  '0 2 * * *',
  '30 2 * * *',
  '15 * * * *',
  '0 */6 * * *',
  '0 4 * * mon',
);
const zones = fc.constantFrom('UTC', 'Europe/Berlin', 'Australia/Lord_Howe', 'America/New_York');
/** Three weeks, in which clocks change in Europe and in Australia. */
const instants = fc.integer({ min: 0, max: 21 * 24 * 60 }).map((n) => new Date(START + n * 60_000));

const timetables: fc.Arbitrary<Timetable> = fc
  .record({ cron: crons, timeZone: zones })
  .map((given) => ({ ...nightly(given), pattern: parseCron(given.cron) }));
const records: fc.Arbitrary<ScheduleRecord | null> = fc.option(
  fc.record({ cron: crons, timeZone: zones, lastTick: instants }),
);
const moments = fc
  .tuple(instants, instants, fc.boolean())
  .map(([a, b, catchUp]) =>
    a < b ? { watchedSince: a, now: b, catchUp } : { watchedSince: b, now: a, catchUp },
  );

/** The record after a plan was carried out. */
function after(timetable: Timetable, plan: TickPlan, record: ScheduleRecord | null) {
  if (plan.kind === 'nothing') return record;
  const { cron, timeZone } = timetable;
  return { cron, timeZone, lastTick: plan.handledUntil };
}

describe('the plan of a schedule', () => {
  it('has at most one tick, in the past and after the handled ones; the next plan has none', () => {
    const lastRuns = fc.option(instants);
    fc.assert(
      fc.property(
        timetables,
        records,
        lastRuns,
        moments,
        (timetable, record, lastRunAt, moment) => {
          const plan = planTick(timetable, { record, lastRunAt }, moment);
          const handled = record !== null && record.lastTick <= moment.now ? record.lastTick : null;
          if (plan.kind === 'enqueue') {
            expect(plan.tick <= moment.now).toBe(true);
            expect(plan.handledUntil >= plan.tick).toBe(true);
            if (handled !== null) expect(plan.tick > handled).toBe(true);
          }
          if (handled !== null) expect(plan.handledUntil >= handled).toBe(true);
          const settled = after(timetable, plan, record);
          expect(planTick(timetable, { record: settled, lastRunAt }, moment).kind).toBe('nothing');
        },
      ),
    );
  });

  it('never skips a tick since the scheduler began to watch', () => {
    fc.assert(
      fc.property(timetables, records, moments, (timetable, record, moment) => {
        const { pattern, timeZone } = timetable;
        const since = moment.watchedSince;
        const from = record !== null && record.lastTick > since ? record.lastTick : since;
        const due = nextTicks(pattern, timeZone, from, 600).filter((tick) => tick <= moment.now);
        const plan = planTick(timetable, { record, lastRunAt: moment.now }, moment);
        const newest = due.at(-1);
        if (newest === undefined) return;
        expect(plan).toEqual({ kind: 'enqueue', tick: newest, handledUntil: newest });
      }),
    );
  });

  it('has the newest tick since the previous check, whenever the checks are', () => {
    const pauses = fc.array(fc.integer({ min: 1, max: 30 * 60 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(timetables, pauses, (timetable, minutes) => {
        const { cron, timeZone, pattern } = timetable;
        const watchedSince = new Date(START);
        let record: ScheduleRecord | null = { cron, timeZone, lastTick: watchedSince };
        let before = START;
        for (const pause of minutes) {
          const now = new Date(before + pause * 60_000);
          const ticks = nextTicks(pattern, timeZone, new Date(before), 40);
          const newest = ticks.findLast((tick) => tick <= now);
          const plan = planTick(
            timetable,
            { record, lastRunAt: null },
            { now, watchedSince, catchUp: false },
          );
          expect(plan.kind === 'enqueue' ? plan.tick : undefined).toEqual(newest);
          record = after(timetable, plan, record);
          before = now.getTime();
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe('a tick without a run', () => {
  const day = (time: string): Date => at(`2026-03-02T${time}Z`);
  const record = { cron: '0 2 * * *', timeZone: 'UTC', lastTick: day('02:00:00') };
  const enqueuedAt = day('02:00:01');
  const NOW = day('09:00:00');

  it('is one whose job was added to the queue, and after which no run began', () => {
    expect(tickWithoutRun({ record, enqueuedAt, lastRunAt: null }, NOW, 7)).toEqual(
      record.lastTick,
    );
    const before = day('01:59:59');
    expect(tickWithoutRun({ record, enqueuedAt, lastRunAt: before }, NOW, 7)).not.toBeNull();
    expect(tickWithoutRun({ record, enqueuedAt, lastRunAt: enqueuedAt }, NOW, 7)).toBeNull();
  });

  it('is none that was skipped', () => {
    expect(tickWithoutRun({ record: null, enqueuedAt, lastRunAt: null }, NOW, 7)).toBeNull();
    const never = { record, enqueuedAt: null, lastRunAt: null };
    expect(tickWithoutRun(never, NOW, 7)).toBeNull();
    const before = { record, enqueuedAt: day('01:00:00'), lastRunAt: null };
    expect(tickWithoutRun(before, NOW, 7)).toBeNull();
  });

  it('is none whose finished job may already be deleted', () => {
    const later = new Date(NOW.getTime() + 7 * 86_400_000);
    expect(tickWithoutRun({ record, enqueuedAt, lastRunAt: null }, later, 7)).toBeNull();
  });
});
