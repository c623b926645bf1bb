import { hostName } from '../domain/address.js';
import { DAY_MS, lastTick, nextTicks, type CronPattern } from '../domain/schedule.js';
import type { ScheduleKey, ScheduleRecord, ScheduleState } from '../store/schedules.js';
import { parseCron } from './cron.js';

const HOUR_MS = 3_600_000;

export interface SellerSchedule extends ScheduleKey {
  readonly marketplace: string;
  readonly cron: string;
  /** IANA name of the time zone of `cron`. */
  readonly timeZone: string;
}

/** A seller and its cron expressions; null for no schedule. */
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

/** A schedule with its next three ticks. @throws {TypeError} when its cron expression is invalid */
export function describeSchedule(
  schedule: SellerSchedule,
  now: Date,
): SellerSchedule & { readonly next: readonly Date[] } {
  const { cron, timeZone } = schedule;
  return { ...schedule, next: nextTicks(parseCron(cron), timeZone, now, 3) };
}

/** What to do for a schedule now. Afterwards all its ticks up to `handledUntil` are handled. */
export type TickPlan =
  /** Add the job of `tick`. */
  | { readonly kind: 'enqueue'; readonly tick: Date; readonly handledUntil: Date }
  /** Add no job, but record the ticks as handled. */
  | {
      readonly kind: 'skip';
      readonly handledUntil: Date;
      /** The newest tick that is skipped; null if there is none. */
      readonly missed: Date | null;
      readonly why: 'no-catch-up' | 'covered' | 'changed';
    }
  | { readonly kind: 'nothing'; readonly handledUntil: Date };

/**
 * Decides what a schedule needs now: at most one job, for its newest tick.
 *
 * A tick since `watchedSince` is always due. An earlier one is due if `catchUp` is on and no run of the same kind
 * began since; so a seller that was never mirrored is due at once. If the schedule was changed, the old schedule
 * decides which ticks were missed.
 * @param moment.watchedSince when this process began to watch for ticks
 * @param moment.catchUp whether to add the newest tick that was missed while no scheduler ran
 */
export function planTick(
  timetable: Timetable,
  { record: stored, lastRunAt }: Pick<ScheduleState, 'record' | 'lastRunAt'>,
  { now, watchedSince, catchUp }: { now: Date; watchedSince: Date; catchUp: boolean },
): TickPlan {
  const record = stored !== null && stored.lastTick <= latestCredible(now) ? stored : null;
  const newest = tickSince(timetable, now, record?.lastTick ?? null);
  if (newest !== null && newest > watchedSince) {
    return { kind: 'enqueue', tick: newest, handledUntil: newest };
  }
  const changed =
    record !== null && (timetable.cron !== record.cron || timetable.timeZone !== record.timeZone);
  if (!changed && newest === null) {
    return { kind: 'nothing', handledUntil: record?.lastTick ?? watchedSince };
  }
  const missed = changed ? missedByRecord(record, watchedSince) : newest;
  const handledUntil = latest(record?.lastTick, newest, missed);
  const skipped = { kind: 'skip', handledUntil, missed } as const;
  if (missed === null) return { ...skipped, why: 'changed' };
  if (!catchUp) return { ...skipped, why: 'no-catch-up' };
  if (lastRunAt !== null && lastRunAt >= missed) return { ...skipped, why: 'covered' };
  return { kind: 'enqueue', tick: missed, handledUntil };
}

/**
 * The latest tick that a record may have. Clocks differ by minutes. A record that is days ahead comes from a wrong
 * clock, and would suppress all ticks until then.
 */
export function latestCredible(now: Date): Date {
  return new Date(now.getTime() + DAY_MS);
}

/** The newest tick up to `now` and after `handled`; null if there is none. */
export function tickSince(
  { pattern, timeZone }: Pick<Timetable, 'pattern' | 'timeZone'>,
  now: Date,
  handled: Date | null,
): Date | null {
  return lastTick(pattern, timeZone, now, new Date(handled === null ? 0 : handled.getTime() + 1));
}

/**
 * The last tick, if its job was added and no run followed it; null otherwise.
 * @param keepJobsDays days that finished jobs are kept; a missing job is a lost one only within them
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

/** The newest unhandled tick of a recorded schedule. */
function missedByRecord({ cron, timeZone, lastTick }: ScheduleRecord, until: Date): Date | null {
  try {
    return tickSince({ pattern: parseCron(cron), timeZone }, until, lastTick);
  } catch {
    return null; // it was valid when recorded, but this version may not know its time zone
  }
}

function latest(...times: readonly (Date | null | undefined)[]): Date {
  return times.reduce<Date>((a, b) => (b && b > a ? b : a), new Date(0));
}
