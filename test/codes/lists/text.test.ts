import { gzipSync } from 'node:zlib';
import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ListOptions } from '../../../src/codes/lists/types.js';
import { unescapeFormula } from '../../../src/domain/csv.js';
import { Secret } from '../../../src/domain/secret.js';
import { code, codesOf, readAll, refusal, utf16be } from './support.js';

type Options = Partial<ListOptions>;
const [A, B, C] = [code(1), code(2), code(3)];
const [CSV, TXT] = [{ name: 'a.csv' }, { name: 'a.txt' }];
const FORCED: Options = { format: 'txt' };
const HEADER = 'name,code,note\n';
const TABLE = `Name,Mail,Purchase code\nAda,a@b.example,${A}\nBob,b@c.example,${B}\n`;
const SHORTENED = 'Excel has shortened this number';

describe('the codes of a list', () => {
  it.each<[what: string, text: string, options: Options, codes: string[]]>([
    ['one a line, with any line ends', 'a-1\r\nb-2\rc-3\n\nd-4', {}, ['a-1', 'b-2', 'c-3', 'd-4']],
    [
      'without spaces and quotes around them, whatever their format',
      '1\nx\n spaced \n"quoted"\n-minus\n# no comment\nключ',
      FORCED,
      ['1', 'x', 'spaced', 'quoted', '-minus', '# no comment', 'ключ'],
    ],
    ['of words', 'apple\npear\nkey\nplum\n', FORCED, ['apple', 'pear', 'key', 'plum']],
    ['above a cell that names codes', `${A}\nlicense\n${B}\n`, FORCED, [A, 'license', B]],
    [
      'with a word between short ones',
      'ab1\nPurchases\nxy2\n',
      FORCED,
      ['ab1', 'Purchases', 'xy2'],
    ],
    [
      'with blanks or characters without width inside, as copying leaves them',
      `code\n${A}\n86781236\u200b-23d0\n8678\u00ad1236\n9f8b000000 03c0ffee9f8b0000000045e1`,
      CSV,
      [A, '86781236\u200b-23d0', '8678\u00ad1236', '9f8b000000 03c0ffee9f8b0000000045e1'],
    ],
    [
      'whose parts are too short for codes',
      'AB CD\na/1\nc/3/d/4\nx y\nIJ KL MN OP 12',
      FORCED,
      ['AB CD', 'a/1', 'c/3/d/4', 'x y', 'IJ KL MN OP 12'],
    ],
    ['that begin like an archive', 'Rar!-1234\n%PDF-5678\n', {}, ['Rar!-1234', '%PDF-5678']],
    [
      'that only look like shortened numbers',
      'code\n123457E17\n1.2.3E+17\n12.5E+17\n1.5E-05\na1.5E+17\n',
      TXT,
      ['123457E17', '1.2.3E+17', '12.5E+17', '1.5E-05', 'a1.5E+17'],
    ],
    ['as a formula between quotes', "code\n'=SUM(A1)'\n'=SUM(A1)'", CSV, ['=SUM(A1)', '=SUM(A1)']],
    ['as a number between quotes', "code\n '+49 30 6389' \nx-1", CSV, ['+49 30 6389', 'x-1']],
    ['behind an apostrophe', "code\n'=1+1\n'-abc", CSV, ['=1+1', '-abc']],
    ['as a text formula', 'code;note\n"=""v-n12""";x\n="v-n13";1,5\n', CSV, ['v-n12', 'v-n13']],
    ['as a text formula in the last cell', 'note;code\nx;="v-n12"\n', CSV, ['v-n12']],
    ['above a type of license', `${A},\n${B},License\n`, CSV, [A, B]],
    ['of short codes without words', 'abc1,x\ndef2,y\n', { column: '1' }, ['abc1', 'def2']],
    ['of words above numbers', 'apple,red\nab,12\n', { column: '1' }, ['apple', 'ab']],
    ['in a numbered column', 'a b,c-1\nc d,c-2\n', { column: 'column_1' }, ['a b', 'c d']],
    ['in any column that is named', 'name;city\nAda;London\n', { column: 'city' }, ['London']],
    [
      'below a header of unknown words, above addresses',
      'Kunde,Mail,Schlüssel\nAda,a@b.example,xk12\nBob,b@c.example,xk34\n',
      { column: '3' },
      ['xk12', 'xk34'],
    ],
    [
      'of the shape of the first line, which is no header then',
      'ABCD-EFGH-IJKL\nABCD-1234-EF56\nQRST-1234-EF57',
      {},
      ['ABCD-EFGH-IJKL', 'ABCD-1234-EF56', 'QRST-1234-EF57'],
    ],
  ])('are found: %s', (_what, text, options, codes) => {
    expect(codesOf(text, options)).toEqual(codes);
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
  ])('include the first line if it is a code %s', (_what, first, other) => {
    expect(codesOf(`${first}\n${other}\n${other}\n`)).toEqual([first, other, other]);
    const table = `${first},Ann\n${other},Bob\n${other},Cid\n`;
    expect(codesOf(table, CSV)).toEqual([first, other, other]);
  });

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
  ])('stand below the header, which may stand below %s', (_what, text, column) => {
    const options = column === undefined ? {} : { column };
    expect(codesOf(text, options)).toEqual([A, B]);
    expect(codesOf(text, { ...options, ...CSV })).toEqual([A, B]);
  });

  it('are not divided by a character that one record of fifteen has', () => {
    const list = Array.from({ length: 15 }, (_, n) => (n === 7 ? `${code(n)}|note` : code(n)));
    for (const options of [TXT, CSV]) {
      const { layout, rows } = readAll(list.join('\n'), options);
      expect(layout.columns).toHaveLength(1);
      expect(rows.filter((row) => 'code' in row)).toHaveLength(15);
    }
  });
});

