import { DAY_MS, lastTick, nextTicks, type CronPattern } from '../domain/schedule.js';
import type { ScheduleKey, ScheduleRecord, ScheduleState } from '../store/schedules.js';
import { cronFault, parseCron } from './cron.js';

/** When a seller is mirrored. */
export interface SellerSchedule extends ScheduleKey {
  /** Host of the seller's marketplace. */
  readonly marketplace: string;
  readonly cron: string;
  /** IANA name of the zone in which `cron` is meant. */
  readonly timeZone: string;
}

/** The task that a tick adds to the queue. */
export interface ScheduledTask extends ScheduleKey {
  /** The time of the schedule, ISO 8601. */
  readonly tick: string;
  readonly askedAt: string;
}

/** A schedule with its cron expression parsed. */
export interface Timetable extends SellerSchedule {
  readonly pattern: CronPattern;
}

/** A schedule and its next ticks, to be shown. */
export interface ScheduleView extends SellerSchedule {
  readonly next: readonly Date[];
}

/** A schedule with its next three ticks. @throws {TypeError} when its cron expression has a fault */
export function describeSchedule(schedule: SellerSchedule, now: Date): ScheduleView {
  const { cron, timeZone } = schedule;
  return { ...schedule, next: nextTicks(parseCron(cron), timeZone, now, 3) };
}

/** What to do about a schedule. */
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

export interface Moment {
  readonly now: Date;
  /** Since when this process watches for ticks; earlier ones were missed while nothing ran. */
  readonly watchedSince: Date;
  /** Add the newest tick that was missed while nothing ran. */
  readonly catchUp: boolean;
}

/**
 * Plans what a schedule needs now: at most one tick, the newest, however many have passed.
 *
 * A tick that came while this process ran is always due. An earlier tick is due when `catchUp` is on
 * and no run of the same kind began since; this includes a seller that was never mirrored. When the
 * schedule was changed, the old schedule decides which ticks were missed.
 */
export function planTick(
  timetable: Timetable,
  { record: stored, lastRunAt }: Pick<ScheduleState, 'record' | 'lastRunAt'>,
  { now, watchedSince, catchUp }: Moment,
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
  const reach = latest(record?.lastTick ?? new Date(0), newest, missed);
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

/** The id of a tick's job, the same for every scheduler, such as `sync.acme.20261121T020000Z`. */
export function tickJobId({ kind, seller }: ScheduleKey, tick: Date): string {
  return `${kind}.${seller}.${tick.toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
}

function isChanged(timetable: Timetable, { cron, timeZone }: ScheduleRecord): boolean {
  return timetable.cron !== cron || timetable.timeZone !== timeZone;
}

/** The newest tick of a recorded schedule that was not handled. */
function missedBefore({ cron, timeZone, lastTick }: ScheduleRecord, until: Date): Date | null {
  // The recorded schedule was valid then, but this version may know its time zone by another name.
  if (cronFault(cron) !== null) return null;
  try {
    return tickSince({ pattern: parseCron(cron), timeZone }, until, lastTick);
  } catch {
    return null;
  }
}

function latest(first: Date, ...others: readonly (Date | null)[]): Date {
  return others.reduce<Date>((a, b) => (b !== null && b > a ? b : a), first);
}
