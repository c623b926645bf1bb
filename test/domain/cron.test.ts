import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cronFault, nextTimes, previousTime } from '../../src/domain/cron.js';

const at = (iso: string): Date => new Date(iso);

/** The first days of 2026 on which an expression runs. */
function days(cron: string, count: number): string[] {
  return nextTimes({ cron, timeZone: 'UTC' }, at('2025-12-31T23:59:59Z'), count).map((time) =>
    time.toISOString().slice(0, 10),
  );
}

describe('a cron expression', () => {
  it.each([
    '0 2 * * *',
    '  0   2 *\t* * ',
    '30 0 2 * * *',
    '*/15 * * * *',
    '0-30/10,45 8-18 * * mon-fri',
    '0 0 1 jan,JULY *',
    '55-5 22-2 * * *',
    '0 0 L * *',
    '0 0 L-3 * *',
    '0 0 15W * ?',
    '0 0 LW * *',
    '0 0 * * 5L',
    '0 0 ? * tue#2',
    '0 0 29 2 *',
    '0 0 29 2 1',
    '@daily',
    ' @Weekly ',
    '@midnight',
  ])('is valid: %j', (expression) => {
    expect(cronFault(expression)).toBeNull();
    expect(days(expression, 1)).toHaveLength(1);
  });

  it.each([
    ['', 'is empty'],
    ['0 2 * *', 'has 4 fields instead of 5 (or 6, with seconds first)'],
    ['daily', 'has 1 field instead of 5'],
    ['0 0 2 * * * 2026', 'has 7 fields instead of 5'],
    ['0 25 * * *', 'has "25" as hour; allowed: 0 to 23'],
    ['0,60 2 * * *', 'has "60" as minute; allowed: 0 to 59'],
    ['61 0 2 * * *', 'has "61" as second; allowed: 0 to 59'],
    ['0 2 0 * *', 'has "0" as day of the month; allowed: 1 to 31'],
    ['0 2 * 13 *', 'has "13" as month; allowed: 1 to 12, or jan to dec'],
    ['0 2 * * 8', 'has "8" as day of the week; allowed: 0 to 7, or sun to sat'],
    ['0 2 * * someday', 'has "someday" as day of the week'],
    ['*/0 * * * *', 'has "*/0" as minute'],
    ['5/15 * * * *', 'has "5/15" as minute'],
    ['1,,2 * * * *', 'has "" as minute'],
    ['-1 * * * *', 'has "-1" as minute'],
    ['0 2 30 2 *', 'never runs: there is no such day'],
    ['0 2 31 4,6 *', 'never runs'],
    ['0 2 L-30 2 *', 'never runs'],
    ['@reboot', 'is unknown; use @hourly'],
  ])('is invalid: %j %s', (expression, fault) => {
    expect(cronFault(expression)).toContain(fault);
  });

  // The library would give the first four a surprising meaning, and use up memory for the others.
  it.each([
    ...['2* * * * *', '* 2* * * *', '* * * janfeb *', '* * * * sunmon'],
    ...['0-99999999999 * * * *', '*/1000000000 * * * *', `${'0,'.repeat(100_000)}0 * * * *`],
  ])('is rejected before the library reads it (%#)', (expression) => {
    expect(cronFault(expression)).not.toBeNull();
  });

  it('either is invalid or has a next time, whatever its text', () => {
    const symbols = fc.string({
      unit: fc.constantFrom(...'0123456789*/-,#?LWmonjan @\u0000é'.split('')),
      maxLength: 12,
    });
    const text = fc.oneof(
      fc.string(),
      symbols,
      fc.array(symbols, { maxLength: 7 }).map((parts) => parts.join(' ')),
    );
    const number = fc.nat(32).map(String);
    const value = fc.oneof(
      { arbitrary: fc.constant('*'), weight: 6 },
      number,
      fc.constantFrom('*/5', '?', 'L', 'L-3', 'LW', '15W', 'feb', 'mon', '5L', 'fri#5'),
      fc.tuple(number, number).map(([from, to]) => `${from}-${to}`),
      fc.tuple(number, number).map(([one, other]) => `${one},${other}`),
    );
    const fields = fc.array(value, { minLength: 5, maxLength: 6 }).map((all) => all.join(' '));
    let valid = 0;
    fc.assert(
      fc.property(fc.oneof(text, { arbitrary: fields, weight: 3 }), (expression) => {
        if (cronFault(expression) !== null) return;
        valid += 1;
        expect(days(expression, 1)).toHaveLength(1);
      }),
      { numRuns: 1_000 },
    );
    // Without valid ones among them, the rule would be tested on nothing.
    expect(valid).toBeGreaterThan(20);
  });

  it.each([
    ['0 0 13 * fri', '2026-02-13 2026-03-13 2026-11-13'],
    ['0 0 L 2 *', '2026-02-28 2027-02-28 2028-02-29'],
    ['0 0 15W * *', '2026-01-15 2026-02-16 2026-03-16'],
    ['0 0 1W 8 *', '2026-08-03 2027-08-02'],
    ['0 0 31W 5 *', '2026-05-29 2027-05-31'],
    ['0 0 LW 5 *', '2026-05-29 2027-05-31'],
    ['0 0 L-3 2 *', '2026-02-25 2027-02-25 2028-02-26'],
    ['0 0 * * 5L', '2026-01-30 2026-02-27'],
    ['0 0 * * tue#2', '2026-01-13 2026-02-10'],
    ['0 0 * * 7', '2026-01-04 2026-01-11'],
    ['0 0 29 2 *', '2028-02-29 2032-02-29'],
    ['0 0 29 2 1', '2044-02-29'],
    ['@monthly', '2026-01-01 2026-02-01'],
  ])('%s runs on %s', (expression, expected) => {
    const dates = expected.split(' ');
    expect(days(expression, dates.length)).toEqual(dates);
  });
});

