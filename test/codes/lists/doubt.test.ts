import { describe, expect, it } from 'vitest';
import { customerOf } from '../../../src/codes/lists/buyer.js';
import { doubtOf } from '../../../src/codes/lists/doubt.js';
import { code, parsed } from './support.js';

const hex = (n: number): string => n.toString(16).padStart(37, 'a1b2c3d4e5f60718');
const many = <T>(count: number, of: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => of(n));
const lines = (count: number, of: (n: number) => string): string => many(count, of).join('\n');
const spaced = (n: number): string => `AB CD ${1000 + n}`;
const HEXES = many(20, hex);
const orders = lines(5, (n) => `order-${n}`);

const doubt = (text: string, known: readonly string[] = [], name = 'list.txt') =>
  doubtOf(parsed(Buffer.from(text), { name }), known);

describe('a list', () => {
  it.each<[what: string, text: string, known?: readonly string[]]>([
    ['UUIDs', lines(9, code)],
    ['hexadecimal digits', lines(9, hex)],
    ['short codes of no known format', 'abc-1\nXK\nключ\n12345\n'],
    ['codes of which half have spaces', `${code(1)}\nAB CD\n${code(2)}\nEF GH\n`],
    ['codes, and lines without one', `code,note\n,a b\n,c d\n,e f\n${code(1)},\n`],
    ['others, if only 19 codes are known', orders, many(19, hex)],
    ['others, of which half look like known ones', `${orders}\n${lines(5, hex)}`, HEXES],
    ['known codes in capitals', lines(5, (n) => hex(n).toUpperCase()), HEXES],
    ['UUIDs, which marketplaces switch to', lines(5, code), HEXES],
    ['codes with spaces if the known codes have them', lines(5, spaced), many(20, spaced)],
  ])('gets no warning for %s: codes have no fixed format', (_what, text, known) => {
    expect(doubt(text, known)).toBeNull();
  });

  it.each<[what: string, text: string, odd: number, name?: string]>([
    ['sentences', 'Dear customer\nthank you for your order\nabc-1\n', 2],
    ['a web page', `<!DOCTYPE html>\n<html>\n${lines(5, (n) => `<p>${n},x</p>`)}\n</html>\n`, 8],
    ['a web page that is named like a list', '<html>\n<meta a="b", c="d">\na, b\n', 2, 'a.csv'],
    ['dates', '2026-01-02\n2026-01-03\n', 2],
    ['e-mail addresses', 'a@b.example\nc@d.example\n', 2],
    ['links', 'https://a.example/1\nhttps://a.example/2\n', 2],
    ['amounts', '19.90\n5.00\n', 2],
    ['numbers that Excel has shortened', '1,23457E+17\n1,23458E+17\n', 2],
    ['lines too long to be codes', lines(2, () => 'x'.repeat(300)), 2],
  ])('gets a warning for mostly %s', (_what, text, odd, name) => {
    expect(doubt(text, [], name)).toMatchObject({ odd: expect.any(Number), known: null });
    expect(doubt(text, [], name)?.odd).toBeGreaterThanOrEqual(odd);
  });

  it('gets a warning if most codes are shorter or longer than known ones, and at least 20 are known', () => {
    const known = '37 characters';
    expect(doubt(orders, HEXES)).toMatchObject({ odd: 5, total: 5, known });
    expect(
      doubt(
        lines(5, (n) => hex(n).slice(-20)),
        HEXES,
      ),
    ).toMatchObject({ odd: 5, known });
  });

  it('gets a warning with samples that show prose, but mask possible codes and addresses', () => {
    const text = `Dear ${'customer'.repeat(20)}\nada@mail.example\n12345-world-1\nx\n`;
    const { samples = [] } = doubt(text, HEXES) ?? {};
    expect(samples).toEqual([
      expect.stringMatching(/^line 1: "Dear (?:customer)+.*…"$/),
      'line 2: ada@… (16 characters)',
      'line 3: 123… (13 characters)',
    ]);
    expect(samples[0]?.length).toBeLessThan(60);
    const several = doubt(`${hex(1)}  ${hex(2)}\nDear ${hex(3)}, hello\nx y\n`)?.samples ?? [];
    expect(several).toHaveLength(2);
    for (const n of [1, 2, 3]) expect(several.join()).not.toContain(hex(n).slice(0, 12));
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
