import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readCode } from '../../src/domain/codes/code.js';
import { unguarded } from '../../src/domain/csv.js';
import { code, codesOf, readAll, refusal, utf16be } from './support.js';

describe('a CSV file', () => {
  it('is read as RFC 4180 has it: quotes, doubled quotes, line breaks within', async () => {
    const text = `code,note\r\n${code(1)},"a ""b"", c\r\nd"\r\n${code(2)},\r\n"${code(3)}",x`;
    const { rows, layout } = await readAll(text, { name: 'a.csv', sizes: [1] });
    expect(layout).toMatchObject({ format: 'csv', delimiter: ',', header: true, codeColumn: 0 });
    expect(rows).toEqual([
      { line: 2, text: code(1), columns: [code(1), 'a "b", c\r\nd'] },
      { line: 4, text: code(2), columns: [code(2), ''] },
      { line: 5, text: code(3), columns: [code(3), 'x'] },
    ]);
  });

  it.each([',', ';', '\t', '|'])('may be separated by %j', async (delimiter) => {
    const cells = [
      ['code', 'note', 'price'],
      [code(1), 'x', '1'],
      [code(2), 'one, two; three', '2'],
    ];
    const { rows, layout } = await readAll(stringify(cells, { delimiter }));
    expect(layout.delimiter).toBe(delimiter);
    expect(rows.map(({ columns }) => columns)).toEqual(cells.slice(1));
  });

  it('is cut at semicolons where commas stand in the numbers', async () => {
    const { layout } = await readAll(`${code(1)};19,90\n${code(2)};5,00\n`);
    expect(layout).toMatchObject({ delimiter: ';', header: false, codeColumn: 0 });
  });

  it('may say itself what separates its cells, as Excel lets it', async () => {
    for (const first of ['sep=;', '"sep=;"', 'SEP=;']) {
      const { layout, rows } = await readAll(`${first}\r\ncode;a,b\r\n${code(1)};x,y\r\n`);
      expect(layout).toMatchObject({ delimiter: ';', columns: ['code', 'a,b'] });
      expect(layout.reasons.join(' ')).toContain('as the first line says');
      expect(rows).toEqual([{ line: 3, text: code(1), columns: [code(1), 'x,y'] }]);
    }
  });

  it('may be called .txt, since Excel saves tables with tabs so', async () => {
    const { layout } = await readAll(`name\tcode\nA\t${code(1)}\n`, { name: 'list.txt' });
    expect(layout).toMatchObject({ format: 'csv', delimiter: '\t', codeColumn: 1 });
  });

  it('skips rows of empty cells, which spreadsheets leave, and counts them', async () => {
    const { rows, tally } = await readAll(`code;a\n;\n${code(1)};x\n\n"";" "\n`, { name: 'a.csv' });
    expect(rows.map(({ line }) => line)).toEqual([3]);
    expect(tally.blankLines).toBe(3);
  });

  it('has an apostrophe before a formula, ours or a spreadsheet’s: it is no part of the text', async () => {
    const { rows } = await readAll(`code,note\n'-abc,'=1+1\n-abc,it's\n`, { name: 'a.csv' });
    expect(rows.map(({ columns }) => columns)).toEqual([
      ['-abc', '=1+1'],
      ['-abc', "it's"],
    ]);
  });
});

describe('a code in CSV', () => {
  it('in apostrophes that begins like a formula loses both: the first is a quote, and no guard', async () => {
    const cells = ["'=SUM(A1;B2)'", " '+49 30 6389' ", "'=1+1"];
    const { rows } = await readAll(`code\n${cells.join('\n')}\n`, { name: 'a.csv' });
    const read = rows.map((row) => ('text' in row ? readCode(row.text) : row));
    expect(read).toEqual([{ code: '=SUM(A1;B2)' }, { code: '+49 30 6389' }, { code: '=1+1' }]);
  });
});

describe('a code in a formula that is nothing but text', () => {
  const wrapped = `="${code(1)}"`;

  it.each([
    ['"=""v-n12""";x', 'quoted as RFC 4180 has it'],
    ['="v-n12";1,5', 'not quoted, though it holds quotes'],
    ['x;="v-n12"', 'in the last cell'],
  ])('is read out of it: %s, %s', async (line, _how) => {
    const header = line.startsWith('x') ? 'note;code' : 'code;note';
    const { rows } = await readAll(`${header}\n${line}\n${line}\n`, { name: 'a.csv' });
    const read = rows.map((row) => ('text' in row ? readCode(row.text) : row));
    expect(read).toEqual([{ code: 'v-n12' }, { code: 'v-n12' }]);
  });

  it('is not mistaken for a date or an amount in another such formula', async () => {
    const lines = ['="2026-01-02",="ab-123456",="1234.5000"', '="2026-01-03",="cd-567890",="9.00"'];
    const { layout } = await readAll(`${lines.join('\n')}\n`, { name: 'a.csv' });
    expect(layout).toMatchObject({ header: false, codeColumn: 1 });
  });

  it('is typical in its form as without the formula', async () => {
    const { layout } = await readAll(`order-100001,${wrapped}\norder-100002,="${code(2)}"\n`);
    expect(layout).toMatchObject({ format: 'csv', codeColumn: 1 });
  });
});

