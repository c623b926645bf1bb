import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { code, codesOf, readAll, refusal } from './support.js';
import { inline, workbookFiles, workbookOf, zipOf } from './zip.js';

const OPTIONS = { name: 'list.xlsx' };
const [A, B] = [code(1), code(2)];

function row(number: number, cells: string): string {
  return `<row r="${number}">${cells}</row>`;
}

const HEADER = row(1, inline('A1', 'name') + inline('B1', 'purchase code'));

describe('a list in an Excel workbook', () => {
  it('is found by its header, with texts in every notation that programs write', async () => {
    const texts =
      `<si><t>Ada</t></si><si><r><rPr/><t>Ada </t></r><r><t>King</t></r><rPh><t>no</t></rPh></si>` +
      `<si><t xml:space="preserve"> a_x000D_b &amp; &#x63;<![CDATA[<d>]]></t></si>`;
    const rows =
      HEADER +
      row(2, `<c r="A2" t="s"><v>0</v></c>${inline('B2', A)}`) +
      row(4, `<c r="A4" t="s"><v>1</v></c><c r="B4" t="str"><f>X()</f><v>${B}</v></c>`) +
      `<row><c t="s"><v>2</v></c><c t="inlineStr"><is><t>x-</t><phoneticPr/></is></c></row>`;
    const { rows: read, layout, tally } = await readAll(await workbookOf(rows, texts), OPTIONS);
    expect(layout).toMatchObject({
      format: 'xlsx',
      columns: ['name', 'purchase code'],
      codeColumn: 1,
    });
    expect(layout.reasons[0]).toBe('The list is sheet "Sheet1", the only one there is.');
    expect(read).toEqual([
      { line: 2, text: A, columns: ['Ada', A] },
      { line: 4, text: B, columns: ['Ada King', B] },
      { line: 5, text: 'x-', columns: [' a\rb & c<d>', 'x-'] },
    ]);
    expect(tally).toMatchObject({ rows: 3, rejected: 0 });
  });

  it('may be compressed once more, have prefixes, and come in pieces of any size', async () => {
    const files = workbookFiles([{ name: 'S', rows: HEADER + row(2, inline('B2', A)) }]);
    const sheet = files['xl/worksheets/sheet1.xml'] ?? '';
    const prefixed = sheet.replace('xmlns=', 'xmlns:x=').replaceAll(/<(\/?)(?=\w)/g, '<$1x:');
    const bytes = await zipOf({ ...files, 'xl/worksheets/sheet1.xml': prefixed });
    expect(await codesOf(bytes, { ...OPTIONS, sizes: [1, 700] })).toEqual([A]);
  });

  it.each([
    [
      'a shortened number',
      '<c r="B2"><v>1.23456789012346E+17</v></c>',
      'Excel has shortened this number',
    ],
    [
      'a text that was a shortened number',
      inline('B2', '1.23457E+17'),
      'Excel has shortened this number',
    ],
    [
      'a number',
      '<c r="B2"><v>4711</v></c>',
      /^Excel has made a number of this code, which loses leading zeros/,
    ],
    ['the number of a formula', '<c r="B2"><f>1+1</f><v>2</v></c>', /^Excel has made a number/],
    ['money', '<c r="B2" s="3"><v>4711</v></c>', /^Excel has made a number/],
    ['a date', '<c r="B2" s="1"><v>45000</v></c>', /^Excel has made a date of this code/],
    [
      'a date in a format of its own',
      '<c r="B2" s="2"><v>45000.5</v></c>',
      /^Excel has made a date/,
    ],
    ['a date in words', '<c r="B2" t="d"><v>2026-11-23</v></c>', /^Excel has made a date/],
    ['TRUE', '<c r="B2" t="b"><v>1</v></c>', 'the cell holds TRUE or FALSE in place of a code'],
    [
      'an error',
      '<c r="B2" t="e"><v>#N/A</v></c>',
      'the cell holds an error of Excel in place of a code',
    ],
    [
      'a formula that was never computed',
      '<c r="B2"><f>A1</f></c>',
      /^the cell holds a formula without its result/,
    ],
    ['nothing', '', 'the code is empty'],
    ['a control character', inline('B2', 'a_x0001_b'), /^the code /],
  ])('has its row rejected where Excel has ruined the code: %s', async (_, cell, why) => {
    const rows =
      HEADER + row(7, inline('A7', 'x') + cell.replaceAll('B2', 'B7')) + row(8, inline('B8', A));
    const { rows: read } = await readAll(await workbookOf(rows), OPTIONS);
    const rejected: unknown = typeof why === 'string' ? why : expect.stringMatching(why);
    expect(read[0]).toMatchObject({ line: 7, rejected });
    expect(read[1]).toMatchObject({ line: 8, text: A });
  });

  it.each([
    ['<c r="A2"><v>19.989999999999998</v></c>', '19.99'],
    ['<c r="A2"><v>1E-3</v></c>', '0.001'],
    ['<c r="A2" t="b"><v>0</v></c>', 'FALSE'],
    ['<c r="A2" t="e"><v>#N/A</v></c>', '#N/A'],
    ['<c r="A2" s="1"><v>1</v></c>', '1900-01-01'],
    ['<c r="A2" s="1"><v>59</v></c>', '1900-02-28'],
    ['<c r="A2" s="1"><v>61</v></c>', '1900-03-01'],
    ['<c r="A2" s="1"><v>46349</v></c>', '2026-11-23'],
    ['<c r="A2" s="2"><v>46349.5868055556</v></c>', '2026-11-23 14:05:00'],
    ['<c r="A2" s="2"><v>0.75</v></c>', '18:00:00'],
    ['<c r="A2" s="1"><v>-1</v></c>', '-1'],
    ['<c r="A2" s="1"><v>99999999</v></c>', '99999999'],
    ['<c r="A2" s="3"><v>2.5</v></c>', '2.5'],
  ])('has other cells as Excel shows them: %s', async (cell, text) => {
    const { rows } = await readAll(
      await workbookOf(HEADER + row(2, cell + inline('B2', A))),
      OPTIONS,
    );
    expect(rows[0]?.columns).toEqual([text, A]);
  });

  it('has the dates of old workbooks from a Mac', async () => {
    const rows = HEADER + row(2, `<c r="A2" s="1"><v>44887</v></c>${inline('B2', A)}`);
    const bytes = await workbookOf(rows, '', '<workbookPr date1904="1"/>');
    expect((await readAll(bytes, OPTIONS)).rows[0]?.columns[0]).toBe('2026-11-23');
  });

  it('says what it leaves out: notes beside the table, and blank rows', async () => {
    const many = Array.from({ length: 1000 }, (_, n) => row(n + 2, inline(`B${n + 2}`, code(n))));
    const last =
      row(1100, '<c r="A1100" s="1"/>') + row(1101, inline('B1101', B) + inline('F1101', 'note'));
    const { rows, tally } = await readAll(await workbookOf(HEADER + many.join('') + last), OPTIONS);
    expect(rows.at(-1)).toEqual({ line: 1101, text: B, columns: ['', B] });
    expect(tally).toMatchObject({ rows: 1001, blankLines: 1 });
    expect(tally.notes.join()).toContain('1 of the rows have cells to the right of the table');
  });

  it('is any table at all: rows, columns and texts come out as they went in', async () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter((one) => one.trim() !== '');
    const table = fc.array(fc.array(fc.option(text, { nil: '' }), { minLength: 3, maxLength: 3 }));
    await fc.assert(
      fc.asyncProperty(table, fc.integer({ min: 1, max: 5 }), async (cells, gap) => {
        const lines = cells.map((given, n) => ({
          line: 1 + (n + 1) * gap,
          given: [...given, code(n)],
        }));
        const xml = lines.map(({ line, given }) =>
          row(
            line,
            given
              .map((one, at) => (one === '' ? '' : inline(`${'ABCD'[at]}${line}`, escaped(one))))
              .join(''),
          ),
        );
        const names = ['a', 'b', 'c', 'code'].map((name, at) => inline(`${'ABCD'[at]}1`, name));
        const bytes = await workbookOf(row(1, names.join('')) + xml.join(''));
        if (cells.length === 0) return;
        const { rows } = await readAll(bytes, { ...OPTIONS, sizes: [1000 * gap] });
        expect(rows.map(({ line, columns }) => ({ line, given: columns }))).toEqual(lines);
      }),
      { numRuns: 50 },
    );
  });
});

