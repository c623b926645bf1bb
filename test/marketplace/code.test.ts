import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  isSameCode,
  LONGEST_CODE,
  normalizeCode,
  plainForm,
  readCode,
} from '../../src/marketplace/code.js';

const UUID = '1b4e28ba-2fa1-11d2-883f-0016d3cca427';

describe('reading a code', () => {
  it.each([
    [UUID, 'nothing around it'],
    [`  ${UUID}\t\r\n`, 'white space around it'],
    [`\u00a0\u2003${UUID}\u3000\u0085`, 'white space of other scripts'],
    [`\ufeff${UUID}`, 'a byte order mark'],
    [`\u200b\u200e${UUID}\u2060\u00ad\u202c`, 'characters without width'],
    [`"${UUID}"`, 'quotes'],
    [`'${UUID}'`, 'apostrophes'],
    [`“${UUID}”`, 'English quotes'],
    [`„${UUID}“`, 'German quotes'],
    [`‚${UUID}‘`, 'single German quotes'],
    [`« ${UUID} »`, 'French quotes'],
    [`「${UUID}」`, 'Japanese quotes'],
    [`＂${UUID}＂`, 'wide quotes'],
    [`\`${UUID}\``, 'backticks'],
    [`\ufeff "'${UUID}'" `, 'several of these'],
    [`="${UUID}"`, 'a formula that is only text'],
    [` \t="${UUID}"\r\n`, 'white space around such a formula'],
    [`=" ${UUID} "`, 'white space within such a formula'],
    [`"="${UUID}""`, 'quotes around such a formula'],
    [`"=""${UUID}"""`, 'such a formula as a cell of CSV'],
    [`'="${UUID}"`, 'an apostrophe before such a formula'],
  ])('strips what surrounds it: %j (%s)', (text, _what) => {
    expect(readCode(text)).toEqual({ code: UUID });
  });

  it.each([
    ...['x', '7', '-', 'O\u2019Neil', "it's", '"half', "'quoted", 'a b', 'ключ'],
    ...['🎟️-1'.replace('\ufe0f', ''), 'x'.repeat(LONGEST_CODE), '🎟'.repeat(LONGEST_CODE)],
    ...['<script>', "' OR 1=1 --", '=abc', '="a"&"b"', '=""a"&"b""', '="a', '=""a"', '=', '="'],
    ...['="a"1', '= "a"', '=\u201ca\u201d'],
  ])('assumes no format: %j is kept unchanged', (text) => {
    expect(readCode(text)).toEqual({ code: text });
  });

  it.each(['=1+1', '-5', '+49', '@x', '＝1'])(
    'strips the apostrophe that keeps %j from being a formula',
    (text) => {
      expect(readCode(`'${text}`)).toEqual({ code: text });
      expect(readCode(`''${text}`)).toEqual({ code: `''${text}` });
    },
  );

  it.each([
    ['', 'empty'],
    [' \t\ufeff\u200b ', 'empty'],
    ['""', 'empty'],
    ['" “ ” "', 'empty'],
    ['=""', 'empty'],
    ['a\0b', 'control-characters'],
    ['a\nb', 'control-characters'],
    ['a\tb', 'control-characters'],
    ['\u001b[31mred', 'control-characters'],
    ['a\u2028b', 'control-characters'],
    ['a\ufffdb', 'unreadable-characters'],
    ['\ud83ca', 'unreadable-characters'],
    ['x'.repeat(LONGEST_CODE + 1), 'too-long'],
    ['🎟'.repeat(LONGEST_CODE + 1), 'too-long'],
    ['x'.repeat(1_000_000), 'too-long'],
  ] as const)('says why %j is refused', (text, reason) => {
    expect(readCode(text)).toEqual({ reason, fault: expect.stringMatching(/^(?:is|has) /) });
  });

  it.each([
    ['86781236\u200b-23d0', 'U+200B zero width space after character 8'],
    ['8678\u00ad1236', 'U+00AD soft hyphen after character 4'],
    ['🎟1\ufeff2', 'U+FEFF byte order mark after character 2'],
    ['a\u202eb\u202cc', 'U+202E right-to-left override after character 1, and 1 more'],
    ['a\u2066b', 'U+2066 left-to-right isolate after character 1'],
    ['ab\ncd', 'U+000A line feed after character 2'],
    ['ab\u0007cd', 'U+0007 control character after character 2'],
    ['ab\u3164cd', 'U+3164 invisible character after character 2'],
  ])('names an invisible character and its place, because nobody can see it: %j', (text, what) => {
    expect(readCode(text)).toMatchObject({ fault: `has ${what}` });
  });

  const OTHER = '0a1b2c3d4e5f60718293a4b5c6d7e8f901234';
  it.each([
    [`${UUID}, ${OTHER}`, 2],
    [`${UUID};${UUID};${OTHER}`, 3],
    [`${UUID}\n${OTHER}`, 2],
    [`${UUID} ${OTHER}`, 2],
    [`${UUID} / ${OTHER}`, 2],
    [`${UUID} and ${OTHER}`, 2],
    [`"${UUID}", "${OTHER}"`, 2],
    [`${UUID}, ${UUID} and ${OTHER}`, 3],
    ['ENV-7Q2K-88AB-X9, ENV-8Q2K-88AB-X8', 2],
    ['ENV-7Q2K-88AB;ENV-8Q2K-88AB | ENV-9Q2K-88AB', 3],
    ['"ENV-7Q2K-88AB",\n"ENV-8Q2K-88AB"', 2],
  ])('finds several codes in one text: %j', (text, codes) => {
    const fault = `holds ${codes} codes: give each its own line`;
    expect(readCode(text)).toEqual({ reason: 'several-codes', fault });
  });

  it.each([
    ...[`${UUID}/2024`, `Regular ${UUID}`, `${UUID},`, 'AB CD EF', 'a,b', '1/2'],
    ...['ABCD-1234 EFGH-5678', 'ABCD1234/EFGH5678', 'ABCD-1234,XY-5678-9', 'ABCD-EFGH,IJKL-MNOP'],
  ])('does not take the parts of a text for codes, unless all look like codes: %j', (text) => {
    expect(readCode(text)).toEqual({ code: text });
  });

  it('is fast on hostile lines', () => {
    const length = 1_000_000;
    for (const text of ['"', ' ', "'=", '="', ` ${'x '.repeat(8)}`, '“\u200b']) {
      const line = text.repeat(Math.ceil(length / text.length));
      expect(() => readCode(`${line}x${line}`)).not.toThrow();
    }
  });

  it('is idempotent, and never changes the inside', () => {
    const wild = fc.string({
      unit: fc.oneof(fc.constantFrom(' ', '"', "'", '=', '="', '\u200b', '“', '\0'), fc.string()),
    });
    fc.assert(
      fc.property(wild, (text) => {
        const once = normalizeCode(text);
        expect(normalizeCode(once)).toBe(once);
        expect(text).toContain(once);
        const reading = readCode(text);
        if ('code' in reading) expect(readCode(reading.code)).toEqual(reading);
      }),
      { numRuns: 2_000 },
    );
  });

  it('finds any code inside white space and quotes', () => {
    const edge = fc.string({ unit: fc.constantFrom(' ', '\t', '\ufeff', '\u200d', '\u2009') });
    const quotes = fc.constantFrom(
      ['', ''],
      ['"', '"'],
      ['“', '”'],
      ['„', '“'],
      ['«', '»'],
      ['="', '"'],
    );
    fc.assert(
      fc.property(fc.stringMatching(/^[\w-]{1,60}$/), edge, edge, quotes, (code, a, b, [l, r]) => {
        expect(readCode(`${a}${l}${b}${code}${a}${r}${b}`)).toEqual({ code });
      }),
    );
  });
});

