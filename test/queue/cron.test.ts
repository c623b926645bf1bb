import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lastTick, nextTicks } from '../../src/domain/schedule.js';
import { cronFault, parseCron, startAlarm } from '../../src/queue/cron.js';

const at = (iso: string): Date => new Date(iso);

/** The next days on which an expression runs, after the start of 2026. */
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
  ])('is accepted in the notation %j', (expression) => {
    expect(cronFault(expression)).toBeNull();
    expect(nextTicks(parseCron(expression), 'UTC', at('2026-01-01T00:00:00Z'), 1)).toHaveLength(1);
  });

  it.each([
    ['', 'is empty'],
    ['0 2 * *', 'has 4 fields, 5 are needed (or 6, with seconds first)'],
    ['daily', 'has 1 field, 5 are needed'],
    ['0 0 2 * * * 2026', 'has 7 fields, 5 are needed'],
    ['0 25 * * *', 'has "25" as hour; possible is 0 to 23'],
    ['0,60 2 * * *', 'has "60" as minute; possible is 0 to 59'],
    ['61 0 2 * * *', 'has "61" as second; possible is 0 to 59'],
    ['0 2 0 * *', 'has "0" as day of the month; possible is 1 to 31'],
    ['0 2 * 13 *', 'has "13" as month; possible is 1 to 12, or jan to dec'],
    ['0 2 * * 8', 'has "8" as day of the week; possible is 0 to 7, or sun to sat'],
    ['0 2 * * someday', 'has "someday" as day of the week'],
    ['*/0 * * * *', 'has "*/0" as minute'],
    ['5/15 * * * *', 'has "5/15" as minute'],
    ['1,,2 * * * *', 'has "" as minute'],
    ['-1 * * * *', 'has "-1" as minute'],
    ['0 2 30 2 *', 'never runs: there is no such day'],
    ['0 2 31 4,6 *', 'never runs'],
    ['0 2 L-30 2 *', 'never runs'],
    ['@reboot', 'is unknown; possible are @hourly'],
  ])('with a fault says which: %j %s', (expression, words) => {
    expect(cronFault(expression)).toContain(words);
    expect(() => parseCron(expression)).toThrow(words);
  });

  it.each(['2* * * * *', '* 2* * * *', '* * * janfeb *', '* * * * sunmon'])(
    'is refused where the library would read something that nobody means: %j',
    (expression) => {
      expect(cronFault(expression)).not.toBeNull();
    },
  );

  it.each(['0-99999999999 * * * *', '*/1000000000 * * * *', `${'0,'.repeat(100_000)}0 * * * *`])(
    'is refused before it can use up the memory',
    (expression) => {
      expect(cronFault(expression)).not.toBeNull();
    },
  );

  it('of any text at all either has a fault or runs', () => {
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

  it('means by its days what the library means: both days must match, L, # and W included', () => {
    expect(days('0 0 13 * fri', 3)).toEqual(['2026-02-13', '2026-03-13', '2026-11-13']);
    expect(days('0 0 L 2 *', 3)).toEqual(['2026-02-28', '2027-02-28', '2028-02-29']);
    expect(days('0 0 15W * *', 3)).toEqual(['2026-01-15', '2026-02-16', '2026-03-16']);
    expect(days('0 0 * * 5L', 2)).toEqual(['2026-01-30', '2026-02-27']);
    expect(days('0 0 * * tue#2', 2)).toEqual(['2026-01-13', '2026-02-10']);
    expect(days('0 0 * * 7', 2)).toEqual(['2026-01-04', '2026-01-11']);
    expect(days('0 0 29 2 *', 2)).toEqual(['2028-02-29', '2032-02-29']);
    expect(days('0 0 29 2 1', 1)).toEqual(['2044-02-29']);
    expect(days('@monthly', 2)).toEqual(['2026-01-01', '2026-02-01']);
  });

  it('sorts what is listed, so that ranges over the turn of the hour run in order', () => {
    const pattern = parseCron('58-1,59 22-1 * * *');
    expect(pattern.minutes).toEqual([0, 1, 58, 59]);
    expect(pattern.hours).toEqual([0, 1, 22, 23]);
    const last = lastTick(pattern, 'UTC', at('2026-01-05T12:00:00Z'), at('2026-01-01T00:00:00Z'));
    expect(last?.toISOString()).toBe('2026-01-05T01:59:00.000Z');
  });
});

describe('an alarm', () => {
  it('rings until it is stopped', async () => {
    let rings = 0;
    let stop = (): void => undefined;
    await new Promise<void>((resolve) => {
      stop = startAlarm('* * * * * *', 'Asia/Kathmandu', () => {
        rings += 1;
        resolve();
      });
    });
    stop();
    const heard = rings;
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect(rings).toBe(heard);
  });
});
