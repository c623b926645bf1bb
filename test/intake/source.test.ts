import fc from 'fast-check';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readCodes } from '../../src/intake/read-codes.js';
import { openSource } from '../../src/intake/source.js';
import { codesOf, pieces, readAll, refusal, utf16be } from './support.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'seller-mirror-intake-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('a file', () => {
  it('is read from its path', async () => {
    const path = join(folder, 'codes.txt');
    await writeFile(path, 'a-code\nb-code\n');
    const intake = await readCodes(await openSource(path), { name: path });
    const texts: unknown[] = [];
    for await (const batch of intake.rows) texts.push(...batch);
    expect(texts).toHaveLength(2);
  });

  it.each([
    ['.', 'is a folder'],
    ['absent.csv', 'there is no such file'],
    ['codes.txt/x', 'there is no such file'],
  ])('that can’t be read is reported: %s', async (name, problem) => {
    await writeFile(join(folder, 'codes.txt'), 'a');
    await expect(openSource(join(folder, name))).rejects.toThrow(problem);
  });
});

describe('a compressed list', () => {
  it('is recognized by its first bytes, and its format by the name without .gz', async () => {
    const { layout, rows } = await readAll(gzipSync('code\nx\n'), { name: 'a.csv.gz', sizes: [5] });
    expect(layout).toMatchObject({ compressed: true, format: 'csv' });
    expect(rows).toEqual([{ line: 2, code: 'x', columns: ['x'] }]);
  });

  it('may have several members, like the output of `cat a.gz b.gz`', async () => {
    const both = Buffer.concat([gzipSync('a-1\n'), gzipSync('b-2\n')]);
    expect(await codesOf(both)).toEqual(['a-1', 'b-2']);
  });

  it('is refused if it expands to more than the limit', async () => {
    const bomb = gzipSync('x'.repeat(999) + '\n' + 'y\n'.repeat(2_000_000));
    expect(await refusal(bomb, { maxUnpackedBytes: 1_000_000 })).toContain(
      'expands to more than 1000000 bytes',
    );
  });

  it('is refused if it is cut off or damaged', async () => {
    const whole = gzipSync(Array.from({ length: 5000 }, (_, n) => `code-${n * 7919}`).join('\n'));
    expect(await refusal(whole.subarray(0, whole.length - 20))).toContain('is cut off');
    const damaged = Buffer.from(whole);
    damaged.fill(0xff, 200, 400);
    expect(await refusal(damaged)).toContain('is damaged');
  });
});

describe('a file that is no list', () => {
  it.each([
    ['', 'the list is empty'],
    ['\uFEFF', 'the list is empty'],
    ['\n \n', 'the list is empty'],
    ['PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0codes.txt', 'a ZIP archive'],
    ['%PDF-1.7\n%rest', 'a PDF document'],
    ['SQLite format 3\0\x10\0\x01\x01\0', 'an SQLite database'],
    ['\x01\x02\x03\x04binary\0\0', 'binary data'],
  ])('is refused with its kind: %j', async (bytes, problem) => {
    expect(await refusal(bytes)).toContain(problem);
  });

  it('is not a list of codes that begin like an archive', async () => {
    expect(await codesOf('Rar!-1234\nBZh91AY\n')).toEqual(['Rar!-1234', 'BZh91AY']);
  });
});

