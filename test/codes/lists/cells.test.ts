import { describe, expect, it } from 'vitest';
import { isDateFormat, valueOf } from '../../../src/codes/lists/cells.js';

const BOOK = { strings: ['shared'], dateStyles: [false, true], from1904: false };
/** What a cell of this type shows; by default a number. */
const shown = (text: string, { type = 'n', style = 0, from1904 = false } = {}) =>
  valueOf({ type, style, text, hasFormula: false }, { ...BOOK, from1904 });

describe('a cell', () => {
  it.each([
    ['19.989999999999998', {}, '19.99'],
    ['1E-3', {}, '0.001'],
    ['-1', { style: 1 }, '-1'],
    ['99999999', { style: 1 }, '99999999'],
    ['0', { type: 's' }, 'shared'],
    ['a_x000D_b', { type: 'inlineStr' }, 'a\rb'],
    ['0', { type: 'b' }, 'FALSE'],
    ['#N/A', { type: 'e' }, '#N/A'],
    ['1', { style: 1 }, '1900-01-01'],
    ['59', { style: 1 }, '1900-02-28'],
    ['61', { style: 1 }, '1900-03-01'],
    ['46349', { style: 1 }, '2026-11-23'],
    ['44887', { style: 1, from1904: true }, '2026-11-23'],
    ['46349.5868055556', { style: 1 }, '2026-11-23 14:05:00'],
    ['0.75', { style: 1 }, '18:00:00'],
  ])('is shown as Excel shows it: %s %j', (text, how, expected) => {
    expect(shown(text, how).text).toBe(expected);
  });

  it.each([
    ['1.23456789012346E+17', {}, /^Excel has shortened this number$/],
    ['4711', {}, /^Excel has converted this code to a number/],
    ['45000.5', { style: 1 }, /to a date/],
    ['2026-11-23', { type: 'd' }, /to a date/],
    ['1', { type: 'b' }, /TRUE or FALSE instead of a code/],
    ['#N/A', { type: 'e' }, /an Excel error instead of a code/],
  ])('is no code, since Excel has changed what was entered: %s %j', (text, how, why) => {
    expect(shown(text, how).fault).toMatch(why);
  });
});

it.each([
  [14, undefined, true],
  [2, undefined, false],
  [164, 'yyyy\\-mm\\-dd hh:mm', true],
  [164, '[h]:mm', true],
  [165, '[Red]#,##0.00 "days"', false],
])('format %i %j shows dates: %s', (id, code, expected) => {
  expect(isDateFormat(id, code)).toBe(expected);
});
