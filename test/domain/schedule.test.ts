import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HORIZON_DAYS, lastTick, nextTicks, type CronPattern } from '../../src/domain/schedule.js';
import { bruteTicks, type Minutes } from './brute-ticks.js';

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

describe('a night in which clocks change', () => {
  it.each([
    ['Europe/Berlin', '2026-03-28T12:00:00Z', ['2026-03-29T01:00Z', '2026-03-30T00:30Z']],
    ['America/New_York', '2026-03-07T12:00:00Z', ['2026-03-08T07:00Z', '2026-03-09T06:30Z']],
    // Half an hour only: 02:00 to 02:30 are skipped, so 02:30 itself is there.
    ['Australia/Lord_Howe', '2026-10-03T00:00:00Z', ['2026-10-03T15:30Z', '2026-10-04T15:30Z']],
    // Two hours, 01:00 to 03:00.
    ['Antarctica/Troll', '2026-03-28T12:00:00Z', ['2026-03-29T01:00Z', '2026-03-30T00:30Z']],
  ])('is not left out when they are put forward in %s', (zone, after, ticks) => {
    expect(next(daily(2, 30), zone, after, 2)).toEqual(ticks);
  });

  it.each([
    ['Europe/Berlin', 2, 30, '2026-10-24T12:00:00Z', ['2026-10-25T00:30Z', '2026-10-26T01:30Z']],
    ['America/New_York', 1, 30, '2026-10-31T12:00:00Z', ['2026-11-01T05:30Z', '2026-11-02T06:30Z']],
    [
      'Australia/Lord_Howe',
      1,
      45,
      '2026-04-04T00:00:00Z',
      ['2026-04-04T14:45Z', '2026-04-05T15:15Z'],
    ],
    ['Antarctica/Troll', 2, 30, '2026-10-24T12:00:00Z', ['2026-10-25T00:30Z', '2026-10-26T02:30Z']],
  ])('is not doubled when they are put back in %s', (zone, hour, minute, after, ticks) => {
    expect(next(daily(hour, minute), zone, after, 2)).toEqual(ticks);
  });

  it('runs all that was skipped once, with what is due then anyway', () => {
    const pattern = daily([2, 3], [0, 15, 30, 45]);
    expect(next(pattern, 'Europe/Berlin', '2026-03-29T00:59:59Z', 3)).toEqual([
      '2026-03-29T01:00Z',
      '2026-03-29T01:15Z',
      '2026-03-29T01:30Z',
    ]);
  });

  it('begins late where midnight is skipped', () => {
    expect(next(daily(0), 'Africa/Cairo', '2026-04-23T12:00:00Z', 2)).toEqual([
      '2026-04-23T22:00Z',
      '2026-04-24T21:00Z',
    ]);
  });

  it('may be a whole day that did not take place: what was due on it runs as the next begins', () => {
    expect(next(daily(2, 30), 'Pacific/Apia', '2011-12-29T00:00:00Z', 4)).toEqual([
      '2011-12-29T12:30Z',
      '2011-12-30T10:00Z',
      '2011-12-30T12:30Z',
      '2011-12-31T12:30Z',
    ]);
  });
});

describe('a pattern for every hour', () => {
  it.each(['Europe/Berlin', 'America/New_York', 'Antarctica/Troll', 'Pacific/Apia'])(
    'runs once in every real hour in %s, all through the years',
    (zone) => {
      const ticks = nextTicks(daily(ALL_HOURS, 30), zone, at('2010-01-01T00:00:00Z'), 24 * 366 * 2);
      const pauses = new Set(ticks.slice(1).map((tick, n) => tick.getTime() - Number(ticks[n])));
      expect([...pauses]).toEqual([HOUR_MS]);
    },
  );

  it('loses no hour that is there in part, where clocks shift by half of one', () => {
    expect(next(daily(ALL_HOURS), 'Australia/Lord_Howe', '2026-10-03T14:00:00Z', 3)).toEqual([
      '2026-10-03T14:30Z',
      '2026-10-03T15:30Z', // 02:00 is skipped and runs as 02:30 begins
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

  it('on 29 February are found over the leap year that the century leaves out', () => {
    const leap = daily(0, 0, (_, month, day) => month === 2 && day === 29);
    expect(next(leap, 'UTC', '2096-03-01T00:00:00Z', 1)).toEqual(['2104-02-29T00:00Z']);
    const last = lastTick(leap, 'UTC', at('2104-02-28T23:59:59Z'), at('2000-01-01T00:00:00Z'));
    expect(last?.toISOString()).toBe('2096-02-29T00:00:00.000Z');
  });

  it('that never come end the search after a bounded number of days', () => {
    let asked = 0;
    const never = daily(0, 0, () => {
      asked += 1;
      return false;
    });
    expect(nextTicks(never, 'Europe/Berlin', at('2026-01-01T00:00:00Z'), 3)).toEqual([]);
    expect(lastTick(never, 'Europe/Berlin', at('2026-01-01T00:00:00Z'), new Date(0))).toBeNull();
    expect(asked).toBeLessThan(2 * 3 * (HORIZON_DAYS + 2));
  });

  it('count at both bounds of the search for the last one', () => {
    const tick = at('2026-01-05T02:00:00Z');
    expect(lastTick(daily(2), 'UTC', tick, tick)).toEqual(tick);
    expect(lastTick(daily(2), 'UTC', new Date(tick.getTime() - 1), tick)).toBeNull();
    expect(
      lastTick(daily(2), 'UTC', at('2026-01-06T01:59:59Z'), new Date(tick.getTime() + 1)),
    ).toBeNull();
  });
});

/** Zones of all kinds of shift, and days around which clocks change somewhere. */
const zones = fc.constantFrom(
  ...['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Antarctica/Troll'],
  ...['Pacific/Apia', 'America/Sao_Paulo', 'America/St_Johns', 'America/Caracas', 'Africa/Cairo'],
  ...['Africa/Casablanca', 'Europe/Dublin', 'Asia/Tehran', 'Asia/Pyongyang', 'Antarctica/Casey'],
  ...['America/Nuuk', 'Asia/Kathmandu', 'Pacific/Kiritimati', 'UTC'],
);

/** The days after which the offset of a zone is another one, from 1990 to 2036. */
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

describe('for any pattern, zone and moment', () => {
  it('ticks are those that a watcher of the clock finds minute by minute', () => {
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

  it('the last tick is the newest of those the next ones count up to', () => {
    fc.assert(
      fc.property(moments, minutePatterns, some(59, 3), ({ zone, from }, minutes, seconds) => {
        const pattern = { ...minutes, seconds };
        const [first, ...ticks] = nextTicks(pattern, zone, new Date(from), 60);
        if (first === undefined) throw new Error('every pattern here runs');
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

  it('a time of day runs once for each day of the calendar', () => {
    const times = fc.tuple(fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 59 }));
    fc.assert(
      fc.property(moments, times, ({ zone, from }, [hour, minute]) => {
        // Places that left out a whole day when they moved over the date line.
        fc.pre(!/Apia|Kiritimati/.test(zone));
        const ticks = nextTicks(daily(hour, minute), zone, new Date(from), 30);
        const format = new Intl.DateTimeFormat('en-CA', { timeZone: zone });
        const dates = ticks.map((tick) => Date.parse(format.format(tick)) / (24 * HOUR_MS));
        const first = dates[0] ?? NaN;
        expect(dates).toEqual(dates.map((_, n) => first + n));
      }),
      { numRuns: 100 },
    );
  });
});
