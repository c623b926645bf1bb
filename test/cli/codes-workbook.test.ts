import { readFileSync, writeFileSync } from 'node:fs';
import { readSheet } from 'read-excel-file/node';
import { expect, it } from 'vitest';
import { inline, workbookFiles, zipOf } from '../codes/lists/zip.js';
import { useMirror } from '../support/mirror.js';
import { codesMarket, codesOf, freePath, run, settings } from './support.js';

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
