import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CronPattern, HORIZON_DAYS, lastTick, nextTicks } from '../../src/domain/schedule.js';

const HOUR_MS = 3_600_000;
const ALL_HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const at = (iso: string): Date => new Date(iso);
const shown = (ticks: readonly Date[]): string[] =>
  ticks.map((tick) => tick.toISOString().replace(/:00\.000Z$/, 'Z'));

function daily(
  hours: number | readonly number[],
  minutes: number | readonly number[] = 0,
  matchesDay: CronPattern['matchesDay'] = () => true,
): CronPattern {
  return { seconds: [0], minutes: [minutes].flat(), hours: [hours].flat(), matchesDay };
}

function next(pattern: CronPattern, timeZone: string, after: string, count: number): string[] {
  return shown(nextTicks(pattern, timeZone, at(after), count));
}

/** Cases that the properties below rarely generate. */
describe('a night in which clocks change', () => {
  it.each([
    // Only half an hour: 02:00 to 02:30 is skipped, 02:30 exists.
    ['Australia/Lord_Howe', '2026-10-03T00:00:00Z', ['2026-10-03T15:30Z', '2026-10-04T15:30Z']],
    // Two hours, 01:00 to 03:00.
    ['Antarctica/Troll', '2026-03-28T12:00:00Z', ['2026-03-29T01:00Z', '2026-03-30T00:30Z']],
    // Back: 02:30 comes twice.
    ['Europe/Berlin', '2026-10-24T12:00:00Z', ['2026-10-25T00:30Z', '2026-10-26T01:30Z']],
    // A whole day was skipped: its tick runs when the next day begins.
    ['Pacific/Apia', '2011-12-29T14:00:00Z', ['2011-12-30T10:00Z', '2011-12-30T12:30Z']],
  ])('has one run at 02:30, or after the jump that skips it, in %s', (zone, after, ticks) => {
    expect(next(daily(2, 30), zone, after, 2)).toEqual(ticks);
  });

  it('still has an hourly tick in an hour that is partly skipped', () => {
    expect(next(daily(ALL_HOURS), 'Australia/Lord_Howe', '2026-10-03T14:00:00Z', 3)).toEqual([
      '2026-10-03T14:30Z',
      '2026-10-03T15:30Z', // 02:00 is skipped and runs at 02:30
      '2026-10-03T16:00Z',
    ]);
  });
});

describe('ticks', () => {
  it('may be seconds apart', () => {
    const pattern = { ...daily(ALL_HOURS, [0, 59]), seconds: [0, 58] };
    const ticks = nextTicks(pattern, 'Asia/Kathmandu', at('2026-01-01T00:13:59.999Z'), 4);
    expect(ticks.map((tick) => tick.toISOString())).toEqual([
      '2026-01-01T00:14:00.000Z',
      '2026-01-01T00:14:58.000Z',
      '2026-01-01T00:15:00.000Z',
      '2026-01-01T00:15:58.000Z',
    ]);
  });

  it('on 29 February are found across 2100, which is no leap year', () => {
    const leap = daily(0, 0, (_, month, day) => month === 2 && day === 29);
    expect(next(leap, 'UTC', '2096-03-01T00:00:00Z', 1)).toEqual(['2104-02-29T00:00Z']);
    const last = lastTick(leap, 'UTC', at('2104-02-28T23:59:59Z'), at('2000-01-01T00:00:00Z'));
    expect(last?.toISOString()).toBe('2096-02-29T00:00:00.000Z');
  });

  it('that never come end the search after a limited number of days', () => {
    let checkedDays = 0;
    const never = daily(0, 0, () => {
      checkedDays += 1;
      return false;
    });
    expect(nextTicks(never, 'Europe/Berlin', at('2026-01-01T00:00:00Z'), 3)).toEqual([]);
    expect(lastTick(never, 'Europe/Berlin', at('2026-01-01T00:00:00Z'), new Date(0))).toBeNull();
    expect(checkedDays).toBeLessThan(2 * 3 * (HORIZON_DAYS + 2));
  });

  it('at both bounds of the search count as the last one, but never as the next', () => {
    const tick = at('2026-01-05T02:00:00Z');
    expect(next(daily(2), 'UTC', tick.toISOString(), 1)).toEqual(['2026-01-06T02:00Z']);
    expect(lastTick(daily(2), 'UTC', tick, tick)).toEqual(tick);
    expect(lastTick(daily(2), 'UTC', new Date(tick.getTime() - 1), tick)).toBeNull();
    expect(
      lastTick(daily(2), 'UTC', at('2026-01-06T01:59:59Z'), new Date(tick.getTime() + 1)),
    ).toBeNull();
  });
});

/** Zones with all kinds of clock changes. */
const zones = fc.constantFrom(
  ...['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Antarctica/Troll'],
  ...['Pacific/Apia', 'America/Sao_Paulo', 'America/St_Johns', 'America/Caracas', 'Africa/Cairo'],
  ...['Africa/Casablanca', 'Europe/Dublin', 'Asia/Tehran', 'Asia/Pyongyang', 'Antarctica/Casey'],
  ...['America/Nuuk', 'Asia/Kathmandu', 'Pacific/Kiritimati', 'UTC'],
);

