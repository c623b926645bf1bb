import { DAY_MS, stretchesOf } from './time-zone.js';

/** What a cron expression says, field by field; made by the queue's cron library. */
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

/** After 28 years the same weekdays fall on the same dates again: what did not run by then never does. */
export const HORIZON_DAYS = 28 * 366;

/**
 * The next instants at which a pattern runs, in order; fewer than `count` only when there are no more.
 *
 * When clocks are put forward, a time that they skip runs at the first instant after; when they are
 * put back, a time that they show twice runs the first time only: no night is left out, none is
 * doubled. Patterns for all 24 hours follow real time instead: they run whenever the clock shows a
 * time of theirs. An hour that is skipped did not take place, and the repeated one is another hour.
 * @param after not itself one of them
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
 * The last instant at which a pattern ran, by the rules of `nextTicks`; null when there was none
 * within these bounds, both of them included.
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
 * A stretch of time and the readings of the clock that run in it, as milliseconds since 1970 on
 * that clock. Readings the clock skipped on its way to the stretch run as it begins.
 */
interface Span {
  readonly from: number;
  readonly offset: number;
  /** First reading that runs here. */
  readonly low: number;
  /** First reading that no longer does. */
  readonly high: number;
}

/** The spans of a UTC day, in order; none on days on which the pattern has nothing to run. */
function spansOf(pattern: CronPattern, timeZone: string, day: number): Span[] {
  if (![day - 1, day, day + 1].some((date) => runsOn(pattern, date))) return [];
  const followsTime = pattern.hours.length === 24;
  const spans: Span[] = [];
  let previousEnd: number | null = null;
  let reached = -Infinity;
  // Readings repeat for less than a day, so the day before tells how far the clock has been.
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
 * Whole hours that clocks skip leave the rhythm of an hourly pattern as it is. Part of an hour (Lord
 * Howe Island shifts by half of one) would take the run out of an hour that did take place.
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