describe('a source', () => {
  /** A source that records how it is used. */
  function observed(text: string, times: number) {
    const use = { pieces: 0, closed: false };
    async function* source(): AsyncGenerator<Uint8Array, void, undefined> {
      try {
        for (; use.pieces < times; use.pieces++) {
          yield Buffer.from(text);
          await Promise.resolve();
        }
      } finally {
        use.closed = true;
      }
    }
    return { use, source: source() };
  }

  it('is read on demand', async () => {
    const { use, source } = observed('code-123\n'.repeat(10_000), 1000);
    const intake = await readCodes(source, { name: 'stdin' });
    const rows = intake.rows[Symbol.asyncIterator]();
    await rows.next();
    expect(use.pieces).toBeLessThan(10);
    await rows.return?.();
    expect(use.closed).toBe(true);
  });

  it('is closed when its beginning is refused', async () => {
    const { use, source } = observed('\0\x01\x02', 1_000_000);
    await expect(readCodes(source, { name: 'stdin' })).rejects.toThrow('binary');
    expect(use.closed).toBe(true);
  });

  it('is closed by `close`, compressed or not', async () => {
    const plain = observed('code-123\n'.repeat(10_000), 1000);
    const intake = await readCodes(plain.source, { name: 'stdin' });
    await intake.close();
    expect(plain.use.closed).toBe(true);
    const packed = pieces(gzipSync('a\nb\n'.repeat(1e6)), [100]);
    const compressed = await readCodes(packed, { name: 'stdin' });
    await compressed.close();
    await compressed.close();
  });

  it('passes on its own error', async () => {
    async function* failing(): AsyncGenerator<Uint8Array, void, undefined> {
      yield Buffer.from('code-123\n'.repeat(50_000));
      await Promise.resolve();
      throw new Error('the disk is gone');
    }
    const intake = await readCodes(failing(), { name: 'stdin' });
    await expect(async () => {
      for await (const _ of intake.rows);
    }).rejects.toThrow('the disk is gone');
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
    ['utf-16le', Buffer.from(`${TEXT}and-more-ascii\n`.repeat(3), 'utf16le')],
    ['utf-16be', utf16be(`${TEXT}and-more-ascii\n`.repeat(3))],
  ] as const)('is recognized as %s, in pieces of any size', async (encoding, bytes) => {
    for (const size of [1, 2, 3, 7, 1000]) {
      const { layout, rows } = await readAll(bytes, { sizes: [size] });
      expect(layout.encoding).toBe(encoding);
      expect(rows.slice(0, 2).map(({ columns }) => columns[0])).toEqual(CODES);
    }
  });

  it('is windows-1252 if the bytes are not valid utf-8, with a reason', async () => {
    const { layout, rows } = await readAll(LATIN, { column: '2' });
    expect(layout.encoding).toBe('windows-1252');
    expect(layout.reasons.join(' ')).toContain('the bytes aren’t valid utf-8');
    expect(rows[0]?.columns).toEqual(['Müller', '€-code-1']);
  });

  it('switches to windows-1252 at the first invalid byte if everything before it is ASCII', async () => {
    const many = 'Smith;code-123\n'.repeat(40_000);
    const bytes = Buffer.concat([Buffer.from(many), LATIN]);
    const { layout, rows, tally } = await readAll(bytes, { column: '2', sizes: [4096] });
    expect(layout.encoding).toBe('utf-8');
    expect(rows[40_000]?.columns).toEqual(['Müller', '€-code-1']);
    expect(tally.notes).toEqual([expect.stringContaining('windows-1252')]);
  });

  it('may be mixed: a row with invalid bytes in its code is rejected', async () => {
    const many = 'Müller;code-123\n'.repeat(40_000);
    const bytes = Buffer.concat([Buffer.from(many), LATIN]);
    const { rows, tally } = await readAll(bytes, { column: '2', sizes: [4096] });
    expect(rows[40_000]).toMatchObject({ line: 40_001, rejected: expect.stringContaining('read') });
    expect(rows[40_001]).toMatchObject({ code: 'code-2' });
    expect(tally).toMatchObject({ rejected: 1 });
    expect(tally.notes).toEqual([expect.stringContaining('utf-8')]);
  });

  it('does not change the rows, however the pieces are cut', async () => {
    const lines = fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }), {
      minLength: 1,
      maxLength: 10,
    });
    const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(lines, sizes, async (rest, sizes) => {
        const text = `\uFEFF${['x-1', ...rest].join('\n')}`;
        const options = { format: 'txt', sizes } as const;
        const plain = await codesOf(text, options);
        expect(await codesOf(Buffer.from(text, 'utf16le'), options)).toEqual(plain);
        expect(await codesOf(utf16be(text), options)).toEqual(plain);
        expect(await codesOf(text, { format: 'txt' })).toEqual(plain);
      }),
    );
  });
});
