import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  describeCodeFault,
  isSameCode,
  LONGEST_CODE,
  normalizeCode,
  readCode,
} from '../../../src/domain/codes/code.js';

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
    ...['x', '7', '-', 'O\u2019Neil', "it's", '"half', "'quoted", 'a b', 'a\u200bb', 'ключ'],
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
    expect(readCode(text)).toEqual({ reason });
    expect(describeCodeFault(reason)).toMatch(/^(?:is|has) /);
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
