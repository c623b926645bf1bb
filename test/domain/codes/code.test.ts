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
    [UUID, 'as it is'],
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
    [`="${UUID}"`, 'a formula that is nothing but text'],
    [` \t="${UUID}"\r\n`, 'white space around such a formula'],
    [`=" ${UUID} "`, 'white space within such a formula'],
    [`"="${UUID}""`, 'quotes around such a formula'],
    [`"=""${UUID}"""`, 'such a formula as a cell of CSV'],
    [`'="${UUID}"`, 'an apostrophe before such a formula'],
  ])('takes off what does not belong to it: %j (%s)', (text, _what) => {
    expect(readCode(text)).toEqual({ code: UUID });
  });

  it.each([
    ...['x', '7', '-', 'O\u2019Neil', "it's", '"half', "'quoted", 'a b', 'a\u200bb', 'ключ'],
    ...['🎟️-1'.replace('\ufe0f', ''), 'x'.repeat(LONGEST_CODE), '🎟'.repeat(LONGEST_CODE)],
    ...['<script>', "' OR 1=1 --", '=abc', '="a"&"b"', '=""a"&"b""', '="a', '=""a"', '=', '="'],
    ...['="a"1', '= "a"', '=\u201ca\u201d'],
  ])('assumes no format: %j is taken as it is', (text) => {
    expect(readCode(text)).toEqual({ code: text });
  });

  it.each(['=1+1', '-5', '+49', '@x', '＝1'])(
    'takes off the apostrophe by which spreadsheets keep %j from being a formula',
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
  ] as const)('says why %j can be none', (text, reason) => {
    expect(readCode(text)).toEqual({ reason });
    expect(describeCodeFault(reason)).toMatch(/^(?:is|has) /);
  });

  it('ends soon on any line, however hostile', () => {
    const length = 1_000_000;
    for (const text of ['"', ' ', "'=", '="', ` ${'x '.repeat(8)}`, '“\u200b']) {
      const line = text.repeat(Math.ceil(length / text.length));
      expect(() => readCode(`${line}x${line}`)).not.toThrow();
    }
  });

  it('changes nothing the second time, and never what is within', () => {
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

  it('finds any code again in what surrounds it', () => {
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

it('letter case counts in a list, since nobody promises that it does not, but not in an answer, which servers change', () => {
  expect(normalizeCode('ABC')).not.toBe(normalizeCode('abc'));
  expect(isSameCode('ABC ', 'abc')).toBe(true);
  expect(isSameCode('ABD', 'abc')).toBe(false);
});
