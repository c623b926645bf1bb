import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { codesOf, readAll, utf16be } from './support.js';

const TEXT = 'naïve-ключ-鍵-1\ncode-two\n';
const CODES = ['naïve-ключ-鍵-1', 'code-two'];
const LATIN = Buffer.from('Müller;€-code-1\nMeyer;code-2\n'.replace('€', '\x80'), 'latin1');

describe('the encoding', () => {
  it.each([
    ['utf-8', Buffer.from(TEXT)],
    ['utf-8', Buffer.from(`\uFEFF${TEXT}`)],
    ['utf-16le', Buffer.from(`\uFEFF${TEXT}`, 'utf16le')],
    ['utf-16be', utf16be(`\uFEFF${TEXT}`)],
    ['utf-16le', Buffer.from(`${TEXT}and-more-ascii\n`.repeat(3), 'utf16le')],
    ['utf-16be', utf16be(`${TEXT}and-more-ascii\n`.repeat(3))],
  ] as const)('is found to be %s, in pieces of any size', async (encoding, bytes) => {
    for (const size of [1, 2, 3, 7, 1000]) {
      const { layout, rows } = await readAll(bytes, { sizes: [size] });
      expect(layout.encoding).toBe(encoding);
      expect(rows.slice(0, 2).map(({ columns }) => columns[0])).toEqual(CODES);
    }
  });

  it('is windows-1252 where the bytes are no utf-8, and that is said', async () => {
    const { layout, rows } = await readAll(LATIN, { column: 2 });
    expect(layout.encoding).toBe('windows-1252');
    expect(layout.reasons.join(' ')).toContain("the bytes aren't sound utf-8");
    expect(rows[0]?.columns).toEqual(['Müller', '€-code-1']);
  });

  it('turns out to be windows-1252 late, without a row misread, as all before was ASCII', async () => {
    const many = 'Smith;code-123\n'.repeat(40_000);
    const bytes = Buffer.concat([Buffer.from(many), LATIN]);
    const { layout, rows, tally } = await readAll(bytes, { column: 2, sizes: [4096] });
    expect(layout.encoding).toBe('utf-8');
    expect(rows[40_000]?.columns).toEqual(['Müller', '€-code-1']);
    expect(tally.notes).toEqual([expect.stringContaining('windows-1252')]);
  });

  it('is mixed in some files: a code that was damaged is rejected, never asked', async () => {
    const many = 'Müller;code-123\n'.repeat(40_000);
    const bytes = Buffer.concat([Buffer.from(many), LATIN]);
    const { rows, tally } = await readAll(bytes, { column: 2, sizes: [4096] });
    expect(rows[40_000]).toMatchObject({ line: 40_001, rejected: expect.stringContaining('read') });
    expect(rows[40_001]).toMatchObject({ text: 'code-2' });
    expect(tally).toMatchObject({ rejected: 1 });
    expect(tally.notes).toEqual([expect.stringContaining('utf-8')]);
  });

  it('does not matter to what is read, wherever the pieces are cut', async () => {
    const lines = fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }), {
      minLength: 1,
      maxLength: 10,
    });
    const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(lines, sizes, async (given, sizes) => {
        const text = `\uFEFF${['x-1', ...given].join('\n')}`;
        const options = { format: 'txt', sizes } as const;
        const plain = await codesOf(text, options);
        expect(await codesOf(Buffer.from(text, 'utf16le'), options)).toEqual(plain);
        expect(await codesOf(utf16be(text), options)).toEqual(plain);
        expect(await codesOf(text, { format: 'txt' })).toEqual(plain);
      }),
    );
  });
});
