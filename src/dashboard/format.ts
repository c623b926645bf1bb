/** Capitalizes the first letter. */
export function capital(text: string): string {
  return text.replace(/^./u, (first) => first.toUpperCase());
}

const MOMENT = new Intl.DateTimeFormat('sv-SE', {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});

/** The server's time zone. Times are in it until the page's script shows them in the reader's. */
export const TIME_ZONE = MOMENT.resolvedOptions().timeZone;

/** `2026-11-23 08:00:05` in the server's time zone. */
export function moment(at: Date): string {
  return MOMENT.format(at);
}

const WHEN = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat('en-GB', options);
const CLOCK = { hour: '2-digit', minute: '2-digit' } as const;
const WHEN_FORMS = {
  day: WHEN({ day: 'numeric', month: 'short' }),
  year: WHEN({ day: 'numeric', month: 'short', year: 'numeric' }),
  minute: WHEN(CLOCK),
  second: WHEN({ ...CLOCK, second: '2-digit' }),
};

/** `today, 07:33`, `21 Nov, 03:10`, or `21 Nov 2025`; as a day: `21 Nov`. Only today has seconds. In the server's time zone. */
export function whenText(at: Date, form: 'day' | 'minute' | 'second', now: Date): string {
  const { day, year } = WHEN_FORMS;
  if (at.getFullYear() !== now.getFullYear()) return year.format(at).replace('Sept', 'Sep');
  const [date, today] = [at, now].map((one) => day.format(one).replace('Sept', 'Sep'));
  const isToday = date === today;
  if (form === 'day' || (form === 'second' && !isToday)) return isToday ? 'today' : (date ?? '');
  const time = WHEN_FORMS[form].format(at);
  if (form === 'second') return time;
  return `${isToday ? 'today' : date}, ${time}`;
}

/** `2026-11-23 08:00:05 UTC` */
export function utc(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

const MONTH = new Intl.DateTimeFormat('en-GB', {
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
});
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

/** `Nov 2026` for a date such as `2026-11-01`. */
export function monthName(date: string | null): string {
  return date === null ? 'unknown' : MONTH.format(new Date(`${date}T00:00:00Z`));
}

/** `23 Nov` for a date such as `2026-11-23`. */
export function dayName(date: string): string {
  return DAY.format(new Date(`${date}T00:00:00Z`));
}

/** Control characters except tabs and line ends, and marks that change the direction of text. */
const UNPRINTABLE = /(?![\t\n]|\r\n)\p{Cc}|[\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** More combining marks than any script stacks. They would cover the lines around. */
const STACKED_MARKS = /(\p{M}{6})\p{M}+/gu;

/** Makes untrusted text harmless to display: replaces invisible characters, limits stacked marks. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '\ufffd').replace(STACKED_MARKS, '$1');
}
