import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lastTick, nextTicks } from '../../src/domain/schedule.js';
import { cronFault, parseCron, startCronTimer } from '../../src/service/cron.js';

const at = (iso: string): Date => new Date(iso);

/** The first days of 2026 on which an expression runs. */
function days(expression: string, count: number): string[] {
  const pattern = parseCron(expression);
  return nextTicks(pattern, 'UTC', at('2025-12-31T23:59:59Z'), count).map((tick) =>
    tick.toISOString().slice(0, 10),
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
    expect(nextTicks(parseCron(expression), 'UTC', at('2026-01-01T00:00:00Z'), 1)).toHaveLength(1);
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
    expect(() => parseCron(expression)).toThrow(fault);
  });

  // The library would give the first four a surprising meaning, and use up memory for the others.
  it.each([
    ...['2* * * * *', '* 2* * * *', '* * * janfeb *', '* * * * sunmon'],
    ...['0-99999999999 * * * *', '*/1000000000 * * * *', `${'0,'.repeat(100_000)}0 * * * *`],
  ])('is rejected before the library reads it (%#)', (expression) => {
    expect(cronFault(expression)).not.toBeNull();
  });

  it('either is invalid or has a tick, whatever its text', () => {
    const symbols = fc.string({
      unit: fc.constantFrom(...'0123456789*/-,#?LWmonjan @\u0000é'.split('')),
      maxLength: 12,
    });
    const text = fc.oneof(
      fc.string(),
      symbols,
      fc.array(symbols, { maxLength: 7 }).map((parts) => parts.join(' ')),
    );
    fc.assert(
      fc.property(text, (expression) => {
        if (cronFault(expression) !== null) return;
        const ticks = nextTicks(parseCron(expression), 'UTC', at('2026-01-01T00:00:00Z'), 1);
        expect(ticks).toHaveLength(1);
      }),
      { numRuns: 300 },
    );
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

  it('has its values sorted, even from a range that wraps around', () => {
    const pattern = parseCron('58-1,59 22-1 * * *');
    expect(pattern.minutes).toEqual([0, 1, 58, 59]);
    expect(pattern.hours).toEqual([0, 1, 22, 23]);
    const last = lastTick(pattern, 'UTC', at('2026-01-05T12:00:00Z'), at('2026-01-01T00:00:00Z'));
    expect(last?.toISOString()).toBe('2026-01-05T01:59:00.000Z');
  });
});

it('calls back from a cron timer until it is stopped', async () => {
  let calls = 0;
  let stop = (): void => undefined;
  await new Promise<void>((resolve) => {
    stop = startCronTimer('* * * * * *', 'Asia/Kathmandu', () => {
      calls += 1;
      resolve();
    });
  });
  stop();
  const callsBefore = calls;
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(calls).toBe(callsBefore);
});
