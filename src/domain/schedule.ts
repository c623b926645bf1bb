/** A cron expression as its parser returns it. */
export interface CronPattern {
  /** Sorted, each within 0 to 59. */
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  /** Sorted, each within 0 to 23. */
  readonly hours: readonly number[];
  /** True if the pattern runs on a calendar day; `month` is 1 to 12. */
  readonly matchesDay: (year: number, month: number, day: number) => boolean;
}

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** Weekdays and dates repeat after 28 years. A pattern that does not run by then never runs. */
export const HORIZON_DAYS = 28 * 366;

/**
 * The next instants at which a pattern runs, in order. Fewer than `count` only if there are no more.
 *
 * When clocks go forward, a skipped time runs right after the jump. When they go back, a repeated time runs
 * only once. So each night has one run. A pattern for all 24 hours follows the clock instead: it does not
 * run in a skipped hour, and runs again in a repeated one.
 * @param after exclusive
 * @throws {RangeError} if the zone does not exist
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

/**
 * The last tick from `notBefore` to `at`, inclusive, by the rules of `nextTicks`; null if there is none.
 * @throws {RangeError} if the zone does not exist
 */
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
  const followsClock = pattern.hours.length === 24;
  // A set, because several skipped clock times may become one tick.
  const ticks = new Set<number>();
  let previousEnd = -Infinity;
  // The latest clock time shown so far: earlier ones are repeated.
  let reached = -Infinity;
  // Clocks repeat less than a day, so the day before is enough.
  for (const { from, to, offset } of [
    ...offsetPeriods(timeZone, day - 1),
    ...offsetPeriods(timeZone, day),
  ]) {
    const [start, end] = [from + offset, to + offset];
    const first = followsClock ? firstFollowing(start, previousEnd) : reached;
    for (const date of from < day * DAY_MS ? [] : dates) {
      for (const time of times) {
        const clockTime = date * DAY_MS + time;
        if (clockTime >= first && clockTime < end) ticks.add(Math.max(clockTime - offset, from));
      }
    }
    previousEnd = end;
    reached = Math.max(reached, end);
  }
  return [...ticks];
}

/** If clocks skip part of an hour (Lord Howe Island), the skipped part runs in the rest of that hour. */
function firstFollowing(start: number, previousEnd: number): number {
  const skipped = start - previousEnd;
  return skipped > 0 && skipped % HOUR_MS !== 0 ? start - skipped : start;
}

/** The pattern's times of day in milliseconds, ascending. */
function timesOf({ hours, minutes, seconds }: CronPattern): number[] {
  return hours.flatMap((hour) =>
    minutes.flatMap((minute) =>
      seconds.map((second) => ((hour * 60 + minute) * 60 + second) * SECOND_MS),
    ),
  );
}

/** @param day calendar day, counted from 1970 */
function runsOn(pattern: CronPattern, day: number): boolean {
  const date = new Date(day * DAY_MS);
  return pattern.matchesDay(date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate());
}

/** The day, counted from 1970. */
function dayOf(milliseconds: number): number {
  return Math.floor(milliseconds / DAY_MS);
}

/** A period in which a zone keeps one offset from UTC. All in milliseconds. */
interface OffsetPeriod {
  /** Since 1970. */
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  /** Local time minus UTC. */
  readonly offset: number;
}

/** Days cached per zone. It bounds the memory of a search over many years. */
const MAX_CACHED_DAYS = 4_096;

/** Formatters and periods by UTC day. Making a formatter takes a hundred times as long as using it. */
const zones = new Map<string, { format: Intl.DateTimeFormat; days: Map<number, OffsetPeriod[]> }>();

/** The day's one period, or two if clocks change. @throws {RangeError} if the zone does not exist */
function offsetPeriods(timeZone: string, day: number): OffsetPeriod[] {
  let zone = zones.get(timeZone);
  if (zone === undefined) {
    const format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    zone = { format, days: new Map() };
    zones.set(timeZone, zone);
  }
  const { format, days } = zone;
  const cached = days.get(day);
  if (cached !== undefined) return cached;
  if (days.size >= MAX_CACHED_DAYS) days.clear();
  const periods = splitAtChange(format, day * DAY_MS, (day + 1) * DAY_MS);
  days.set(day, periods);
  return periods;
}

/** Clocks change at most once a day, so equal offsets at both ends mean no change. */
function splitAtChange(format: Intl.DateTimeFormat, from: number, to: number): OffsetPeriod[] {
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

/** Local time minus UTC, at a whole second. */
function offsetAt(format: Intl.DateTimeFormat, instant: number): number {
  const fields: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {};
  for (const { type, value } of format.formatToParts(instant)) fields[type] = Number(value);
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = fields;
  return Date.UTC(year, month - 1, day, hour, minute, second) - instant;
}
