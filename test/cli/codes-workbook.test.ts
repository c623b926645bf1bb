import { readFileSync, writeFileSync } from 'node:fs';
import { readSheet } from 'read-excel-file/node';
import { expect, it } from 'vitest';
import { coloursOf, inline, partsOf, sheetOf, workbookFiles, zipOf } from '../codes/lists/zip.js';
import { useMirror } from '../support/mirror.js';
import { codesMarket, codesOf, fileWith, freePath, run, settings } from './support.js';

const mirror = useMirror();

it('the result of a workbook keeps its prices, dates and other sheets, also when it is exported later', async () => {
  const sim = await codesMarket(mirror());
  const env = settings(mirror().databaseUrl, sim.url);
  const [, good = ''] = codesOf(sim, 2);
  const header = inline('A1', 'code') + inline('B1', 'bought') + inline('C1', 'paid');
  const row = (n: number, code: string): string =>
    `<row r="${n}">${inline(`A${n}`, code)}<c r="B${n}" s="1"><v>46349</v></c><c r="C${n}"><v>19.9</v></c></row>`;
  const rows = `<row r="1">${header}</row>${row(2, good)}${row(3, 'made-up')}${row(4, good)}`;
  const list = freePath('xlsx');
  const sheets = [
    { name: 'List', rows },
    { name: 'Notes', rows: `<row r="1">${inline('A1', 'keep me')}</row>` },
  ];
  writeFileSync(list, await zipOf(workbookFiles(sheets)));
  const out = freePath('xlsx');
  const { code, stderr } = await run(['codes', 'check', list, '--out', out], env);
  expect(code, stderr).toBe(0);
  const again = freePath('xlsx');
  expect((await run(['audits', 'export', '1', '--out', again], env)).code).toBe(0);
  for (const path of [out, again]) {
    const bytes = readFileSync(path);
    const [names = [], first = [], second = []] = await readSheet(bytes, 'List');
    expect(names.slice(0, 5)).toEqual(['code', 'bought', 'paid', 'verdict', 'reason']);
    expect(first.slice(0, 4)).toEqual([good, new Date('2026-11-23T00:00:00Z'), 19.9, 'valid']);
    expect(second.slice(3, 4)).toEqual(['invalid']);
    expect(first[names.indexOf('listed')]).toBe(2);
    for (const cells of [first, second]) expect(String(cells[4]).length).toBeLessThanOrEqual(60);
    expect(await readSheet(bytes, 'Notes')).toEqual([['keep me']]);
  }
});

it('the result of a list as a workbook is a list that can be checked again, with its texts as they were', async () => {
  const sim = await codesMarket(mirror());
  const env = settings(mirror().databaseUrl, sim.url);
  const [, good = ''] = codesOf(sim, 2);
  const out = freePath('xlsx');
  const list = fileWith(`verdict,code,note\n1.0,${good},=cmd()\n0042,made-up-1,\n`);
  const { code, stderr } = await run(['codes', 'check', list, '--out', out], env);
  expect(code, stderr).toBe(0);
  const [names = [], first = [], second = []] = await readSheet(readFileSync(out));
  expect(names.slice(0, 5)).toEqual(['verdict', 'code', 'note', 'verdict_2', 'reason']);
  expect(first.slice(0, 4)).toEqual(['1.0', good, '=cmd()', 'valid']);
  expect(first[names.indexOf('price')]).toEqual(expect.any(Number));
  expect(first[names.indexOf('purchased_at')]).toEqual(expect.any(Date));
  expect(second.slice(0, 4)).toEqual(['0042', 'made-up-1', null, 'invalid']);
  const again = await run(['codes', 'check', out, '--dry-run'], env);
  expect(again.stderr).toContain('2 lines: 2 codes to check');
});

const SHEET = 'xl/worksheets/sheet1.xml';

/** A title, a header in row 3, a price and a date, a gap, a note far right, and a row that no list has. */
function bookOf(good: string, bad: string): Record<string, string> {
  const rows =
    `<row r="1" spans="1:2" ht="30">${inline('A1', 'Customers')}</row>` +
    `<row r="3">${inline('A3', 'name')}${inline('B3', 'purchase code')}<c r="C3" s="1" t="inlineStr"><is><t>verdict</t></is></c><c r="D3" t="inlineStr"><is><t>paid</t></is></c></row>` +
    `<row r="4" spans="1:4">${inline('A4', 'Ada')}${inline('B4', good)}<c r="C4" s="1"><v>46349</v></c><c r="D4" s="3"><f>1+1.5</f><v>2.5</v></c></row>` +
    `<row r="6">${inline('A6', 'a &gt; b')}${inline('B6', bad)}<c r="F6" t="b"><v>1</v></c></row>` +
    `<row r="7"/>`;
  const files = workbookFiles([
    { name: 'Customers', rows },
    { name: 'Prices', rows: `<row r="1"><c r="A1"><v>1</v></c></row>` },
  ]);
  const after = '</sheetData><autoFilter ref="A3:D6"/><!-- <row r="9"></row> -->';
  return {
    ...files,
    [SHEET]: (files[SHEET] ?? '')
      .replace('<sheetData>', '<dimension ref="A1:F6"/><sheetData>')
      .replace('</sheetData>', after),
    'xl/charts/chart1.xml': '<chart/>',
    'xl/media/image1.png': Buffer.from([0x89, 0x50, 0, 1, 2, 3]).toString('latin1'),
  };
}