/** Text as XML of a workbook. */
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
  const book = (...hidden: string[]) =>
    zipOf(
      workbookFiles([
        { name: 'Read me', rows: notes },
        { name: 'Old', rows: HEADER + row(2, inline('B2', B)), attributes: 'state="veryHidden"' },
        { name: 'Customers', rows: HEADER + row(2, inline('B2', A)) },
        ...hidden.map((name) => ({ name, rows: HEADER + row(2, inline('B2', A)) })),
      ]),
    );

  it.each([
    [undefined, A, 'sheet "Customers", the first that has a column of codes'],
    ['customers', A, 'sheet "Customers", as asked for'],
    ['3', A, 'sheet "Customers", as asked for'],
    ['Old', B, 'sheet "Old", as asked for'],
  ])(
    'is the one asked for, else the first with a column of codes that is not hidden: %s',
    async (sheet, expected, reason) => {
      const { rows, layout } = await readAll(await book(), {
        ...OPTIONS,
        ...(sheet === undefined ? {} : { sheet }),
      });
      expect(rows.map((one) => 'text' in one && one.text)).toEqual([expected]);
      expect(layout.reasons[0]).toContain(reason);
    },
  );

  it('is not a cover with a title, whose only column has no code', async () => {
    const title = row(1, inline('A1', 'Customers 2026'));
    const list = HEADER + row(2, inline('B2', A));
    const cover = { name: 'Cover', rows: title };
    const { rows } = await readAll(
      await zipOf(workbookFiles([cover, { name: 'List', rows: list }])),
    );
    expect(rows.map((one) => 'text' in one && one.text)).toEqual([A]);
    const alone = await readAll(await zipOf(workbookFiles([cover, { ...cover, name: 'More' }])));
    expect(alone.layout.reasons[0]).toContain('sheet "Cover"');
  });

  it('that is not there is answered with the names of those that are', async () => {
    const said = await refusal(await book('\u202Eevil'), { ...OPTIONS, sheet: 'Kunden' });
    expect(said).toContain('there is no sheet "Kunden"');
    expect(said).toContain('The sheets are "Read me", "Old", "Customers", "\uFFFDevil"');
  });

  it('without a column of codes is the first one’s fault, where none has one', async () => {
    const bytes = await zipOf(
      workbookFiles([
        { name: 'One', rows: notes },
        { name: 'Two', rows: '' },
      ]),
    );
    expect(await refusal(bytes, OPTIONS)).toMatch(
      /^sheet "One": no column looks like purchase codes → .*The sheets are "One", "Two"/,
    );
  });

  it('is asked of workbooks only', async () => {
    expect(await refusal('code\nx-1\n', { sheet: 'a' })).toContain('there is no sheet in a list');
  });
});

