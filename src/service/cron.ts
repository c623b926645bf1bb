import { createTask, validateDetailed } from 'node-cron';

/** Characters of an expression. A list of all possible values is shorter. */
const MAX_LENGTH = 500;

const NUMBER = String.raw`\d{1,2}`;
const MONTHS =
  'jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?';
const WEEKDAYS =
  'sun(?:day)?|mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?';

/**
 * Matches one value in a field's list. The library also accepts other notations, with surprising meanings:
 * `2*` as 20 to 23, `janfeb` as December.
 */
function shape(value: string, more = '(?!)'): RegExp {
  const v = `(?:${value})`;
  return new RegExp(`^(?:\\*(?:/${NUMBER})?|${v}(?:-${v}(?:/${NUMBER})?)?|${more})$`, 'i');
}

const CRON_FIELDS = [
  { name: 'second', shape: shape(NUMBER), allowed: '0 to 59' },
  { name: 'minute', shape: shape(NUMBER), allowed: '0 to 59' },
  { name: 'hour', shape: shape(NUMBER), allowed: '0 to 23' },
  {
    name: 'day of the month',
    shape: shape(NUMBER, `\\?|L|L-${NUMBER}|${NUMBER}W|LW`),
    allowed: '1 to 31, or L for the last',
  },
  { name: 'month', shape: shape(`${NUMBER}|${MONTHS}`), allowed: '1 to 12, or jan to dec' },
  {
    name: 'day of the week',
    shape: shape(`${NUMBER}|${WEEKDAYS}`, `\\?|[0-7]L|(?:[0-7]|${WEEKDAYS})#[1-5]`),
    allowed: '0 to 7, or sun to sat',
  },
] as const;

/**
 * Says what is wrong with a cron expression, as the end of a sentence (`has 4 fields …`); null if it is valid.
 * It has five fields, or six with seconds first. Day of the month and day of the week must both match, unlike in
 * crontab(5).
 */
export function cronFault(expression: string): string | null {
  const text = tidy(expression);
  const known = faults.get(text);
  if (known !== undefined) return known;
  const fault = findFault(text);
  faults.set(text, fault);
  return fault;
}

/** Kept, because many sellers have the same expressions. */
const faults = new Map<string, string | null>();

function findFault(text: string): string | null {
  if (text === '') return 'is empty';
  if (text.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} characters`;
  if (text.startsWith('@')) {
    if (validateDetailed(text).valid) return null;
    return 'is unknown; use @hourly, @daily, @weekly, @monthly or @yearly';
  }
  const fields = text.split(' ');
  if (fields.length !== 5 && fields.length !== 6) {
    const count = fields.length === 1 ? '1 field' : `${fields.length} fields`;
    return `has ${count} instead of 5 (or 6, with seconds first)`;
  }
  const lists = fields.length === 5 ? ['0', ...fields] : fields;
  const values = CRON_FIELDS.flatMap((field, at) => {
    const list = lists[at] ?? '';
    // A question mark is allowed only as the whole field.
    const parts = list.split(',').map((value) => (value === '?' ? list : value));
    return parts.map((value) => ({ ...field, at, value }));
  });
  const wrong =
    values.find(({ shape, value }) => !shape.test(value)) ??
    // Try each value by itself, in an expression that runs every day.
    values.find(({ at, value }) => !isValid(['0', '0', '0', '*', '*', '*'].with(at, value)));
  if (wrong !== undefined) {
    const { name, allowed, value } = wrong;
    // Don't show a long value: it may be a key pasted into the wrong setting.
    const shown = value.length > 12 ? 'a long value' : JSON.stringify(value);
    return `has ${shown} as ${name}; allowed: ${allowed}`;
  }
  const everRuns =
    validateDetailed(text).valid && search({ cron: text, timeZone: 'UTC' }, 0, 1) !== null;
  return everRuns ? null : 'never runs: there is no such day';
}

function isValid(fields: readonly string[]): boolean {
  return validateDetailed(fields.join(' ')).valid;
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
  const { last } = timesAround(times, at);
  return last === null ? null : new Date(last);
}

/** The first time after an instant; null if there is none within a hundred years. @throws as `previousTime` */
export function nextTime(times: CronTimes, at: Date): Date | null {
  const { next } = timesAround(times, at);
  return next === null ? null : new Date(next);
}

/** The last time at or before an instant, and the next one (ms since 1970). */
interface Around {
  readonly last: number | null;
  readonly next: number | null;
}

function timesAround(times: CronTimes, at: Date): Around {
  const key = `${tidy(times.cron)} ${times.timeZone}`;
  const now = at.getTime();
  const known = found.get(key);
  if (known !== undefined && (known.last ?? Infinity) <= now && now < (known.next ?? Infinity)) {
    return known;
  }
  const around = { last: search(times, now, -1), next: search(times, now + 1, 1) };
  found.set(key, around);
  return around;
}

/** Computed times are used until the next one: there may be thousands of schedules. */
const found = new Map<string, Around>();

/** The next times of a cron expression, in order. @param after exclusive @throws as `previousTime` */
export function nextTimes(times: CronTimes, after: Date, count = 1): Date[] {
  const next: Date[] = [];
  for (let from = after.getTime() + 1; next.length < count;) {
    const at = search(times, from, 1);
    if (at === null) break;
    next.push(new Date(at));
    from = at + 1;
  }
  return next;
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
function search({ cron, timeZone }: CronTimes, bound: number, step: 1 | -1): number | null {
  const pattern = patternOf(tidy(cron));
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

const patterns = new Map<string, Pattern>();

/** node-cron reads the fields: its matcher is asked about each value, in UTC. */
function patternOf(text: string): Pattern {
  const known = patterns.get(text);
  if (known !== undefined) return known;
  const expression = NICKNAMES[text.toLowerCase()] ?? text;
  const parts = expression.split(' ');
  const [second = '0', minute = '0', hour = '0', ...days] =
    parts.length === 5 ? ['0', ...parts] : parts;
  const values = (fields: string, count: number, unitMs: number): number[] => {
    const isMatch = matcher(`${fields} * * *`);
    return Array.from({ length: count }, (_, n) => n).filter((n) => isMatch(n * unitMs));
  };
  const pattern: Pattern = {
    hours: values(`0 0 ${hour}`, 24, HOUR_MS),
    minutes: values(`0 ${minute} 0`, 60, 60_000),
    seconds: values(`${second} 0 0`, 60, 1_000),
    hasDay: matcher(`0 0 0 ${days.join(' ')}`),
    isRepeated: minute.startsWith('*') || hour.startsWith('*'),
  };
  patterns.set(text, pattern);
  return pattern;
}

const NICKNAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

function matcher(expression: string): (at: number) => boolean {
  const task = createTask(expression, () => undefined, { timezone: 'UTC' });
  void task.destroy(); // the library would keep it
  return (at) => task.match(new Date(at));
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

function tidy(expression: string): string {
  return expression.trim().replaceAll(/\s+/g, ' ');
}
