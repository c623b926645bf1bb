import { createTask, validateDetailed, type ScheduledTask } from 'node-cron';

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
  return everRuns(text) ? null : 'never runs: there is no such day';
}

function isValid(fields: readonly string[]): boolean {
  return validateDetailed(fields.join(' ')).valid;
}

function everRuns(text: string): boolean {
  try {
    const task = createTask(text, () => undefined, { timezone: 'UTC' });
    void task.destroy(); // the library would keep it
    return task.getNextRuns(1).length > 0;
  } catch {
    return false; // it looks for a hundred years
  }
}

/** When clocks change, both searches below differ by less than this. A greater gap is a skipped time. */
const SKIPPED_MS = 2 * 3_600_000;

/**
 * The next times of a cron expression, in order. A time that clocks skip when they go forward comes up to two hours
 * later or earlier; one that they repeat comes once.
 * @param after exclusive; by the database's clock
 * @throws {RangeError} if the zone does not exist, or this machine's clock is more than a day ahead of `after`, or
 *   thousands of times behind it
 */
export function nextTimes(
  { cron, timeZone }: { readonly cron: string; readonly timeZone: string },
  after: Date,
  count = 1,
): Date[] {
  const text = tidy(cron);
  const times: Date[] = [];
  for (let last = after; times.length < count;) {
    const next = nextOf(taskOf(text, timeZone), last);
    // node-cron leaves out a time that clocks skip. In a zone whose clocks never change it has one.
    const unskipped = nextOf(taskOf(text, fixedZone(timeZone, last)), last);
    last = next.getTime() - unskipped.getTime() >= SKIPPED_MS ? unskipped : next;
    times.push(last);
  }
  return times;
}

const DAY_MS = 86_400_000;
/** Most times that node-cron is asked for: with a time a minute, almost three days of them. */
const MAX_TIMES = 4_096;

/**
 * The next time of a task. node-cron counts from this machine's clock: if that is ahead, the times between are found by
 * trying each minute (or second); if it is behind, by asking for more times.
 */
function nextOf(task: ScheduledTask, after: Date): Date {
  const here = Date.now();
  const stepMs = task.getPattern().split(' ').length === 6 ? 1_000 : 60_000;
  const first = Math.floor(after.getTime() / stepMs) * stepMs + stepMs;
  if (here - first > DAY_MS) {
    const days = Math.floor((here - first) / DAY_MS);
    throw new RangeError(
      `this machine’s clock is ${days} days ahead of the database’s: correct the wrong one`,
    );
  }
  for (let at = first; at <= here; at += stepMs) {
    if (task.match(new Date(at))) return new Date(at);
  }
  for (let count = 1; count <= MAX_TIMES; count *= 2) {
    const next = task.getNextRuns(count).find((at) => at > after);
    if (next !== undefined) return next;
  }
  const hours = Math.floor((after.getTime() - here) / 3_600_000);
  throw new RangeError(
    `this machine’s clock is ${hours} hours behind the database’s: correct the wrong one`,
  );
}

/** Tasks that only compute times, by expression and zone: making one takes longer than using it. */
const tasks = new Map<string, ScheduledTask>();

function taskOf(text: string, timeZone: string): ScheduledTask {
  const key = `${text} ${timeZone}`;
  const known = tasks.get(key);
  if (known !== undefined) return known;
  const task = createTask(text, () => undefined, { timezone: timeZone });
  tasks.set(key, task);
  return task;
}

/** The zone without clock changes whose time is that of `timeZone` at an instant, or up to an hour ahead. */
function fixedZone(timeZone: string, at: Date): string {
  const format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' });
  const name = format.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? '';
  const [, sign = '+', hours = '0', minutes = '0'] = /([+-])(\d\d):(\d\d)/.exec(name) ?? [];
  const offset = Math.ceil((Number(hours) + Number(minutes) / 60) * (sign === '-' ? -1 : 1));
  // The names in the database of time zones have the sign of UTC minus local time.
  return `Etc/GMT${offset > 0 ? `-${offset}` : offset < 0 ? `+${-offset}` : ''}`;
}

function tidy(expression: string): string {
  return expression.trim().replaceAll(/\s+/g, ' ');
}
