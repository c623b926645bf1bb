import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { unescapeFormula } from '../../../src/domain/csv.js';
import type { ListOptions } from '../../../src/codes/lists/types.js';
import { code, codesOf, readAll, refusal, utf16be } from './support.js';

type Options = Partial<ListOptions>;
const named = { name: 'a.csv' };
const many = <T>(count: number, of: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => of(n));

it('is not divided by a character that one record of fifteen has', () => {
  const codes = Array.from({ length: 15 }, (_, n) => code(n));
  const list = codes.map((one, n) => (n === 7 ? `${one}|note` : one)).join('\n');
  for (const name of ['a.txt', 'a.csv']) {
    const { layout, rows } = readAll(list, { name });
    expect(layout.columns).toHaveLength(1);
    expect(rows.filter((row) => 'code' in row)).toHaveLength(15);
  }
});

describe('a CSV file', () => {
  it.each(['sep=;', '"sep=;"', 'SEP=;'])(
    'may name its delimiter in the first line, as Excel does: %s',
    (first) => {
      const { layout, rows } = readAll(`${first}\r\ncode;a,b\r\n${code(1)};x,y\r\n`);
      expect(layout).toMatchObject({ delimiter: ';', columns: ['code', 'a,b'] });
      expect(layout.reasons.join(' ')).toContain('as the first line says');
      expect(rows).toEqual([{ line: 3, code: code(1), columns: [code(1), 'x,y'] }]);
    },
  );

  it('skips and counts rows of empty cells, which spreadsheets leave', () => {
    const { rows, tally } = readAll(`code;a\n;\n${code(1)};x\n\n"";" "\n`, named);
    expect(rows.map(({ line }) => line)).toEqual([3]);
    expect(tally.blankLines).toBe(3);
  });

  it('loses an apostrophe before a formula, whether we or a spreadsheet wrote it', () => {
    const { rows } = readAll(`code,note\n'-abc,'=1+1\n-abc,it's\n`, named);
    expect(rows.map(({ columns }) => columns)).toEqual([
      ['-abc', '=1+1'],
      ['-abc', "it's"],
    ]);
  });

  it.each([
    ["code\n'=SUM(A1)'", '=SUM(A1)', 'the apostrophes are quotes'],
    ["code\n '+49 30 6389' ", '+49 30 6389', 'the apostrophes are quotes'],
    ["code\n'=1+1", '=1+1', 'the apostrophe guards a formula'],
    ['code;note\n"=""v-n12""";x', 'v-n12', 'a text formula, quoted as in RFC 4180'],
    ['code;note\n="v-n12";1,5', 'v-n12', 'a text formula without the quotes that it needs'],
    ['note;code\nx;="v-n12"', 'v-n12', 'the same in the last cell'],
  ])('%j has the code %s: %s', (text, expected, _why) => {
    const { rows } = readAll(`${text}\n${text.split('\n')[1]}\n`, named);
    expect(rows).toMatchObject([{ code: expected }, { code: expected }]);
  });
});

describe('an invalid CSV record', () => {
  const header = 'name,code,note\n';
  const read = (text: string) => readAll(`${header}${text}`, named);

  it('is rejected if it has too many cells, since its code may be in another column', () => {
    const { rows } = read(`Smith, John,${code(1)},x\na,${code(2)},b\n`);
    expect(rows).toEqual([
      {
        line: 2,
        rejected: 'has 4 cells instead of 3',
        // No text is lost: surplus cells are joined into the last column.
        columns: ['Smith', ' John', `${code(1)},x`],
      },
      { line: 3, code: code(2), columns: ['a', code(2), 'b'] },
    ]);
  });

  it('is accepted if its surplus cells are empty, or its last cells are missing', () => {
    const { rows, tally } = read(`a,${code(1)},b,,\nc,${code(2)}\nd\n`);
    expect(rows).toEqual([
      { line: 2, code: code(1), columns: ['a', code(1), 'b'] },
      { line: 3, code: code(2), columns: ['c', code(2)] },
      { line: 4, rejected: 'ends before the column of codes', columns: ['d'] },
    ]);
    expect(tally.notes).toEqual([]);
  });

  it('has misplaced quotes read as characters, with a note; quotes within a cell are fine', () => {
    const fine = read(`5" disk,${code(1)},say "hi"\n`);
    expect(fine.rows[0]?.columns).toEqual(['5" disk', code(1), 'say "hi"']);
    expect(fine.tally.notes).toEqual([]);
    const { rows, tally } = read(`"A" B,${code(1)},x\na,${code(2)},"b"\n`);
    expect(rows.map(({ columns }) => columns)).toEqual([
      ['"A" B', code(1), 'x'],
      ['a', code(2), 'b'],
    ]);
    expect(tally.notes).toEqual([expect.stringContaining('Line 2 has a quote')]);
  });

  it.each(['', '\nb,"quoted",y', '\nb,"",y,"z"', '\n'])(
    'does not swallow later records after a quote that is never closed: %j',
    (end) => {
      const rest = many(50, (n) => `a,${code(n)},x`);
      const text = `${header}a,${code(99)},"open\n${rest.join('\n')}${end}`;
      const codes = codesOf(text, named);
      expect(codes.slice(0, 51)).toEqual([code(99), ...rest.map((_, n) => code(n))]);
    },
  );

  it('is named by the line of a quote that is never closed, in a list of any length', () => {
    const one = readAll(`code\n"c\n${many(150_000, (n) => `c${n}`).join('\n')}\n`, named);
    expect(one.rows).toHaveLength(150_001);
    expect(one.tally.notes).toEqual([
      'Line 2 has a quote that is misplaced or never closed: it is read as a character, and each line as a record.',
    ]);
    const text = `${header}a,"${code(1)},x\nb,${code(2)},"y\n${'c,d,e\n'.repeat(20)}f,${code(3)},"z\n`;
    const { tally } = readAll(text, named);
    expect(tally.notes[0]).toMatch(/^3 lines have a quote .* \(first in line 2\)/);
  });

  it.each<[string, string, Options, (string | undefined)[]]>([
    [
      'is reported with its last line if a quote may have been left open',
      `a,${code(1)},"open\nb,c,",d\ne,${code(2)},f\n`,
      {},
      ['line 2: has 4 cells instead of 3 and extends to line 3: is a quote left open?', code(2)],
    ],
  ])('%s', (_what, text, options, codes) => {
    const read = codesOf(`${header}${text}`, options);
    expect(read).toEqual(expect.arrayContaining(codes));
    expect([read[0], read.at(-1)]).toEqual([codes[0], codes.at(-1)]);
  });

  it('takes little time, whatever its quotes', () => {
    const hostile = `a",,"c\n`.repeat(200_000);
    const { tally } = readAll(`${header}${hostile}`, { ...named, column: 'code' });
    expect(tally.rows + tally.blankLines).toBeGreaterThan(0);
  });
});