it('the result of a workbook is that workbook with columns at its right, however programs write it', async () => {
  const sim = await codesMarket(mirror());
  const env = settings(mirror().databaseUrl, sim.url);
  const [, good = ''] = codesOf(sim, 2);
  const bad = 'f0'.repeat(16);
  const files = bookOf(good, bad);
  const checked = async (book: Record<string, string>): Promise<Buffer> => {
    const [list, out] = [freePath('xlsx'), freePath('xlsx')];
    writeFileSync(list, await zipOf(book));
    const args = ['codes', 'check', list, '--out', out, '--max-age', '1d', '--yes'];
    const { code, stderr } = await run(args, env);
    expect(code, stderr).toBe(0);
    return readFileSync(out);
  };

  const plain = await checked(files);
  const parts = await partsOf(plain);
  expect(Object.keys(parts)).toEqual(Object.keys(files));
  const { [SHEET]: sheet = '', 'xl/styles.xml': styles, ...others } = parts;
  const { [SHEET]: before = '', 'xl/styles.xml': _, ...same } = files;
  expect(others, 'all other parts stay').toEqual(same);
  expect(styles).toContain('<cellXfs count="7">');
  const widths = /<cols>.*<\/cols>/.exec(sheet)?.[0] ?? '';
  expect(widths).toContain('<col min="14" max="14" width="20" customWidth="1"/>');
  const stripped = sheet
    .replaceAll(/<c r="(?:[G-Z]|A[A-Z])\d+"[^]*?<\/c>/g, '')
    .replace(widths, '');
  const wider = before.replace('A1:F6', 'A1:U6').replace('"A3:D6"', '"A3:U6"');
  expect(stripped, 'without them, only ranges differ').toBe(wider.replace(' spans="1:4"', ''));

  const [title, , header, ada, gap, bob] = await readSheet(plain, 'Customers', { trim: false });
  expect(title?.[0]).toBe('Customers');
  const names = ['name', 'purchase code', 'verdict', 'paid', null, null, 'verdict_2', 'reason'];
  expect(header?.slice(0, 8)).toEqual(names);
  const date = new Date('2026-11-23T00:00:00Z');
  expect(ada?.slice(0, 7)).toEqual(['Ada', good, date, 2.5, null, null, 'valid']);
  expect(ada?.filter((cell) => cell instanceof Date).length, 'times are dates').toBeGreaterThan(2);
  expect(gap?.every((cell) => cell === null)).toBe(true);
  expect(bob?.slice(0, 7)).toEqual(['a > b', bad, null, null, null, true, 'invalid']);
  expect(await readSheet(plain, 'Prices')).toEqual([[1]]);

  const again = freePath('xlsx');
  writeFileSync(again, plain);
  const { stderr } = await run(['codes', 'check', again, '--dry-run'], env);
  expect(stderr, 'it can be checked again').toContain('2 lines: 2 codes to check');

  const filterOf = (index: number): string =>
    `<definedName name="_xlnm._FilterDatabase" localSheetId="${index}" hidden="1">'A'!$A$3:$D$6</definedName>`;
  const own = '<col min="1" max="3" width="9"/><col min="4" max="16384" width="5" hidden="1"/>';
  const fills =
    '<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>';
  const replaced = (file: string, from: string, to: string) => ({
    [file]: (files[file] ?? '').replace(from, to),
  });
  const styled = await sheetOf(
    await checked({
      ...files,
      ...replaced(SHEET, '<sheetData>', `<cols>${own}</cols><sheetData>`),
      ...replaced('xl/styles.xml', '<cellStyleXfs>', `${fills}<cellStyleXfs>`),
      ...replaced(
        'xl/workbook.xml',
        '</sheets>',
        `</sheets><definedNames>${filterOf(0)}${filterOf(1)}</definedNames>`,
      ),
    }),
  );
  expect(styled.sheet, 'a width ends where the new columns begin').toContain(
    '<col min="4" max="6" width="5" hidden="1"/><col min="7" max="7" width="16" customWidth="1"/>',
  );
  expect(styled.book).toContain(filterOf(0).replace('$D', '$U') + filterOf(1));
  const colours = coloursOf(styled.sheet, styled.styles);
  expect(colours).toEqual({ G4: 'FFC6EFCE', G6: 'FFFFC7CE' });

  const prefixed = { ...files };
  for (const name of [SHEET, 'xl/styles.xml']) {
    prefixed[name] = (files[name] ?? '')
      .replace('xmlns=', 'xmlns:x=')
      .replaceAll(/<(\/?)(?=\w)/g, '<$1x:');
  }
  const ofPrefixed = await partsOf(await checked(prefixed));
  expect(ofPrefixed[SHEET]).toMatch(/<x:c r="G4"[^>]*><x:is><x:t[^>]*>valid</);

  const headless = `<row r="1">${inline('A1', good)}</row><row>${inline('A2', bad)}</row>`;
  const list = workbookFiles([{ name: 'S', rows: headless }]);
  const sheetWithout = await readSheet(await checked(list));
  expect(
    sheetWithout.map((cells) => cells.slice(0, 2)),
    'no names above',
  ).toEqual([
    [good, 'valid'],
    [bad, 'invalid'],
  ]);
  const old = files['xl/workbook.xml']?.replace('<sheets>', '<workbookPr date1904="1"/><sheets>');
  const [, , , of1904] = await readSheet(await checked({ ...files, 'xl/workbook.xml': old ?? '' }));
  expect(
    of1904?.filter((cell) => typeof cell === 'string' && cell.endsWith('Z')).length,
    'days that count from 1904 would be four years off',
  ).toBeGreaterThan(1);
});