describe('a record of CSV that is not as it should be', () => {
  const header = 'name,code,note\n';

  it('is rejected when it has a cell too many, since its code may stand in another column', async () => {
    const { rows } = await readAll(`${header}Smith, John,${code(1)},x\na,${code(2)},b\n`);
    expect(rows).toEqual([
      {
        line: 2,
        rejected: 'has 4 cells instead of 3',
        // Nothing is lost: the result has the record's text in as many cells as there are columns.
        columns: ['Smith', ' John', `${code(1)},x`],
      },
      { line: 3, text: code(2), columns: ['a', code(2), 'b'] },
    ]);
  });

  it('is taken when cells too many are empty, or the last are missing', async () => {
    const { rows, tally } = await readAll(`${header}a,${code(1)},b,,\nc,${code(2)}\nd\n`, {
      name: 'a.csv',
    });
    expect(rows).toEqual([
      { line: 2, text: code(1), columns: ['a', code(1), 'b'] },
      { line: 3, text: code(2), columns: ['c', code(2), ''] },
      { line: 4, rejected: 'ends before the column of codes', columns: ['d', '', ''] },
    ]);
    expect(tally.notes).toEqual([expect.stringContaining('1 of the records have fewer cells')]);
  });

  it('may have quotes within a cell that begins without one', async () => {
    const { rows, tally } = await readAll(`${header}5" disk,${code(1)},say "hi"\n`);
    expect(rows[0]?.columns).toEqual(['5" disk', code(1), 'say "hi"']);
    expect(tally.notes).toEqual([]);
  });

  it('keeps its quotes as characters where they make no sense, and that is said', async () => {
    const { rows, tally } = await readAll(`${header}"A" B,${code(1)},x\na,${code(2)},"b"\n`);
    expect(rows.map(({ columns }) => columns)).toEqual([
      ['"A" B', code(1), 'x'],
      ['a', code(2), 'b'],
    ]);
    expect(tally.notes).toEqual([expect.stringContaining('first in line 2')]);
  });

  it('does not swallow the records after it with a quote that is never closed', async () => {
    const rest = Array.from({ length: 50 }, (_, n) => `a,${code(n)},x`);
    for (const end of ['', '\nb,"quoted",y', '\n"b",y,"z"', '\n']) {
      const given = `${header}a,${code(99)},"open\n${rest.join('\n')}${end}`;
      const codes = await codesOf(given, { name: 'a.csv' });
      expect(codes.slice(0, 51)).toEqual([code(99), ...rest.map((_, n) => code(n))]);
    }
  });

  it('tells in which line the quote opens that is never closed, in a list of any length', async () => {
    const lines = Array.from({ length: 150_000 }, (_, n) => `c${n}`);
    const { rows, tally } = await readAll(`code\n"c\n${lines.join('\n')}\n`, { name: 'a.csv' });
    expect(rows).toHaveLength(150_001);
    expect(tally.notes).toEqual([
      'The quote that opens in line 2 is never closed: it counts as a character, and each line stands for itself.',
    ]);
  });

  it('counts the quotes that are never closed, so that one line can be mended after the other', async () => {
    const text = `${header}a,"${code(1)},x\nb,${code(2)},"y\n${'c,d,e\n'.repeat(20)}f,${code(3)},"z\n`;
    const { tally } = await readAll(text, { name: 'a.csv', maxRecordBytes: 100 });
    expect(tally.notes[0]).toMatch(/^3 quotes are never closed, the first opens in line 2: they /);
  });

  it('says how far it reaches when a quote may have been left open', async () => {
    const codes = await codesOf(`${header}a,${code(1)},"open\nb,c,",d\ne,${code(2)},f\n`);
    expect(codes).toEqual([
      'line 2: has 4 cells instead of 3 and reaches to line 3: is a quote left open?',
      code(2),
    ]);
  });

  it('is bounded: a quoted cell of a book’s length is no cell', async () => {
    const book = 'a line of the book\n'.repeat(100);
    const codes = await codesOf(`${header}a,${code(1)},"${book}"\nb,${code(2)},c\n`, {
      maxRecordBytes: 500,
    });
    expect(codes[0]).toBe(code(1));
    expect(codes.at(-1)).toBe(code(2));
    expect(codes[1]).toBe('line 3: ends before the column of codes');
  });

  it('is found in little time, however the quotes are set', async () => {
    const hostile = `a",,"c\n`.repeat(200_000);
    const { tally } = await readAll(`${header}${hostile}`, { name: 'a.csv', column: 'code' });
    expect(tally.rows + tally.blankLines).toBeGreaterThan(0);
  });

  it('that is longer than allowed is rejected, and the next one read', async () => {
    const codes = await codesOf(`${header}a,${code(1)},${'x'.repeat(5000)}\nb,${code(2)},c\n`, {
      maxRecordBytes: 1000,
    });
    expect(codes).toEqual([
      'line 2: is longer than the 1000 characters a record may have',
      code(2),
    ]);
  });
});