/** The days on which a zone's offset changes, from 1990 to 2036. */
const changes = new Map<string, number[]>();
function changesOf(zone: string): readonly number[] {
  const known = changes.get(zone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' });
  const found: number[] = [];
  let before = '';
  for (let day = Date.UTC(1990, 0, 1); day < Date.UTC(2037, 0, 1); day += 24 * HOUR_MS) {
    const offset = format.formatToParts(day).find(({ type }) => type === 'timeZoneName')?.value;
    if (before !== '' && offset !== before) found.push(day);
    before = offset ?? '';
  }
  changes.set(zone, found);
  return found;
}

const moments = zones.chain((zone) => {
  const any = fc
    .integer({ min: 0, max: 16_000 })
    .map((n) => Date.UTC(1992, 0, 1) + n * 24 * HOUR_MS);
  const change = changesOf(zone).length === 0 ? any : fc.constantFrom(...changesOf(zone));
  const day = fc.oneof({ arbitrary: change, weight: 4 }, { arbitrary: any, weight: 1 });
  return fc
    .tuple(fc.constant(zone), day, fc.integer({ min: -72 * 60, max: 24 * 60 }))
    .map(([zone, day, minutes]) => ({ zone, from: day + minutes * 60_000 }));
});

const some = (max: number, most: number): fc.Arbitrary<number[]> =>
  fc
    .uniqueArray(fc.integer({ min: 0, max }), { minLength: 1, maxLength: most })
    .map((values) => values.sort((a, b) => a - b));

const minutePatterns: fc.Arbitrary<Minutes> = fc.record({
  minutes: some(59, 4),
  hours: fc.oneof(
    { arbitrary: some(3, 4), weight: 3 },
    { arbitrary: some(23, 23), weight: 2 },
    { arbitrary: fc.constant(ALL_HOURS), weight: 2 },
  ),
  matchesDay: fc.constantFrom<CronPattern['matchesDay'][]>(
    () => true,
    (_year, _month, day) => day % 2 === 0,
    (year, month, day) => new Date(Date.UTC(year, month - 1, day)).getUTCDay() === 0,
  ),
});

describe('for any pattern, zone and time', () => {
  it('ticks equal those found by watching the clock minute by minute', () => {
    fc.assert(
      fc.property(moments, minutePatterns, ({ zone, from }, minutes) => {
        const to = from + 4 * 24 * HOUR_MS;
        const pattern = { ...minutes, seconds: [0] };
        const expected = bruteTicks(minutes, zone, from, to);
        const ticks = nextTicks(pattern, zone, new Date(from), expected.length + 1);
        expect(shown(ticks.filter((tick) => tick.getTime() <= to))).toEqual(shown(expected));
      }),
      { numRuns: 150 },
    );
  });

  it('the last tick is the latest of the next ticks', () => {
    fc.assert(
      fc.property(moments, minutePatterns, some(59, 3), ({ zone, from }, minutes, seconds) => {
        const pattern = { ...minutes, seconds };
        const [first, ...ticks] = nextTicks(pattern, zone, new Date(from), 60);
        if (first === undefined) throw new Error('every generated pattern has ticks');
        let before = first;
        for (const tick of ticks) {
          expect(tick.getTime()).toBeGreaterThan(before.getTime());
          const just = new Date(tick.getTime() - 1);
          expect(lastTick(pattern, zone, tick, new Date(0))).toEqual(tick);
          expect(lastTick(pattern, zone, just, new Date(0))).toEqual(before);
          before = tick;
        }
      }),
      { numRuns: 100 },
    );
  });
});

/** A pattern without seconds. */
export type Minutes = Pick<CronPattern, 'minutes' | 'hours' | 'matchesDay'>;

const MINUTE_MS = 60_000;
const QUARTER_MS = 15 * MINUTE_MS;

/**
 * The ticks after `from` up to `to`, found minute by minute: it reads the local clock and remembers the
 * latest time shown. Slow, but independent of the product's algorithm. A pattern for all hours runs whenever
 * the clock shows a matching time, or skips one within an hour.
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

/** Returns a function that gives local time as if it were UTC. Clocks change at most once per 15 minutes. */
function clockOf(zone: string): (instant: number) => number {
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone: zone,
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  const read = (instant: number): number =>
    Date.parse(`${format.format(instant).replace(' ', 'T')}Z`);
  const shift = (instant: number): number => read(instant) - instant;
  let begin = NaN;
  let shifts: readonly [number, number] = [NaN, NaN];
  return (instant) => {
    const quarter = instant - (instant % QUARTER_MS);
    if (quarter !== begin) {
      const first = quarter === begin + QUARTER_MS ? shifts[1] : shift(quarter);
      shifts = [first, shift(quarter + QUARTER_MS)];
      begin = quarter;
    }
    return shifts[0] === shifts[1] ? instant + shifts[0] : read(instant);
  };
}
