import { createTask, parse, schedule, validateDetailed } from 'node-cron';
import { HORIZON_DAYS, nextTicks, type CronPattern } from '../domain/schedule.js';

/** Most characters of an expression; a list of all possible values is shorter. */
const LONGEST = 500;

const NUMBER = String.raw`\d{1,2}`;
const MONTHS =
  'jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?';
const WEEKDAYS =
  'sun(?:day)?|mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?';

/**
 * The shape of one value in a field's list. The library accepts others too, with a meaning that
 * nobody expects: `2*` as 20 to 23, `janfeb` as December.
 */
function shape(value: string, more = '(?!)'): RegExp {
  const v = `(?:${value})`;
  return new RegExp(`^(?:\\*(?:/${NUMBER})?|${v}(?:-${v}(?:/${NUMBER})?)?|${more})$`, 'i');
}

const FIELDS = [
  { name: 'second', shape: shape(NUMBER), possible: '0 to 59' },
  { name: 'minute', shape: shape(NUMBER), possible: '0 to 59' },
  { name: 'hour', shape: shape(NUMBER), possible: '0 to 23' },
  {
    name: 'day of the month',
    shape: shape(NUMBER, `\\?|L|L-${NUMBER}|${NUMBER}W|LW`),
    possible: '1 to 31, or L for the last',
  },
  { name: 'month', shape: shape(`${NUMBER}|${MONTHS}`), possible: '1 to 12, or jan to dec' },
  {
    name: 'day of the week',
    shape: shape(`${NUMBER}|${WEEKDAYS}`, `\\?|[0-7]L|(?:[0-7]|${WEEKDAYS})#[1-5]`),
    possible: '0 to 7, or sun to sat',
  },
] as const;

/**
 * What is wrong with a cron expression, to follow its name in a sentence (`has 4 fields, …`); null
 * when it can be used. Five fields, or six with seconds first; days of the month and of the week
 * must both match, unlike in crontab(5).
 */
export function cronFault(expression: string): string | null {
  const text = tidy(expression);
  if (text === '') return 'is empty';
  if (text.length > LONGEST) return `is longer than ${LONGEST} characters`;
  if (text.startsWith('@')) {
    if (validateDetailed(text).valid) return null;
    return 'is unknown; possible are @hourly, @daily, @weekly, @monthly and @yearly';
  }
  const given = text.split(' ');
  if (given.length !== 5 && given.length !== 6) {
    const fields = given.length === 1 ? '1 field' : `${given.length} fields`;
    return `has ${fields}, 5 are needed (or 6, with seconds first)`;
  }
  const lists = given.length === 5 ? ['0', ...given] : given;
  const values = FIELDS.flatMap((field, at) => {
    const list = lists[at] ?? '';
    // A question mark stands for a whole field.
    const parts = list.split(',').map((value) => (value === '?' ? list : value));
    return parts.map((value) => ({ ...field, at, value }));
  });
  const wrong =
    values.find(({ shape, value }) => !shape.test(value)) ??
    // One value is tried at a time, in an expression that runs every day.
    values.find(({ at, value }) => !isValid(['0', '0', '0', '*', '*', '*'].with(at, value)));
  if (wrong !== undefined) {
    const { name, possible, value } = wrong;
    // Nothing long is shown: it may be a key that was pasted into the wrong setting.
    const shown = value.length > 12 ? 'something long' : JSON.stringify(value);
    return `has ${shown} as ${name}; possible is ${possible}`;
  }
  const runs = isValid(given) && nextTicks(read(text), 'UTC', new Date(0), 1).length > 0;
  return runs ? null : 'never runs: there is no such day';
}

function isValid(fields: readonly string[]): boolean {
  return validateDetailed(fields.join(' ')).valid;
}

/**
 * Reads a cron expression.
 * @throws {TypeError} when `cronFault` finds a fault
 */
export function parseCron(expression: string): CronPattern {
  const fault = cronFault(expression);
  if (fault !== null) throw new TypeError(`cron expression "${expression}" ${fault}`);
  return read(tidy(expression));
}

/**
 * Calls `onRing` about when a cron expression runs, until the function that it returns is called.
 * The library computes from the present moment, so it may skip or repeat a time when clocks change,
 * and it misses times while the process stands still. So a call is no tick: the caller must look
 * which ticks are due.
 * @param onRing must not throw
 */
export function startAlarm(expression: string, timeZone: string, onRing: () => void): () => void {
  const task = schedule(tidy(expression), onRing, { timezone: timeZone, logger: SILENT });
  task.on('execution:missed', onRing);
  return () => void task.destroy();
}

/** The library's own logger would write to the terminal. */
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

/** Schedules differ in their hours more than in their days, so one matcher serves many. */
const matchers = new Map<string, CronPattern['matchesDay']>();

/** Asks the library which days match, so that L, # and W mean what they mean to it. */
function dayMatcher(days: string): CronPattern['matchesDay'] {
  const made = matchers.get(days);
  if (made !== undefined) return made;
  const task = createTask(`0 0 12 ${days}`, () => undefined, { timezone: 'UTC' });
  void task.destroy();
  const verdicts = new Map<number, boolean>();
  const matcher: CronPattern['matchesDay'] = (year, month, day) => {
    const noon = Date.UTC(year, month - 1, day, 12);
    const known = verdicts.get(noon) ?? task.match(new Date(noon));
    if (verdicts.size > 2 * HORIZON_DAYS) verdicts.clear();
    verdicts.set(noon, known);
    return known;
  };
  matchers.set(days, matcher);
  return matcher;
}

function tidy(expression: string): string {
  return expression.trim().replaceAll(/\s+/g, ' ');
}
