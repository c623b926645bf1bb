import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formsOf,
  isSameCode,
  LONGEST_CODE,
  looksLikeCode,
  normalizeCode,
  readCell,
} from '../../src/marketplace/code.js';

const UUID = '1b4e28ba-2fa1-11d2-883f-0016d3cca427';
const OTHER = '0a1b2c3d4e5f60718293a4b5c6d7e8f901234';

describe('reading a code', () => {
  it.each([
    [UUID, 'nothing around it'],
    [`  ${UUID}\t\r\n`, 'white space around it'],
    [`\ufeff${UUID}`, 'a byte order mark'],
    [`\u200b\u200e${UUID}\u2060\u00ad\u202c`, 'characters without width'],
    [`"${UUID}"`, 'quotes'],
    [`„${UUID}“`, 'German quotes'],
    [`« ${UUID} »`, 'French quotes'],
    [`＂${UUID}＂`, 'wide quotes'],
    [`\ufeff "'${UUID}'" `, 'several of these'],
    [`="${UUID}"`, 'a formula that is only text'],
    [`=" ${UUID} "`, 'white space within such a formula'],
    [`"="${UUID}""`, 'quotes around such a formula'],
    [`"=""${UUID}"""`, 'such a formula as a cell of CSV'],
    [`'="${UUID}"`, 'an apostrophe before such a formula'],
  ])('strips what surrounds it: %j (%s)', (text, _what) => {
    expect(readCell(text)).toEqual({ code: UUID });
  });

  it.each([
    ...['x', '7', '-', 'O\u2019Neil', "it's", '"half', "'quoted", 'a b', 'ключ'],
    ...['🎟️-1'.replace('\ufe0f', ''), 'x'.repeat(LONGEST_CODE), '🎟'.repeat(LONGEST_CODE)],
    ...['<script>', "' OR 1=1 --", '=abc', '="a"&"b"', '=""a"&"b""', '="a', '=""a"', '=', '="'],
    ...['="a"1', '= "a"', '=\u201ca\u201d'],
  ])('assumes no format: %j is kept unchanged', (text) => {
    expect(readCell(text)).toEqual({ code: text });
  });

  it.each(['=1+1', '-5', '+49', '@x', '＝1'])(
    'strips the apostrophe that keeps %j from being a formula',
    (text) => {
      expect(readCell(`'${text}`)).toEqual({ code: text });
      expect(readCell(`''${text}`)).toEqual({ code: `''${text}` });
    },
  );

  it.each([
    ['', 'empty'],
    [' \t\ufeff\u200b ', 'empty'],
    ['""', 'empty'],
    ['a\0b', 'control-characters'],
    [`smt_${'aB3-_'.repeat(8)}abc`, 'token'],
    [`Token: "smt_${'aB3-_'.repeat(8)}abc"`, 'token'],
    ['a\ufffdb', 'unreadable-characters'],
    ['\ud83ca', 'unreadable-characters'],
    ['x'.repeat(LONGEST_CODE + 1), 'too-long'],
    ['🎟'.repeat(LONGEST_CODE + 1), 'too-long'],
  ] as const)('says why %j is refused', (text, reason) => {
    expect(readCell(text)).toEqual({ reason, fault: expect.stringMatching(/^(?:is|has) /) });
  });

  it.each([
    [`${UUID}, ${OTHER}`, 2],
    [`${UUID}\n${OTHER}`, 2],
    [`${UUID} ${OTHER}`, 2],
    [`${UUID} and ${OTHER}`, 2],
    [`${UUID}, ${UUID} and ${OTHER}`, 3],
    ['ENV-7Q2K-88AB;ENV-8Q2K-88AB | ENV-9Q2K-88AB', 3],
    ['"ENV-7Q2K-88AB",\n"ENV-8Q2K-88AB"', 2],
    ['ABCD-1234 EFGH-5678', 2],
    [`FAKE-12345678 ${UUID.slice(0, 14)} ${UUID.slice(14)}`, 2],
    [`dead0001beef ${UUID}`, 2],
    [`${OTHER} / ${OTHER.slice(0, 18)}`, 2],
    [`${OTHER} ${OTHER.slice(0, 18)}`, 2],
    [`${UUID}＆${OTHER}`, 2],
  ])('finds several codes in one text: %j', (text, codes) => {
    const fault = `holds ${codes} codes: give each its own line`;
    expect(readCell(text)).toEqual({ reason: 'several-codes', fault });
  });

  it.each([
    ...[`${UUID}/2024`, `Regular ${UUID}`, `${UUID},`, 'AB CD EF', 'a,b', '1/2'],
    ...[`${UUID} 2026-11-28`, `${UUID} 12.345.678,90`, `${UUID} ann.1970@shop4you.example`],
    ...['ABCD EFGH 1234 5678', 'ABCD-EFGH,IJKL-MNOP', 'Xyz Order 12345678'],
    ...['https://shop2026.example/orders/AB-12345678', `${OTHER.slice(0, 9)} ${OTHER.slice(9)}`],
    ...[
      `Code: ${UUID.slice(0, 14)} ${UUID.slice(14)}`,
      `${UUID.slice(0, 14)} ${UUID.slice(14)} ok`,
    ],
  ])(
    'does not take words, dates, amounts or addresses beside a code for another one: %j',
    (text) => {
      expect(readCell(text)).toEqual({ code: text });
    },
  );

  it('takes line breaks and tabs in a cell for blanks', () => {
    expect(readCell('AB\r\nCD\tEF\u2028GH')).toEqual({ code: 'AB CD EF GH' });
  });

  it('is fast on hostile lines', () => {
    const length = 200_000;
    for (const text of ['"', ' ', "'=", '="', ` ${'x '.repeat(8)}`, '“\u200b']) {
      const line = text.repeat(Math.ceil(length / text.length));
      expect(() => readCell(`${line}x${line}`)).not.toThrow();
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
        const reading = readCell(text);
        if ('code' in reading) expect(readCell(reading.code)).toEqual(reading);
      }),
      { numRuns: 300 },
    );
  });
});

