import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ListOptions } from '../../../src/codes/lists/types.js';
import { Secret } from '../../../src/domain/secret.js';
import { code, readBook, wordsOf } from './support.js';
import { inline, workbookFiles, workbookOf, zipOf } from './zip.js';

const [A, B] = [code(1), code(2)];

function row(number: number, cells: string): string {
  return `<row r="${number}">${cells}</row>`;
}

const HEADER = row(1, inline('A1', 'name') + inline('B1', 'purchase code'));

/** Why a file is no list. */
const refusal = (book: Buffer, options: Partial<ListOptions> = {}): Promise<string> =>
  readBook(book, options).then(() => 'was read', wordsOf);

describe('a list in an Excel workbook', () => {
  it('has text in every notation that programs use, also with namespace prefixes; blank rows are skipped', async () => {
    const texts =
      `<si><t>Ada</t></si><si><r><rPr/><t>Ada </t></r><r><t>King</t></r><rPh><t>no</t></rPh></si>` +
      `<si><t xml:space="preserve"> a_x000D_b &amp; &#x63;<![CDATA[<d>]]></t></si>`;
    const rows =
      HEADER +
      row(2, `<c r="A2" t="s"><v>0</v></c>${inline('B2', A)}`) +
      row(4, `<c r="A4" t="s"><v>1</v></c><c r="B4" t="str"><f>X()</f><v>${B}</v></c>`) +
      `<row><c t="s"><v>2</v></c><c t="inlineStr"><is><t>x-1</t><phoneticPr/></is></c></row>` +
      row(9, '<c r="A9" s="1"/>') +
      row(10, inline('B10', code(3)) + inline('F10', 'right of the table'));
    const files = workbookFiles([{ name: 'S', rows }], { texts });
    const prefixed = Object.entries(files).map(([name, xml]) => {
      const isSheet = name === 'xl/worksheets/sheet1.xml';
      const changed = xml.replace('xmlns=', 'xmlns:x=').replaceAll(/<(\/?)(?=\w)/g, '<$1x:');
      return [name, isSheet ? changed : xml] as const;
    });
    for (const book of [files, Object.fromEntries(prefixed)]) {
      const { blankLines, entries, layout } = await readBook(await zipOf(book));
      expect(entries).toMatchObject([
        { columns: ['Ada', A], code: A },
        { columns: ['Ada King', B], code: B },
        { columns: [' a\rb & c<d>', 'x-1'], code: 'x-1' },
        { columns: ['', code(3), '', '', '', 'right of the table'], code: code(3) },
      ]);
      expect(layout.columns).toMatchObject({ 1: 'purchase code', 5: 'column_6' });
      expect(layout.reasons).toContain('The list is sheet "S", the only sheet.');
      expect(blankLines).toBe(1);
    }
  });

  it('has rows rejected whose cell is no code as it was entered', async () => {
    const cases: readonly [cell: string, why: RegExp][] = [
      ['<c r="B2"><v>1.23456789012346E+17</v></c>', /^Excel has shortened this number$/],
      [inline('B2', '1.23457E+17'), /^Excel has shortened this number$/],
      ['<c r="B2"><f>1+1</f><v>2</v></c>', /^Excel has converted this code to a number/],
      ['<c r="B2" s="3"><v>4711</v></c>', /^Excel has converted this code to a number/],
      ['<c r="B2" s="1"><v>45000</v></c>', /to a date/],
      ['<c r="B2" s="2"><v>45000.5</v></c>', /to a date/],
      ['<c r="B2"><f>A1</f></c>', /a formula without its result/],
      ['', /^the code is empty$/],
      [inline('B2', 'a_x0001_b'), /^the code has the control character/],
    ];
    const rows = cases.map(([cell], n) =>
      row(n + 2, inline(`A${n + 2}`, 'x') + cell.replaceAll('B2', `B${n + 2}`)),
    );
    const { entries } = await readBook(await workbookOf(HEADER + rows.join('')));
    expect(entries).toMatchObject(
      cases.map(([, why], n) => ({ line: n + 2, rejected: expect.stringMatching(why) as string })),
    );
    const formulas = [2, 3].map((n) => row(n, `<c r="A${n}"><f>B${n}</f></c>`));
    const book = await workbookOf(row(1, inline('A1', 'code')) + formulas.join(''));
    expect(await readBook(book)).toMatchObject({ rejected: 2 });
  });

  it('is read with every cell unchanged, whatever its texts', async () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter((one) => one.trim() !== '');
    const record = fc.array(fc.option(text, { nil: '' }), { minLength: 3, maxLength: 3 });
    const records = fc.sample(record, 300);
    const xmlOf = (number: number, cells: readonly string[]): string =>
      row(
        number,
        cells
          .map((one, at) => (one === '' ? '' : inline(`${'ABCD'[at]}${number}`, escaped(one))))
          .join(''),
      );
    const rows = records.map((cells, n) => xmlOf(3 * n + 2, [...cells, code(n)]));
    const names = ['first', 'second', 'third', 'code'];
    const { entries } = await readBook(await workbookOf(xmlOf(1, names) + rows.join('')));
    expect(entries.map(({ columns }) => columns)).toEqual(
      records.map((cells, n) => [...cells, code(n)]),
    );
  });
});