/** Sets a field of 4 bytes in the first entry of the central directory with this name. */
function forged(zip: Buffer, name: string, offset: number, value: number): Buffer {
  const bytes = Buffer.from(zip);
  const at = bytes.lastIndexOf(name) - 46;
  expect(bytes.readUInt32LE(at)).toBe(0x02014b50);
  bytes.writeUInt32LE(value, at + offset);
  return bytes;
}

describe('a workbook that would do harm', () => {
  const SHEET = 'xl/worksheets/sheet1.xml';
  const good = (rows = HEADER + row(2, inline('B2', A))) => workbookFiles([{ name: 'S', rows }]);
  const replaced = (name: string, change: (text: string) => string) => {
    const files = good();
    return zipOf({ ...files, [name]: change(files[name] ?? '') });
  };
  const DAMAGED = 'the workbook is damaged or cut off';

  it.each<[string, () => Promise<Buffer>, string]>([
    [
      'a sheet that says it unpacks to 3 GiB',
      async () => forged(await zipOf(good()), SHEET, 24, 3 * 1024 ** 3),
      'unpacks to more than is allowed',
    ],
    [
      'a sheet that unpacks to more than it says',
      async () => forged(await zipOf(good(HEADER + ' '.repeat(1e6))), SHEET, 24, 1000),
      DAMAGED,
    ],
    [
      'texts that unpack to 1 GiB',
      async () => forged(await zipOf(good()), 'xl/sharedStrings.xml', 24, 1024 ** 3),
      'unpacks to more than is allowed',
    ],
    [
      'ten thousand parts',
      () =>
        zipOf({
          ...good(),
          ...Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`x/${n}`, ''])),
        }),
      'has more than 10000 parts',
    ],
    [
      'an entity from outside',
      () =>
        replaced(SHEET, (xml) =>
          xml.replace(
            '<worksheet',
            '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><worksheet',
          ),
        ),
      DAMAGED,
    ],
    [
      'entities that grow',
      () =>
        replaced('xl/sharedStrings.xml', (xml) =>
          `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>${xml}`.replace(
            '</sst>',
            '<si><t>&b;</t></si></sst>',
          ),
        ),
      DAMAGED,
    ],
    [
      'an entity that nobody knows',
      () => replaced(SHEET, (xml) => xml.replace('name', '&nbsp;')),
      DAMAGED,
    ],
    ['elements without an end', () => zipOf(good('<row>'.repeat(100_000))), DAMAGED],
    ['a name of a megabyte', () => zipOf(good(`<${'a'.repeat(1e6)}/>`)), DAMAGED],
    [
      'a text of a megabyte',
      () =>
        replaced('xl/sharedStrings.xml', (xml) =>
          xml.replace('</sst>', `<si><t>${'a'.repeat(2e6)}</t></si></sst>`),
        ),
      'longer than a record may be',
    ],
    ['rows that come again', () => zipOf(good(HEADER + HEADER)), DAMAGED],
    ['a row beyond the last', () => zipOf(good(row(1_048_577, inline('B1048577', A)))), DAMAGED],
    [
      'cells that come again',
      () => zipOf(good(row(1, inline('B1', A) + inline('A1', A)))),
      DAMAGED,
    ],
    ['a cell beyond the last column', () => zipOf(good(row(1, inline('XFE1', A)))), DAMAGED],
    [
      'too many columns',
      () => zipOf(good(HEADER + row(2, inline('XFD2', A)))),
      'may have 1000 columns',
    ],
    [
      'a text that is not there',
      () => zipOf(good(row(1, '<c r="A1" t="s"><v>5</v></c>'))),
      DAMAGED,
    ],
    [
      'a sheet from the network',
      () =>
        replaced('xl/_rels/workbook.xml.rels', (xml) =>
          xml.replaceAll('Target=', 'TargetMode="External" Target='),
        ),
      'has no sheet with cells',
    ],
    [
      'a sheet outside of the archive',
      () =>
        replaced('xl/_rels/workbook.xml.rels', (xml) =>
          xml.replace('worksheets/sheet1.xml', '../../../../etc/passwd'),
        ),
      DAMAGED,
    ],
  ])('is refused: %s', async (_, make, problem) => {
    expect(await refusal(await make(), OPTIONS)).toContain(problem);
  });

  it('has a row that is longer than a record may be rejected, and those after it read', async () => {
    const texts = `<si><t>${'x'.repeat(900)}</t></si>`;
    const long = Array.from({ length: 5 }, () => '<c t="s"><v>0</v></c>').join('');
    const rows =
      HEADER + row(2, inline('B2', A)) + `<row r="3">${long}</row>` + row(4, inline('B4', B));
    const given = await workbookOf(rows, texts);
    expect(await codesOf(given, { ...OPTIONS, maxRecordBytes: 1000, column: '2' })).toEqual([
      A,
      'line 3: is longer than a record may be',
      B,
    ]);
  });

  it('keeps keys to itself, in cells and in the names of sheets', async () => {
    const { Secret } = await import('../../src/domain/secret.js');
    const key = 'kEy0123456789abcdefKEY0123456789';
    const keys = [new Secret(key)];
    const rows = HEADER + row(2, inline('A2', key) + inline('B2', key));
    const bytes = await zipOf(workbookFiles([{ name: key, rows }]));
    const { rows: read, layout } = await readAll(bytes, { ...OPTIONS, keys });
    expect(JSON.stringify({ read, layout })).not.toContain(key);
    expect(await refusal(bytes, { ...OPTIONS, keys, sheet: 'x' })).not.toContain(key);
  });
});

