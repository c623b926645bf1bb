import { describe, expect, it } from 'vitest';
import { Secret } from '../../../src/domain/secret.js';
import type { ListOptions } from '../../../src/codes/lists/types.js';
import { code, codesOf, readAll, refusal } from './support.js';

describe('a list of one code a line', () => {
  it('may have any line ends, and none after the last line', () => {
    const text = 'one-code\r\ntwo-code\rthree-code\n\nfour-code';
    const { rows, layout } = readAll(text);
    expect(layout).toMatchObject({ format: 'txt', header: false, columns: ['code'] });
    expect(rows).toEqual([
      { line: 1, code: 'one-code', columns: ['one-code'] },
      { line: 2, code: 'two-code', columns: ['two-code'] },
      { line: 3, code: 'three-code', columns: ['three-code'] },
      { line: 5, code: 'four-code', columns: ['four-code'] },
    ]);
  });

  it('has its blank lines counted, not rejected, since many editors leave some', () => {
    const { tally } = readAll('\n  \na-code\n\t\n');
    expect(tally).toMatchObject({ rows: 1, rejected: 0, blankLines: 3 });
  });

  it('has its codes unchanged, whatever their format, except for spaces and quotes around them', () => {
    const codes = ['1', 'x', 'spaced', 'quoted', '-begins-with-minus', '# no comment', 'ключ'];
    const text = codes.join('\n').replace('spaced', ' spaced ').replace('quoted', '"quoted"');
    expect(codesOf(text, { format: 'txt' })).toEqual(codes);
  });

  it('has lines rejected that can’t be a code, and the others read', () => {
    const text = `a\nb\0c\n${'x'.repeat(256)}\n${'y'.repeat(255)}\n""\n`;
    expect(codesOf(text, { format: 'txt' })).toEqual([
      'a',
      expect.stringMatching(/^line 2: .*control character U\+0000 after character 1/),
      expect.stringMatching(/^line 3: .*longer than 255/),
      'y'.repeat(255),
      expect.stringMatching(/^line 5: .*empty/),
    ]);
  });

  it('may have a header', () => {
    const options = { column: 'purchase code' };
    const { layout, rows } = readAll(`Purchase code\n${code(1)}\n`, options);
    expect(layout).toMatchObject({ header: true, columns: ['Purchase code'] });
    expect(rows).toEqual([{ line: 2, code: code(1), columns: [code(1)] }]);
  });

  it('has no other column', () => {
    expect(refusal('abc\ndef', { format: 'txt', column: 'email' })).toContain(
      'there is no column "email"',
    );
  });
});

describe('a cell with more than a code', () => {
  it('is one code if blanks or characters without width divide it, as copying leaves them', () => {
    const cells = [
      `86781236\u200b-23d0-4b3c`,
      `8678\u00ad1236`,
      '9f8b000000 03c0ffee9f8b0000000045e1',
    ];
    const text = ['code', code(1), ...cells].join('\n');
    expect(codesOf(text, { name: 'a.csv' })).toEqual([code(1), ...cells]);
  });

  it.each([
    ['a comma', `"${code(1)}, ${code(2)}"`],
    ['a line end', `"${code(1)}\n${code(2)}"`],
    ['a word', `${code(1)} and ${code(2)}`],
    ['a blank', `${code(1)} ${code(2)}`],
  ])('is rejected if it holds several codes: %s', (_what, cell) => {
    const text = `code;name\n${cell};x\n${code(3)};y\n`;
    const rejected = 'line 2: holds 2 codes: give each its own line';
    expect(codesOf(text, { name: 'a.csv' })[0]).toBe(rejected);
  });

  it('is one code if its parts are too short for codes', () => {
    const list = ['AB CD', 'a/1', 'b/2', 'c/3/d/4', 'x', 'x y', 'IJ KL MN OP 12'];
    expect(codesOf(list.join('\n'), { format: 'txt' })).toEqual(list);
  });
});

const KEY = 'c0ffee00deadbeef0123456789abcdefc0ffee00deadbeef0123456789abcdef';
const SHORT = 'Abc-1234';
const keys = [new Secret(KEY), new Secret(SHORT)];
const read = (text: string, options: Partial<ListOptions> = {}) =>
  readAll(text, { keys, ...options });

describe('an API key in a list', () => {
  it.each([
    ['a line of text', `${code(1)}\n${KEY}\n`],
    ['capitals', `${code(1)}\n${KEY.toUpperCase()}\n`],
    ['spaces', `code,note\n${code(1)},\n"  ${KEY} ",\n`],
    ['a formula that is text', `code;note\n${code(1)};\n"=""${KEY}""";\n`],
    ['an address', `code\n${code(1)}\nhttps://market.example?api_key=${KEY}\n`],
    ['a look-up token', `${code(1)}\nsmt_${'c0ffee'.repeat(7)}1\n`],
    ['a short key in quotes', `code,note\n${code(1)},\n'${SHORT}',\n`],
  ])('instead of a code is rejected and masked: %s', (_what, text) => {
    const all = read(text);
    expect(all.rows).toMatchObject([
      { code: code(1) },
      { rejected: 'the code is an API key or a look-up token, which is masked here' },
    ]);
    expect(all.rows[1]?.columns[0]).toContain('[secret]');
    expect(JSON.stringify(all).toLowerCase()).not.toMatch(/c0ffee|abc-1234/);
  });

  it('next to a code is masked, and the code is accepted', () => {
    const text = `code,key,call\n${code(1)},${KEY},x?key=${KEY}&n=1\n${code(2)},${SHORT},\n`;
    const { rows } = read(text);
    expect(rows).toMatchObject([
      { code: code(1), columns: [code(1), '[secret]', 'x?key=[secret]&n=1'] },
      { code: code(2), columns: [code(2), '[secret]', ''] },
    ]);
  });

  it('that is short may be part of a code by chance', () => {
    expect(codesOf(`x${SHORT}\n${SHORT}9\n`, { keys })).toEqual([`x${SHORT}`, `${SHORT}9`]);
  });

  it.each<[string, string, Partial<ListOptions>]>([
    ['a header', `${KEY},code\nx,${code(1)}\n`, { name: 'a.csv' }],
  ])('is not shown in the layout: %s', (_what, text, options) => {
    const { layout } = read(text, options);
    expect(JSON.stringify(layout)).not.toContain(KEY.slice(0, 20));
  });

  it.each<[string, string, Partial<ListOptions>]>([
    ['no column of codes', `${KEY},name\n1,x\n2,y\n`, {}],
    ['no such column', `code,name\n${code(1)},x\n`, { column: KEY }],
  ])('is not shown in an error: %s', (_what, text, options) => {
    const message = refusal(text, { keys, name: 'a.csv', ...options });
    expect(message).not.toContain(KEY.slice(0, 20));
  });
});
