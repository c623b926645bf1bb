/** Characters of an expression. A list of all possible values is shorter. */
const MAX_LENGTH = 500;

/** What a field of an expression may hold. */
interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** The names of its values, in order. */
  readonly names: readonly string[];
  readonly allowed: string;
}

const field = (name: string, min: number, max: number, allowed = '', names = ''): Field => {
  return { name, min, max, names: names.split(' '), allowed: allowed || `${min} to ${max}` };
};
const MONTHS =
  'january february march april may june july august september october november december';
const WEEKDAYS = 'sunday monday tuesday wednesday thursday friday saturday';
const DAY = field('day of the month', 1, 31, '1 to 31, or L for the last');
const WEEKDAY = field('day of the week', 0, 6, '0 to 7, or sun to sat', WEEKDAYS);
const FIELDS: readonly Field[] = [
  field('second', 0, 59),
  field('minute', 0, 59),
  field('hour', 0, 23),
  DAY,
  field('month', 1, 12, '1 to 12, or jan to dec', MONTHS),
  WEEKDAY,
];

const NICKNAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

/** A day, as a field sees it. */
interface Day {
  readonly date: number;
  /** Days of its month. */
  readonly last: number;
  readonly weekday: number;
}

/** What a field matches: values, or rules of days such as `L`. */
interface Matches {
  readonly values: ReadonlySet<number>;
  readonly rules: readonly ((day: Day) => boolean)[];
}

/** What an expression matches. Ascending. */
interface Pattern {
  readonly hours: readonly number[];
  readonly minutes: readonly number[];
  readonly seconds: readonly number[];
  /** @param day its midnight, as if it were UTC */
  readonly hasDay: (day: number) => boolean;
  /** Times that clocks repeat come twice. */
  readonly isRepeated: boolean;
}

/**
 * Says what is wrong with a cron expression, as the end of a sentence (`has 4 fields …`); null if it is valid.
 * It has five fields, or six with seconds first. Day of the month and day of the week must both match, unlike in
 * crontab(5).
 */
export function cronFault(expression: string): string | null {
  const pattern = read(expression);
  if (typeof pattern === 'string') return pattern;
  const first = search({ pattern, timeZone: 'UTC' }, 0, 1);
  return first === null ? 'never runs: there is no such day' : null;
}

/** Kept, because many sellers have the same expressions. */
const patterns = new Map<string, Pattern | string>();

/** @returns what is wrong with an expression that can't be read */
function read(expression: string): Pattern | string {
  const known = patterns.get(expression);
  if (known !== undefined) return known;
  const pattern = parse(expression.trim().replaceAll(/\s+/g, ' '));
  patterns.set(expression, pattern);
  return pattern;
}

