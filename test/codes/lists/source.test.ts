import fc from 'fast-check';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { MOST_BYTES } from '../../../src/codes/lists/types.js';
import { codesOf, readAll, refusal, utf16be } from './support.js';

describe('a file that is no list', () => {
  it.each([
    ['', 'the list is empty'],
    ['\uFEFF', 'the list is empty'],
    ['\n \n', 'the list is empty'],
    [gzipSync('code\nx\n'), 'this is a file compressed with gzip, not a list of codes → Unpack it'],
    ['["x"]', 'this is JSON, which is not read as a list → Make text of it'],
    ['{"code":"x"}\n', 'this is JSON'],
    ['PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0codes.txt', 'a ZIP archive'],
    ['%PDF-1.7\n%rest', 'a PDF document'],
    ['\x01\x02\x03\x04binary\0\0', 'binary data'],
    [Buffer.from('code-1\ncode-2\n', 'utf16le'), 'binary data'],
  ])('is refused with its kind: %j', (bytes, problem) => {
    expect(refusal(bytes)).toContain(problem);
  });

  it('is not a list of codes that begin like an archive', () => {
    expect(codesOf('Rar!-1234\n%PDF-5678\n')).toEqual(['Rar!-1234', '%PDF-5678']);
  });
});

const TEXT = 'naïve-ключ-鍵-1\ncode-two\n';
const CODES = ['naïve-ключ-鍵-1', 'code-two'];
const LATIN = Buffer.from('Müller;€-code-1\nMeyer;code-2\n'.replace('€', '\x80'), 'latin1');

describe('the encoding', () => {
  it.each([
    ['utf-8', Buffer.from(TEXT)],
    ['utf-8', Buffer.from(`\uFEFF${TEXT}`)],
    ['utf-16le', Buffer.from(`\uFEFF${TEXT}`, 'utf16le')],
    ['utf-16be', utf16be(`\uFEFF${TEXT}`)],
  ] as const)('is recognized as %s', (encoding, bytes) => {
    const { layout, rows } = readAll(bytes);
    expect(layout.encoding).toBe(encoding);
    expect(rows.slice(0, 2).map(({ columns }) => columns[0])).toEqual(CODES);
  });

  it('is windows-1252 if the bytes are not valid utf-8, with a reason', () => {
    const { layout, rows } = readAll(LATIN, { column: '2' });
    expect(layout.encoding).toBe('windows-1252');
    expect(layout.reasons.join(' ')).toContain('the bytes aren’t valid utf-8');
    expect(rows[0]?.columns).toEqual(['Müller', '€-code-1']);
  });

  it('is windows-1252 even if the first invalid byte comes late', () => {
    const many = 'Smith;code-123\n'.repeat(40_000);
    const bytes = Buffer.concat([Buffer.from(many), LATIN]);
    const { layout, rows } = readAll(bytes, { column: '2' });
    expect(layout.encoding).toBe('windows-1252');
    expect(rows[40_000]?.columns).toEqual(['Müller', '€-code-1']);
  });

  it('may be mixed: a row with invalid bytes in its code is rejected', () => {
    const many = 'Müller;code-123\n'.repeat(40_000);
    const bytes = Buffer.concat([Buffer.from(many), LATIN]);
    const { rows, tally } = readAll(bytes, { column: '2' });
    expect(rows[40_000]).toMatchObject({ line: 40_001, rejected: expect.stringContaining('read') });
    expect(rows[40_001]).toMatchObject({ code: 'code-2' });
    expect(tally).toMatchObject({ rejected: 1 });
    expect(tally.notes).toEqual([expect.stringContaining('utf-8')]);
  });

  it('does not change the rows', () => {
    const lines = fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }), {
      minLength: 1,
      maxLength: 10,
    });
    fc.assert(
      fc.property(lines, (rest) => {
        const text = `\uFEFF${['x-1', ...rest].join('\n')}`;
        const options = { format: 'txt' } as const;
        const plain = codesOf(text, options);
        expect(codesOf(Buffer.from(text, 'utf16le'), options)).toEqual(plain);
        expect(codesOf(utf16be(text), options)).toEqual(plain);
      }),
    );
  });
});

it('a list that is too large is refused with the remedy', () => {
  expect(refusal('\n'.repeat(MOST_BYTES - 1) + 'x')).toMatch(
    /^a list may have at most 4,000,000 lines → Split it into several lists/,
  );
});

describe('what no list of codes has', () => {
  it.each([
    ['a line of 66,000 characters', `a-1\n${'x,'.repeat(33_000)}`, 'line 2 is longer than 64 kB'],
    ['a cell of 32,768', `a,b\n1,${'x'.repeat(32_768)}`, 'line 2 has a cell of more than 32,767'],
    ['a quoted one', `a,b\n1,"${'x\n'.repeat(16_384)}"\n`, 'line 2 has a cell of more than 32,767'],
  ])('ends the reading with one sentence: %s', (_what, text, problem) => {
    expect(refusal(text, { name: 'a.csv', column: '1' })).toContain(problem);
  });
});
