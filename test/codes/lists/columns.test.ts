import { describe, expect, it } from 'vitest';
import { customerOf } from '../../../src/codes/lists/buyer.js';
import { doubtOf } from '../../../src/codes/lists/doubt.js';
import { code, codesOf, parsed, refusal } from './support.js';

const hex = (n: number): string => n.toString(16).padStart(37, 'a1b2c3d4e5f60718');
const many = <T>(count: number, of: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => of(n));
const lines = (count: number, of: (n: number) => string): string => many(count, of).join('\n');

function doubt(text: string, known: readonly string[] = [], name = 'list.txt') {
  return doubtOf(parsed(Buffer.from(text), { name }), known);
}

describe('a list', () => {
  it.each([
    ['UUIDs', lines(9, code)],
    ['hexadecimal digits', lines(9, hex)],
    ['short codes of no known format', 'abc-1\nXK\nключ\n12345\n'],
    ['codes of which half have spaces', `${code(1)}\nAB CD\n${code(2)}\nEF GH\n`],
    ['codes, and lines without one', `code,note\n,a b\n,c d\n,e f\n${code(1)},\n`],
  ])('gets no warning for %s: codes have no fixed format', (_what, text) => {
    expect(doubt(text)).toBeNull();
  });

  it.each([
    ['sentences', 'Dear customer\nthank you for your order\nabc-1\n', 2],
    ['a web page', `<!DOCTYPE html>\n<html>\n${lines(5, (n) => `<p>${n},x</p>`)}\n</html>\n`, 8],
    ['dates', '2026-01-02\n2026-01-03\n', 2],
    ['e-mail addresses', 'a@b.example\nc@d.example\n', 2],
    ['links', 'https://a.example/1\nhttps://a.example/2\n', 2],
    ['amounts', '19.90\n5.00\n', 2],
    ['numbers that Excel has shortened', '1,23457E+17\n1,23458E+17\n', 2],
    ['lines too long to be codes', lines(2, () => 'x'.repeat(300)), 2],
  ])('gets a warning for mostly %s', (_what, text, odd) => {
    expect(doubt(text)).toMatchObject({ odd, known: null });
  });

  it('gets a warning for a web page that is named like a list', () => {
    const page =
      '<html>\n<head><meta name="code", content="x"></head>\n<body>a, b</body>\n</html>\n';
    expect(doubt(page, [], 'customers.csv')).toMatchObject({ odd: 4, total: 4 });
  });

  it('gets a warning if most codes look unlike known ones, and at least 20 are known', () => {
    const others = lines(5, (n) => `order-${n}`);
    expect(doubt(others, many(19, hex))).toBeNull();
    const known = '37 characters';
    expect(doubt(others, many(20, hex))).toMatchObject({ odd: 5, total: 5, known });
    expect(doubt(`${others}\n${lines(5, hex)}`, many(20, hex))).toBeNull();
  });

  it.each([
    ['shorter ones', (n: number) => hex(n).slice(-20), true],
    ['capitals', (n: number) => hex(n).toUpperCase(), false],
    ['UUIDs, which marketplaces switch to', code, false],
  ])('is compared with known codes by length: %s', (_what, of, odd) => {
    expect(doubt(lines(5, of), many(20, hex)) !== null).toBe(odd);
  });

  it('may have codes with spaces if the known codes have them', () => {
    const spaced = (n: number): string => `AB CD ${1000 + n}`;
    expect(doubt(lines(5, spaced), many(20, spaced))).toBeNull();
  });

  it('gets a warning with samples that show prose, but mask possible codes and addresses', () => {
    const text = `Dear ${'customer'.repeat(20)}\nada@mail.example\n12345-world-1\nx\n`;
    const { samples = [] } = doubt(text, many(20, hex)) ?? {};
    expect(samples).toEqual([
      expect.stringMatching(/^line 1: "Dear (?:customer)+.*…"$/),
      'line 2: ada@… (16 characters)',
      'line 3: 123… (13 characters)',
    ]);
    expect(samples[0]?.length).toBeLessThan(60);
  });

  it('shows no code of a line that holds several', () => {
    const text = `${hex(1)}  ${hex(2)}\nDear ${hex(3)}, hello\nx y\n`;
    const { samples = [] } = doubt(text, []) ?? {};
    expect(samples).toHaveLength(2);
    for (const n of [1, 2, 3]) expect(samples.join()).not.toContain(hex(n).slice(0, 12));
  });
});

describe('a number that Excel has shortened', () => {
  it.each(['1,23457E+17', '1.23457E+17', '1E+17', '"1,2E+17"', '9,99e+105'])(
    'is rejected as a code: %s',
    (number) => {
      const text = `code\n${number}\n${code(1)}\n`;
      const rejected = 'line 2: Excel has shortened this number';
      expect(codesOf(text, { name: 'a.csv' })).toEqual([rejected, code(1)]);
      expect(codesOf(text, { name: 'a.txt' })).toEqual([rejected, code(1)]);
    },
  );

  it.each(['123457E17', '1.2.3E+17', '12.5E+17', '1.5E-05', 'a1.5E+17'])(
    'is not found in %s, which may be a code',
    (text) => {
      expect(codesOf(`code\n${text}\n`, { name: 'a.txt' })).toEqual([text]);
    },
  );

  it('is rejected in a table too, where its comma is no delimiter', () => {
    const text = `name;code\nAda;1,23457E+17\nBob;${code(1)}\n`;
    const rejected = 'line 2: Excel has shortened this number';
    expect(codesOf(text, { name: 'a.csv' })).toEqual([rejected, code(1)]);
  });
});

describe('a table without codes', () => {
  it('is refused with the names of its columns', () => {
    expect(refusal('name;city\nAda;London\nBob;Paris\n', { name: 'nocodes.csv' })).toBe(
      'no column looks like purchase codes → The columns are "name", "city", if the first line is a header. Choose one with --column, by name or number.',
    );
    expect(codesOf('name;city\nAda;London\n', { column: 'city' })).toEqual(['London']);
  });

  it('is refused with the number of its columns if the first line is no header', () => {
    expect(refusal('1;2\n3;4\n', { name: 'a.csv' })).toContain(
      'The list has no header: set --column to a number from 1 to 2.',
    );
  });
});

describe('the customer of a line', () => {
  const columns = ['E-Mail', 'code', 'item name', 'Customer name', 'Order ID', 'VORNAME', 'user'];

  it.each([
    [
      'has name, address and order by the names of the columns',
      columns,
      ['a@b.example', code(1), 'Widget', ' Ada Byron ', '12', 'Ada', 'ada'],
      ['Ada Byron', 'Ada', 'a@b.example', ['12']],
    ],
    [
      'has the first name of a full name, for a letter',
      ['Name'],
      ['Mira Okafor'],
      ['Mira Okafor', 'Mira', null, []],
    ],
    [
      'has no first name that may be a title, a company or a last name',
      ['Name'],
      ['Okafor, Mira'],
      ['Okafor, Mira', 'Okafor, Mira', null, []],
    ],
    [
      'is told apart by the first other cells, if no column is known',
      ['code', 'note', 'x', 'y'],
      [code(1), 'gold', '', 'late'],
      [null, null, null, ['gold', 'late']],
    ],
    ['is nobody in a list of codes alone', ['code'], [code(1)], [null, null, null, []]],
  ] as const)('%s', (_, names, cells, [name, firstName, email, more]) => {
    const found = customerOf(names, cells, code(1));
    expect([found.name, found.firstName, found.email]).toEqual([name, firstName, email]);
    expect(found.more.map(({ text }) => text)).toEqual(more);
  });
});
