import { createTask, parse, schedule, validateDetailed } from 'node-cron';
import { HORIZON_DAYS, nextTicks, type CronPattern } from '../domain/schedule.js';

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
  const runs = isValid(fields) && nextTicks(read(text), 'UTC', new Date(0), 1).length > 0;
  return runs ? null : 'never runs: there is no such day';
}

function isValid(fields: readonly string[]): boolean {
  return validateDetailed(fields.join(' ')).valid;
}

/** @throws {TypeError} when `cronFault` finds a fault */
export function parseCron(expression: string): CronPattern {
  const fault = cronFault(expression);
  if (fault !== null) throw new TypeError(`cron expression "${expression}" ${fault}`);
  return read(tidy(expression));
}

/**
 * Calls `onTime` at about the times of a cron expression. A call is only a hint, and the caller must check which
 * ticks are due: the library may skip or repeat a time when clocks change, and misses times while the process is
 * suspended.
 * @param onTime must not throw
 * @returns stops the timer
 */
export function startCronTimer(
  expression: string,
  timeZone: string,
  onTime: () => void,
): () => void {
  const task = schedule(tidy(expression), onTime, { timezone: timeZone, logger: SILENT });
  task.on('execution:missed', onTime);
  return () => void task.destroy();
}

/** Replaces the library's logger, which would write to the terminal. */
const SILENT = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  debug: () => undefined,
};

function read(text: string): CronPattern {
  const fields = parse(text);
  const days = [fields.dayOfMonth, fields.month, fields.dayOfWeek].map((field) => field.join(','));
  return {
    seconds: ascending(fields.second),
    minutes: ascending(fields.minute),
    hours: ascending(fields.hour),
    matchesDay: dayMatcher(days.join(' ')),
  };
}

function ascending(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}

/** Day matchers by expression. Most schedules share one: they differ only in their times. */
const matchers = new Map<string, CronPattern['matchesDay']>();

/** Lets the library match days, so that it alone interprets L, # and W. */
function dayMatcher(days: string): CronPattern['matchesDay'] {
  const existing = matchers.get(days);
  if (existing !== undefined) return existing;
  const task = createTask(`0 0 12 ${days}`, () => undefined, { timezone: 'UTC' });
  void task.destroy();
  const cache = new Map<number, boolean>();
  const matcher: CronPattern['matchesDay'] = (year, month, day) => {
    const noon = Date.UTC(year, month - 1, day, 12);
    const matches = cache.get(noon) ?? task.match(new Date(noon));
    if (cache.size > 2 * HORIZON_DAYS) cache.clear();
    cache.set(noon, matches);
    return matches;
  };
  matchers.set(days, matcher);
  return matcher;
}

function tidy(expression: string): string {
  return expression.trim().replaceAll(/\s+/g, ' ');
}
