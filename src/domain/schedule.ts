/** The fields of a cron expression, made by the queue's cron library. */
export interface CronPattern {
  /** Sorted, each within 0 to 59. */
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  /** Sorted, each within 0 to 23. */
  readonly hours: readonly number[];
  /** Whether the pattern runs on a day of the calendar; `month` is 1 to 12. */
  readonly matchesDay: (year: number, month: number, day: number) => boolean;
}

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** Weekdays and dates repeat after 28 years: a pattern without a run by then never runs. */
export const HORIZON_DAYS = 28 * 366;

/**
 * The next instants at which a pattern runs, in order; fewer than `count` only when there are no more.
 *
 * When clocks go forward, a skipped time runs at the first instant after; when they go back, a time
 * that comes twice runs the first time only. So each night has one run. Patterns for all 24 hours
 * follow real time instead: they run whenever the clock shows a matching time, not in a skipped hour
 * and again in a repeated one.
 * @param after itself never returned
 * @throws {RangeError} when there is no such zone
 */
export function nextTicks(
  pattern: CronPattern,
  timeZone: string,
  after: Date,
  count: number,
): Date[] {
  const ticks: Date[] = [];
  const firstDay = dayOf(after.getTime());
  for (let day = firstDay; day <= firstDay + HORIZON_DAYS && ticks.length < count; day += 1) {
    for (const tick of ticksOfDay(pattern, timeZone, day)) {
      if (tick > after.getTime() && ticks.length < count) ticks.push(new Date(tick));
    }
  }
  return ticks;
}

/** By the rules of `nextTicks`, both ends included. @throws {RangeError} when there is no such zone */
export function lastTick(
  pattern: CronPattern,
  timeZone: string,
  at: Date,
  notBefore: Date,
): Date | null {
  const [until, since] = [at.getTime(), notBefore.getTime()];
  const firstDay = Math.max(dayOf(since), dayOf(until) - HORIZON_DAYS);
  for (let day = dayOf(until); day >= firstDay; day -= 1) {
    const tick = ticksOfDay(pattern, timeZone, day).findLast((tick) => tick <= until);
    if (tick !== undefined) return tick < since ? null : new Date(tick);
  }
  return null;
}

/** The instants of a UTC day at which a pattern runs, in order. */
function ticksOfDay(pattern: CronPattern, timeZone: string, day: number): number[] {
  // Clocks differ from UTC by less than a day.
  const dates = [day - 1, day, day + 1].filter((date) => runsOn(pattern, date));
  if (dates.length === 0) return [];
  const times = timesOf(pattern);
  const followsTime = pattern.hours.length === 24;
  // Clock readings that the clock skips run when it goes on: several may become one tick.
  const ticks = new Set<number>();
  let previousEnd = -Infinity;
  let reached = -Infinity;
  // Readings repeat for less than a day: it is enough to look at the day before.
  for (const { from, to, offset } of [
    ...stretchesOf(timeZone, day - 1),
    ...stretchesOf(timeZone, day),
  ]) {
    const [start, end] = [from + offset, to + offset];
    const low = followsTime ? lowestFollowing(start, previousEnd) : reached;
    for (const date of from < day * DAY_MS ? [] : dates) {
      for (const time of times) {
        const reading = date * DAY_MS + time;
        if (reading >= low && reading < end) ticks.add(Math.max(reading - offset, from));
      }
    }
    previousEnd = end;
    reached = Math.max(reached, end);
  }
  return [...ticks];
}

/** Where clocks skip part of an hour (Lord Howe Island), the rest of it still needs its run. */
function lowestFollowing(start: number, previousEnd: number): number {
  const skipped = start - previousEnd;
  return skipped > 0 && skipped % HOUR_MS !== 0 ? start - skipped : start;
}

/** The pattern's times of day in order, milliseconds. */
function timesOf({ hours, minutes, seconds }: CronPattern): number[] {
  return hours.flatMap((hour) =>
    minutes.flatMap((minute) =>
      seconds.map((second) => ((hour * 60 + minute) * 60 + second) * SECOND_MS),
    ),
  );
}

/** `day` is a day of the calendar, counted from 1970. */
function runsOn(pattern: CronPattern, day: number): boolean {
  const date = new Date(day * DAY_MS);
  return pattern.matchesDay(date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate());
}

/** The day, counted from 1970, of an instant (in UTC) or of a reading (on its clock). */
function dayOf(milliseconds: number): number {
  return Math.floor(milliseconds / DAY_MS);
}

/** A stretch of time in which the clocks of a zone keep one distance from UTC; all in milliseconds. */
interface Stretch {
  readonly from: number;
  /** Since 1970; the first instant that is no longer part of it. */
  readonly to: number;
  /** What the zone's clocks show, less UTC. */
  readonly offset: number;
}

/** Days cached per zone, so that a search over many years does not fill memory. */
const MOST_KEPT = 4_096;

/** Cached: making a formatter takes a hundred times as long as using it. Stretches by UTC day. */
const zones = new Map<string, { format: Intl.DateTimeFormat; days: Map<number, Stretch[]> }>();

/** One, or two when clocks change. @param day from 1970 @throws {RangeError} for an unknown zone */
function stretchesOf(timeZone: string, day: number): Stretch[] {
  let zone = zones.get(timeZone);
  if (zone === undefined) {
    const as = 'numeric';
    const format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: as,
      month: as,
      day: as,
      hour: as,
      minute: as,
      second: as,
    });
    zone = { format, days: new Map() };
    zones.set(timeZone, zone);
  }
  const { format, days } = zone;
  const known = days.get(day);
  if (known !== undefined) return known;
  if (days.size >= MOST_KEPT) days.clear();
  const found = split(format, day * DAY_MS, (day + 1) * DAY_MS);
  days.set(day, found);
  return found;
}

/** Clocks change at most once a day, so equal offsets at both ends mean no change. */
function split(format: Intl.DateTimeFormat, from: number, to: number): Stretch[] {
  const [before, after] = [offsetAt(format, from), offsetAt(format, to)];
  if (before === after) return [{ from, to, offset: before }];
  let last = from;
  let change = to;
  while (change - last > SECOND_MS) {
    const middle = last + Math.floor((change - last) / 2 / SECOND_MS) * SECOND_MS;
    if (offsetAt(format, middle) === before) last = middle;
    else change = middle;
  }
  const first = { from, to: change, offset: before };
  return change === to ? [first] : [first, { from: change, to, offset: after }];
}

/** What the zone's clocks show at a whole second, less UTC. */
function offsetAt(format: Intl.DateTimeFormat, instant: number): number {
  const fields: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {};
  for (const { type, value } of format.formatToParts(instant)) fields[type] = Number(value);
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = fields;
  return Date.UTC(year, month - 1, day, hour, minute, second) - instant;
}