describe('the header', () => {
  it.each([
    ['purchase_code,buyer', true],
    ['Licence Key,buyer', true],
    ['Schlüssel,Datum', true],
    [`${code(7)},2024-01-02`, false],
  ])('of %s is found: %s', async (first, header) => {
    const { layout, rows } = await readAll(
      `${first}\n${code(1)},2024-05-01\n${code(2)},2024-05-02\n`,
    );
    expect(layout.header).toBe(header);
    expect(rows).toHaveLength(header ? 2 : 3);
  });

  it('of short codes without words is not made up: no code is lost for it', async () => {
    expect(await codesOf('abc1,x\ndef2,y\n', { column: 1 })).toEqual(['abc1', 'def2']);
  });

  it('is not made up of a first row of words above numbers, or its code would be lost', async () => {
    expect(await codesOf('apple,red\nab,12\n', { column: 1 })).toEqual(['apple', 'ab']);
  });

  it('may be asked for by name where nothing else would show it', async () => {
    const { layout } = await readAll('fruit,thing\napple,pear\n', { column: 'THING ' });
    expect(layout).toMatchObject({ header: true, codeColumn: 1, columns: ['fruit', 'thing'] });
  });

  it('may have as many columns as fit into a line', async () => {
    const wide = Array.from({ length: 130_000 }, (_, n) => n).join(',');
    expect(await refusal(`${wide}\n`.repeat(2), { name: 'a.csv' })).toContain('no column looks');
    const named = `code${',x'.repeat(130_000)}`;
    const { layout } = await readAll(`${named}\n${code(1)}\n`, { name: 'a.csv' });
    expect(layout.columns).toHaveLength(130_001);
  });

  it('alone is no list', async () => {
    expect(await refusal('name,code\n')).toContain('a header and nothing else');
  });

  it('gives every column a name of its own', async () => {
    const { layout } = await readAll(`code,note,,note,note_2\n${code(1)},a,b,c,d\n`);
    expect(layout.columns).toEqual(['code', 'note', 'column_3', 'note_3', 'note_2']);
  });

  it('is not there: columns are numbered', async () => {
    const list = `a b,${code(1)}\nc d,${code(2)}\n`;
    const { layout } = await readAll(list);
    expect(layout).toMatchObject({ header: false, columns: ['column_1', 'column_2'] });
    expect(await codesOf(list, { column: 'column_1' })).toEqual(['a b', 'c d']);
  });
});

