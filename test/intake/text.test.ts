import { describe, expect, it } from 'vitest';
import { code, codesOf, readAll, refusal } from './support.js';

describe('a list of one code a line', () => {
  it('may end its lines in any way, and the last one in none', async () => {
    const { rows, layout } = await readAll('one-code\r\ntwo-code\rthree-code\n\nfour-code', {
      sizes: [1],
    });
    expect(layout).toMatchObject({ format: 'txt', header: false, columns: ['code'] });
    expect(rows).toEqual([
      { line: 1, text: 'one-code', columns: ['one-code'] },
      { line: 2, text: 'two-code', columns: ['two-code'] },
      { line: 3, text: 'three-code', columns: ['three-code'] },
      { line: 5, text: 'four-code', columns: ['four-code'] },
    ]);
  });

  it('counts blank lines instead of reporting each, since every other editor leaves some', async () => {
    const { tally } = await readAll('\n  \na-code\n\t\n');
    expect(tally).toMatchObject({ rows: 1, rejected: 0, blankLines: 3 });
  });

  it('gives codes as they are, without assuming a format', async () => {
    const given = ['1', 'x', ' spaced ', '"quoted"', '-begins-with-minus', '# no comment', 'ключ'];
    expect(await codesOf(given.join('\n'), { format: 'txt' })).toEqual(given);
  });

  it('rejects what can be no code by its line, and goes on', async () => {
    const rows = await codesOf(`a\nb\0c\n${'x'.repeat(256)}\n${'y'.repeat(255)}\n""\n`, {
      format: 'txt',
    });
    expect(rows).toEqual([
      'a',
      expect.stringMatching(/^line 2: .*control/),
      expect.stringMatching(/^line 3: .*longer than 255/),
      'y'.repeat(255),
      expect.stringMatching(/^line 5: .*empty/),
    ]);
  });

  it('keeps little of a line without end, and finds the line after it', async () => {
    const long = 'x'.repeat(50_000);
    const { rows } = await readAll(`a\r\n${long}\r\n${long}\rb`, {
      format: 'txt',
      maxRecordBytes: 1000,
      sizes: [999, 1, 7],
    });
    expect(rows.map(({ line }) => line)).toEqual([1, 2, 3, 4]);
    expect(rows[1]).toMatchObject({
      rejected: 'is longer than the 1000 characters a line may have',
    });
    expect(rows[1]?.columns[0]?.length).toBeLessThan(300);
    expect(rows[3]).toMatchObject({ text: 'b' });
  });

  it('may have a header, which is no code', async () => {
    const { layout, rows } = await readAll(`Purchase code\n${code(1)}\n`, {
      column: 'purchase code',
    });
    expect(layout).toMatchObject({ header: true, columns: ['Purchase code'] });
    expect(rows).toEqual([{ line: 2, text: code(1), columns: [code(1)] }]);
  });

  it('has no other column to ask for', async () => {
    expect(await refusal('abc\ndef', { format: 'txt', column: 'email' })).toContain(
      'there is no column "email"',
    );
  });
});