const [A, B] = [code(1), code(2)];
const three = `${A},${B},US\n${code(3)},${code(4)},DE\n${code(5)},${code(6)},US\n`;
const dated = `${A},2024-05-01\n${B},2024-05-02`;
const buyers = `purchase_code,buyer,country\n${three}`;
const formulas = '="2026-01-02",="ab-123456",="12.5000"\n="2026-01-03",="cd-567890",="9.00"';

describe('the header and the column of codes', () => {
  it.each<[string, ListOptions['column'], string, string]>([
    [`${A};19,90\n${B};5,00`, undefined, 'csv ";" none 0', 'separated by semicolons'],
    [`name\tcode\nA\t${A}`, undefined, 'csv "\\t" header 1', 'separated by tabs'],
    [`purchase_code,buyer\n${dated}`, undefined, 'csv "," header 0', 'by its name'],
    [`Licence Key,buyer\n${dated}`, undefined, 'csv "," header 0', 'by its name'],
    [`Schlüssel,Datum\n${dated}`, undefined, 'csv "," header 0', 'a word where the others'],
    [`${code(7)},2024-01-02\n${dated}`, undefined, 'csv "," none 0', 'not a header'],
    ['fruit,thing\napple,pear', 'THING ', 'csv "," header 1', 'names the requested column'],
    [`a b,${A}\nc d,${B}`, undefined, 'csv "," none 1', 'look most like codes'],
    [`buyer,thing\nA B,${A}\nC D,${B}`, undefined, 'csv "," header 1', '"thing": its values'],
    [`no,of\nORD-2024-1,${A}\nORD-2024-2,${B}`, undefined, 'csv "," header 1', 'look most like'],
    [formulas, undefined, 'csv "," none 1', 'look most like codes'],
    [`order-101,="${A}"\norder-102,="${B}"`, undefined, 'csv "," none 1', 'look most like codes'],
    [buyers, 'buyer', 'csv "," header 1', 'as requested'],
    [buyers, ' BUYER', 'csv "," header 1', 'as requested'],
    [buyers, '3', 'csv "," header 2', 'as requested'],
  ])('are found in %j, column %j: %s, %s', (text, column, expected, reason) => {
    const options = column === undefined ? {} : { column };
    const { layout, rows } = readAll(text, { name: 'list.txt', ...options });
    const { format, delimiter, header, codeColumn, reasons } = layout;
    const found = [format, JSON.stringify(delimiter), header ? 'header' : 'none', codeColumn];
    expect(found.join(' ')).toBe(expected);
    expect(reasons.join(' ')).toContain(reason);
    expect(rows).toHaveLength(text.trimEnd().split('\n').length - (header ? 1 : 0));
  });

  it.each([
    [`code,note,,note,note_2\n${A},a,b,c,d\n`, ['code', 'note', 'column_3', 'note_3', 'note_2']],
    [`a b,${A}\nc d,${B}\n`, ['column_1', 'column_2']],
  ])('name each column once: %j', (text, columns) => {
    expect(readAll(text).layout.columns).toEqual(columns);
  });

  it.each([
    ['short codes without words', 'abc1,x\ndef2,y\n', '1', ['abc1', 'def2']],
    ['words above numbers', 'apple,red\nab,12\n', '1', ['apple', 'ab']],
    ['numbered columns', 'a b,c-1\nc d,c-2\n', 'column_1', ['a b', 'c d']],
  ])(
    'are not guessed, since a wrong header would lose a code: %s',
    (_what, text, column, codes) => {
      expect(codesOf(text, { column })).toEqual(codes);
    },
  );

  it('may be 1,000 at most, with an error that says so', () => {
    const { layout } = readAll(`code${',x'.repeat(999)}\n${code(1)}\n`, named);
    expect(layout.columns).toHaveLength(1_000);
    const wide = `code${',x'.repeat(13_000)}\n${code(1)}\n`;
    expect(refusal(wide, named)).toContain('at most 1000 columns, and this one has 13001');
  });

  const [columns, several] = ['purchase_code,b', 'several columns may hold the codes'];
  it.each<[string, Options, string]>([
    ['name,code\n', {}, 'only a header'],
    [`x,y,z\n${three}`, {}, `${several}: "x", "y" → Choose one with --column`],
    [`license key,license_code,z\n${three}`, {}, several],
    [`x,y,code\n${three}`, {}, `${several}: "code", "x", "y"`],
    ['a,b\n1,x y\n2,z\n', {}, 'no column looks like purchase codes'],
    [
      `${columns}\n${dated}`,
      { column: 'c' },
      'no column "c" → The columns are "purchase_code", "b"',
    ],
    [`${columns}\n${dated}`, { column: '0' }, 'there is no column "0"'],
    [`${columns}\n${dated}`, { column: '3' }, 'there is no column "3"'],
    [three, { column: 'code' }, 'a number from 1 to 3'],
    ['code,code\na1,b2\n', { column: 'code' }, '1 or 2'],
  ])('are refused if they are unclear: %j', (text, options, problem) => {
    expect(refusal(text, options)).toContain(problem);
  });

  it('are shown without control characters and shortened', () => {
    const text = `a\u001B[2J,b\u202E,${'c'.repeat(500)}\n${three}`;
    const message = refusal(text, { column: 'x' });
    for (const control of ['\u001B', '\u202E']) expect(message).not.toContain(control);
    expect(message.length).toBeLessThan(300);
  });
});

