import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  layoutLines,
  loadLines,
  sizeLine,
  readLists,
  classifyArguments,
} from '../../src/cli/codes/check-lists.js';
import { protectLists } from '../../src/cli/codes/result-file.js';
import { destinationOf } from '../../src/cli/out-file.js';
import { RESULT_FORMATS } from '../../src/codes/lists/result.js';
import { dialectOf } from '../../src/codes/audit-result.js';
import { layoutJson, reportOf, SHOWN_REJECTED } from '../../src/codes/enter-list.js';
import { inline, workbookOf } from '../codes/lists/zip.js';
import { never } from '../support/mirror.js';
import { folder } from './support.js';

const exists = (path: string): boolean => ['customers.csv', 'more.csv', 'codes'].includes(path);
const sorted = (...given: string[]) => classifyArguments(given, exists);

describe('the arguments of codes check', () => {
  it('are lists if they are existing files or -', () => {
    expect(sorted('customers.csv', 'codes', '-')).toEqual({
      kind: 'lists',
      paths: ['customers.csv', 'codes', '-'],
    });
  });

  it('are codes otherwise, trimmed and without repetitions', () => {
    expect(sorted(' 86781236-23d0-4b3c-7dfa-c1c147e0dece', 'ABC 123', 'ABC 123\n')).toEqual({
      kind: 'codes',
      codes: ['86781236-23d0-4b3c-7dfa-c1c147e0dece', 'ABC 123'],
    });
  });

  it.each(['custumers.csv', './customers', 'C:\\lists\\customers', 'old.csv.gz', 'list.XLSX'])(
    'are an error if they look like the path of a missing file: %s',
    (path) => {
      expect(() => sorted(path)).toThrow(`there is no file ${JSON.stringify(path)}`);
    },
  );

  it.each([
    [['customers.csv', 'abc-123'], 'some arguments are lists and others are codes'],
    [['customers.csv', 'customers.csv'], 'a list is named twice'],
    [['-', '-'], 'a list is named twice'],
    [[' '], 'the code is empty'],
    [['abc', 'a\u0000c'], 'code 2 has the control character U+0000 after character 1'],
  ])('are an error: %j', (given, message) => {
    expect(() => sorted(...given)).toThrow(message);
  });
});

describe('the place of a result', () => {
  const csvAt = (path: string | null) => ({ path, format: 'csv' as const });

  it.each([
    ['result.csv', undefined, { path: 'result.csv', format: 'csv' }],
    ['result.xlsx', undefined, { path: 'result.xlsx', format: 'xlsx' }],
    ['a.b/Result.JSON', undefined, { path: 'a.b/Result.JSON', format: 'json' }],
    ['result.jsonl', undefined, { path: 'result.jsonl', format: 'ndjson' }],
    ['result.csv', 'json', { path: 'result.csv', format: 'json' }],
    ['result', 'ndjson', { path: 'result', format: 'ndjson' }],
    ['-', undefined, { path: null, format: 'csv' }],
    ['-', 'json', { path: null, format: 'json' }],
  ] as const)('%s with --format %s', (out, format, place) => {
    const options = { out, ...(format === undefined ? {} : { format }) };
    expect(destinationOf(options, RESULT_FORMATS)).toEqual({ ...place, decimalComma: false });
  });

  it('must have a known ending if there is no --format', () => {
    expect(() => destinationOf({ out: 'result.xls' }, RESULT_FORMATS)).toThrow(
      'can’t tell the format from the file name "result.xls"',
    );
    expect(() => destinationOf({ out: 'result' }, RESULT_FORMATS)).toThrow('can’t tell the format');
  });

  it('is not that of a list, also through a link', () => {
    const dir = folder();
    const list = join(dir, 'list.csv');
    const link = join(dir, 'link.csv');
    writeFileSync(list, 'code\na-code\n');
    symlinkSync(list, link);
    const replaced = /would replace the list/;
    expect(() => protectLists(csvAt(list), ['-', list])).toThrow(replaced);
    expect(() => protectLists(csvAt(link), [list])).toThrow(replaced);
    expect(() => protectLists(csvAt(join(dir, '.', 'list.csv')), [link])).toThrow(replaced);
  });

  it('may be stdout, a new file, or an earlier result', () => {
    const dir = folder();
    const [list, earlier] = [join(dir, 'list.csv'), join(dir, 'result.csv')];
    writeFileSync(list, 'code\na-code\n');
    writeFileSync(earlier, 'code,verdict\n');
    for (const path of [null, earlier, join(dir, 'new.csv')]) {
      expect(() => protectLists(csvAt(path), [list])).not.toThrow();
    }
  });
});

function file(name: string, text: string | Uint8Array): string {
  const path = join(folder(), name);
  writeFileSync(path, text);
  return path;
}

const read = (paths: string[], column?: string) =>
  readLists(paths, { keys: [], ...(column === undefined ? {} : { column }) }, never);

async function load(paths: string[], column?: string) {
  const lists = await read(paths, column);
  return { lists, report: reportOf(lists), rows: lists.flatMap(({ entries }) => entries) };
}