it('letter case counts in a list, but not in an answer, where servers may change it', () => {
  expect(normalizeCode('ABC')).not.toBe(normalizeCode('abc'));
  expect(isSameCode('ABC ', 'abc')).toBe(true);
  expect(isSameCode('ABD', 'abc')).toBe(false);
});

describe('the forms in which a code is asked', () => {
  it.each([
    ['86781236–23d0−4b3c‑7dfa—c1c1', ['86781236-23d0-4b3c-7dfa-c1c1'], 'typographic dashes'],
    ['AB\u00a0CD\u2009EF', ['AB CD EF', 'ABCDEF'], 'typographic blanks'],
    ['ＡＢ１２－ｘ', ['AB12-x'], 'fullwidth forms'],
    ['٨٦٧-۸۶-९', ['867-86-9'], 'digits of other scripts'],
    ['АВС-соре', ['ABC-cope'], 'Cyrillic letters that look Latin'],
    ['O\u2019Neil', ["O'Neil"], 'a typographic apostrophe'],
    ['8678\u200b-23\u00ad-d0\ufeff1', ['8678-23-d01'], 'characters without width'],
    ['ABCD EFGH 1234', ['ABCDEFGH1234'], 'blanks inside'],
    ['Code: ABCD-EFGH-1234', ['ABCD-EFGH-1234'], 'a label before a colon'],
    ['my code QRST-3333-4444', ['QRST-3333-4444', 'mycodeQRST-3333-4444'], 'words before'],
    ['Code: ABCD EFGH 1234', ['ABCD EFGH 1234', 'ABCDEFGH1234'], 'a label and blanks'],
    ['#AB-123456', ['AB-123456'], 'a number sign'],
  ])('of %s are also %s: %s', (code, others, _what) => {
    expect(formsOf(code)).toEqual([code, ...others]);
  });

  it.each([
    `"${UUID}`,
    `${UUID};`,
    `Code: ${UUID}`,
    `my code ${UUID}`,
    `${UUID} (Regular)`,
    `https://shop.example/orders/${UUID}`,
    `${UUID.slice(0, 14)} ${UUID.slice(14)}`,
    `${UUID.slice(0, 9)}\u200b${UUID.slice(9)}`,
    `Code: ${UUID.slice(0, 14)}\u00a0${UUID.slice(14)} (Regular)`,
  ])('include the typical code inside other text, which a cell of a list may hold: %s', (text) => {
    expect(formsOf(text)).toEqual([text, UUID]);
  });

  it.each([UUID, OTHER, "it's", 'ключ', '鍵-1', 'n/a', '-'])(
    'are one if there is nothing to change: %j',
    (code) => {
      expect(formsOf(code)).toEqual([code]);
    },
  );

  it('are the text alone if it holds no code or several, so that none of them is judged', () => {
    for (const text of ['', `${UUID}, ${OTHER}`, 'a\0b c', `smt_${'x'.repeat(43)}`]) {
      expect(formsOf(text)).toEqual([text]);
    }
  });

  it('begin with the code, differ, and can be codes themselves, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const read = readCell(text);
        if (!('code' in read)) return;
        const [first, ...others] = formsOf(text);
        expect(first).toBe(read.code);
        expect(formsOf(first)).toEqual([first, ...others]);
        expect(new Set([first, ...others]).size).toBe(others.length + 1);
        expect(others.length).toBeLessThanOrEqual(2);
        for (const form of others) expect(readCell(form)).toHaveProperty('code');
      }),
      { numRuns: 300 },
    );
  });

  const typical = fc.oneof(fc.uuid(), fc.stringMatching(/^[\da-f]{37}$/));
  const label = fc.constantFrom('', 'Code: ', 'Purchase code：', 'my code ', '#', 'Key=', '(');
  const after = fc.constantFrom('', ';', ' (Regular)', '.', ' refunded', ')');
  const inside = fc.constantFrom('', ' ', '\u00a0', '\u200b', '\u2009', '\n', '\u00ad');

  it('include the code, however people wrote it', () => {
    const place = fc.integer({ min: 1, max: 35 });
    const dressed = fc.constantFrom<(code: string) => string>(
      (code) => code,
      (code) => code.replaceAll('-', '–'),
      (code) => code.replaceAll('a', 'а').replaceAll('0', '０'),
    );
    fc.assert(
      fc.property(typical, label, after, inside, place, dressed, (code, l, a, blank, at, dress) => {
        const broken = dress(code.slice(0, at)) + blank + dress(code.slice(at));
        expect(formsOf(`${l}${broken}${a}`)).toContain(code);
      }),
      { numRuns: 500 },
    );
  });

  it('are never asked of a text with two codes', () => {
    const other = fc.oneof(typical, fc.stringMatching(/^[A-Z]{4}-\d{4}-[A-Z\d]{4}$/));
    const between = fc.constantFrom(
      ', ',
      ' ',
      ';',
      ' / ',
      '|',
      ' and ',
      '\n',
      ' & ',
      '+',
      '\u00a0',
    );
    fc.assert(
      fc.property(typical, other, between, fc.boolean(), label, (a, b, middle, isTurned, l) => {
        const text = `${l}${(isTurned ? [b, a] : [a, b]).join(middle)}`;
        expect(readCell(text)).toEqual({
          reason: 'several-codes',
          fault: 'holds 2 codes: give each its own line',
        });
        expect(formsOf(text)).toHaveLength(1);
      }),
      { numRuns: 300 },
    );
  });
});

it.each([
  ['n/a', false],
  ['-', false],
  ['TBD', false],
  ['AB-12', false],
  ['12.50', false],
  ['AB-1234', true],
  ['１２３４５６', true],
  [UUID, true],
])('%j looks like a code: %s, which only words the reason of its line', (text, isLike) => {
  expect(looksLikeCode(text)).toBe(isLike);
});