function parse(expression: string): Pattern | string {
  if (expression === '') return 'is empty';
  if (expression.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} characters`;
  const text = NICKNAMES[expression.toLowerCase()] ?? expression;
  if (text.startsWith('@')) return 'is unknown; use @hourly, @daily, @weekly, @monthly or @yearly';
  const parts = text.split(' ');
  if (parts.length !== 5 && parts.length !== 6) {
    const count = parts.length === 1 ? '1 field' : `${parts.length} fields`;
    return `has ${count} instead of 5 (or 6, with seconds first)`;
  }
  const lists = parts.length === 5 ? ['0', ...parts] : parts;
  const fields: Matches[] = [];
  for (const [n, field] of FIELDS.entries()) {
    const found = matchesOf(lists[n] ?? '', field);
    if ('wrong' in found) {
      // Don't show a long value: it may be a key pasted into the wrong setting.
      const shown = found.wrong.length > 12 ? 'a long value' : JSON.stringify(found.wrong);
      return `has ${shown} as ${field.name}; allowed: ${field.allowed}`;
    }
    fields.push(found);
  }
  const [second, minute, hour, date, month, weekday] = fields;
  const ascending = (field: Matches | undefined): readonly number[] =>
    [...(field?.values ?? [])].sort((a, b) => a - b);
  const has = (field: Matches | undefined, value: number, day: Day): boolean =>
    field !== undefined && (field.values.has(value) || field.rules.some((rule) => rule(day)));
  return {
    hours: ascending(hour),
    minutes: ascending(minute),
    seconds: ascending(second),
    hasDay(at) {
      const day = dayAt(at);
      return (
        has(month, new Date(at).getUTCMonth() + 1, day) &&
        has(date, day.date, day) &&
        has(weekday, day.weekday, day)
      );
    },
    isRepeated: [lists[1], lists[2]].some((list) => list?.startsWith('*')),
  };
}

function dayAt(midnight: number): Day {
  const at = new Date(midnight);
  const last = new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 0)).getUTCDate();
  return { date: at.getUTCDate(), last, weekday: at.getUTCDay() };
}

/** Reads the list of a field, or names the value that is wrong. */
function matchesOf(list: string, field: Field): Matches | { readonly wrong: string } {
  const isDay = field === DAY || field === WEEKDAY;
  const values = new Set<number>();
  const rules: Matches['rules'][number][] = [];
  for (const value of isDay && list === '?' ? ['*'] : list.split(',')) {
    const rule = dayRule(value.toLowerCase(), field);
    const range = rule === null ? rangeOf(value.toLowerCase(), field) : [];
    if (range === null) return { wrong: value };
    for (const one of range) values.add(one);
    if (rule !== null) rules.push(rule);
  }
  return { values, rules };
}

const NUMBER = /^\d{1,2}$/;

/** A number, or a name such as `jan` or `january`; null: neither, or not in this field. Sunday is 0 and 7. */
function numberOf(text: string, { name, min, max, names }: Field): number | null {
  const named = names.findIndex((one) => text !== '' && [one, one.slice(0, 3)].includes(text));
  if (named >= 0) return min + named;
  const most = name === WEEKDAY.name ? 7 : max;
  const number = Number(text);
  return NUMBER.test(text) && number >= min && number <= most ? number : null;
}

/** The numbers of `*`, `5`, `1-5`, `22-2` or `0-30/10`; null if it is none of these. */
function rangeOf(value: string, field: Field): readonly number[] | null {
  const { min, max } = field;
  const [, first = '', last, every] = /^(\*|\w+)(?:-(\w+))?(?:\/(\d{1,2}))?$/.exec(value) ?? [];
  const isAll = first === '*';
  if (every !== undefined && !isAll && last === undefined) return null;
  if (isAll && last !== undefined) return null;
  const from = isAll ? min : numberOf(first, field);
  const to = isAll ? max : last === undefined ? from : numberOf(last, field);
  const step = Number(every ?? 1);
  if (from === null || to === null || step === 0) return null;
  const size = max - min + 1;
  const span = from <= to ? to - from : (to - from + size) % size;
  const count = Math.floor(span / step) + 1;
  return Array.from({ length: count }, (_, n) => min + ((from - min + n * step) % size));
}

/** The rule of a value such as `L`, `L-3`, `15W`, `LW`, `5L` or `tue#2`; null if it is none of these. */
function dayRule(value: string, field: Field): Matches['rules'][number] | null {
  if (field === DAY) {
    if (value === 'l') return ({ date, last }) => date === last;
    if (value === 'lw') return (day) => day.date === nearestWeekday(day.last, day);
    const before = numberOf(/^l-(\d{1,2})$/.exec(value)?.[1] ?? '', DAY);
    if (before !== null && before < 31) return ({ date, last }) => date === last - before;
    const near = numberOf(/^(\d{1,2})w$/.exec(value)?.[1] ?? '', field);
    if (near !== null) return (day) => near <= day.last && day.date === nearestWeekday(near, day);
  }
  if (field === WEEKDAY) {
    const final = /^([0-7])l$/.exec(value)?.[1];
    if (final !== undefined) {
      return ({ date, last, weekday }) => weekday === Number(final) % 7 && date > last - 7;
    }
    const [, name = '', nth = ''] = /^(\w+)#([1-5])$/.exec(value) ?? [];
    const own = numberOf(name, field);
    if (own !== null) {
      return ({ date, weekday }) => weekday === own % 7 && Math.ceil(date / 7) === Number(nth);
    }
  }
  return null;
}

/** The day from Monday to Friday that is nearest to a date, within its month. */
function nearestWeekday(date: number, day: Day): number {
  const weekday = (day.weekday + date - day.date + 35) % 7;
  if (weekday === 6) return date > 1 ? date - 1 : date + 2;
  if (weekday === 0) return date < day.last ? date + 1 : date - 2;
  return date;
}

/** A cron expression, and the IANA name of the zone of its times. */
export interface CronTimes {
  readonly cron: string;
  readonly timeZone: string;
}

/**
 * The last time of a cron expression, at or before an instant. It depends on nothing else, and on no clock.
 *
 * - A time that clocks skip comes once, as much later as they went forward.
 * - A time that clocks repeat comes once. It comes each time if minute or hour begin with `*`, as in `*\/30 * * * *`:
 *   such schedules mean "every so often".
 *
 * @returns null if there was none within a hundred years
 * @throws {RangeError} if the zone does not exist
 */
export function previousTime(times: CronTimes, at: Date): Date | null {
  const { last } = timesAround(times, at.getTime());
  return last === -Infinity ? null : new Date(last);
}

/** The first time after an instant (ms since 1970), or Infinity. @throws as `previousTime` */
export function nextTime(times: CronTimes, at: Date): number {
  return timesAround(times, at.getTime()).next;
}

/** The last time at or before an instant, and the next one (ms since 1970). */
interface Around {
  readonly last: number;
  readonly next: number;
}

/** Computed times are used until the next one: there may be thousands of schedules. */
const found = new Map<string, Around>();

function timesAround(times: CronTimes, now: number): Around {
  const key = `${times.cron} ${times.timeZone}`;
  const known = found.get(key);
  if (known !== undefined && known.last <= now && now < known.next) return known;
  const zoned = zonedOf(times);
  const last = search(zoned, now, -1) ?? -Infinity;
  const around = { last, next: search(zoned, now + 1, 1) ?? Infinity };
  found.set(key, around);
  return around;
}

/** The next times of a cron expression, in order. @param after exclusive @throws as `previousTime` */
export function nextTimes(times: CronTimes, after: Date, count = 1): Date[] {
  const zoned = zonedOf(times);
  const next: Date[] = [];
  for (let from = after.getTime() + 1; next.length < count;) {
    const at = search(zoned, from, 1);
    if (at === null) break;
    next.push(new Date(at));
    from = at + 1;
  }
  return next;
}

interface ZonedPattern {
  readonly pattern: Pattern;
  readonly timeZone: string;
}

function zonedOf({ cron, timeZone }: CronTimes): ZonedPattern {
  const pattern = read(cron);
  if (typeof pattern === 'string') throw new RangeError(`the cron expression ${pattern}`);
  return { pattern, timeZone };
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Days of the longest search. February 29 on a certain day of the week may take 40 years. */
const MAX_DAYS = 36_600;

/**
 * The time that is nearest to a bound. Looks through the days of the zone.
 * @param bound milliseconds since 1970, inclusive
 * @param step 1: at the bound or later; -1: at the bound or earlier
 */
function search({ pattern, timeZone }: ZonedPattern, bound: number, step: 1 | -1): number | null {
  const isWithin = (at: number): boolean => (at - bound) * step >= 0;
  // A day too early: when clocks change, a time of another day may be nearer.
  const first = Math.floor((bound + offsetAt(timeZone, bound)) / DAY_MS) - step;
  for (let n = 0; n < MAX_DAYS; n += 1) {
    const day = (first + n * step) * DAY_MS;
    if (!pattern.hasDay(day)) continue;
    const offsets = offsetsAround(timeZone, day);
    const [low = 0, high = low] = [offsets.at(0), offsets.at(-1)];
    const next = day + step * DAY_MS;
    const days = low !== high && pattern.hasDay(next) ? [day, next] : [day];
    const [soonest, latest] = step === 1 ? [high, low] : [low, high];
    let best: number | null = null;
    for (const clock of clockTimes(pattern, days, step)) {
      if (!isWithin(clock - latest)) continue;
      if (best !== null && (clock - soonest - best) * step > 0) break;
      for (const at of instantsOf(clock, offsets, timeZone, pattern.isRepeated)) {
        if (isWithin(at) && (best === null || (best - at) * step > 0)) best = at;
      }
    }
    if (best !== null) return best;
  }
  return null;
}

/** The instants at which clocks show a time. @param clock as milliseconds since 1970, as if it were UTC */
function instantsOf(
  clock: number,
  offsets: readonly number[],
  timeZone: string,
  isRepeated: boolean,
): readonly number[] {
  if (offsets.length === 1) return offsets.map((offset) => clock - offset);
  const instants = offsets
    .map((offset) => clock - offset)
    .filter((at) => offsetAt(timeZone, at) === clock - at)
    .sort((a, b) => a - b);
  // Skipped: the smaller offset is that before clocks went forward.
  if (instants.length === 0) return [clock - (offsets[0] ?? 0)];
  return isRepeated ? instants : instants.slice(0, 1);
}

/** The times of days, in the order of the search. */
function* clockTimes(
  { hours, minutes, seconds }: Pattern,
  days: readonly number[],
  step: 1 | -1,
): Generator<number> {
  const inOrder = (values: readonly number[]) => (step === 1 ? values : values.toReversed());
  for (const day of days) {
    for (const hour of inOrder(hours)) {
      for (const minute of inOrder(minutes)) {
        for (const second of inOrder(seconds)) {
          yield day + hour * HOUR_MS + minute * 60_000 + second * 1_000;
        }
      }
    }
  }
}

/** The different offsets of a zone from UTC around a day (ms), ascending. */
function offsetsAround(timeZone: string, day: number): readonly number[] {
  const offsets = [-1, 0, 1, 2].map((n) => offsetAt(timeZone, day + n * DAY_MS));
  return [...new Set(offsets)].sort((a, b) => a - b);
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** How far clocks of a zone are ahead of UTC at an instant (ms). */
function offsetAt(timeZone: string, at: number): number {
  let format = formats.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' });
    formats.set(timeZone, format);
  }
  const name = format.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? '';
  const [, sign = '+', hours = '0', minutes = '0', seconds = '0'] =
    /([+-])(\d\d):(\d\d)(?::(\d\d))?/.exec(name) ?? [];
  const ms = Number(hours) * HOUR_MS + Number(minutes) * 60_000 + Number(seconds) * 1_000;
  return sign === '-' ? -ms : ms;
}