/** Text as a workbook has it in XML. */
function escaped(text: string): string {
  return text
    .replaceAll(/_(?=x[\dA-Fa-f]{4}_)/g, '_x005F_')
    .replaceAll(/[<>&]|[^\x20-\uFFFD]/gu, (char) => {
      const point = char.codePointAt(0) ?? 0;
      const isControl = point < 0x20 || char === '\uFFFE' || char === '\uFFFF';
      return isControl ? `_x${point.toString(16).padStart(4, '0')}_` : `&#${point};`;
    });
}

describe('the sheet', () => {
  const notes =
    row(1, inline('A1', 'Dear colleagues')) +
    row(2, inline('A2', 'see below') + inline('B2', 'please'));
  const codes = HEADER + row(2, inline('B2', A));
  const cover = row(1, inline('A1', 'Customers 2026'));
  const keys = row(1, inline('A1', 'Kennung')) + row(2, inline('A2', 'x-1'));
  const titled =
    row(1, inline('A1', 'Title')) + row(3, inline('A3', 'code')) + row(4, inline('A4', A));
  type Sheets = readonly (readonly [name: string, rows: string, attributes?: string])[];
  const book: Sheets = [
    ['Read me', notes],
    ['Old', codes, 'state="veryHidden"'],
    ['Customers', codes],
    ['\u202Eevil', codes],
  ];
  const bookOf = (sheets: Sheets) =>
    zipOf(
      workbookFiles(sheets.map(([name, rows, attributes = '']) => ({ name, rows, attributes }))),
    );

  it.each<[what: string, sheets: Sheets, options: Partial<ListOptions>, said: string | RegExp]>([
    [
      'the first with a column of codes',
      book,
      {},
      '"Customers", the first with a column of codes.',
    ],
    ['the one that is named', book, { sheet: 'customers' }, '"Customers", as requested.'],
    ['the one that is numbered', book, { sheet: '3' }, '"Customers", as requested.'],
    ['a hidden one if it is named', book, { sheet: 'Old' }, '"Old", as requested.'],
    [
      'no cover',
      [
        ['Cover', cover],
        ['List', codes],
      ],
      {},
      'sheet "List"',
    ],
    [
      'a cover if there is nothing else',
      [
        ['Cover', cover],
        ['More', cover],
      ],
      {},
      'sheet "Cover"',
    ],
    [
      'the one with the requested column',
      [
        ['Codes', codes],
        ['Keys', keys],
      ],
      { column: 'kennung' },
      'sheet "Keys"',
    ],
    [
      'no sheet of notes before a list with a title',
      [
        ['Notes', cover],
        ['List', titled],
      ],
      {},
      /sheet "List".*Line 3 is the header: .* The line above it is left out/s,
    ],
    [
      'one that exists: the error names all',
      book,
      { sheet: 'Kunden' },
      'there is no sheet "Kunden" → The sheets are "Read me", "Old", "Customers", "\uFFFDevil"',
    ],
    [
      'one with codes: the error has the problem of the first',
      [
        ['One', notes],
        ['Two', ''],
      ],
      {},
      /^sheet "One": no column looks like purchase codes.*The sheets are "One", "Two"/,
    ],
  ])('is %s', async (_, sheets, options, said) => {
    const read = readBook(await bookOf(sheets), options);
    expect(await read.then(({ layout }) => layout.reasons.join('\n'), wordsOf)).toMatch(said);
  });
});

