import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cut, pad, safeLine, safeLines, width } from '../../../src/cli/output/index.js';

const ESC = '\u001B';
const anyText = fc.string({ unit: 'binary', maxLength: 60 });

describe('safe text', () => {
  it.each([
    ['colours', `${ESC}[31mred${ESC}[0m`, 'red'],
    ['a new title of the window', `${ESC}]0;owned\u0007text`, 'text'],
    ['a cleared screen', `a${ESC}[2Jb`, 'ab'],
    ['a sequence hidden in a sequence', `${ESC}${ESC}[31m[31mx`, '\uFFFD[31mx'],
    ['an 8-bit sequence', '\u009B31mx', 'x'],
    ['a bell and a backspace', 'a\u0007b\u0008c', 'a\uFFFDb\uFFFDc'],
    ['a line overwritten', 'good\rbad', 'good bad'],
    ['lines', 'one\r\n  two\u2028three', 'one two three'],
    ['a turned reading direction', 'safe\u202Eexe.txt\u2066x', 'safeexe.txtx'],
    ['half a character', 'a\uD83D', 'a\uFFFD'],
  ])('takes the effect from %s, because marketplace text is hostile', (_, text, expected) => {
    expect(safeLine(text)).toBe(expected);
  });

  it('keeps lines where lines are wanted', () => {
    expect(safeLines(`a\tb\r\n${ESC}[1mc`)).toBe('a  b\nc');
  });

  it('keeps letters of any language and emoji as they are', () => {
    const text = 'Größe 价格 السعر 👩‍👩‍👧 é';
    expect(safeLine(text)).toBe(text);
  });

  it('never lets a control character through, whatever the text', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(safeLine(text)).not.toMatch(/[\p{Cc}\u202A-\u202E\u2066-\u2069\u2028\u2029]/u);
        expect(safeLines(text)).not.toMatch(/(?!\n)\p{Cc}/u);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('measured text', () => {
  it.each([
    ['abc', 3],
    ['价格', 4],
    ['👩‍👩‍👧', 2],
    ['e\u0301', 1],
  ])('%s takes the columns a terminal gives it', (text, columns) => {
    expect(width(text)).toBe(columns);
  });

  it('is cut with … only where it must be', () => {
    expect(cut('abcdef', 6)).toBe('abcdef');
    expect(cut('abcdef', 5)).toBe('abcd…');
    expect(cut('价格价格', 4)).toBe('价…');
    expect(cut('ab', 0)).toBe('');
  });

  it('never is wider than asked and never ends in half a character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.nat(40), (text, columns) => {
        const safe = safeLine(text);
        const out = cut(safe, columns);
        expect(width(out)).toBeLessThanOrEqual(columns);
        expect(out.isWellFormed()).toBe(true);
        if (width(safe) <= columns) expect(out).toBe(safe);
      }),
    );
  });

  it('of megabytes is cut without being measured whole', () => {
    expect(cut('x'.repeat(16_000_000), 5)).toBe('xxxx…');
  });

  it('is filled up on either side', () => {
    expect(pad('价', 4, 'left')).toBe('价  ');
    expect(pad('7', 3, 'right')).toBe('  7');
    expect(pad('long', 2, 'left')).toBe('long');
  });
});