describe('any table', () => {
  const cell = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 12 }),
    fc.string({
      unit: fc.constantFrom(...['"', ',', ';', '\t', '|', '\r', '\n', ' ', "'", '=', 'é']),
    }),
  );
  const table = fc
    .integer({ min: 1, max: 4 })
    .chain((width) =>
      fc.array(fc.array(cell, { minLength: width, maxLength: width }), { minLength: 1 }),
    )
    .map((rows) => rows.map((cells, n) => [code(n), ...cells]));
  const style = fc.record({
    delimiter: fc.constantFrom(',', ';', '\t', '|'),
    quoted: fc.boolean(),
    end: fc.constantFrom('\r\n', '\n', '\r'),
    lastEnd: fc.boolean(),
    encode: fc.constantFrom<(text: string) => Uint8Array>(
      (text) => Buffer.from(text),
      (text) => Buffer.from(`\uFEFF${text}`),
      (text) => Buffer.from(`\uFEFF${text}`, 'utf16le'),
      (text) => utf16be(`\uFEFF${text}`),
    ),
  });

  it('is read cell by cell, whatever its delimiter, quotes, line ends and encoding', () => {
    fc.assert(
      fc.property(table, style, (records, { encode, end, lastEnd, ...csv }) => {
        const names = (records[0] ?? []).slice(1).map((_, n) => `column ${n}`);
        const header = ['purchase_code', ...names];
        const ends = { record_delimiter: end, eof: lastEnd, quote_record_delimiter: true };
        const text = stringify([header, ...records], { ...csv, ...ends });
        const { rows, layout } = readAll(encode(text));
        const { delimiter } = csv;
        expect(layout).toMatchObject({ delimiter, header: true, columns: header, codeColumn: 0 });
        let line = 2;
        const expected = records.map((cells) => {
          const row = { line, code: cells[0], columns: cells.map(unescapeFormula) };
          line += 1 + (cells.join(' ').match(/\r\n|\r|\n/g)?.length ?? 0);
          return row;
        });
        expect(rows).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('is read to its end, whatever its characters', () => {
    const junk = fc.string({
      unit: fc.constantFrom(...['"', ',', '\n', '\r', 'a', '1', "'", ' ']),
      minLength: 1,
    });
    fc.assert(
      fc.property(junk, (rest) => {
        const text = `code,b,c\n${code(1)},x,y\n${rest}`;
        const { rows } = readAll(text, { name: 'a.csv' });
        expect(rows[0]).toMatchObject({ line: 2, code: code(1) });
      }),
      { numRuns: 500 },
    );
  });
});
