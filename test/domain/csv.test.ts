import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  COMMA_CSV,
  csvLine,
  csvNumber,
  escapeFormula,
  isAmount,
  isNumberText,
  PLAIN_CSV,
  unescapeFormula,
} from '../../src/domain/csv.js';

/** Texts of the characters that matter here, and of any characters. */
const texts = fc.oneof(
  fc.string({
    unit: fc.constantFrom(...["'", '=', '+', '-', '@', '＝', ' ', '\t', '\r', '\n', 'a']),
  }),
  fc.string({ unit: 'binary' }),
);

describe('an escaped cell', () => {
  it.each([
    ...['=1', '+1', '-1+1', '@x', '＝1', '＋1', '－1', '＠x'],
    ...['\t1', '\r1', '\n1', ' =1', ' \t-x'],
  ])('has an apostrophe before %j: a spreadsheet would run it', (text) => {
    expect(escapeFormula(text)).toBe(`'${text}`);
  });

  it.each(['', 'a=1', 'a', ' a', "'a", "it's", '1-2', 'x@y.z'])('is %j unchanged', (text) => {
    expect(escapeFormula(text)).toBe(text);
    expect(unescapeFormula(text)).toBe(text);
  });

  it('restores every text, even one that already looks escaped', () => {
    fc.assert(fc.property(texts, (text) => unescapeFormula(escapeFormula(text)) === text));
  });

  it('stays the same if a file is read and written again', () => {
    fc.assert(
      fc.property(
        texts,
        (text) => escapeFormula(unescapeFormula(escapeFormula(text))) === escapeFormula(text),
      ),
    );
  });

  it('never begins like a formula', () => {
    fc.assert(
      fc.property(texts, (text) => !/^(?:[\t\r\n]|\s*[=+\-@＝＋－＠])/.test(escapeFormula(text))),
    );
  });
});

describe('a number', () => {
  it.each(['-5', '+5', '5', '-5.50', '.5', '1e-7'])('may begin with a sign: %s', (text) => {
    expect(isNumberText(text)).toBe(true);
  });

  it.each(['', '-', '-5+1', '--5', '-5 ', '=5', '1,5', '-a1'])('is not %j', (text) => {
    expect(isNumberText(text)).toBe(false);
  });

  it.each(['-5', '-1,50', '+1.234,50', '-1,234.50', ',5', '-1,5e-7'])(
    'may be written as %s in some country',
    (text) => {
      expect(isAmount(text)).toBe(true);
    },
  );

  it.each(['', '-', '-5+1', '-5 ', '=5', '-,', '-1,5+A1', '-1,5e'])(
    'is not %j in any country, so it gets escaped',
    (text) => {
      expect(isAmount(text)).toBe(false);
    },
  );

  it.each([
    ['19.90', '19,90'],
    ['-1e-7', '-1e-7'],
    ['1.5e+20', '1,5e+20'],
    ['NaN', 'NaN'],
    ['1.4.2', '1.4.2'],
  ])('%s is %s with a decimal comma', (text, comma) => {
    expect(csvNumber(text, COMMA_CSV)).toBe(comma);
    expect(csvNumber(text, PLAIN_CSV)).toBe(text);
  });
});

describe('a line of CSV', () => {
  it.each([
    [['a', 'b c', 'd'], 'a,b c,d'],
    [['a,b', 'c;d', 'e\tf', 'say "x"'], '"a,b","c;d","e\tf","say ""x"""'],
    [[' a', 'b ', 'c\nd', '\\.'], '" a","b ","c\nd","\\."'],
    [['a', null, ''], 'a,,""'],
    [[null], '""'],
  ])('quotes only the cells that need it: %j', (cells, line) => {
    expect(csvLine(cells)).toBe(`${line}\r\n`);
  });

  it('quotes a number with a decimal comma only between commas', () => {
    expect(csvLine(['19,90', 'a,b'], ';')).toBe('19,90;"a,b"\r\n');
    expect(csvLine(['19,90', '-5,00'])).toBe('"19,90","-5,00"\r\n');
  });

  it('is parsed back by csv-parse, with any delimiter', () => {
    const cells = fc.array(fc.option(fc.string({ unit: 'binary' })), { minLength: 1 });
    fc.assert(
      fc.property(cells, fc.constantFrom(',', ';', '\t', '|', '^'), (given, delimiter) => {
        const options = { delimiter, record_delimiter: '\r\n' };
        expect(parse(csvLine(given, delimiter), options)).toEqual([
          given.map((cell) => cell ?? ''),
        ]);
      }),
    );
  });
});
