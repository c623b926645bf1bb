import { describe, expect, it } from 'vitest';
import { code, codesOf, readAll } from './support.js';

const [A, B] = [code(1), code(2)];
const TABLE = `Name,Mail,Purchase code\nAda,a@b.example,${A}\nBob,b@c.example,${B}\n`;

describe('lines above the header', () => {
  it.each([
    ['a title', `Customers of 2026\n${TABLE}`, undefined],
    ['a title and a blank line', `Customers of 2026\n\n${TABLE}`, undefined],
    ['titles in cells', `Report,Customers,\nDate,2026-11-25,\n,,\n${TABLE}`, undefined],
    ['a title that looks like a code', `Export-2026-11-25\n${TABLE}`, undefined],
    ['a title with another delimiter', `Sales; returns; and more\n${TABLE}`, undefined],
    ['a title and --column by number', `Customers of 2026\n\n${TABLE}`, '3'],
    ['a title and --column by name', `Customers of 2026\n\n${TABLE}`, 'purchase CODE'],
    [
      'a title, a header of unknown words and --column by number',
      `Kunden 2026\n\nName;Mail;Schlüssel\nAda;a@b.example;${A}\nBob;b@c.example;${B}\n`,
      '3',
    ],
    ['a title of one column', `Customers of 2026\n\nPurchase code\n${A}\n${B}\n`, undefined],
    ['a title and an unknown word', `Unsere Kunden\nSchlüssel\n${A}\n${B}\n`, undefined],
    ['sep= and a title', `sep=,\nCustomers of 2026,,\n${TABLE}`, undefined],
  ])('are left out, and the header is no code: %s', (_what, text, column) => {
    const options = column === undefined ? {} : { column };
    expect(codesOf(text, options)).toEqual([A, B]);
    expect(codesOf(text, { ...options, name: 'list.csv' })).toEqual([A, B]);
  });

  it.each([
    ['codes of words', 'apple\npear\nkey\nplum\n'],
    ['codes above a cell that names codes', `${A}\nlicense\n${B}\n`],
    ['short codes', 'ab1\nPurchases\nxy2\n'],
  ])('are not assumed where a code could be lost: %s', (_what, text) => {
    expect(codesOf(text, { format: 'txt' })).toEqual(text.trimEnd().split('\n'));
  });

  it.each([
    [
      'in fullwidth letters',
      '０００００００１－ａａａａ－４ｂｂｂ－８ｃｃｃ－０１２３４５６７８９ａｂ',
      A,
    ],
    ['after words', `my code ${A}`, B],
    ['after a label', 'Code: ABCD-EFGH-1234-5678', 'my code QRST-3333-4444-5555'],
    ['with blanks inside', `${A.slice(0, 14)} ${A.slice(14)}`, B],
  ])('are no header if the first line is a code %s', (_what, first, other) => {
    expect(codesOf(`${first}\n${other}\n${other}\n`)).toEqual([first, other, other]);
    const table = `${first},Ann\n${other},Bob\n${other},Cid\n`;
    expect(codesOf(table, { name: 'a.csv' })).toEqual([first, other, other]);
  });

  it('are no header if the first line has the shape of the others', () => {
    const codes = ['ABCD-EFGH-IJKL', 'ABCD-1234-EF56', 'QRST-1234-EF57'];
    expect(codesOf(codes.join('\n'))).toEqual(codes);
  });

  it('are not codes above a type of license', () => {
    const text = `${A},\n${B},License\n`;
    expect(codesOf(text, { name: 'a.csv' })).toEqual([A, B]);
  });
});

describe('a header', () => {
  it('that is repeated further down, as in joined exports, is no code', () => {
    const { rows, tally } = readAll(`${TABLE}${TABLE.toUpperCase()}`, { column: '3' });
    expect(rows.map(({ line }) => line)).toEqual([2, 3, 5, 6]);
    expect(tally).toMatchObject({ rejected: 0 });
    expect(tally.notes).toEqual(['The header is repeated once: that line is left out.']);
    const { tally: two } = readAll('code\na-1\ncode\nb-2\ncode\nc-3\n', { name: 'a.txt' });
    expect(two.notes).toEqual(['The header is repeated 2 times: these lines are left out.']);
  });

  it('is found above addresses where the codes are short', () => {
    const text = 'Kunde,Mail,Schlüssel\nAda,a@b.example,xk12\nBob,b@c.example,xk34\n';
    expect(codesOf(text, { column: '3' })).toEqual(['xk12', 'xk34']);
  });
});
