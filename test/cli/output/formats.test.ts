import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { json, ndjsonLine, withColumnNames } from '../../../src/cli/output/formats.js';
import { rowEncoder } from '../../../src/cli/rows.js';

describe('JSON', () => {
  it.each([
    [
      'integers as numbers up to 2^53, else as text',
      { a: 7n, b: 2n ** 53n - 1n, c: 2n ** 53n + 1n, d: -(2n ** 60n) },
      '{"a":7,"b":9007199254740991,"c":"9007199254740993","d":"-1152921504606846976"}',
    ],
    [
      'dates as ISO 8601, bytes as hexadecimal and NaN as text',
      [new Date(0), Buffer.from([1, 255]), new Uint8Array([10]), NaN],
      '["1970-01-01T00:00:00.000Z","\\\\x01ff","\\\\x0a","NaN"]',
    ],
    [
      'escapes for control characters that JSON leaves alone',
      '\u001B[2J\u009B2J\u007F\u202E\u2028é',
      String.raw`"\u001b[2J\u009b2J\u007f\u202e\u2028é"`,
    ],
  ])('has %s', (_what, value, expected) => {
    expect(ndjsonLine(value)).toBe(`${expected}\n`);
  });

  it('is indented for people and one line for programs', () => {
    expect(json({ a: 1 })).toBe('{\n  "a": 1\n}\n');
    expect([{ a: 1 }, null, undefined].map(ndjsonLine)).toEqual(['{"a":1}\n', 'null\n', 'null\n']);
  });

  it('renames members to snake case, except in data from the marketplace', () => {
    const at = new Date(0);
    expect(
      withColumnNames([{ runId: 7n, held: { itemId: null, at }, raw: { someField: 1 } }]),
    ).toEqual([{ run_id: 7n, held: { item_id: null, at }, raw: { someField: 1 } }]);
  });

  it('can be read back, and contains no control characters', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        const line = ndjsonLine(value);
        expect(JSON.parse(line)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(line.slice(0, -1)).not.toMatch(/[\p{Cc}\u202A-\u202E\u2066-\u2069\u2028\u2029]/u);
      }),
      { numRuns: 500 },
    );
  });
});

type Type = Parameters<typeof rowEncoder>[0][number]['type'];

function value(text: string | null, type: Type): string {
  const line = rowEncoder([{ name: 'v', type }])([text]);
  return line.slice('{"v":'.length, -1);
}

describe('a row as JSON', () => {
  it.each([
    ['19.90', '19.90'],
    ['-0.10', '-0.10'],
    ['0.00', '0.00'],
    ['1200', '1200'],
    ['1e+20', '1e+20'],
    ['9007199254740992', '9007199254740992'],
    ['9007199254740993', '"9007199254740993"'],
    ['0.12345678901234567891', '"0.12345678901234567891"'],
    ['NaN', '"NaN"'],
    ['-Infinity', '"-Infinity"'],
  ])('has the number %s as %s', (text, json) => {
    expect(value(text, 'number')).toBe(json);
  });

  it('has decimals, such as money, as text', () => {
    expect(value('19.90', 'decimal')).toBe('"19.90"');
    expect(value('-0.10', 'decimal')).toBe('"-0.10"');
  });

  it('keeps every digit of any number', () => {
    fc.assert(
      fc.property(fc.bigInt(), fc.integer({ min: 0, max: 20 }), (unscaled, scale) => {
        const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
        const whole = digits.slice(0, digits.length - scale);
        const text = `${unscaled < 0n ? '-' : ''}${whole}${scale === 0 ? '' : `.${digits.slice(-scale)}`}`;
        const read = JSON.parse(value(text, 'number')) as unknown;
        if (typeof read === 'string') expect(read).toBe(text);
        else expect(exact(String(read))).toBe(exact(text));
      }),
    );
  });

  it('has JSON on one line, with control characters escaped', () => {
    expect(value('{"a":\n  1.10, "b": "\u009B2J\u202E"}', 'json')).toBe(
      '{"a":   1.10, "b": "\\u009b2J\\u202e"}',
    );
  });

  it('has texts, lists, booleans and null', () => {
    expect(value('say "hi"\n', 'text')).toBe('"say \\"hi\\"\\n"');
    expect(value('{a,"b c",NULL,"{}"}', 'texts')).toBe('["a","b c",null,"{}"]');
    expect(value('f', 'boolean')).toBe('false');
    expect(value(null, 'number')).toBe('null');
  });

  it('renames columns of the same name, and accepts __proto__', () => {
    const names = ['a', 'a', '__proto__', 'a_2'];
    const columns = names.map((name) => ({ name, type: 'number' as const }));
    expect(rowEncoder(columns)(['1', '2', '3', '4'])).toBe('{"a":1,"a_3":2,"__proto__":3,"a_2":4}');
  });
});

/** Normalizes a decimal number to an integer without trailing zeros, and a power of ten. */
function exact(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(text) ?? [];
  let unscaled = BigInt(whole + fraction);
  let power = Number(exponent) - fraction.length;
  if (unscaled === 0n) return '0';
  while (unscaled % 10n === 0n) {
    unscaled /= 10n;
    power++;
  }
  return `${sign}${unscaled}e${power}`;
}