describe('the column of codes', () => {
  const rows = `${code(1)},${code(2)},US\n${code(3)},${code(4)},DE\n${code(5)},${code(6)},US\n`;

  it.each([
    ['buyer', 1, 'as asked for'],
    [' BUYER', 1, 'as asked for'],
    [3, 2, 'as asked for'],
    ['3', 2, 'as asked for'],
    [undefined, 0, 'by its name'],
  ])('is chosen by %j, and why is said', async (column, index, reason) => {
    const { layout } = await readAll(`purchase_code,buyer,country\n${rows}`, {
      ...(column === undefined ? {} : { column }),
    });
    expect(layout.codeColumn).toBe(index);
    expect(layout.reasons.join(' ')).toContain(reason);
  });

  it('is guessed from the values where no name tells it', async () => {
    const { layout } = await readAll(
      `buyer,thing,date\nA,${code(1)},2024-01-02\nB,${code(2)},2024-01-03\n`,
    );
    expect(layout.codeColumn).toBe(1);
    expect(layout.reasons.join(' ')).toContain('"thing": its values look most like codes');
  });

  it('is the one of typical codes among others that could be some', async () => {
    const { layout } = await readAll(
      `order,thing\nORD-2024-00001,${code(1)}\nORD-2024-00002,${code(2)}\n`,
    );
    expect(layout.codeColumn).toBe(1);
  });

  it.each([
    ['x,y,z', 'several columns may hold the codes: "x", "y" → Say which with --column'],
    ['license key,license_code,z', 'several columns may hold the codes'],
    ['x,y,code', 'several columns may hold the codes: "code", "x", "y"'],
  ])('is asked for when it is not clear: %s', async (header, problem) => {
    expect(await refusal(`${header}\n${rows}`)).toContain(problem);
  });

  it('is asked for when nothing looks like codes', async () => {
    expect(await refusal('a,b\n1,x y\n2,z\n')).toContain('no column looks like purchase codes');
  });

  it.each([
    ['nope', 'there is no column "nope" → The columns are "purchase_code", "buyer", "country"'],
    [0, 'there is no column "0"'],
    [4, 'there is no column "4"'],
  ])('that is not there is refused with those that are: %j', async (column, problem) => {
    expect(await refusal(`purchase_code,buyer,country\n${rows}`, { column })).toContain(problem);
  });

  it('of a list without header has a number only', async () => {
    expect(await refusal(rows, { column: 'code' })).toContain('a number from 1 to 3');
  });

  it('that two columns are named after needs a number', async () => {
    expect(await refusal(`code,code\na1,b2\n`, { column: 'code' })).toContain('1 or 2');
  });

  it('is named without what could move a terminal’s cursor', async () => {
    const said = await refusal(`a\u001B[2J,b\u202E,${'c'.repeat(500)}\n${rows}`, { column: 'x' });
    expect(said).not.toContain('\u001B');
    expect(said).not.toContain('\u202E');
    expect(said.length).toBeLessThan(300);
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
    sizes: fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 }),
    encode: fc.constantFrom<(text: string) => Uint8Array>(
      (text) => Buffer.from(text),
      (text) => Buffer.from(`\uFEFF${text}`),
      (text) => Buffer.from(`\uFEFF${text}`, 'utf16le'),
      (text) => utf16be(`\uFEFF${text}`),
    ),
  });

  it('reads back cell by cell, whatever the separator, quotes, line ends, encoding and pieces', async () => {
    await fc.assert(
      fc.asyncProperty(table, style, async (given, { delimiter, quoted, end, lastEnd, ...how }) => {
        const header = ['purchase_code', ...(given[0] ?? []).slice(1).map((_, n) => `column ${n}`)];
        const options = {
          delimiter,
          quoted,
          record_delimiter: end,
          eof: lastEnd,
          quote_record_delimiter: true,
        };
        const text = stringify([header, ...given], options);
        const { rows, layout } = await readAll(how.encode(text), { sizes: how.sizes });
        expect(layout).toMatchObject({ delimiter, header: true, columns: header, codeColumn: 0 });
        let line = 2;
        const expected = given.map((cells) => {
          const row = { line, text: cells[0], columns: cells.map(unguarded) };
          line += 1 + (cells.join(' ').match(/\r\n|\r|\n/g)?.length ?? 0);
          return row;
        });
        expect(rows).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('reads back from windows-1252 too', async () => {
    const latin = fc.string({
      unit: fc.constantFrom(...['ä', 'ß', 'É', 'a', ' ', '"', ';', '\n']),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(latin, { minLength: 1 }), async (notes) => {
        const given = notes.map((note, n) => [code(n), note]);
        const bytes = Buffer.from(stringify([['code', 'größe'], ...given]), 'latin1');
        const { rows, layout } = await readAll(bytes, { sizes: [3] });
        expect(layout.encoding).toBe('windows-1252');
        expect(rows.map(({ columns }) => columns)).toEqual(given);
      }),
    );
  });

  it('is read to its end, whatever bytes it is made of', async () => {
    const junk = fc.string({
      unit: fc.constantFrom(...['"', ',', '\n', '\r', 'a', '1', "'", ' ']),
      minLength: 1,
    });
    await fc.assert(
      fc.asyncProperty(junk, fc.integer({ min: 1, max: 9 }), async (given, size) => {
        const text = `code,b,c\n${code(1)},x,y\n${given}`;
        const whole = await readAll(text, { name: 'a.csv' });
        const cut = await readAll(text, { name: 'a.csv', sizes: [size], maxRecordBytes: 1e6 });
        expect(cut.rows).toEqual(whole.rows);
        expect(whole.rows[0]).toMatchObject({ line: 2, text: code(1) });
      }),
      { numRuns: 500 },
    );
  });
});
