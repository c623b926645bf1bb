import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { inline, workbookOf } from '../codes/lists/zip.js';
import { useMirror } from '../support/mirror.js';
import { codesMarket, fileWith, folder, printed, run, settings } from './support.js';

const mirror = useMirror();

/** A file with this name in a folder of its own. */
function file(name: string, text: string | Uint8Array): string {
  const path = join(folder(), name);
  writeFileSync(path, text);
  return path;
}

/** What `codes check` says about lists, without asking the marketplace. */
async function readingOf(paths: readonly string[], ...options: string[]): Promise<string> {
  const env = settings(mirror().databaseUrl, 'http://127.0.0.1:9');
  const args = ['codes', 'check', ...paths, '--dry-run', ...options];
  const { code, stderr } = await run(args, env);
  expect(code, stderr).toBe(0);
  return stderr;
}

/** The error of `codes check` before it opens a store. */
async function refusalOf(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(['codes', 'check', ...args], {});
  expect([code, stdout]).toEqual([2, '']);
  return stderr;
}

describe('the arguments of codes check', () => {
  it('are an error if they look like the path of a missing file, are lists and codes, or no codes', async () => {
    for (const path of ['./customers', 'C:\\lists\\customers', 'old.csv.gz', 'list.XLSX']) {
      expect(await refusalOf(path)).toContain(`there is no file ${JSON.stringify(path)}`);
    }
    const list = fileWith('code\nx-1\n');
    for (const [message, ...given] of [
      ['some arguments are lists and others are codes', list, 'abc-123'],
      ['a list is named twice', list, list],
      ['a list is named twice', '-', '-'],
      ['the code is empty', ' '],
      ['code 2 has the control character U+0000 after character 1', 'abc', 'a\u0000c'],
    ] as const) {
      expect(await refusalOf(...given)).toContain(message);
    }
  });

  it('are codes if no file has their name, trimmed and each once', async () => {
    expect(await readingOf([' abc-12345', 'ABC 123', 'ABC 123\n'])).toMatch(
      /^2 lines: 2 codes to check\n/,
    );
  });
});

describe('the place of a result', () => {
  it('is not that of a list, also through a link, and has a known ending', async () => {
    const list = file('list.csv', 'code\na-code\n');
    const link = join(folder(), 'link.csv');
    symlinkSync(list, link);
    for (const [given, out] of [
      [list, list],
      [list, link],
      [link, join(folder(), '.', 'list.csv')],
    ] as const) {
      expect(await refusalOf(given, '--out', out)).toContain('would replace the list');
    }
    expect(await refusalOf('abc', '--out', 'result')).toContain(
      'can’t tell the format from the file name "result"',
    );
    expect(readFileSync(list, 'utf8')).toBe('code\na-code\n');
  });
});

describe('reading lists', () => {
  it('names rejected rows of a workbook by Excel’s row numbers', async () => {
    const rows = `<row r="3">${inline('A3', 'code')}</row><row r="9"><c><v>1.2E+17</v></c></row>`;
    expect(await readingOf([file('load.xlsx', await workbookOf(rows))])).toContain(
      '    row 9: Excel has shortened this number\n',
    );
  });

  it('says how each list is read, what is skipped, and which lines have no code, by list and line', async () => {
    const first = file('first.csv', 'code\nabc-1\nabc-2\n');
    const second = file('second.csv', `code\nabc-1\n\n${'x'.repeat(256)}\n`);
    const said = await readingOf([first, second]);
    expect(said).toMatch(/^first\.csv:\n {2}Read as csv.*\nsecond\.csv:\n/s);
    expect(said).toContain(
      [
        '  1 blank line skipped',
        '  1 line can’t be checked:',
        '    second.csv, line 4: the code is longer than 255 characters',
        '4 lines: 2 codes to check, 1 repeated, 1 rejected\n',
      ].join('\n'),
    );
  });

  it('names only the first 20 lines without a code', async () => {
    const lines = Array.from({ length: 30 }, (_, n) => `${n},abc-${n}\n${n},\n`).join('');
    const said = await readingOf([file('many.csv', `n,code\n${lines}`)]);
    expect(said.match(/^ {4}line /gm)).toHaveLength(20);
    expect(said).toContain('    and 10 more; all of them are in the result as "rejected"\n');
  });

  it('ends with one sentence, in a thread with limited memory, if they are no lists', async () => {
    const long = 'has a cell of more than 32,767 characters';
    const cell = `<row>${inline('A1', 'x'.repeat(40 * 1024 ** 2))}</row>`;
    for (const [name, text, problem] of [
      ['line.txt', Buffer.alloc(20 * 1024 ** 2, 'x'), 'line 1 is longer than 64 kB'],
      ['quote.csv', `code,name\n"${'a-code,Ann\n'.repeat(50_000)}",x\n`, `line 2 ${long}`],
      ['cell.xlsx', await workbookOf(cell), `row 1 ${long}`],
    ] as const) {
      expect(await refusalOf(file(name, text))).toContain(problem);
    }
  });

  it('requires the same columns in all lists', async () => {
    const first = file('a.csv', 'name,code\nAda,abc-1\n');
    const second = file('b.csv', 'code,name\nabc-1,Ada\n');
    expect(await refusalOf(first, second, '--column', 'code')).toContain(
      '"b.csv" has other columns than "a.csv"',
    );
  });
});

it('the result of lists starts with a byte order mark if Excel needs one', async () => {
  const MARKED = '\uFEFFname;code\nJürgen;abc-1\n';
  const PLAIN = MARKED.slice(1);
  const sim = await codesMarket(mirror());
  const env = settings(mirror().databaseUrl, sim.url);
  const book = await workbookOf(`<row>${inline('A1', 'abc-1')}</row>`);
  const cases: readonly [string, Record<string, string | Uint8Array>, boolean][] = [
    ['a list with one', { 'kunden.csv': MARKED }, true],
    ['a list without', { 'kunden.csv': PLAIN }, false],
    ['lists some of which have one', { 'a.csv': PLAIN, 'b.csv': MARKED }, true],
    ['a list in UTF-16', { 'kunden.csv': Buffer.from(MARKED, 'utf16le') }, true],
    ['a list in Windows-1252', { 'kunden.csv': Buffer.from(PLAIN, 'latin1') }, true],
    ['text with one', { 'k.txt': '\uFEFFabc-1\nabc-2\n' }, true],
    ['a workbook', { 'k.xlsx': book }, true],
  ];
  for (const [what, files, bom] of cases) {
    const lists = Object.entries(files).map(([name, text]) => file(name, text));
    await printed(['codes', 'check', ...lists, '--detach'], env);
    const out = await printed(['audits', 'export', await mirror().newestAudit()], env);
    expect(out.startsWith('\uFEFF'), what).toBe(bom);
  }
});
