import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Redactor } from '../../src/domain/redact.js';
import { MASK, maskCode, maskLikelyCodes, Secret } from '../../src/domain/secret.js';
import { holds, spelling, SPELLINGS } from '../support/echoes.js';

const redactorOf = (...texts: string[]): Redactor =>
  new Redactor(texts.map((text) => new Secret(text)));

/** Secrets of any characters, except parts of the mask itself. */
const secrets = fc
  .string({ unit: 'grapheme', minLength: 4, maxLength: 40 })
  .filter((text) => text.trim().length >= 4 && !holds(MASK, text.trim()));

describe('a secret in foreign text', () => {
  it('is masked in any letter case and escape', () => {
    fc.assert(
      fc.property(secrets, spelling, (secret, spell) => {
        const echo = spell(secret.trim());
        const shown = redactorOf(secret).text(`<a href="?k=${echo}&amp;x=1">`);
        expect(shown).toContain(MASK);
        expect(holds(shown, secret.trim()) || holds(shown, echo)).toBe(false);
      }),
      { numRuns: 3_000 },
    );
  });

  it.each(Object.entries(SPELLINGS))('is masked in capitals %s', (_, spell) => {
    const secret = 'ab&cd "efgh"/ij';
    expect(redactorOf(secret).text(`x ${spell(secret.toUpperCase())} y`)).toBe('x [secret] y');
  });

  it.each([
    ['the shorter first', 'key-of-ada', 'key-of-ada-and-more'],
    ['the longer first', 'key-of-ada-and-more', 'key-of-ada'],
  ])('is masked completely if another secret is its beginning, given %s', (_, ...both) => {
    expect(redactorOf(...both).text('x key-of-ada-and-more y')).toBe('x [secret] y');
  });

  it('is never missed by the quick test', () => {
    fc.assert(
      fc.property(secrets, spelling, fc.string(), (secret, spell, other) => {
        const redactor = redactorOf(secret);
        expect(redactor.mayChange(`${other}${spell(secret.trim())}`)).toBe(true);
        if (!redactor.mayChange(other)) expect(redactor.text(other)).toBe(other);
      }),
      { numRuns: 1_000 },
    );
    const page = '<p style="color:#65a0ff">50% of \\u00e9 &amp; &#233; \\u003C \\/ %20x</p>';
    expect(redactorOf('abcd1234').mayChange(page)).toBe(false);
  });

  it('leaves other text unchanged, including escapes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(redactorOf('a-key-that-is-nowhere').text(text)).toBe(text);
      }),
    );
    const text = 'C:\\new\\u0041 %41 &amp;lt; +';
    expect(redactorOf('other-key').text(text)).toBe(text);
  });

  it('is masked by `literal` without breaking JSON', () => {
    fc.assert(
      fc.property(secrets, fc.jsonValue(), (secret, value) => {
        const line = JSON.stringify([`before "${secret}"`, value]);
        const shown = redactorOf(secret).literal(line);
        expect(holds(shown, JSON.stringify(secret.trim()).slice(1, -1))).toBe(false);
        if (!/["\\{}[\]:,\w]/.test(secret)) expect(() => void JSON.parse(shown)).not.toThrow();
      }),
    );
  });

  it('is masked completely if it contains another secret', () => {
    const redactor = redactorOf('pass', 'https://a.example/pass/token');
    expect(redactor.text('to https://A.example/PASS/token, Pass')).toBe('to [secret], [secret]');
  });

  it('is masked in hex of either case, as in debug output', () => {
    fc.assert(
      fc.property(secrets, (secret) => {
        const hex = Buffer.from(secret.trim()).toString('hex');
        for (const text of [hex, hex.toUpperCase()]) {
          expect(holds(redactorOf(secret).text(`raw: ${text}.`), hex)).toBe(false);
        }
      }),
    );
  });

  it('is masked in base64 with any text around it, as in an Authorization header', () => {
    const bytes = fc.uint8Array({ maxLength: 20 }).map((array) => Buffer.from(array));
    const encoding = fc.constantFrom('base64' as const, 'base64url' as const);
    const long = secrets.filter((secret) => secret.trim().length >= 8);
    fc.assert(
      fc.property(bytes, long, bytes, encoding, (before, secret, after, as) => {
        const text = Buffer.concat([before, Buffer.from(secret.trim()), after]).toString(as);
        expect(redactorOf(secret).text(text)).toContain(MASK);
      }),
    );
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