describe('a line without a code', () => {
  it.each<[text: string, options: Options, found: unknown[]]>([
    [
      `a\nb\0c\n${'x'.repeat(256)}\n${'y'.repeat(255)}\n""\n`,
      FORCED,
      [
        'a',
        expect.stringMatching(/^line 2: .*control character U\+0000 after character 1/),
        expect.stringMatching(/^line 3: .*longer than 255/),
        'y'.repeat(255),
        expect.stringMatching(/^line 5: .*empty/),
      ],
    ],
    ...[`"${A}, ${B}"`, `"${A}\n${B}"`, `${A} and ${B}`, `${A} ${B}`].map(
      (cell): [string, Options, unknown[]] => [
        `code;name\n${cell};x\n`,
        CSV,
        ['line 2: holds 2 codes: give each its own line'],
      ],
    ),
    ...['1,23457E+17', '1.23457E+17', '1E+17', '"1,2E+17"', '9,99e+105'].flatMap((number) =>
      [CSV, TXT].map((options): [string, Options, unknown[]] => [
        `code\n${number}\n${A}\n`,
        options,
        [`line 2: ${SHORTENED}`, A],
      ]),
    ),
    // Its comma is no delimiter.
    [`name;code\nAda;1,23457E+17\nBob;${A}\n`, CSV, [`line 2: ${SHORTENED}`, A]],
    // Its code may be in another column.
    [`${HEADER}Smith, John,${A},x\na,${B},b\n`, CSV, ['line 2: has 4 cells instead of 3', B]],
    [`${HEADER}a,${A},b,,\nc,${B}\nd\n`, CSV, [A, B, 'line 4: ends before the column of codes']],
    [
      `${HEADER}a,${A},"open\nb,c,",d\ne,${B},f\n`,
      {},
      ['line 2: has 4 cells instead of 3 and extends to line 3: is a quote left open?', B],
    ],
  ])('is rejected with the reason, and the others are read: %j', (text, options, found) => {
    expect(codesOf(text, options)).toEqual(found);
  });

  it('keeps all its text: surplus cells are joined into the last column', () => {
    const { rows } = readAll(`${HEADER}Smith, John,${A},x\na,${B},b\n`, CSV);
    expect(rows[0]?.columns).toEqual(['Smith', ' John', `${A},x`]);
  });

  it('is skipped and counted if it is blank, as editors and spreadsheets leave some', () => {
    expect(readAll('\n  \na-code\n\t\n').tally).toMatchObject({
      rows: 1,
      rejected: 0,
      blankLines: 3,
    });
    const { rows, tally } = readAll(`code;a\n;\n${A};x\n\n"";" "\n`, CSV);
    expect(rows.map(({ line }) => line)).toEqual([3]);
    expect(tally.blankLines).toBe(3);
  });

  it('is left out if it repeats the header, as in joined exports', () => {
    const { rows, tally } = readAll(`${TABLE}${TABLE.toUpperCase()}`, { column: '3' });
    expect(rows.map(({ line }) => line)).toEqual([2, 3, 5, 6]);
    expect(tally).toMatchObject({ rejected: 0 });
    expect(tally.notes).toEqual(['The header is repeated once: that line is left out.']);
    const { tally: two } = readAll('code\na-1\ncode\nb-2\ncode\nc-3\n', TXT);
    expect(two.notes).toEqual(['The header is repeated 2 times: these lines are left out.']);
  });
});

