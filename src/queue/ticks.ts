import { hostName } from '../domain/address.js';
import { DAY_MS, lastTick, nextTicks, type CronPattern } from '../domain/schedule.js';
import type { ScheduleKey, ScheduleRecord, ScheduleState } from '../store/schedules.js';
import { parseCron } from './cron.js';

const HOUR_MS = 3_600_000;

export interface SellerSchedule extends ScheduleKey {
  readonly marketplace: string;
  readonly cron: string;
  /** IANA name of the zone in which `cron` is meant. */
  readonly timeZone: string;
}

/** A seller and its cron expressions; null: not on a schedule. */
interface ScheduledSeller {
  readonly name: string;
  readonly url: URL;
  readonly timeZone: string;
  readonly syncCron: string | null;
  readonly accountCron: string | null;
  readonly auditCron: string | null;
}

export function schedulesOf(sellers: readonly ScheduledSeller[]): readonly SellerSchedule[] {
  return sellers.flatMap(({ name, url, timeZone, syncCron, accountCron, auditCron }) => {
    const seller = { seller: name, marketplace: hostName(url), timeZone };
    const crons = { sync: syncCron, account: accountCron, recheck: auditCron };
    return (['sync', 'account', 'recheck'] as const).flatMap((kind) => {
      const cron = crons[kind];
      return cron === null ? [] : [{ ...seller, kind, cron }];
    });
  });
}

export interface Timetable extends SellerSchedule {
  readonly pattern: CronPattern;
}

/** A schedule with its next three ticks. @throws {TypeError} when its cron expression has a fault */
export function describeSchedule(
  schedule: SellerSchedule,
  now: Date,
): SellerSchedule & { readonly next: readonly Date[] } {
  const { cron, timeZone } = schedule;
  return { ...schedule, next: nextTicks(parseCron(cron), timeZone, now, 3) };
}

export type TickPlan =
  /** Add the job of `tick`; then ticks up to `reach` are handled. */
  | { readonly kind: 'enqueue'; readonly tick: Date; readonly reach: Date }
  /** Record ticks up to `reach` as handled, `missed` among them (null when none was missed). */
  | {
      readonly kind: 'pass';
      readonly reach: Date;
      readonly missed: Date | null;
      readonly why: 'no-catch-up' | 'covered' | 'changed';
    }
  /** Ticks up to `reach` are handled. */
  | { readonly kind: 'nothing'; readonly reach: Date };

/**
 * Plans what a schedule needs now: at most one tick, the newest, however many have passed.
 *
 * A tick that came while this process ran is always due. An earlier tick is due when `catchUp` is on
 * and no run of the same kind began since; this includes a seller that was never mirrored. When the
 * schedule was changed, the old schedule decides which ticks were missed.
 * @param moment.watchedSince since when this process watches for ticks
 * @param moment.catchUp whether to add the newest tick that was missed while nothing ran
 */
export function planTick(
  timetable: Timetable,
  { record: stored, lastRunAt }: Pick<ScheduleState, 'record' | 'lastRunAt'>,
  { now, watchedSince, catchUp }: { now: Date; watchedSince: Date; catchUp: boolean },
): TickPlan {
  const record = stored !== null && stored.lastTick <= credibleAt(now) ? stored : null;
  const newest = tickSince(timetable, now, record?.lastTick ?? null);
  if (newest !== null && newest > watchedSince) {
    return { kind: 'enqueue', tick: newest, reach: newest };
  }
  const changed = record !== null && isChanged(timetable, record);
  if (!changed && newest === null) {
    return { kind: 'nothing', reach: record?.lastTick ?? watchedSince };
  }
  const missed = changed ? missedBefore(record, watchedSince) : newest;
  const reach = latest(record?.lastTick, newest, missed);
  if (missed === null) return { kind: 'pass', reach, missed, why: 'changed' };
  if (!catchUp) return { kind: 'pass', reach, missed, why: 'no-catch-up' };
  if (lastRunAt !== null && lastRunAt >= missed) {
    return { kind: 'pass', reach, missed, why: 'covered' };
  }
  return { kind: 'enqueue', tick: missed, reach };
}

/**
 * The newest time up to which a record is believed. Clocks differ by minutes. A record that is days
 * ahead was made by a wrong clock, and would suppress all ticks up to it.
 */
export function credibleAt(now: Date): Date {
  return new Date(now.getTime() + DAY_MS);
}

/** The newest tick up to `now` that is later than `handled`; null when there is none. */
export function tickSince(
  { pattern, timeZone }: Pick<Timetable, 'pattern' | 'timeZone'>,
  now: Date,
  handled: Date | null,
): Date | null {
  return lastTick(pattern, timeZone, now, new Date(handled === null ? 0 : handled.getTime() + 1));
}

/**
 * The last tick, when its job was added and no run followed it; null otherwise.
 * @param keepJobsDays days that finished jobs are kept: only within them a missing job is a lost one
 */
export function tickWithoutRun(
  { record, enqueuedAt, lastRunAt }: Pick<ScheduleState, 'record' | 'enqueuedAt' | 'lastRunAt'>,
  now: Date,
  keepJobsDays: number,
): Date | null {
  if (record === null || enqueuedAt === null) return null;
  const { lastTick } = record;
  const wasEnqueued = enqueuedAt >= lastTick;
  const isKept = now.getTime() - enqueuedAt.getTime() < keepJobsDays * DAY_MS - HOUR_MS;
  const hasRun = lastRunAt !== null && lastRunAt >= lastTick;
  return wasEnqueued && isKept && !hasRun ? lastTick : null;
}

function isChanged(timetable: Timetable, { cron, timeZone }: ScheduleRecord): boolean {
  return timetable.cron !== cron || timetable.timeZone !== timeZone;
}

/** The newest tick of a recorded schedule that was not handled. */
function missedBefore({ cron, timeZone, lastTick }: ScheduleRecord, until: Date): Date | null {
  try {
    return tickSince({ pattern: parseCron(cron), timeZone }, until, lastTick);
  } catch {
    return null; // it was valid then, but this version may know its time zone by another name
  }
}

function latest(...times: readonly (Date | null | undefined)[]): Date {
  return times.reduce<Date>((a, b) => (b && b > a ? b : a), new Date(0));
}
