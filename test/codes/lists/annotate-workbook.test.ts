import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { readSheet } from 'read-excel-file/node';
import { describe, expect, it } from 'vitest';
import { annotatedWorkbook } from '../../../src/codes/lists/annotate-workbook.js';
import { ADDED_COLUMNS, RESULT_COLUMNS, type Result } from '../../../src/codes/lists/result.js';
import { Secret } from '../../../src/domain/secret.js';
import { code, parsed } from './support.js';
import { coloursOf, inline, partsOf, sheetOf, workbookFiles, zipOf } from './zip.js';

const RESULT: Result = {
  verdict: 'valid',
  reason: '=cmd()',
  license_type: 'Regular',
  item_id: 4711,
  item_name: 'A & B',
  price: '19.90',
  currency: 'EUR',
  purchased_at: '2024-01-02T03:04:05Z',
  supported_until: null,
  support: 'none',
  downloaded: 'yes',
  checked_at: '2026-11-25T12:00:00Z',
  listed: 2,
  proof: 'purchase',
  evidence: 'because',
};

/** A title, a header in row 3, a price and a date, a gap, a note far right, and a row that no list has. */
const ROWS =
  `<row r="1" spans="1:2" ht="30">${inline('A1', 'Customers')}</row>` +
  `<row r="3">${inline('A3', 'name')}${inline('B3', 'purchase code')}<c r="C3" s="1" t="inlineStr"><is><t>verdict</t></is></c><c r="D3" t="inlineStr"><is><t>paid</t></is></c></row>` +
  `<row r="4" spans="1:4">${inline('A4', 'Ada')}${inline('B4', code(1))}<c r="C4" s="1"><v>46349</v></c><c r="D4" s="3"><f>1+1.5</f><v>2.5</v></c></row>` +
  `<row r="6">${inline('A6', 'a &gt; b')}${inline('B6', code(2))}<c r="F6" t="b"><v>1</v></c></row>` +
  `<row r="7"/>`;

function book(rows = ROWS): Record<string, string> {
  const files = workbookFiles([
    { name: 'Customers', rows },
    { name: 'Prices', rows: `<row r="1"><c r="A1"><v>1</v></c></row>` },
  ]);
  const sheet = 'xl/worksheets/sheet1.xml';
  const dimension = '<dimension ref="A1:F6"/><sheetData>';
  const after = '</sheetData><autoFilter ref="A3:D6"/><!-- <row r="9"></row> -->';
  return {
    ...files,
    [sheet]: (files[sheet] ?? '').replace('<sheetData>', dimension).replace('</sheetData>', after),
    'xl/charts/chart1.xml': '<chart/>',
    'xl/media/image1.png': Buffer.from([0x89, 0x50, 0, 1, 2, 3]).toString('latin1'),
  };
}

/** The result of a workbook, where every entry has the same values. */
async function annotated(bytes: Buffer, results: Partial<Result> = {}): Promise<Buffer> {
  const { workbook, entries, layout } = await parsed(bytes, { name: 'a.xlsx' });
  if (workbook === null) throw new Error('the workbook was not kept');
  const values = RESULT_COLUMNS.map((name) => ({ ...RESULT, ...results })[name]);
  const rows = Readable.from(entries.map(({ line }) => ({ line, values })));
  return buffer(Readable.from(annotatedWorkbook(workbook, layout.columns, ADDED_COLUMNS, rows)));
}