describe('quotes', () => {
  it('that are misplaced are characters, with a note; within a cell they are fine', () => {
    const fine = readAll(`${HEADER}5" disk,${A},say "hi"\n`, CSV);
    expect(fine.rows[0]?.columns).toEqual(['5" disk', A, 'say "hi"']);
    expect(fine.tally.notes).toEqual([]);
    const { rows, tally } = readAll(`${HEADER}"A" B,${A},x\na,${B},"b"\n`, CSV);
    expect(rows.map(({ columns }) => columns)).toEqual([
      ['"A" B', A, 'x'],
      ['a', B, 'b'],
    ]);
    expect(tally.notes).toEqual([expect.stringContaining('Line 2 has a quote')]);
  });

  it.each(['', '\nb,"quoted",y', '\nb,"",y,"z"', '\n'])(
    'that are never closed do not swallow later records: %j',
    (end) => {
      const rest = Array.from({ length: 50 }, (_, n) => `a,${code(n)},x`);
      const codes = codesOf(`${HEADER}a,${code(99)},"open\n${rest.join('\n')}${end}`, CSV);
      expect(codes.slice(0, 51)).toEqual([code(99), ...rest.map((_, n) => code(n))]);
    },
  );

  it('that are never closed are named by their line, in a list of any length and in little time', () => {
    const many = Array.from({ length: 60_000 }, (_, n) => `c${n}`).join('\n');
    const one = readAll(`code\n"c\n${many}\n`, CSV);
    expect(one.rows).toHaveLength(60_001);
    expect(one.tally.notes).toEqual([
      'Line 2 has a quote that is misplaced or never closed: it is read as a character, and each line as a record.',
    ]);
    const text = `${HEADER}a,"${A},x\nb,${B},"y\n${'c,d,e\n'.repeat(20)}f,${C},"z\n`;
    expect(readAll(text, CSV).tally.notes[0]).toMatch(/^3 lines have .* \(first in line 2\)/);
    const hostile = `${HEADER}${`a",,"c\n`.repeat(200_000)}`;
    expect(readAll(hostile, { ...CSV, column: 'code' }).tally.rows).toBeGreaterThan(0);
  });
});

const three = `${A},${B},US\n${C},${code(4)},DE\n${code(5)},${code(6)},US\n`;
const dated = `${A},2024-05-01\n${B},2024-05-02`;
const buyers = `purchase_code,buyer,country\n${three}`;
const formulas = '="2026-01-02",="ab-123456",="12.5000"\n="2026-01-03",="cd-567890",="9.00"';

