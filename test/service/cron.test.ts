import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { cronFault, nextTimes } from '../../src/service/cron.js';

const at = (iso: string): Date => new Date(iso);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime(at('2026-01-01T00:00:00Z'));
});
afterEach(() => void vi.useRealTimers());

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

describe('the next times', () => {
  const ZONES = [
    ...['UTC', 'Europe/Berlin', 'America/New_York', 'America/St_Johns', 'America/Santiago'],
    ...['Africa/Cairo', 'Asia/Kathmandu', 'Australia/Adelaide', 'Australia/Lord_Howe'],
    ...['Pacific/Chatham', 'Pacific/Apia', 'Atlantic/Azores', 'Asia/Beirut'],
  ];
  const TIMES = ['30 0', '45 1', '15 2', '30 2', '0 3'];

  /** The days of 2026 before clocks change. */
  function changes(timeZone: string): Date[] {
    const format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' });
    const noons = Array.from({ length: 365 }, (_, n) => new Date(Date.UTC(2026, 0, 1 + n, 12)));
    const offsets = noons.map((noon) => format.format(noon).split(' ')[1]);
    return noons.filter((_, n) => n < 364 && offsets[n] !== offsets[n + 1]);
  }

  it.each(ZONES)('are one a night in %s, also when clocks change', (timeZone) => {
    for (const change of [at('2026-01-01T12:00:00Z'), ...changes(timeZone)]) {
      for (const time of TIMES) {
        const schedule = { cron: `${time} * * *`, timeZone };
        let last = new Date(change.getTime() - 3 * 86_400_000);
        const gaps: number[] = [];
        for (let night = 0; night < 7; night += 1) {
          vi.setSystemTime(last);
          const [next = last] = nextTimes(schedule, last);
          gaps.push((next.getTime() - last.getTime()) / 3_600_000);
          last = next;
        }
        const [, ...nights] = gaps;
        expect(Math.min(...nights), time).toBeGreaterThanOrEqual(21.5);
        expect(Math.max(...nights), time).toBeLessThanOrEqual(26.5);
      }
    }
  });

  it('are looked for on the days of every change of clocks', () => {
    expect(ZONES.map((zone) => changes(zone).length)).toEqual([
      0, 2, 2, 2, 2, 2, 0, 2, 2, 2, 0, 2, 2,
    ]);
  });

  it.each([
    ['Europe/Berlin', '30 2', '2026-03-28T12:00:00Z', '03-29T01:30 03-30T00:30'],
    ['Europe/Berlin', '30 2', '2026-10-24T12:00:00Z', '10-25T01:30 10-26T01:30'],
    ['America/New_York', '30 2', '2026-03-07T12:00:00Z', '03-08T07:30 03-09T06:30'],
    ['America/New_York', '30 1', '2026-10-31T12:00:00Z', '11-01T05:30 11-02T06:30'],
  ])('in %s of %s, from %s: %s', (timeZone, time, from, expected) => {
    vi.setSystemTime(at(from));
    const times = nextTimes({ cron: `${time} * * *`, timeZone }, at(from), 2);
    expect(times.map((one) => one.toISOString().slice(5, 16)).join(' ')).toBe(expected);
  });

  it('are the same whatever this machine’s clock says, by up to hours', () => {
    const crons = fc.constantFrom('*/10 * * * *', '15 * * * *', '30 2 * * *', '*/7 * * * * *');
    const from = at('2026-03-28T00:00:00Z').getTime();
    fc.assert(
      fc.property(
        crons,
        fc.constantFrom(...ZONES),
        fc.integer({ min: 0, max: 2 * 86_400 }),
        fc.integer({ min: -3_600, max: 3_600 }),
        (cron, timeZone, seconds, skew) => {
          const after = new Date(from + seconds * 1_000);
          vi.setSystemTime(after);
          const expected = nextTimes({ cron, timeZone }, after, 3);
          vi.setSystemTime(after.getTime() + skew * 1_000);
          expect(nextTimes({ cron, timeZone }, after, 3)).toEqual(expected);
        },
      ),
      { numRuns: 40 },
    );
  });
});
