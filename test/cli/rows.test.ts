import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RowJson } from '../../src/cli/rows.js';

type Type = ConstructorParameters<typeof RowJson>[0][number]['type'];

function value(text: string | null, type: Type): string {
  const line = new RowJson([{ name: 'v', type }]).object([text]);
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
  ])('has the number %s as %s, exact for every reader', (text, json) => {
    expect(value(text, 'number')).toBe(json);
  });

  it('has decimals, such as money, as text with their digits, which no reader can round', () => {
    expect(value('19.90', 'decimal')).toBe('"19.90"');
    expect(value('-0.10', 'decimal')).toBe('"-0.10"');
  });

  it('loses no digit of any number', () => {
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

  it('keeps JSON as it is but for what a terminal would act on, in one line', () => {
    expect(value('{"a":\n  1.10, "b": "\u009B2J\u202E"}', 'json')).toBe(
      '{"a":   1.10, "b": "\\u009b2J\\u202e"}',
    );
  });

  it('has texts, lists, truth and nothing', () => {
    expect(value('say "hi"\n', 'text')).toBe('"say \\"hi\\"\\n"');
    expect(value('{a,"b c",NULL,"{}"}', 'texts')).toBe('["a","b c",null,"{}"]');
    expect(value('f', 'boolean')).toBe('false');
    expect(value(null, 'number')).toBe('null');
  });

  it('tells columns of one name apart, and takes no name for more than a name', () => {
    const names = ['a', 'a', '__proto__', 'a_2'];
    const columns = names.map((name) => ({ name, type: 'number' as const }));
    expect(new RowJson(columns).object(['1', '2', '3', '4'])).toBe(
      '{"a":1,"a_2":2,"__proto__":3,"a_2_2":4}',
    );
  });
});

/** A decimal number as a fraction of integers in lowest form. */
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
