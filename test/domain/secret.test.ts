import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Redactor } from '../../src/domain/redact.js';
import { MASK, maskCode, maskLikelyCodes, Secret } from '../../src/domain/secret.js';
import { holds, spelling, SPELLINGS } from '../support/echoes.js';

const redactorOf = (...texts: string[]): Redactor =>
  new Redactor(texts.map((text) => new Secret(text)));

/** Secrets as marketplaces and people make them, except parts of the mask itself. */
const secrets = fc
  .string({ unit: 'grapheme-ascii', minLength: 4, maxLength: 40 })
  .filter((text) => text.trim().length >= 4 && !holds(MASK, text.trim()));

describe('a secret in foreign text', () => {
  it('is masked as it is, in JSON, percent-encoded and HTML-encoded, in any letter case', () => {
    fc.assert(
      fc.property(secrets, spelling, (secret, spell) => {
        const echo = spell(secret.trim());
        const shown = redactorOf(secret).text(`<a href="?k=${echo}&amp;x=1">`);
        expect(shown).toContain(MASK);
        expect(holds(shown, secret.trim()) || holds(shown, echo)).toBe(false);
        expect(redactorOf(secret).mayChange(`x${echo}`), 'the quick test').toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  it('is looked for in linear time, even in a text that is nearly the same', () => {
    const secret = encodeURIComponent('é'.repeat(60));
    const nearly = `${secret.slice(0, -1)}?`;
    expect(redactorOf(secret).text(nearly)).toBe(nearly);
  });

  it.each(Object.entries(SPELLINGS))('is masked with other letters %s', (_, spell) => {
    expect(redactorOf('schlüssel "ä"/🔑').text(`x ${spell('schlüssel "ä"/🔑')} y`)).toBe(
      'x [secret] y',
    );
  });

  it.each([
    ['the shorter first', 'key-of-ada', 'key-of-ada-and-more'],
    ['the longer first', 'key-of-ada-and-more', 'key-of-ada'],
  ])('is masked completely if another secret is its beginning, given %s', (_, ...both) => {
    expect(redactorOf(...both).text('x key-of-ada-and-more y')).toBe('x [secret] y');
  });

  it('leaves other text unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(redactorOf('a-key-that-is-nowhere').text(text)).toBe(text);
      }),
    );
    const page = '<p style="color:#65a0ff">50% of \\u00e9 &amp; &#233; \\/ %20x</p>';
    expect(redactorOf('abcd1234').mayChange(page)).toBe(false);
  });

  it('is masked completely if it contains another secret', () => {
    const redactor = redactorOf('pass', 'https://a.example/pass/token');
    expect(redactor.text('to https://A.example/PASS/token, Pass')).toBe('to [secret], [secret]');
  });

  it('is not masked if it is so short that any text contains it', () => {
    expect(redactorOf('abc', ' a ').text('abc a')).toBe('abc a');
  });
});

it('a secret prints as a mask', () => {
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
  ])('of %j is %j, enough to recognise it', (code, shown) => {
    expect(maskCode(code)).toBe(shown);
  });

  it('shows at most 4 characters and at most a quarter of the code', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (code) => {
        const shown = maskCode(code).slice(0, -1);
        expect(shown.length).toBeLessThanOrEqual(Math.min(4, code.length / 4));
        expect(code.toWellFormed().startsWith(shown.replace(/\uFFFD$/, ''))).toBe(true);
      }),
    );
  });
});

describe('maskLikelyCodes', () => {
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

  it('masks codes anywhere in the text', () => {
    fc.assert(
      fc.property(fc.string(), code, fc.string(), (before, text, after) => {
        const shown = maskLikelyCodes(`${before}${text}${after}`);
        expect(shown).not.toContain(text.slice(4));
      }),
    );
  });

  it('keeps ids, dates and short hexadecimal numbers', () => {
    const text = 'run 1234567890 of 2026-11-21T02:00:00.000Z, item 42, commit 9f86d081884c7d65';
    expect(maskLikelyCodes(text)).toBe(text);
  });
});
