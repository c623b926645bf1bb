import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../src/domain/item.js';
import { Secret } from '../../src/domain/secret.js';
import { excerpt } from '../../src/marketplace/envelope.js';
import { judge } from '../../src/marketplace/judge.js';
import { itemQuestion } from '../../src/marketplace/questions.js';
import { createRedactor } from '../../src/marketplace/redaction.js';

/** Keys of any characters that can occur in text; the mask's own letters would prove nothing. */
const keys = fc
  .string({ unit: 'grapheme', minLength: 4, maxLength: 40 })
  .filter((key) => key.trim().length >= 4 && !'[secret]'.includes(key.toLowerCase().trim()));

const php = (key: string): string =>
  JSON.stringify(key)
    .slice(1, -1)
    .replaceAll('/', '\\/')
    .replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

const spellings: ((key: string) => string)[] = [
  (key) => key,
  (key) => key.trim(),
  encodeURIComponent,
  (key) => new URLSearchParams({ k: key }).toString().slice(2),
  (key) => encodeURIComponent(key).replace(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase()),
  (key) => JSON.stringify(key).slice(1, -1),
  php,
  (key) => key.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
];

describe('the key in what a server sends back', () => {
  it('is masked in text in every spelling', () => {
    fc.assert(
      fc.property(keys, fc.constantFrom(...spellings), (key, spell) => {
        const shown = createRedactor(new Secret(key)).text(`?api_key=${spell(key)}&x=1`);
        expect(shown).not.toContain(spell(key));
        expect(shown).toContain('[secret]');
      }),
      { numRuns: 1_000 },
    );
  });

  it('is masked in strings and member names of JSON at any depth, and nothing else is touched', () => {
    fc.assert(
      fc.property(keys, fc.jsonValue(), (key, other) => {
        const json = { a: [{ [`x${key}`]: `see ${key}!` }], other } as Json;
        const masked = createRedactor(new Secret(key)).json(json) as { a: Json };
        expect(JSON.stringify(masked.a)).toBe('[{"x[secret]":"see [secret]!"}]');
        const clean = { b: 'nothing here', n: 12345678 };
        expect(createRedactor(new Secret('12345678')).json(clean)).toBe(clean);
      }),
    );
  });

  it('is looked for in the text that JSON was read from, escapes included, before it is in each string', () => {
    const plain = fc.string({
      unit: fc.constantFrom(...'abcdefABCDEF0123456789_-'.split('')),
      minLength: 4,
      maxLength: 40,
    });
    const number = (c: string): string => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;
    const escapes = fc.func(fc.boolean());
    fc.assert(
      fc.property(plain, escapes, fc.string(), fc.jsonValue(), (key, isEscaped, before, other) => {
        const echo = key.replace(/./g, (c, at: number) => (isEscaped(at) ? number(c) : c));
        const start = JSON.stringify(before).slice(0, -1);
        const text = `{"a":[{${start}${echo}":1}],"b":${start}${echo}","c":${JSON.stringify(other)}}`;
        const redactor = createRedactor(new Secret(key));
        expect(redactor.mayBeIn(text)).toBe(true);
        const clean = JSON.stringify({ other });
        if (!redactor.mayBeIn(clean)) {
          const json = JSON.parse(clean) as Json;
          expect(redactor.json(json)).toBe(json);
        }
      }),
      { numRuns: 500 },
    );
    expect(createRedactor(new Secret('k/ey"1')).mayBeIn('{}')).toBe(true);
    expect(createRedactor(new Secret('abcd1234')).mayBeIn('{"a":"b"}')).toBe(false);
  });

  it('is in no reply, however the server echoes it', () => {
    const status = fc.constantFrom(200, 400, 401, 404, 405, 422, 500);
    const shapes: ((echo: string) => string)[] = [
      (echo) => echo,
      (echo) => `<p>no <b>${echo}</b></p>`,
      (echo) => `{"status":"error","msg":${JSON.stringify(`no ${echo}`)}}`,
      (echo) => `{"message":${JSON.stringify(`no ${echo}`)}}`,
      (echo) => `{"status":"success","item":{"id":7,"name":${JSON.stringify(echo)}}}`,
      (echo) => `{"status":"success","item":{"id":${JSON.stringify(echo)}}}`,
    ];
    fc.assert(
      fc.property(
        keys.filter((key) => !/^[\d.\s]+$/.test(key)),
        fc.constantFrom(...spellings),
        fc.constantFrom(...shapes),
        status,
        (key, spell, shape, httpStatus) => {
          // A key that occurs in the wording of the product itself can't be told from it.
          const head = { httpStatus, headers: {} };
          const ask = (text: string) =>
            JSON.stringify(
              judge(
                itemQuestion(7),
                head,
                Buffer.from(shape(text)),
                0,
                createRedactor(new Secret(key)),
              ),
            );
          const own = ask('');
          fc.pre(!spellings.some((spelled) => own.includes(spelled(key))));
          expect(ask(spell(key))).not.toContain(key);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('is not shown in part when it looks like markup itself', () => {
    const redactor = createRedactor(new Secret('abcd<efgh>ijkl'));
    expect(excerpt('<p>see abcd<efgh>ijkl</p>', redactor)).toBe('see [secret]');
  });

  it('is not put together again by taking control characters or markup out of it', () => {
    const key = 'abcdefgh12345678';
    const redactor = createRedactor(new Secret(key));
    expect(excerpt('<p>abcdefgh<b></b>12345678</p>', redactor)).not.toContain(key);
    expect(excerpt('abcdefgh\u200b12345678', redactor)).not.toContain(key);
  });

  it('is not shown in part where an excerpt is cut', () => {
    const key = 'abcdefgh12345678';
    for (let before = 250; before < 310; before++) {
      const shown = excerpt(`${'.'.repeat(before)}${key}`, createRedactor(new Secret(key)));
      expect(shown).not.toContain('abcd');
    }
  });
});

describe('the watch for the key in a stream', () => {
  it('sees the key wherever chunks are cut, and nothing where there is none', () => {
    fc.assert(
      fc.property(
        keys,
        fc.constantFrom(...spellings),
        fc.array(fc.nat(60), { maxLength: 12 }),
        (key, spell, cuts) => {
          const whole = Buffer.from(`....${spell(key)}....`);
          const at = [
            0,
            ...cuts.filter((cut) => cut < whole.length).sort((a, b) => a - b),
            whole.length,
          ];
          const watch = createRedactor(new Secret(key)).watch();
          const seen = at.slice(1).map((end, index) => watch.saw(whole.subarray(at[index], end)));
          expect(seen.at(-1)).toBe(true);
        },
      ),
      { numRuns: 1_000 },
    );
    const watch = createRedactor(new Secret('abcdefgh')).watch();
    expect(watch.saw(Buffer.from('abcdefg abcdef bcdefgh'))).toBe(false);
  });
});