/** Sets a 4-byte field in the central directory's entry of this name. */
function forged(zip: Buffer, name: string, offset: number, value: number): Buffer {
  const bytes = Buffer.from(zip);
  const at = bytes.lastIndexOf(name) - 46;
  expect(bytes.readUInt32LE(at)).toBe(0x02014b50);
  bytes.writeUInt32LE(value, at + offset);
  return bytes;
}

describe('a malicious workbook', () => {
  const SHEET = 'xl/worksheets/sheet1.xml';
  const STRINGS = 'xl/sharedStrings.xml';
  const RELATIONS = 'xl/_rels/workbook.xml.rels';
  const good = (rows = HEADER + row(2, inline('B2', A))) => workbookFiles([{ name: 'S', rows }]);
  /** A good workbook with text replaced in one file. */
  const replaced = (file: string, from: string | RegExp, to: string) => {
    const files = good();
    return zipOf({ ...files, [file]: (files[file] ?? '').replace(from, to) });
  };
  /** A good workbook that claims another decompressed size of a file. */
  const claiming = async (file: string, bytes: number, rows?: string) =>
    forged(await zipOf(good(rows)), file, 24, bytes);
  const entity = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><worksheet';
  const bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>';
  const DAMAGED = 'the workbook is damaged or cut off';
  const TOO_LARGE = 'has a part that is too large';

  it.each<[what: string, make: () => Promise<Buffer>, problem: string]>([
    ['a sheet that claims 3 GiB', () => claiming(SHEET, 3 * 1024 ** 3), TOO_LARGE],
    ['a sheet larger than it claims', () => claiming(SHEET, 1000, ' '.repeat(1e6)), DAMAGED],
    ['strings that claim 1 GiB', () => claiming(STRINGS, 1024 ** 3), TOO_LARGE],
    ['an external entity', () => replaced(SHEET, '<worksheet', entity), DAMAGED],
    [
      'growing entities',
      () => replaced(STRINGS, /^(.*)(?=<\/sst>)/s, `${bomb}$1<si><t>&b;</t></si>`),
      DAMAGED,
    ],
    ['an unknown entity', () => replaced(SHEET, 'name', '&nbsp;'), DAMAGED],
    ['unclosed elements', () => zipOf(good('<row>'.repeat(100_000))), DAMAGED],
    ['a name of a megabyte', () => zipOf(good(`<${'a'.repeat(1e6)}/>`)), 'the list is empty'],
    [
      'too many columns',
      () => zipOf(good(HEADER + row(2, inline('XFD2', A)))),
      'at most 1000 columns',
    ],
    ['a missing string', () => zipOf(good(row(1, '<c r="A1" t="s"><v>5</v></c>'))), DAMAGED],
    [
      'a sheet on the network',
      () => replaced(RELATIONS, /Target=/g, 'TargetMode="External" Target='),
      'has no sheet with cells',
    ],
    [
      'a sheet outside the archive',
      () => replaced(RELATIONS, 'worksheets/sheet1.xml', '../../../../etc/passwd'),
      DAMAGED,
    ],
  ])('is refused: %s', async (_, make, problem) => {
    expect(await refusal(await make())).toContain(problem);
  });

  it('is not kept for its result if any of its parts holds an API key, which is masked everywhere', async () => {
    const KEY = 'k3y-0123456789abcdef0123456789abcdef';
    const keys = [new Secret(KEY)];
    const note = expect.stringContaining('The workbook holds an API key: its result is a new');
    const elsewhere = { ...good(), 'xl/worksheets/sheet2.xml': row(1, inline('A1', KEY)) };
    const cells = HEADER + row(2, inline('A2', KEY) + inline('B2', KEY));
    const named = workbookFiles([{ name: KEY, rows: cells }]);
    for (const book of [elsewhere, named]) {
      const list = await readBook(await zipOf(book), { keys });
      expect(list).toMatchObject({ notes: [note], workbook: null });
      expect(JSON.stringify(list)).not.toContain(KEY);
    }
    expect(await readBook(await zipOf(good()), { keys })).toMatchObject({
      notes: [],
      workbook: { sheet: SHEET, headerRow: 1 },
    });
    const unknown = await refusal(await zipOf(named), { keys, sheet: 'x' });
    expect(unknown).toContain('The sheets are "[secret]"');
  });
});

