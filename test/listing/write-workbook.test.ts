import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { readSheet } from 'read-excel-file/node';
import { describe, expect, it } from 'vitest';
import type { WorkbookColumn } from '../../src/listing/workbook-column.js';
import { workbookChunks } from '../../src/listing/write-workbook.js';
import { coloursOf, sheetOf } from '../codes/lists/zip.js';

type Kind = WorkbookColumn['kind'];

async function written(
  kinds: readonly Kind[],
  rows: Iterable<readonly (string | number | null)[]>,
): Promise<Buffer> {
  const columns = kinds.map((kind, n) => ({ name: `c${n}`, kind }));
  return buffer(Readable.from(workbookChunks(columns, Readable.from(rows))));
}

describe('a workbook', () => {
  it.each<[Kind, string | number | null, unknown]>([
    ['text', '=1+1', '=1+1'],
    ['text', '00123', '00123'],
    ['text', '<a> & "b"', '<a> & "b"'],
    ['text', 'a_x0041_', 'a_x0041_'],
    ['text', null, null],
    ['number', '19.90', 19.9],
    ['number', '123456789012345', 123456789012345],
    ['number', '1234567890123456', '1234567890123456'],
    ['number', '=1', '=1'],
    ['moment', '2026-11-23T14:05:00Z', new Date('2026-11-23T14:05:00Z')],
    ['moment', '2026-11-23T14:00:00+02:00', new Date('2026-11-23T12:00:00Z')],
    ['moment', '1899-01-01T00:00:00Z', '1899-01-01T00:00:00Z'],
    ['date', '2026-11-23', new Date('2026-11-23T00:00:00Z')],
  ])('is read correctly by another program: %s %s', async (kind, value, expected) => {
    const sheet = await readSheet(await written([kind, 'text'], [[value, 'x']]), { trim: false });
    expect(sheet).toEqual([
      ['c0', 'c1'],
      [expected, 'x'],
    ]);
  });

  it('is read back with every text unchanged, even with characters that XML can’t hold', async () => {
    const special = ['_', 'x', '0', '4', '1', '=', '\r', '\n', '\t', '\0', '<'];
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom(...special) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(text, text), { minLength: 1 }), async (texts) => {
        const rows = texts.map((cells, n) => [`row ${n}`, ...cells]);
        const bytes = await written(['text', 'text', 'text'], rows);
        const [, ...read] = await readSheet(bytes, { trim: false });
        expect(read.map((cells) => cells.map((cell) => cell ?? ''))).toEqual(rows);
      }),
      { numRuns: 15 },
    );
  });

  it('has a filter over all columns, room for dates, and coloured verdicts', async () => {
    const tones = { valid: 'good', invalid: 'bad' } as const;
    const columns: WorkbookColumn[] = [
      { name: 'code', kind: 'text' },
      { name: 'checked_at', kind: 'moment' },
      { name: 'verdict', kind: 'text', width: 16, tones },
    ];
    const at = '2026-11-23T14:05:00Z';
    const rows = [
      ['valid', at, 'valid'],
      ['b', at, 'invalid'],
      ['c', at, 'toString'],
    ];
    const bytes = await buffer(Readable.from(workbookChunks(columns, Readable.from(rows))));
    const { sheet, styles, book } = await sheetOf(bytes);
    expect(sheet).toContain('<autoFilter ref="A1:C4"/>');
    expect(book).toContain('>Sheet1!$A$1:$C$4</definedName>');
    expect(sheet).toContain('<col min="2" max="2" width="20" customWidth="1"/>');
    expect(coloursOf(sheet, styles)).toEqual({ C2: 'FFC6EFCE', C3: 'FFFFC7CE' });
  });

  it('has text cut that is too long for a cell, with a note', async () => {
    const long = '\u{1F600}'.repeat(20_000);
    const [, [cell] = []] = await readSheet(await written(['text'], [[long]]));
    expect(String(cell).length).toBeLessThanOrEqual(32_767);
    expect(cell).toMatch(/\u{1F600}… \(cut: a cell of Excel holds 32767 characters\)$/u);
  });

  it('is refused with more columns than a sheet can hold', async () => {
    const kinds = Array.from({ length: 16_385 }, (): Kind => 'text');
    await expect(written(kinds, [])).rejects.toThrow('no room for more than 16384 columns');
  });

  it('fails with the error of its rows, and closes them when the caller stops early', async () => {
    let opened = 0;
    let closed = 0;
    async function* rows(failing: boolean): AsyncGenerator<readonly string[], void, undefined> {
      opened++;
      try {
        for (let n = 0; n < 1e5; n++) {
          if (failing && n === 9_000) throw new Error('the connection is gone');
          yield [`row ${n}`];
          await Promise.resolve();
        }
      } finally {
        closed++;
      }
    }
    const columns = [{ name: 'code', kind: 'text' as const }];
    await expect(buffer(Readable.from(workbookChunks(columns, rows(true))))).rejects.toThrow(
      'the connection is gone',
    );
    expect(closed).toBe(1);
    for await (const _ of workbookChunks(columns, rows(false))) if (opened === 2) break;
    await expect.poll(() => closed).toBe(2);
  });
});
