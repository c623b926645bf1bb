import { Readable } from 'node:stream';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  resultPieces,
  type ResultFormat,
  type ResultRow,
} from '../../../src/codes/lists/write-result.js';
import { RESULT_COLUMNS } from '../../../src/codes/result.js';
import { COMMA_CSV, PLAIN_CSV, type CsvDialect } from '../../../src/domain/csv.js';
import { readAll } from './support.js';

const VALUES = {
  verdict: 'valid',
  reason: 'why',
  license_type: 'Regular',
  item_id: 4711,
  item_name: 'Widget, large',
  price: '19.90',
  currency: 'EUR',
  purchased_at: '2024-01-02T03:04:05Z',
  supported_until: null,
  support: 'expired',
  downloaded: 'yes',
  checked_at: '2026-11-01T00:00:00Z',
  listed: 1,
  proof: 'purchase',
  evidence: 'because',
};

function row(columns: readonly string[], values: Partial<typeof VALUES> = {}): ResultRow {
  return { line: 1, columns, values: Object.values({ ...VALUES, ...values }) };
}

async function written(
  format: Exclude<ResultFormat, 'xlsx'>,
  columns: readonly string[],
  rows: Iterable<ResultRow>,
  options?: Partial<CsvDialect>,
): Promise<string> {
  let text = '';
  const pieces = resultPieces(format, columns, RESULT_COLUMNS, Readable.from(rows), {
    ...PLAIN_CSV,
    ...options,
  });
  for await (const piece of pieces) text += piece as string;
  return text;
}

describe('a result', () => {
  it('has the list’s columns, then its own; formulas are guarded, and numbers are unchanged', async () => {
    const columns = ['code', '=cmd()', 'n'];
    const text = await written('csv', columns, [row(['=1+1', 'x\ny', '-5'], { item_name: '@x' })]);
    expect(text).toBe(
      "code,'=cmd(),n,verdict,reason,license_type,item_id,item_name,price,currency,purchased_at,supported_until,support,downloaded,checked_at,listed,proof,evidence\r\n" +
        '\'=1+1,"x\ny",-5,valid,why,Regular,4711,\'@x,19.90,EUR,2024-01-02T03:04:05Z,,expired,yes,2026-11-01T00:00:00Z,1,purchase,because\r\n',
    );
  });

  it('may have another delimiter and a byte order mark', async () => {
    const options = { delimiter: ';', bom: true };
    const text = await written('csv', ['code'], [row(['a;1'])], options);
    expect(text).toMatch(/^\uFEFFcode;verdict;/);
    expect(text).toContain('\r\n"a;1";valid;');
  });

  it('may have prices with a decimal comma; the list’s own amounts are unchanged', async () => {
    const rows = [row(['-1.234,50', '19.90'])];
    const text = await written('csv', ['refund', 'code'], rows, COMMA_CSV);
    expect(text).toMatch(/^\uFEFFrefund;code;verdict;/);
    expect(text).toContain(
      '\r\n"-1.234,50";19.90;valid;why;Regular;4711;"Widget, large";19,90;EUR;',
    );
  });

  it('of a result keeps the old columns, and numbers the new ones', async () => {
    const header = await written('csv', ['code', 'verdict', 'proof', 'proof_2'], []);
    const columns = header.trimEnd().split(',');
    expect(columns.slice(0, 4)).toEqual(['code', 'verdict', 'proof', 'proof_2']);
    expect(columns).toContain('verdict_2');
    expect(columns.at(-2)).toBe('proof_3');
    expect(new Set(columns).size).toBe(columns.length);
  });

  it('has empty cells for missing ones', async () => {
    expect(await written('csv', ['a', 'b'], [row(['x'])])).toContain('\r\nx,,valid,');
  });

  it('is JSON in column order, with null for unknown values', async () => {
    const rows = [row(['a', 'b']), row(['=c', ''])];
    const names = ['7', '__proto__'];
    const list = JSON.parse(await written('json', names, rows)) as Record<string, unknown>[];
    const text = await written('ndjson', names, rows);
    const lines = text.trimEnd().split('\n');
    expect(list).toEqual(lines.map((line) => JSON.parse(line) as unknown));
    const known = { 7: 'a', item_id: 4711, price: '19.90', supported_until: null };
    expect(list[0]).toMatchObject(known);
    expect(Object.entries(list[1] ?? {})).toContainEqual(['__proto__', '']);
    expect(list[1]?.['7']).toBe('=c');
    expect(text.startsWith('{"7":"a","__proto__":"b","verdict":"valid"')).toBe(true);
  });

  it('is complete without rows', async () => {
    expect(JSON.parse(await written('json', ['a'], []))).toEqual([]);
    expect(await written('ndjson', ['a'], [])).toBe('');
    expect(await written('csv', ['a'], [])).toMatch(/^a,verdict,[\w,]+\r\n$/);
  });

  it('is written on demand', async () => {
    let written = 0;
    async function* rows(): AsyncGenerator<ResultRow, void, undefined> {
      for (; written < 100_000; written++) yield await Promise.resolve(row(['a']));
    }
    const pieces = resultPieces('csv', ['code'], RESULT_COLUMNS, rows());
    await pieces.next();
    await pieces.next();
    expect(written).toBeLessThan(2000);
    await pieces.return();
  });
});

it('a result in CSV is read back with every cell unchanged, and written again the same', async () => {
  const special = ["'", '=', '-', '+', '@', ' ', '\t', '\n', '\r', '"', ',', '5'];
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.string({ unit: fc.constantFrom(...special) }),
  );
  const records = fc.array(fc.tuple(text, text), { minLength: 1 });
  const options = fc.record({ delimiter: fc.constantFrom(',', ';', '\t'), bom: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(records, options, async (records, options) => {
      const rows = records.map((cells) => row(cells));
      const csv = await written('csv', ['code', 'note'], rows, options);
      const read = readAll(csv, { name: 'r.csv', column: 'code' });
      const { columns } = read.layout;
      expect(columns).toEqual(['code', 'note', ...RESULT_COLUMNS.map(({ name }) => name)]);
      expect(read.rows.map(({ columns }) => columns.slice(0, 2))).toEqual(records);
      const again = await written(
        'csv',
        columns,
        read.rows.map(({ columns }) => row(columns)),
        options,
      );
      const listCells = (csv: string): string[][] =>
        parse(csv, { delimiter: options.delimiter, bom: true }).map((cells) => cells.slice(0, 2));
      expect(listCells(again)).toEqual(listCells(csv));
    }),
  );
});