describe('a file that is no readable workbook', () => {
  const OLD = Buffer.from('d0cf11e0a1b11ae1'.padEnd(1024, '0'), 'hex');
  const withPassword = () => Buffer.concat([OLD, Buffer.from('EncryptedPackage', 'utf16le')]);
  const withZipPassword = async () => {
    const zip = await zipOf(workbookFiles([{ name: 'S', rows: HEADER }]));
    return forged(zip, '_rels/.rels', 8, 0x0008_0801);
  };
  const binary = () =>
    zipOf({
      '[Content_Types].xml': '',
      '_rels/.rels':
        '<Relationships><Relationship Id="a" Type="x/officeDocument" Target="xl/workbook.bin"/></Relationships>',
    });
  const document = () => zipOf({ '[Content_Types].xml': '', 'word/document.xml': '<document/>' });
  const cutOff = async () => (await workbookOf(HEADER)).subarray(0, 900);
  const damaged = async () => {
    const bytes = await workbookOf(HEADER + row(2, inline('B2', A.repeat(500))));
    const at = bytes.indexOf('xl/worksheets/sheet1.xml');
    return bytes.fill(0xff, at + 60, at + 90);
  };

  it.each<[what: string, make: () => Buffer | Promise<Buffer>, problem: string]>([
    [
      'of the old kind',
      () => OLD,
      'of the old kind (.xls), or one with a password, not a list of codes → Save it in Excel as .xlsx',
    ],
    [
      'with a password',
      withPassword,
      'an Excel workbook with a password, not a list of codes → Remove the password',
    ],
    ['with a password of the archive', withZipPassword, 'the workbook has a password'],
    ['in the binary form', binary, 'binary form (.xlsb) → Save it in Excel'],
    ['of words', document, 'an Office document, but not an Excel workbook'],
    ['that is cut off', cutOff, 'damaged or cut off'],
    ['with a damaged sheet', damaged, 'damaged or cut off'],
    ['without rows', () => workbookOf(''), 'the list is empty'],
    ['with only a header', () => workbookOf(HEADER), 'only a header'],
  ])('is refused with the reason: one %s', async (_, make, problem) => {
    expect(await refusal(await make())).toContain(problem);
  });

  it('is refused as another format, and so is text as a workbook or with a sheet', async () => {
    const book = await workbookOf(HEADER + row(2, inline('B2', A)));
    expect(await refusal(book, { format: 'csv' })).toContain('Leave --input-format out');
    const text = Buffer.from('a\nb\n');
    expect(await refusal(text, { format: 'xlsx' })).toContain('is not an Excel workbook');
    expect(await refusal(text, { sheet: 'a' })).toContain('there is no sheet in a list');
  });
});