describe('how a list is written', () => {
  it.each<[text: string, column: ListOptions['column'], layout: string, reason: string]>([
    [`Purchase code\n${A}`, 'purchase code', 'txt null header 0', 'line is one value'],
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
    [`sep=;\r\ncode;a,b\r\n${A};x,y`, undefined, 'csv ";" header 0', 'as the first line says'],
    [`"sep=;"\r\ncode;a,b\r\n${A};x,y`, undefined, 'csv ";" header 0', 'as the first line says'],
  ])('is found out, with the reason: %j, column %j: %s', (text, column, expected, reason) => {
    const { layout, rows } = readAll(text, { ...TXT, ...(column === undefined ? {} : { column }) });
    const { format, delimiter, header, codeColumn, reasons } = layout;
    const found = [format, JSON.stringify(delimiter), header ? 'header' : 'none', codeColumn];
    expect(found.join(' ')).toBe(expected);
    expect(reasons.join(' ')).toContain(reason);
    const above = (header ? 1 : 0) + (/^"?sep=/.test(text) ? 1 : 0);
    expect(rows).toHaveLength(text.trimEnd().split('\n').length - above);
  });

  it.each([
    [`code,note,,note,note_2\n${A},a,b,c,d\n`, ['code', 'note', 'column_3', 'note_3', 'note_2']],
    [`a b,${A}\nc d,${B}\n`, ['column_1', 'column_2']],
    [`code${',x'.repeat(999)}\n${A}\n`, expect.objectContaining({ length: 1_000 })],
  ])('names each column once: %#', (text, columns) => {
    expect(readAll(text, CSV).layout.columns).toEqual(columns);
  });

  const TEXT = 'naïve-ключ-鍵-1\ncode-two\n';
  it.each([
    ['utf-8', Buffer.from(TEXT)],
    ['utf-8', Buffer.from(`\uFEFF${TEXT}`)],
    ['utf-16le', Buffer.from(`\uFEFF${TEXT}`, 'utf16le')],
    ['utf-16be', utf16be(`\uFEFF${TEXT}`)],
  ] as const)('includes its encoding: %s', (encoding, bytes) => {
    expect(readAll(bytes).layout.encoding).toBe(encoding);
    expect(codesOf(bytes)).toEqual(['naïve-ключ-鍵-1', 'code-two']);
  });

  it('is windows-1252 if bytes are not valid utf-8, also late; in a list of utf-8 they are damage', () => {
    const latin = Buffer.from('Müller;€-code-1\nMeyer;code-2\n'.replace('€', '\x80'), 'latin1');
    for (const before of ['', 'Smith;code-123\n'.repeat(20_000)]) {
      const bytes = Buffer.concat([Buffer.from(before), latin]);
      const { layout, rows } = readAll(bytes, { column: '2' });
      expect(layout.encoding).toBe('windows-1252');
      expect(layout.reasons.join(' ')).toContain('the bytes aren’t valid utf-8');
      expect(rows.at(-2)?.columns).toEqual(['Müller', '€-code-1']);
    }
    const mixed = Buffer.concat([Buffer.from('Müller;code-123\n'.repeat(20_000)), latin]);
    const { rows, tally } = readAll(mixed, { column: '2' });
    expect(rows.at(-2)).toMatchObject({ line: 20_001, rejected: expect.stringContaining('read') });
    expect(rows.at(-1)).toMatchObject({ code: 'code-2' });
    expect(tally).toMatchObject({ rejected: 1, notes: [expect.stringContaining('utf-8')] });
  });
});

describe('what is no list of codes', () => {
  const several = 'several columns may hold the codes';
  it.each<[text: string | Uint8Array, options: Options, problem: string]>([
    ['', {}, 'the list is empty'],
    ['\uFEFF', {}, 'the list is empty'],
    ['\n \n', {}, 'the list is empty'],
    [
      gzipSync('code\nx\n'),
      {},
      'this is a file compressed with gzip, not a list of codes → Unpack',
    ],
    ['["x"]', {}, 'this is JSON, which is not read as a list → Make text of it'],
    ['{"code":"x"}\n', {}, 'this is JSON'],
    ['PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0codes.txt', {}, 'a ZIP archive'],
    ['%PDF-1.7\n%rest', {}, 'a PDF document'],
    ['\x01\x02\x03\x04binary\0\0', {}, 'binary data'],
    [Buffer.from('code-1\ncode-2\n', 'utf16le'), {}, 'binary data'],
    [`a-1\n${'x,'.repeat(33_000)}`, { ...CSV, column: '1' }, 'line 2 is longer than 64 kB'],
    [
      `a,b\n1,${'x'.repeat(32_768)}`,
      { ...CSV, column: '1' },
      'line 2 has a cell of more than 32,767',
    ],
    [
      `a,b\n1,"${'x\n'.repeat(16_384)}"\n`,
      { ...CSV, column: '1' },
      'line 2 has a cell of more than',
    ],
    [`code${',x'.repeat(13_000)}\n${A}\n`, CSV, 'at most 1000 columns, and this one has 13001'],
    ['abc\ndef', { format: 'txt', column: 'email' }, 'there is no column "email"'],
    ['name,code\n', {}, 'only a header'],
    [`x,y,z\n${three}`, {}, `${several}: "x", "y" → Choose one with --column`],
    [`license key,license_code,z\n${three}`, {}, several],
    [`x,y,code\n${three}`, {}, `${several}: "code", "x", "y"`],
    [
      'name;city\nAda;London\nBob;Paris\n',
      { name: 'nocodes.csv' },
      'no column looks like purchase codes → The columns are "name", "city", if the first line is a header. Choose one with --column, by name or number.',
    ],
    ['1;2\n3;4\n', CSV, 'The list has no header: set --column to a number from 1 to 2.'],
    [
      `purchase_code,b\n${dated}`,
      { column: 'c' },
      'no column "c" → The columns are "purchase_code", "b"',
    ],
    [`purchase_code,b\n${dated}`, { column: '0' }, 'there is no column "0"'],
    [`purchase_code,b\n${dated}`, { column: '3' }, 'there is no column "3"'],
    [three, { column: 'code' }, 'a number from 1 to 3'],
    ['code,code\na1,b2\n', { column: 'code' }, '1 or 2'],
  ])('is refused in one sentence, with what to do: %#', (text, options, problem) => {
    expect(refusal(text, options)).toContain(problem);
  });

  it('is refused if it has too many lines', () => {
    expect(refusal('\n'.repeat(4_000_001) + 'x')).toMatch(
      /^a list may have at most 4,000,000 lines → Split it into several lists/,
    );
  });

  it('is named without control characters and shortened', () => {
    const message = refusal(`a\u001B[2J,b\u202E,${'c'.repeat(500)}\n${three}`, { column: 'x' });
    for (const control of ['\u001B', '\u202E']) expect(message).not.toContain(control);
    expect(message.length).toBeLessThan(300);
  });
});

describe('an API key in a list', () => {
  const KEY = 'c0ffee00deadbeef0123456789abcdefc0ffee00deadbeef0123456789abcdef';
  const SHORT = 'Abc-1234';
  const keys = [new Secret(KEY), new Secret(SHORT)];

  it.each([
    ['a line of text', `${A}\n${KEY}\n`],
    ['capitals', `${A}\n${KEY.toUpperCase()}\n`],
    ['spaces', `code,note\n${A},\n"  ${KEY} ",\n`],
    ['a formula that is text', `code;note\n${A};\n"=""${KEY}""";\n`],
    ['an address', `code\n${A}\nhttps://market.example?api_key=${KEY}\n`],
    ['a look-up token', `${A}\nsmt_${'c0ffee'.repeat(7)}1\n`],
    ['a short key in quotes', `code,note\n${A},\n'${SHORT}',\n`],
  ])('instead of a code is rejected and masked: %s', (_what, text) => {
    const all = readAll(text, { keys });
    const rejected = 'the code is an API key or a look-up token, which is masked here';
    expect(all.rows).toMatchObject([{ code: A }, { rejected }]);
    expect(all.rows[1]?.columns[0]).toContain('[secret]');
    expect(JSON.stringify(all).toLowerCase()).not.toMatch(/c0ffee|abc-1234/);
  });

  it('next to a code is masked, and the code is accepted; a short one may be part of a code', () => {
    const text = `code,key,call\n${A},${KEY},x?key=${KEY}&n=1\n${B},${SHORT},\n`;
    expect(readAll(text, { keys }).rows).toMatchObject([
      { code: A, columns: [A, '[secret]', 'x?key=[secret]&n=1'] },
      { code: B, columns: [B, '[secret]', ''] },
    ]);
    expect(codesOf(`x${SHORT}\n${SHORT}9\n`, { keys })).toEqual([`x${SHORT}`, `${SHORT}9`]);
  });

  it('is not shown in the layout, or in an error', () => {
    const { layout } = readAll(`${KEY},code\nx,${A}\n`, { keys, ...CSV });
    const errors = [
      refusal(`${KEY},name\n1,x\n2,y\n`, { keys, ...CSV }),
      refusal(`code,name\n${A},x\n`, { keys, ...CSV, column: KEY }),
    ];
    expect(JSON.stringify([layout, errors])).not.toContain(KEY.slice(0, 20));
  });
});

describe('any table', () => {
  const special = ['"', ',', ';', '\t', '|', '\r', '\n', ' ', "'", '=', 'é'];
  const cell = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 12 }),
    fc.string({ unit: fc.constantFrom(...special) }),
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
    const unit = fc.constantFrom(...['"', ',', '\n', '\r', 'a', '1', "'", ' ']);
    fc.assert(
      fc.property(fc.string({ unit, minLength: 1 }), (rest) => {
        const { rows } = readAll(`code,b,c\n${A},x,y\n${rest}`, CSV);
        expect(rows[0]).toMatchObject({ line: 2, code: A });
      }),
      { numRuns: 500 },
    );
  });
});