describe('what only looks like a workbook', () => {
  it.each<[string, () => Buffer | Promise<Buffer>, string]>([
    [
      'of the old kind',
      () => Buffer.from('d0cf11e0a1b11ae1'.padEnd(1024, '0'), 'hex'),
      'of the old kind (.xls), or one with a password, not a list of codes → Save it in Excel as .xlsx',
    ],
    [
      'with a password',
      () =>
        Buffer.concat([
          Buffer.from('d0cf11e0a1b11ae1'.padEnd(1024, '0'), 'hex'),
          Buffer.from('EncryptedPackage', 'utf16le'),
        ]),
      'an Excel workbook with a password, not a list of codes → Take the password off',
    ],
    [
      'with a password of the archive',
      async () => {
        const zip = await zipOf(workbookFiles([{ name: 'S', rows: HEADER }]));
        return forged(zip, '_rels/.rels', 8, 0x0008_0801);
      },
      'the workbook has a password',
    ],
    [
      'in the binary form',
      () =>
        zipOf({
          '[Content_Types].xml': '',
          '_rels/.rels':
            '<Relationships><Relationship Id="a" Type="x/officeDocument" Target="xl/workbook.bin"/></Relationships>',
        }),
      'binary form (.xlsb) → Save it in Excel',
    ],
    [
      'of words',
      () => zipOf({ '[Content_Types].xml': '', 'word/document.xml': '<document/>' }),
      'an Office document, but not an Excel workbook',
    ],
    [
      'that was cut off',
      async () => (await workbookOf(HEADER)).subarray(0, 900),
      'damaged or cut off',
    ],
    [
      'with a damaged sheet',
      async () => {
        const bytes = await workbookOf(HEADER + row(2, inline('B2', A.repeat(500))));
        const at = bytes.indexOf('xl/worksheets/sheet1.xml');
        bytes.fill(0xff, at + 60, at + 90);
        return bytes;
      },
      'damaged or cut off',
    ],
    ['without any row', () => workbookOf(''), 'the list is empty'],
    ['with a header alone', () => workbookOf(HEADER), 'a header and nothing else'],
  ])('is said to be what it is: one %s', async (_, make, problem) => {
    expect(await refusal(await make(), OPTIONS)).toContain(problem);
  });

  it('is refused where another format was asked for, and so is a text as a workbook', async () => {
    const bytes = await workbookOf(HEADER + row(2, inline('B2', A)));
    expect(await refusal(bytes, { format: 'csv' })).toContain('Leave --input-format out');
    expect(await refusal('a\nb\n', { format: 'xlsx' })).toContain('is not an Excel workbook');
  });
});