describe('loading lists', () => {
  it('names rejected rows of a workbook by Excel’s row numbers', async () => {
    const rows = `<row r="3">${inline('A3', 'code')}</row><row r="9"><c><v>1.2E+17</v></c></row>`;
    const { rows: loaded, report } = await load([file('load.xlsx', await workbookOf(rows))]);
    const rejected = 'Excel has shortened this number';
    expect(loaded).toEqual([{ line: 9, rejected, columns: ['120000000000000000'] }]);
    expect(loadLines(report, 1)).toContain(`    row 9: ${rejected}`);
  });

  it('keeps all columns, trims codes, and rejects lines without a code with a reason', async () => {
    const path = file('load.csv', 'name,code\r\nAda," abc-1 "\r\nBob,\r\nCid,abc-1\r\n');
    const { lists, rows, report } = await load([path], 'code');
    expect(rows).toEqual([
      { line: 2, code: 'abc-1', columns: ['Ada', ' abc-1 '] },
      { line: 3, rejected: 'the code is empty', columns: ['Bob', ''] },
      { line: 4, code: 'abc-1', columns: ['Cid', 'abc-1'] },
    ]);
    expect(report.rejected).toBe(1);
    expect(loadLines(report, 1)).toEqual([
      '  1 line can’t be checked:',
      '    line 3: the code is empty',
    ]);
    expect(layoutLines(lists)).toContain('  The codes are in column 2, "code", as requested.');
    expect(layoutJson(lists)).toMatchObject({
      lists: [{ name: 'load.csv', format: 'csv', delimiter: ',', column: 'code' }],
    });
  });

  it('names rejected lines of several lists by list and line', async () => {
    const first = file('first.txt', 'abc-1\nabc-2\n');
    const second = file('second.txt', `\nabc-1\n\n${'x'.repeat(256)}\n`);
    const { report } = await load([first, second]);
    expect(loadLines(report, 2)).toEqual([
      '  2 blank lines skipped',
      '  1 line can’t be checked:',
      '    second.txt, line 4: the code is longer than 255 characters',
    ]);
  });

  it('reports skipped blank lines', async () => {
    const { report } = await load([file('blank.txt', 'abc-1\n\nabc-2\n')]);
    expect(loadLines(report, 1)).toEqual(['  1 blank line skipped']);
    const { report: none } = await load([file('none.txt', 'abc-1\nabc-2\n')]);
    expect(loadLines(none, 1)).toEqual([]);
  });

  it('reports only the first rejected lines', async () => {
    const lines = Array.from({ length: 30 }, (_, n) => `${n},abc-${n}\n${n},\n`).join('');
    const { report } = await load([file('many.csv', `n,code\n${lines}`)]);
    const shown = loadLines(report, 1);
    expect(shown).toHaveLength(1 + SHOWN_REJECTED + 1);
    expect(shown.at(-1)).toBe('    and 10 more; all of them are in the result as "rejected"');
  });

  it('end with one sentence, in a thread with limited memory, if they are no lists', async () => {
    const line = file('line.txt', Buffer.alloc(20 * 1024 ** 2, 'x'));
    await expect(read([line])).rejects.toThrow('line 1 is longer than 64 kB');
    const quote = file('quote.csv', `code,name\n"${'a-code,Ann\n'.repeat(50_000)}",x\n`);
    await expect(read([quote])).rejects.toThrow('line 2 has a cell of more than 32,767 characters');
    const cell = `<row>${inline('A1', 'x'.repeat(40 * 1024 ** 2))}</row>`;
    const workbook = file('cell.xlsx', await workbookOf(cell));
    await expect(read([workbook])).rejects.toThrow(
      'row 1 has a cell of more than 32,767 characters',
    );
    const small = file('small.txt', 'abc-1\n');
    expect((await load([small])).rows).toHaveLength(1);
  });

  it('requires the same columns in all lists', async () => {
    const first = file('a.csv', 'name,code\nAda,abc-1\n');
    const second = file('b.csv', 'code,name\nabc-1,Ada\n');
    await expect(read([first, second], 'code')).rejects.toThrow(
      '"b.csv" has other columns than "a.csv"',
    );
  });
});

const WORKBOOK = await workbookOf(`<row>${inline('A1', 'abc-1')}</row>`);

describe('the result of lists', () => {
  const MARKED = '\uFEFFname;code\nJürgen;abc-1\n';
  const PLAIN = MARKED.slice(1);
  it.each<[string, Record<string, string | Uint8Array>, boolean]>([
    ['of a list with one', { 'kunden.csv': MARKED }, true],
    ['of a list without', { 'kunden.csv': PLAIN }, false],
    ['of lists some of which have one', { 'a.csv': PLAIN, 'b.csv': MARKED }, true],
    ['of a list in UTF-16', { 'kunden.csv': Buffer.from(MARKED, 'utf16le') }, true],
    ['of a list in Windows-1252', { 'kunden.csv': Buffer.from(PLAIN, 'latin1') }, true],
    ['of text with one', { 'k.txt': '\uFEFFabc-1\nabc-2\n' }, true],
    ['of a workbook', { 'k.xlsx': WORKBOOK }, true],
  ])('starts with a byte order mark if Excel needs one: %s', async (_what, files, bom) => {
    const lists = await read(Object.entries(files).map(([name, text]) => file(name, text)));
    expect(dialectOf(layoutJson(lists)).bom).toBe(bom);
  });
});

it('the size of a list says how many codes are checked, and why others are not', () => {
  const size = { lines: 10_012, rejected: 3, codes: 10_001, reused: 1, chunks: 101 };
  expect(sizeLine(size)).toBe(
    '10,012 lines: 10,000 codes to check, 8 repeated, 1 checked recently enough, 3 rejected',
  );
  const one = { lines: 1, rejected: 0, codes: 1, reused: 0, chunks: 1 };
  expect(sizeLine(one)).toBe('1 line: 1 code to check');
});
