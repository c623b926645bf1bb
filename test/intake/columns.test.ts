import { describe, expect, it } from 'vitest';
import { doubtOf } from '../../src/intake/columns.js';
import { readCodes } from '../../src/intake/read-codes.js';
import { code, codesOf, pieces, refusal } from './support.js';

const hex = (n: number): string => n.toString(16).padStart(37, 'a1b2c3d4e5f60718');
const many = <T>(count: number, of: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => of(n));
const lines = (count: number, of: (n: number) => string): string => many(count, of).join('\n');

async function doubt(text: string, known: readonly string[] = [], name = 'list.txt') {
  return doubtOf(await readCodes(pieces(Buffer.from(text)), { name }), known);
}

describe('a list', () => {
  it.each([
    ['UUIDs', lines(9, code)],
    ['hexadecimal digits', lines(9, hex)],
    ['short codes of no known form', 'abc-1\nXK\nключ\n12345\n'],
    ['codes half of which have spaces', `${code(1)}\nAB CD\n${code(2)}\nEF GH\n`],
    ['codes, and lines without one', `code,note\n,a b\n,c d\n,e f\n${code(1)},\n`],
  ])('is not doubted that holds %s: codes have no fixed format', async (_what, text) => {
    expect(await doubt(text)).toBeNull();
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
  ])('is doubted that holds mostly %s', async (_what, text, odd) => {
    expect(await doubt(text)).toMatchObject({ odd, known: null });
  });

  it('is doubted that holds a web page, also under the name that the list was to have', async () => {
    const page =
      '<html>\n<head><meta name="code", content="x"></head>\n<body>a, b</body>\n</html>\n';
    expect(await doubt(page, [], 'customers.csv')).toMatchObject({ odd: 4, of: 4 });
  });

  it('is doubted when most do not look like the codes that are known, from 20 known ones on', async () => {
    const others = lines(5, (n) => `order-${n}`);
    expect(await doubt(others, many(19, hex))).toBeNull();
    expect(await doubt(others, many(20, hex))).toMatchObject({
      odd: 5,
      of: 5,
      known: '37 characters: digits, a to f',
    });
    expect(await doubt(`${others}\n${lines(5, hex)}`, many(20, hex))).toBeNull();
  });

  it.each([
    ['shorter ones', (n: number) => hex(n).slice(-20), true],
    ['other letters', (n: number) => hex(n).replace('a', 'x'), true],
    ['capitals', (n: number) => hex(n).toUpperCase(), false],
    ['UUIDs, which marketplaces change to', code, false],
  ])(
    'of %s is compared with known codes by length and kinds of characters',
    async (_what, of, odd) => {
      expect((await doubt(lines(5, of), many(20, hex))) !== null).toBe(odd);
    },
  );

  it('looks like known codes that have spaces, whatever others look like', async () => {
    const spaced = (n: number): string => `AB CD ${1000 + n}`;
    expect(await doubt(lines(5, spaced), many(20, spaced))).toBeNull();
  });

  it('is doubted with a sample that shows prose, but masks what may be a code or an address', async () => {
    const text = `Dear ${'customer'.repeat(20)}\nada@mail.example\n12345-world-1\nx\n`;
    const { samples = [] } = (await doubt(text, many(20, hex))) ?? {};
    expect(samples).toEqual([
      expect.stringMatching(/^line 1: "Dear (?:customer)+.*…"$/),
      'line 2: ada@… (16 characters)',
      'line 3: 123… (13 characters)',
    ]);
    expect(samples[0]?.length).toBeLessThan(60);
  });
});

describe('a number that Excel has shortened', () => {
  it.each(['1,23457E+17', '1.23457E+17', '1E+17', '"1,2E+17"', '9,99e+105'])(
    'is no code any more: %s',
    async (number) => {
      const text = `code\n${number}\n${code(1)}\n`;
      const rejected = 'line 2: Excel has shortened this number';
      expect(await codesOf(text, { name: 'a.csv' })).toEqual([rejected, code(1)]);
      expect(await codesOf(text, { name: 'a.txt' })).toEqual([rejected, code(1)]);
    },
  );

  it.each(['123457E17', '1.2.3E+17', '12.5E+17', '1.5E-05', 'a1.5E+17'])(
    'is not seen in %s, which may be a code',
    async (given) => {
      expect(await codesOf(`code\n${given}\n`, { name: 'a.txt' })).toEqual([given]);
    },
  );

  it('is beside other columns as well', async () => {
    const text = `name;code\nAda;1,23457E+17\nBob;${code(1)}\n`;
    const rejected = 'line 2: Excel has shortened this number';
    expect(await codesOf(text, { name: 'a.csv' })).toEqual([rejected, code(1)]);
  });
});

describe('a table without codes', () => {
  it('is told with its columns, by the first line, so that one can be named', async () => {
    const said = await refusal('name;city\nAda;London\nBob;Paris\n', { name: 'nocodes.csv' });
    expect(said).toBe(
      'no column looks like purchase codes → The columns are "name", "city", going by the first line: say with --column which holds the codes, by name or number.',
    );
    expect(await codesOf('name;city\nAda;London\n', { column: 'city' })).toEqual(['London']);
  });

  it('is told by the number of its columns when the first line names none', async () => {
    expect(await refusal('1;2\n3;4\n', { name: 'a.csv' })).toContain(
      'The list has no header: give --column as a number from 1 to 2.',
    );
  });

  it('is refused when no line is short enough to have columns, instead of asking for one of them', async () => {
    const said = await refusal('x'.repeat(2_000_000), { name: 'a.csv' });
    expect(said).toContain('the first lines are longer than a record may be');
  });
});
