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
  let last = after.getTime();
  for (let day = firstDay; day <= firstDay + HORIZON_DAYS && ticks.length < count; day += 1) {
    for (const span of spansOf(pattern, timeZone, day)) {
      let tick = firstAfter(pattern, span, last);
      for (; tick !== null && ticks.length < count; tick = firstAfter(pattern, span, last)) {
        ticks.push(new Date(tick));
        last = tick;
      }
    }
  }
  return ticks;
}

/**
 * The last instant at which a pattern ran, by the rules of `nextTicks`; null when there was none from
 * `notBefore` to `at`, both included.
 * @throws {RangeError} when there is no such zone
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
    for (const span of spansOf(pattern, timeZone, day).reverse()) {
      const tick = lastUpTo(pattern, span, until);
      if (tick !== null) return tick < since ? null : new Date(tick);
    }
  }
  return null;
}

/**
 * A stretch of time and the clock readings that run in it, as milliseconds since 1970 on that clock.
 * Readings that the clock skipped just before run at its beginning.
 */
interface Span {
  readonly from: number;
  readonly offset: number;
  /** First reading that runs here. */
  readonly low: number;
  /** First reading after it. */
  readonly high: number;
}

/** The spans of a UTC day, in order; none on days without a run. */
function spansOf(pattern: CronPattern, timeZone: string, day: number): Span[] {
  if (![day - 1, day, day + 1].some((date) => runsOn(pattern, date))) return [];
  const followsTime = pattern.hours.length === 24;
  const spans: Span[] = [];
  let previousEnd: number | null = null;
  let reached = -Infinity;
  // Readings repeat for less than a day: it is enough to look at the day before.
  for (const { from, to, offset } of [
    ...stretchesOf(timeZone, day - 1),
    ...stretchesOf(timeZone, day),
  ]) {
    const [start, end] = [from + offset, to + offset];
    const low = followsTime ? lowestFollowing(start, previousEnd) : reached;
    if (from >= day * DAY_MS) spans.push({ from, offset, low, high: end });
    previousEnd = end;
    reached = Math.max(reached, end);
  }
  return spans;
}

/**
 * An hourly pattern leaves skipped whole hours out. Where clocks skip part of an hour (half of one on
 * Lord Howe Island), the rest of that hour still needs its run.
 */
function lowestFollowing(start: number, previousEnd: number | null): number {
  const skipped = previousEnd === null ? 0 : start - previousEnd;
  return skipped > 0 && skipped % HOUR_MS !== 0 ? start - skipped : start;
}

function firstAfter(pattern: CronPattern, span: Span, instant: number): number | null {
  const { from, offset, high } = span;
  const low = from > instant ? span.low : Math.max(span.low, instant + 1 + offset);
  for (let day = dayOf(low); day * DAY_MS < high; day += 1) {
    if (!runsOn(pattern, day)) continue;
    const time = firstTime(pattern, Math.ceil((low - day * DAY_MS) / SECOND_MS));
    if (time === null) continue;
    const reading = day * DAY_MS + time * SECOND_MS;
    return reading < high ? Math.max(reading - offset, from) : null;
  }
  return null;
}

function lastUpTo(pattern: CronPattern, span: Span, instant: number): number | null {
  const { from, offset, low } = span;
  if (from > instant) return null;
  const last = Math.min(span.high - 1, instant + offset);
  for (let day = dayOf(last); (day + 1) * DAY_MS > low; day -= 1) {
    if (!runsOn(pattern, day)) continue;
    const time = lastTime(pattern, Math.floor((last - day * DAY_MS) / SECOND_MS));
    if (time === null) continue;
    const reading = day * DAY_MS + time * SECOND_MS;
    return reading < low ? null : Math.max(reading - offset, from);
  }
  return null;
}

/** The pattern's first time of day, in seconds, that is `from` or later. */
function firstTime({ hours, minutes, seconds }: CronPattern, from: number): number | null {
  for (const hour of hours) {
    if (hour * 3_600 + 3_600 <= from) continue;
    for (const minute of minutes) {
      const time = hour * 3_600 + minute * 60;
      if (time + 60 <= from) continue;
      const second = seconds.find((second) => time + second >= from);
      if (second !== undefined) return time + second;
    }
  }
  return null;
}

/** The pattern's last time of day, in seconds, that is `until` or earlier. */
function lastTime({ hours, minutes, seconds }: CronPattern, until: number): number | null {
  for (const hour of hours.toReversed()) {
    if (hour * 3_600 > until) continue;
    for (const minute of minutes.toReversed()) {
      const time = hour * 3_600 + minute * 60;
      if (time > until) continue;
      const second = seconds.findLast((second) => time + second <= until);
      if (second !== undefined) return time + second;
    }
  }
  return null;
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
  /** Since 1970. */
  readonly from: number;
  /** Since 1970; the first instant that is no longer part of it. */
  readonly to: number;
  /** What the zone's clocks show, less UTC. */
  readonly offset: number;
}

/** Days cached per zone, so that a search over many years does not fill memory. */
const MOST_KEPT = 4_096;

interface Zone {
  readonly format: Intl.DateTimeFormat;
  /** Stretches by UTC day, counted from 1970. */
  readonly days: Map<number, readonly Stretch[]>;
}

/** Cached: making a formatter takes a hundred times as long as using it. */
const zones = new Map<string, Zone>();

/**
 * The stretches of a UTC day, in order: one, or two on the days on which clocks change. From the time
 * zone data of Node.
 * @param day counted from 1970
 * @throws {RangeError} when there is no such zone
 */
function stretchesOf(timeZone: string, day: number): readonly Stretch[] {
  const zone = zoneOf(timeZone);
  const known = zone.days.get(day);
  if (known !== undefined) return known;
  if (zone.days.size >= MOST_KEPT) zone.days.clear();
  const found = split(zone, day * DAY_MS, (day + 1) * DAY_MS);
  zone.days.set(day, found);
  return found;
}

function zoneOf(timeZone: string): Zone {
  const known = zones.get(timeZone);
  if (known !== undefined) return known;
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
  const zone = { format, days: new Map<number, readonly Stretch[]>() };
  zones.set(timeZone, zone);
  return zone;
}

/** Clocks change at most once a day, so equal offsets at both ends mean no change. */
function split(zone: Zone, from: number, to: number): Stretch[] {
  const [before, after] = [offsetAt(zone, from), offsetAt(zone, to)];
  if (before === after) return [{ from, to, offset: before }];
  let [last, change] = [from, to];
  while (change - last > SECOND_MS) {
    const middle = last + Math.floor((change - last) / 2 / SECOND_MS) * SECOND_MS;
    if (offsetAt(zone, middle) === before) last = middle;
    else change = middle;
  }
  const first = { from, to: change, offset: before };
  return change === to ? [first] : [first, { from: change, to, offset: after }];
}

/** `instant` is a whole second. */
function offsetAt(zone: Zone, instant: number): number {
  const fields: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {};
  for (const { type, value } of zone.format.formatToParts(instant)) fields[type] = Number(value);
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = fields;
  return Date.UTC(year, month - 1, day, hour, minute, second) - instant;
}
