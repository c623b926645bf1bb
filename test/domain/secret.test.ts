import fc from 'fast-check';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { Secret, maskCode, maskLikelyCodes } from '../../src/domain/secret.js';

it('a secret shows a mask wherever a value may be printed', () => {
  const secret = new Secret('hunter2hunter2');
  for (const text of [
    String(secret),
    JSON.stringify({ secret }),
    inspect({ secret }, { depth: 9, showHidden: true }),
    'text: ' + String(secret),
  ]) {
    expect(text).not.toContain('hunter2');
    expect(text).toContain('[secret]');
  }
});

describe('a masked purchase code', () => {
  it.each([
    ['86781236-23d0-4b3c-7dfa-c1c147e0dece', '8678…'],
    ['ABCDEFGH', 'AB…'],
    ['abc', '…'],
    ['', '…'],
  ])('of %j is %j, enough to recognise it by', (code, shown) => {
    expect(maskCode(code)).toBe(shown);
  });

  it('shows 4 characters at most and never more than a quarter, so that nobody can guess the rest', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (code) => {
        const shown = maskCode(code).slice(0, -1);
        expect(shown.length).toBeLessThanOrEqual(Math.min(4, code.length / 4));
        expect(code.toWellFormed().startsWith(shown.replace(/\uFFFD$/, ''))).toBe(true);
      }),
    );
  });
});

describe('text with purchase codes', () => {
  const hex = (length: number) =>
    fc.string({
      unit: fc.constantFrom(...'0123456789abcdefABCDEF'.split('')),
      minLength: length,
      maxLength: length,
    });
  const code = fc.oneof(
    fc.uuid(),
    fc.uuid().map((text) => text.toUpperCase()),
    fc.integer({ min: 32, max: 80 }).chain(hex),
  );

  it('loses them wherever they stand, because lines are put together from anything', () => {
    fc.assert(
      fc.property(fc.string(), code, fc.string(), (before, text, after) => {
        const shown = maskLikelyCodes(`${before}${text}${after}`);
        expect(shown).not.toContain(text.slice(4));
      }),
    );
  });

  it('keeps what is no code: ids, dates and short hexadecimal numbers', () => {
    const text = 'run 1234567890 of 2026-11-21T02:00:00.000Z, item 42, commit 9f86d081884c7d65';
    expect(maskLikelyCodes(text)).toBe(text);
  });
});