/**
 * Zones of all habits: changes at other hours and in both hemispheres, none, and odd offsets. Antarctica/Troll moves clocks
 * by two hours, Lord Howe by half of one; Cairo, Havana and Beirut change at midnight, Gaza on other days.
 */
const ZONES =
  `UTC Europe/Berlin Europe/London Europe/Dublin Europe/Chisinau Atlantic/Azores America/New_York America/St_Johns
  America/Havana America/Santiago America/Asuncion America/Nuuk America/Scoresbysund Pacific/Chatham
  Pacific/Kiritimati Africa/Cairo Africa/Casablanca Asia/Beirut Asia/Gaza Asia/Kathmandu Australia/Adelaide
  Australia/Eucla Australia/Lord_Howe Antarctica/Troll`.split(/\s+/);
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** The clock of a zone, as if it were UTC (ms). Asked again, it remembers. */
function clockOf(timeZone: string): (at: number) => number {
  // Clocks are ahead by the same time for a quarter of an hour at least.
  const known = new Map<number, number>();
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone,
    hourCycle: 'h23',
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  return (at) => {
    const quarter = at - (at % (15 * MINUTE_MS));
    const ahead =
      known.get(quarter) ?? Date.parse(`${format.format(quarter).replace(', ', 'T')}Z`) - quarter;
    known.set(quarter, ahead);
    return at + ahead;
  };
}

/** The noons (UTC) of 2026 in a zone after which clocks change within a day. */
function changesIn(timeZone: string): number[] {
  const clock = clockOf(timeZone);
  const noons = Array.from({ length: 364 }, (_, n) => Date.UTC(2026, 0, 1 + n, 12));
  return noons.filter((noon) => clock(noon + DAY_MS) - clock(noon) !== DAY_MS);
}

/**
 * The times of a schedule between two instants, found minute by minute. A clock time that is never shown is one that the
 * clock has jumped over.
 */
function byTheMinute(
  isMatch: (clock: Date) => boolean,
  isRepeated: boolean,
  clock: (at: number) => number,
  from: number,
  to: number,
): number[] {
  const times = new Set<number>();
  const shown = new Set<number>();
  for (let at = from; at <= to; at += MINUTE_MS) {
    const [now, before] = [clock(at), clock(at - MINUTE_MS)];
    for (let skipped = before + MINUTE_MS; skipped < now; skipped += MINUTE_MS) {
      if (isMatch(new Date(skipped))) times.add(at + (skipped - before - MINUTE_MS));
    }
    if (isMatch(new Date(now)) && (isRepeated || !shown.has(now))) times.add(at);
    shown.add(now);
  }
  return [...times].sort((a, b) => a - b);
}

