import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDuration, readMoment } from '../../src/domain/moment.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe('parseDuration', () => {
  it.each([
    ['7d', 7 * DAY],
    ['12h', 12 * HOUR],
    ['30m', 30 * 60_000],
    ['45s', 45_000],
    ['2w', 14 * DAY],
    ['1d12h', 36 * HOUR],
    [' 7D ', 7 * DAY],
    ['0', 0],
    ['0d', 0],
    ['36500d', 36_500 * DAY],
  ])('reads %j as %i ms', (text, ms) => {
    expect(parseDuration(text)).toEqual({ ms });
  });

  it.each([
    ['', /empty/],
    ['7', /no unit/],
    ['d', /not a length/],
    ['7 d', /not a length/],
    ['7x', /not a length/],
    ['-7d', /not a length/],
    ['1.5d', /not a length/],
    ['1h7d', /not a length/],
    ['7d7d', /not a length/],
    ['P7D', /not a length/],
    ['٧d', /not a length/],
    ['36526d', /hundred years/],
    ['9'.repeat(400) + 'd', /hundred years/],
  ])('refuses %j with a reason', (text, fault) => {
    expect(parseDuration(text)).toEqual({ fault: expect.stringMatching(fault) as string });
  });

  it('reads any units in order', () => {
    const part = fc.option(fc.nat(99), { nil: null });
    fc.assert(
      fc.property(part, part, part, part, part, (...parts) => {
        const units = ['w', 'd', 'h', 'm', 's'];
        const text = parts.map((n, i) => (n === null ? '' : `${n}${units[i]}`)).join('');
        fc.pre(text !== '');
        const factors = [7 * DAY, DAY, HOUR, 60_000, 1000];
        const ms = parts.reduce<number>((sum, n, i) => sum + (n ?? 0) * (factors[i] as number), 0);
        expect(parseDuration(text)).toEqual({ ms });
      }),
    );
  });
});

describe('a moment that a person writes', () => {
  const now = new Date('2026-03-10T12:00:00Z');

  it.each([
    ['2026-03-01', '2026-03-01T00:00:00.000Z'],
    ['2026-03-01T12:30Z', '2026-03-01T12:30:00.000Z'],
    ['2026-03-01 12:30:05.25', '2026-03-01T12:30:05.250Z'],
    ['2026-03-01T12:30+02:00', '2026-03-01T10:30:00.000Z'],
    ['2026-03-01T12:30-0130', '2026-03-01T14:00:00.000Z'],
    ['7d', '2026-03-03T12:00:00.000Z'],
    ['1d12h', '2026-03-09T00:00:00.000Z'],
  ])('is read: %s is %s', (text, at) => {
    expect(readMoment(text, now)).toEqual({ at: new Date(at) });
  });

  it.each(['', 'yesterday', '2026-02-30', '2026-13-01', '2026-03-01T25:00', '2026-3-1', '7'])(
    'is refused if it is none: “%s”',
    (text) => {
      expect(readMoment(text, now)).toHaveProperty('fault');
    },
  );
});
