import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../../src/domain/secret.js';
import { code, codesOf, readAll, refusal } from './support.js';
import { inline, workbookFiles, workbookOf, zipOf } from './zip.js';

const OPTIONS = { name: 'list.xlsx' };
const [A, B] = [code(1), code(2)];

function row(number: number, cells: string): string {
  return `<row r="${number}">${cells}</row>`;
}

const HEADER = row(1, inline('A1', 'name') + inline('B1', 'purchase code'));

describe('a list in an Excel workbook', () => {
  it('is found by its header, with text in every notation that programs use', async () => {
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
    expect(layout.reasons[0]).toBe('The list is sheet "Sheet1", the only sheet.');
    expect(read).toEqual([
      { line: 2, code: A, columns: ['Ada', A] },
      { line: 4, code: B, columns: ['Ada King', B] },
      { line: 5, code: 'x-', columns: [' a\rb & c<d>', 'x-'] },
    ]);
    expect(tally).toMatchObject({ rows: 3, rejected: 0 });
  });

  it('may have namespace prefixes, and come in pieces of any size', async () => {
    const files = workbookFiles([{ name: 'S', rows: HEADER + row(2, inline('B2', A)) }]);
    const sheet = files['xl/worksheets/sheet1.xml'] ?? '';
    const prefixed = sheet.replace('xmlns=', 'xmlns:x=').replaceAll(/<(\/?)(?=\w)/g, '<$1x:');
    const bytes = await zipOf({ ...files, 'xl/worksheets/sheet1.xml': prefixed });
    expect(await codesOf(bytes, { ...OPTIONS })).toEqual([A]);
  });

  const [NUMBER, DATE] = [/^Excel has converted this code to a number/, /to a date/];
  it.each<[what: string, cell: string, why: string | RegExp]>([
    [
      'a short number',
      '<c r="B2"><v>1.23456789012346E+17</v></c>',
      'Excel has shortened this number',
    ],
    ['a short number as text', inline('B2', '1.23457E+17'), 'Excel has shortened this number'],
    ['a number', '<c r="B2"><v>4711</v></c>', NUMBER],
    ['the number of a formula', '<c r="B2"><f>1+1</f><v>2</v></c>', NUMBER],
    ['money', '<c r="B2" s="3"><v>4711</v></c>', NUMBER],
    ['a date', '<c r="B2" s="1"><v>45000</v></c>', DATE],
    ['a date in a custom format', '<c r="B2" s="2"><v>45000.5</v></c>', DATE],
    ['a date as text', '<c r="B2" t="d"><v>2026-11-23</v></c>', DATE],
    ['TRUE', '<c r="B2" t="b"><v>1</v></c>', /TRUE or FALSE instead of a code/],
    ['an error', '<c r="B2" t="e"><v>#N/A</v></c>', /an Excel error instead of a code/],
    ['a formula without a result', '<c r="B2"><f>A1</f></c>', /a formula without its result/],
    ['nothing', '', 'the code is empty'],
    ['a control character', inline('B2', 'a_x0001_b'), /^the code /],
  ])('has a row rejected if its cell has %s instead of a code', async (_, cell, why) => {
    const rows =
      HEADER + row(7, inline('A7', 'x') + cell.replaceAll('B2', 'B7')) + row(8, inline('B8', A));
    const { rows: read } = await readAll(await workbookOf(rows), OPTIONS);
    const rejected: unknown = typeof why === 'string' ? why : expect.stringMatching(why);
    expect(read[0]).toMatchObject({ line: 7, rejected });
    expect(read[1]).toMatchObject({ line: 8, code: A });
  });

  it('has a row rejected if its only cell is a formula without a result', async () => {
    const formula = (n: number) => row(n, `<c r="A${n}"><f>B${n}</f></c>`);
    const reason = expect.stringMatching(/a formula without its result/) as string;
    for (const head of [row(1, inline('A1', 'code')), '']) {
      const bytes = await workbookOf(`${head}${formula(2)}${formula(3)}`);
      const { rows: read, tally } = await readAll(bytes, { ...OPTIONS, column: '1' });
      expect(read.map((one) => 'rejected' in one && one.rejected)).toEqual([reason, reason]);
      expect(tally).toMatchObject({ rejected: 2, blankLines: 0 });
    }
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
    const bytes = await workbookOf(HEADER + row(2, cell + inline('B2', A)));
    const { rows } = await readAll(bytes, OPTIONS);
    expect(rows[0]?.columns).toEqual([text, A]);
  });

  it('may have dates since 1904, as old workbooks from a Mac do', async () => {
    const rows = HEADER + row(2, `<c r="A2" s="1"><v>44887</v></c>${inline('B2', A)}`);
    const bytes = await workbookOf(rows, '', '<workbookPr date1904="1"/>');
    expect((await readAll(bytes, OPTIONS)).rows[0]?.columns[0]).toBe('2026-11-23');
  });

  it('keeps cells right of the table, and has blank rows counted', async () => {
    const many = Array.from({ length: 1000 }, (_, n) => row(n + 2, inline(`B${n + 2}`, code(n))));
    const last =
      row(1100, '<c r="A1100" s="1"/>') + row(1101, inline('B1101', B) + inline('F1101', 'note'));
    const { rows, tally } = await readAll(await workbookOf(HEADER + many.join('') + last), OPTIONS);
    expect(rows.at(-1)).toEqual({ line: 1101, code: B, columns: ['', B, '', '', '', 'note'] });
    expect(tally).toMatchObject({ rows: 1001, blankLines: 1, notes: [] });
  });

  it('is read with every cell unchanged, whatever its rows and texts', async () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => text.trim() !== '');
    const record = fc.array(fc.option(text, { nil: '' }), { minLength: 3, maxLength: 3 });
    const table = fc.array(record, { minLength: 1 });
    const xmlOf = (number: number, cells: readonly string[]): string => {
      const xml = cells.map((text, at) =>
        text === '' ? '' : inline(`${'ABCD'[at]}${number}`, escaped(text)),
      );
      return row(number, xml.join(''));
    };
    await fc.assert(
      fc.asyncProperty(table, fc.integer({ min: 1, max: 5 }), async (records, gap) => {
        const expected = records.map((cells, n) => ({
          line: 1 + (n + 1) * gap,
          columns: [...cells, code(n)],
        }));
        const xml = expected.map(({ line, columns }) => xmlOf(line, columns));
        const bytes = await workbookOf(xmlOf(1, ['a', 'b', 'c', 'code']) + xml.join(''));
        const { rows } = await readAll(bytes, { ...OPTIONS });
        expect(rows.map(({ line, columns }) => ({ line, columns }))).toEqual(expected);
      }),
      { numRuns: 50 },
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
    [undefined, A, 'sheet "Customers", the first with a column of codes'],
    ['customers', A, 'sheet "Customers", as requested'],
    ['3', A, 'sheet "Customers", as requested'],
    ['Old', B, 'sheet "Old", as requested'],
  ])(
    'is the requested one, else the first visible one with a column of codes: %s',
    async (sheet, expected, reason) => {
      const options = { ...OPTIONS, ...(sheet === undefined ? {} : { sheet }) };
      const { rows, layout } = await readAll(await book(), options);
      expect(rows).toMatchObject([{ code: expected }]);
      expect(layout.reasons[0]).toContain(reason);
    },
  );

  it('is not a cover sheet, whose only column has no code', async () => {
    const cover = { name: 'Cover', rows: row(1, inline('A1', 'Customers 2026')) };
    const list = { name: 'List', rows: HEADER + row(2, inline('B2', A)) };
    const { rows } = await readAll(await zipOf(workbookFiles([cover, list])));
    expect(rows).toMatchObject([{ code: A }]);
    const alone = await readAll(await zipOf(workbookFiles([cover, { ...cover, name: 'More' }])));
    expect(alone.layout.reasons[0]).toContain('sheet "Cover"');
  });

  it('is the one that has the requested column, also after one with codes', async () => {
    const codes = { name: 'Codes', rows: HEADER + row(2, inline('B2', A)) };
    const keys = {
      name: 'Keys',
      rows: row(1, inline('A1', 'Kennung')) + row(2, inline('A2', 'x-1')),
    };
    const bytes = await zipOf(workbookFiles([codes, keys]));
    const { rows, layout } = await readAll(bytes, { name: 'a.xlsx', column: 'kennung' });
    expect(rows).toMatchObject([{ code: 'x-1' }]);
    expect(layout.reasons[0]).toContain('sheet "Keys"');
  });

  it('that does not exist is refused with the names of all sheets', async () => {
    const message = await refusal(await book('\u202Eevil'), { ...OPTIONS, sheet: 'Kunden' });
    expect(message).toContain('there is no sheet "Kunden"');
    expect(message).toContain('The sheets are "Read me", "Old", "Customers", "\uFFFDevil"');
  });

  it('is refused with the problem of the first one if none has codes', async () => {
    const sheets = [
      { name: 'One', rows: notes },
      { name: 'Two', rows: '' },
    ];
    const bytes = await zipOf(workbookFiles(sheets));
    expect(await refusal(bytes, OPTIONS)).toMatch(
      /^sheet "One": no column looks like purchase codes → .*The sheets are "One", "Two"/,
    );
  });

  it('can be requested only of workbooks', async () => {
    expect(await refusal('code\nx-1\n', { sheet: 'a' })).toContain('there is no sheet in a list');
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
    expect(await refusal(await make(), OPTIONS)).toContain(problem);
  });

  it('is not kept for its result if any of its parts holds an API key', async () => {
    const key = 'k3y0123456789abcdef<&';
    const rows = `<row>${inline('A1', key.replaceAll('&', '&amp;').replaceAll('<', '&lt;'))}</row>`;
    const options = { ...OPTIONS, keys: [new Secret(key)] };
    const files = { ...good(), 'xl/worksheets/sheet2.xml': rows };
    const { tally } = await readAll(await zipOf(files), options);
    expect(tally).toMatchObject({
      workbook: null,
      notes: [expect.stringContaining('holds an API key')],
    });
    expect((await readAll(await zipOf(good()), options)).tally.workbook).not.toBeNull();
  });

  it('has API keys masked in cells and sheet names', async () => {
    const key = 'kEy0123456789abcdefKEY0123456789';
    const keys = [new Secret(key)];
    const rows = HEADER + row(2, inline('A2', key) + inline('B2', key));
    const bytes = await zipOf(workbookFiles([{ name: key, rows }]));
    const { rows: read, layout } = await readAll(bytes, { ...OPTIONS, keys });
    expect(JSON.stringify({ read, layout })).not.toContain(key);
    expect(await refusal(bytes, { ...OPTIONS, keys, sheet: 'x' })).not.toContain(key);
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
    expect(await refusal(await make(), OPTIONS)).toContain(problem);
  });

  it('is refused if another format is requested, and so is text as a workbook', async () => {
    const bytes = await workbookOf(HEADER + row(2, inline('B2', A)));
    expect(await refusal(bytes, { format: 'csv' })).toContain('Leave --input-format out');
    expect(await refusal('a\nb\n', { format: 'xlsx' })).toContain('is not an Excel workbook');
  });
});