describe('the times of a schedule', () => {
  const SCHEDULES: readonly (readonly [string, boolean, (clock: Date) => boolean])[] = [
    ['30 2 * * *', false, (at) => at.getUTCHours() === 2 && at.getUTCMinutes() === 30],
    ['45 1 * * *', false, (at) => at.getUTCHours() === 1 && at.getUTCMinutes() === 45],
    ['*/30 * * * *', true, (at) => at.getUTCMinutes() % 30 === 0],
    ['15 * * * *', true, (at) => at.getUTCMinutes() === 15],
    ['0 */2 * * *', true, (at) => at.getUTCHours() % 2 === 0 && at.getUTCMinutes() === 0],
    [
      '10 2 * * sun',
      false,
      (at) => at.getUTCDay() === 0 && at.getUTCHours() === 2 && at.getUTCMinutes() === 10,
    ],
  ];

  it.each(ZONES)('are those found minute by minute in %s, also when clocks change', (timeZone) => {
    const clock = clockOf(timeZone);
    if (timeZone === 'Europe/Berlin') expect(changesIn(timeZone)).toHaveLength(2);
    for (const noon of [Date.UTC(2026, 0, 10, 12), ...changesIn(timeZone)]) {
      for (const [cron, isRepeated, isMatch] of SCHEDULES) {
        const [from, to] = [noon - DAY_MS / 8, noon + 1.125 * DAY_MS];
        const expected = byTheMinute(isMatch, isRepeated, clock, from, to);
        const schedule = { cron, timeZone };
        const next = nextTimes(schedule, new Date(from - 1), expected.length + 1);
        const within = next.map(Number).filter((at) => at <= to);
        expect(within, `${cron} from ${new Date(from).toISOString()}`).toEqual(expected);
        for (const [n, at] of expected.entries()) {
          expect(previousTime(schedule, new Date(at))?.getTime()).toBe(at);
          const until = (expected[n + 1] ?? at + MINUTE_MS) - 1;
          expect(previousTime(schedule, new Date(until))?.getTime()).toBe(at);
        }
      }
    }
  });

  it.each([
    ['Europe/Berlin', '30 2 * * *', '2026-03-28T12:00Z', '03-29T01:30 03-30T00:30'],
    ['Europe/Berlin', '30 2 * * *', '2026-10-24T12:00Z', '10-25T00:30 10-26T01:30'],
    ['America/New_York', '30 2 * * *', '2026-03-07T12:00Z', '03-08T07:30 03-09T06:30'],
    ['America/New_York', '30 1 * * *', '2026-10-31T12:00Z', '11-01T05:30 11-02T06:30'],
    // No half hour is left out when clocks go back.
    ['Europe/Berlin', '*/30 * * * *', '2026-10-25T00:15Z', '10-25T00:30 10-25T01:00 10-25T01:30'],
    // Clocks go from 1:00 to 3:00, and back from 3:00 to 1:00.
    ['Antarctica/Troll', '30 1 * * *', '2026-03-28T12:00Z', '03-29T01:30 03-29T23:30'],
    ['Antarctica/Troll', '30 1 * * *', '2026-10-23T12:00Z', '10-23T23:30 10-24T23:30 10-26T01:30'],
    ['Australia/Lord_Howe', '15 2 * * *', '2026-10-03T00:00Z', '10-03T15:45 10-04T15:15'],
    ['Pacific/Apia', '0 9 * * *', '2011-12-29T12:00Z', '12-29T19:00 12-30T19:00'],
    ['UTC', '*/20 58 23 31 12 *', '2025-12-31T00:00Z', '12-31T23:58 12-31T23:58 12-31T23:58'],
  ])('in %s of %s, from %s: %s', (timeZone, cron, from, expected) => {
    const count = expected.split(' ').length;
    const times = nextTimes({ cron, timeZone }, at(from), count);
    expect(times.map((one) => one.toISOString().slice(5, 16)).join(' ')).toBe(expected);
  });

  it('need no clock, however far away they are', () => {
    const rare = { cron: '0 0 29 2 mon', timeZone: 'UTC' };
    expect(previousTime(rare, at('2026-11-28T00:00Z'))).toEqual(at('2016-02-29T00:00Z'));
    expect(nextTimes(rare, at('2026-11-28T00:00Z'), 2)).toEqual([
      at('2044-02-29T00:00Z'),
      at('2072-02-29T00:00Z'),
    ]);
  });

  it('do not depend on what was asked before', () => {
    const schedule = { cron: '15 */6 * * *', timeZone: 'Asia/Kathmandu' };
    const times = nextTimes(schedule, at('2026-01-01T00:00Z'), 40);
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 38 }),
        fc.double({ min: 0, max: 0.99, noNaN: true }),
        (n, part) => {
          const [last = at(''), next = at('')] = times.slice(n, n + 2);
          const within = last.getTime() + part * (next.getTime() - last.getTime());
          expect(previousTime(schedule, new Date(within))).toEqual(last);
        },
      ),
      { numRuns: 100 },
    );
  });
});