describe('the result of a workbook', () => {
  it('ends the reading of its results, which hold a connection to the database', async () => {
    const { workbook, entries, layout } = await parsed(await zipOf(book()), { name: 'a.xlsx' });
    let isEnded = false;
    async function* results() {
      try {
        const rows = [...entries, { line: 1_000 }].map(({ line }) => ({ line, values: ['x'] }));
        yield* Readable.from(rows) as AsyncIterable<(typeof rows)[0]>;
        await Promise.resolve();
      } finally {
        isEnded = true;
      }
    }
    if (workbook === null) throw new Error('the workbook was not kept');
    const pieces = annotatedWorkbook(workbook, layout.columns, ADDED_COLUMNS, results());
    await buffer(Readable.from(pieces));
    expect(isEnded).toBe(true);
  });

  it('is the workbook as it came, with columns right of everything', async () => {
    const files = book();
    const parts = await partsOf(await annotated(await zipOf(files)));
    expect(Object.keys(parts)).toEqual(Object.keys(files));
    const { 'xl/worksheets/sheet1.xml': sheet = '', 'xl/styles.xml': styles, ...others } = parts;
    const { 'xl/worksheets/sheet1.xml': before = '', 'xl/styles.xml': _, ...same } = files;
    expect(others).toEqual(same);
    expect(styles).toContain('<cellXfs count="7">');
    const widths = /<cols>.*<\/cols>/.exec(sheet)?.[0] ?? '';
    expect(widths).toContain('<col min="14" max="14" width="20" customWidth="1"/>');
    // Without the added cells, only the used range and the claims of the changed rows differ.
    const stripped = sheet
      .replaceAll(/<c r="(?:[G-Z]|A[A-Z])\d+"[^]*?<\/c>/g, '')
      .replace(widths, '');
    const wider = before.replace('A1:F6', 'A1:U6').replace('"A3:D6"', '"A3:U6"');
    expect(stripped).toBe(wider.replace(' spans="1:4"', ''));
  });

  it('is read correctly by another program', async () => {
    const bytes = await annotated(await zipOf(book()));
    const rows = await readSheet(bytes, 'Customers', { trim: false });
    const [title, , header, ada, gap, bob] = rows;
    expect(title?.[0]).toBe('Customers');
    expect(header?.slice(0, 10)).toEqual([
      ...['name', 'purchase code', 'verdict', 'paid', null, null],
      ...['verdict_2', 'reason', 'license_type', 'item_id'],
    ]);
    expect(ada).toEqual([
      ...['Ada', code(1), new Date('2026-11-23T00:00:00Z'), 2.5, null, null, 'valid', '=cmd()'],
      ...['Regular', '4711', 'A & B', 19.9, 'EUR', new Date('2024-01-02T03:04:05Z'), null],
      ...['none', 'yes', new Date('2026-11-25T12:00:00Z'), 2, 'purchase', 'because'],
    ]);
    expect(gap?.every((cell) => cell === null)).toBe(true);
    expect(bob?.slice(0, 7)).toEqual(['a > b', code(2), null, null, null, true, 'valid']);
    expect(await readSheet(bytes, 'Prices')).toEqual([[1]]);
  });

  it('has widths and a filter for its columns, coloured verdicts, and the rest as it was', async () => {
    const files = book();
    const sheet1 = 'xl/worksheets/sheet1.xml';
    const own = '<col min="1" max="3" width="9"/><col min="4" max="16384" width="5" hidden="1"/>';
    const fills =
      '<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>';
    const name = (index: number): string =>
      `<definedName name="_xlnm._FilterDatabase" localSheetId="${index}" hidden="1">'A'!$A$3:$D$6</definedName>`;
    const bytes = await zipOf({
      ...files,
      [sheet1]: (files[sheet1] ?? '').replace('<sheetData>', `<cols>${own}</cols><sheetData>`),
      'xl/styles.xml': (files['xl/styles.xml'] ?? '').replace(
        '<cellStyleXfs>',
        `${fills}<cellStyleXfs>`,
      ),
      'xl/workbook.xml': (files['xl/workbook.xml'] ?? '').replace(
        '</sheets>',
        `</sheets><definedNames>${name(0)}${name(1)}</definedNames>`,
      ),
    });
    const { sheet, styles, book: names } = await sheetOf(await annotated(bytes));
    expect(sheet).toContain(
      '<cols><col min="1" max="3" width="9"/><col min="4" max="6" width="5" hidden="1"/><col min="7" max="7" width="16" customWidth="1"/>',
    );
    expect(sheet).toContain('<autoFilter ref="A3:U6"/>');
    expect(names).toContain(name(0).replace('$D', '$U') + name(1));
    expect(coloursOf(sheet, styles)).toEqual({ G4: 'FFC6EFCE', G6: 'FFC6EFCE' });
  });

  it('can be checked again', async () => {
    const again = await parsed(await annotated(await zipOf(book())), { name: 'result.xlsx' });
    expect(again.entries.map((entry) => 'code' in entry && entry.code)).toEqual([code(1), code(2)]);
    expect(again.layout.columns).toContain('verdict_2');
  });

  it('may have namespace prefixes, as some programs write them', async () => {
    const files: Record<string, string> = book();
    for (const name of ['xl/worksheets/sheet1.xml', 'xl/styles.xml']) {
      files[name] = (files[name] ?? '')
        .replace('xmlns=', 'xmlns:x=')
        .replaceAll(/<(\/?)(?=\w)/g, '<$1x:');
    }
    const list = await parsed(await annotated(await zipOf(files)), { name: 'r.xlsx' });
    expect(list.entries[0]?.columns.slice(0, 4)).toEqual(['Ada', code(1), '2026-11-23', '2.5']);
    expect(list.entries[0]?.columns.slice(6, 8)).toEqual(['valid', '=cmd()']);
  });

  it('has no names above the columns if the list has no header', async () => {
    const rows = `<row r="1">${inline('A1', code(1))}</row><row>${inline('A2', code(2))}</row>`;
    const sheet = await readSheet(await annotated(await zipOf(book(rows))));
    expect(sheet.map((cells) => cells.slice(0, 2))).toEqual([
      [code(1), 'valid'],
      [code(2), 'valid'],
    ]);
  });

  it('has times as text where days count from 1904, since dates would be four years off', async () => {
    const files = workbookFiles([{ name: 'S', rows: ROWS }], {
      properties: '<workbookPr date1904="1"/>',
    });
    const list = await parsed(await annotated(await zipOf(files)), { name: 'r.xlsx' });
    expect(list.entries[0]?.columns).toContain('2024-01-02T03:04:05Z');
  });

  it('is a new workbook if the old one holds an API key, in any of its parts', async () => {
    const key = 'k3y0123456789abcdef<&';
    const rows = `<row>${inline('A1', key.replaceAll('&', '&amp;').replaceAll('<', '&lt;'))}</row>`;
    const files = { ...book(), 'xl/worksheets/sheet2.xml': rows };
    const options = { name: 'a.xlsx', keys: [new Secret(key)] };
    const { workbook, notes } = await parsed(await zipOf(files), options);
    expect(workbook).toBeNull();
    expect(notes).toEqual([expect.stringContaining('holds an API key')]);
    expect((await parsed(await zipOf(book()), options)).workbook).not.toBeNull();
  });
});
