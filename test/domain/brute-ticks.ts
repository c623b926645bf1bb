import type { CronPattern } from '../../src/domain/schedule.js';

/** A pattern that runs at full minutes. */
export type Minutes = Pick<CronPattern, 'minutes' | 'hours' | 'matchesDay'>;

const MINUTE_MS = 60_000;

/**
 * The ticks after `from` up to `to`, found as a person would who watches the clock of the zone minute
 * by minute and notes the furthest time it has shown: slow, and independent of the product's way.
 * A pattern for all hours runs whenever the clock shows a time of it, and for what it skips of an
 * hour that goes on.
 */
export function bruteTicks(pattern: Minutes, zone: string, from: number, to: number): Date[] {
  const read = clockOf(zone);
  const everyHour = pattern.hours.length === 24;
  const begin = Math.floor(from / MINUTE_MS) * MINUTE_MS - 48 * 60 * MINUTE_MS;
  const ticks: Date[] = [];
  let furthest = read(begin);
  let shown = furthest;
  for (let instant = begin + MINUTE_MS; instant <= to; instant += MINUTE_MS) {
    const reading = read(instant);
    const skipped = reading - shown - MINUTE_MS;
    const first = everyHour
      ? reading - (skipped > 0 && skipped % (60 * MINUTE_MS) !== 0 ? skipped : 0)
      : furthest + MINUTE_MS;
    let due = false;
    for (let time = first; time <= reading; time += MINUTE_MS) due ||= matches(pattern, time);
    if (due && instant > from) ticks.push(new Date(instant));
    shown = reading;
    furthest = Math.max(furthest, reading);
  }
  return ticks;
}

function matches({ hours, minutes, matchesDay }: Minutes, reading: number): boolean {
  const time = new Date(reading);
  return (
    hours.includes(time.getUTCHours()) &&
    minutes.includes(time.getUTCMinutes()) &&
    matchesDay(time.getUTCFullYear(), time.getUTCMonth() + 1, time.getUTCDate())
  );
}

/** What the clocks of a zone show, as if it were UTC. */
function clockOf(zone: string): (instant: number) => number {
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone: zone,
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  return (instant) => Date.parse(`${format.format(instant).replace(' ', 'T')}Z`);
}