it('letter case counts in a list, but not in an answer, where servers may change it', () => {
  expect(normalizeCode('ABC')).not.toBe(normalizeCode('abc'));
  expect(isSameCode('ABC ', 'abc')).toBe(true);
  expect(isSameCode('ABD', 'abc')).toBe(false);
});

describe('the plain form of a code', () => {
  it.each([
    ['86781236–23d0−4b3c‑7dfa—c1c1', '86781236-23d0-4b3c-7dfa-c1c1', 'typographic dashes'],
    ['AB\u00a0CD\u2009EF', 'AB CD EF', 'typographic blanks'],
    ['ＡＢ１２－ｘ', 'AB12-x', 'fullwidth forms'],
    ['٨٦٧-۸۶-९', '867-86-9', 'digits of other scripts'],
    ['𝟙𝟚𝟛', '123', 'mathematical digits'],
    ['АВС-соре', 'ABC-cope', 'Cyrillic letters that look Latin'],
    ['O\u2019Neil', "O'Neil", 'a typographic apostrophe'],
    ['ﬁ-1', 'fi-1', 'ligatures'],
  ])('of %s is %s: %s', (code, plain, _what) => {
    expect(plainForm(code)).toBe(plain);
    expect(plainForm(plain)).toBeNull();
  });

  it.each([
    `'${UUID}`,
    `${UUID}'`,
    `"${UUID}`,
    `${UUID};`,
    `(${UUID})`,
    `#${UUID}`,
    `Code: ${UUID}`,
    `${UUID} (Regular)`,
    `https://shop.example/orders/${UUID}`,
  ])('is the code inside other text, which a cell of a list may hold: %s', (text) => {
    expect(plainForm(text)).toBe(UUID);
  });

  it.each([UUID, 'a b', "it's", 'ключ', '鍵-1', ''])(
    'is none if there is nothing to change: %j',
    (code) => {
      expect(plainForm(code)).toBeNull();
    },
  );

  it('is plain itself, and a code, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const plain = plainForm(text);
        if (plain === null) return;
        expect(readCode(plain)).toEqual({ code: plain });
        expect(plainForm(plain)).toBeNull();
      }),
      { numRuns: 2_000 },
    );
  });
});
