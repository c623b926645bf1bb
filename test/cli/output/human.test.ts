import { describe, expect, it } from 'vitest';
import { age, bytes, count, duration, momentCell, plural } from '../../../src/cli/output/index.js';

const NOW = new Date('2026-05-01T12:00:00Z');
const SECOND = 1000;
const HOUR = 3_600_000;

describe('figures for people', () => {
  it.each([
    [0, '0 ms'],
    [999.4, '999 ms'],
    [999.9, '1 s'],
    [4200, '4.2 s'],
    [9960, '10 s'],
    [59_600, '1 min'],
    [185 * SECOND, '3 min 5 s'],
    [HOUR, '1 h'],
    [HOUR * 2 + 600 * SECOND, '2 h 10 min'],
    [HOUR * 24 - 1, '1 d'],
    [HOUR * 76, '3 d 4 h'],
    [-5, '0 ms'],
  ])('a duration of %d ms is %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it.each([
    [0, 'just now'],
    [-2 * SECOND, 'just now'],
    [45 * SECOND, '45 s ago'],
    [90 * SECOND, '1 min ago'],
    [3.9 * HOUR, '3 h ago'],
    [47 * HOUR, '47 h ago'],
    [49 * HOUR, '2 d ago'],
    [-3 * HOUR, 'in 3 h'],
  ])('a moment %d ms back is %s, never older than it is', (ms, text) => {
    expect(age(new Date(NOW.getTime() - ms), NOW)).toBe(text);
  });

  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1500, '1.5 kB'],
    [999_960, '1 MB'],
    [108_000_000, '108 MB'],
  ])('%d bytes are %s', (number, text) => {
    expect(bytes(number)).toBe(text);
  });

  it('counts have their thousands apart and agree with their noun', () => {
    expect(count(1234567n)).toBe('1,234,567');
    expect(plural(1, 'item')).toBe('1 item');
    expect(plural(0, 'item')).toBe('0 items');
    expect(plural(2, 'entry', 'entries')).toBe('2 entries');
  });
});

it('shows a moment whole in a pipe, and as short as it can be told on a terminal', () => {
  const now = new Date('2026-11-22T13:45:00Z');
  const [today, before] = [new Date('2026-11-22T00:00:59Z'), new Date('2026-11-21T23:59:59Z')];
  expect(momentCell(today, now, { columns: null })).toBe('2026-11-22 00:00:59Z');
  expect(momentCell(today, now, { columns: 80 })).toBe('00:00Z');
  expect(momentCell(before, now, { columns: 80 })).toBe('2026-11-21');
});
