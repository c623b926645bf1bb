/** A stretch of time in which the clocks of a zone keep one distance from UTC; all in milliseconds. */
export interface Stretch {
  /** Since 1970. */
  readonly from: number;
  /** Since 1970; the first instant that is no longer part of it. */
  readonly to: number;
  /** What the zone's clocks show, less UTC. */
  readonly offset: number;
}

export const DAY_MS = 86_400_000;
const SECOND_MS = 1_000;

/** Days kept per zone; a search over many years must not fill the memory. */
const MOST_KEPT = 4_096;

interface Zone {
  readonly format: Intl.DateTimeFormat;
  /** Stretches by UTC day, counted from 1970. */
  readonly days: Map<number, readonly Stretch[]>;
}

/** Making a formatter costs a hundred times what using it does. */
const zones = new Map<string, Zone>();

/**
 * The stretches that make up a UTC day, in order; one on all but the few days a year on which the
 * clocks change. From the time zone data that Node carries.
 * @param day counted from 1970
 * @throws {RangeError} when there is no such zone
 */
export function stretchesOf(timeZone: string, day: number): readonly Stretch[] {
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

/** Clocks change once a day at most, so equal offsets at both ends mean that they did not. */
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
