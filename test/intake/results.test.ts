import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  RESULT_COLUMNS,
  resultText,
  type ResultFormat,
  type ResultRow,
} from '../../src/intake/results.js';
import { COMMA_CSV, PLAIN_CSV, type CsvDialect } from '../../src/domain/csv.js';
import { readAll } from './support.js';

const VALID: ResultRow['result'] = {
  verdict: 'valid',
  license_type: 'Regular',
  item_id: 4711,
  item_name: 'Widget, large',
  price: '19.90',
  currency: 'EUR',
  purchased_at: '2024-01-02T03:04:05Z',
  supported_until: null,
  support: 'expired',
  checked_at: '2026-11-01T00:00:00Z',
  proof: 'answered',
};

function row(columns: readonly string[], result: Partial<ResultRow['result']> = {}): ResultRow {
  return { columns, result: { ...VALID, ...result } };
}

async function written(
  format: Exclude<ResultFormat, 'xlsx'>,
  columns: readonly string[],
  rows: Iterable<ResultRow>,
  options?: Partial<CsvDialect>,
): Promise<string> {
  let text = '';
  for await (const piece of resultText(format, columns, rows, { ...PLAIN_CSV, ...options }))
    text += piece;
  return text;
}

describe('a result', () => {
  it('has the list’s own columns first, then what was found out; no spreadsheet runs a cell or a header, and numbers stay', async () => {
    const columns = ['code', '=cmd()', 'n'];
    const text = await written('csv', columns, [row(['=1+1', 'x\ny', '-5'], { item_name: '@x' })]);
    expect(text).toBe(
      "code,'=cmd(),n,verdict,license_type,item_id,item_name,price,currency,purchased_at,supported_until,support,checked_at,proof\r\n" +
        '\'=1+1,"x\ny",-5,valid,Regular,4711,\'@x,19.90,EUR,2024-01-02T03:04:05Z,,expired,2026-11-01T00:00:00Z,answered\r\n',
    );
  });

  it('may be separated and marked as other programs want it', async () => {
    const options = { delimiter: ';', bom: true };
    const text = await written('csv', ['code'], [row(['a;1'])], options);
    expect(text).toMatch(/^\uFEFFcode;verdict;/);
    expect(text).toContain('\r\n"a;1";valid;');
  });

  it('has prices with a decimal comma where that is wanted, and the list’s own amounts as they were', async () => {
    const given = row(['-1.234,50', '19.90']);
    const text = await written('csv', ['refund', 'code'], [given], COMMA_CSV);
    expect(text).toMatch(/^\uFEFFrefund;code;verdict;/);
    expect(text).toContain('\r\n"-1.234,50";19.90;valid;Regular;4711;"Widget, large";19,90;EUR;');
  });

  it('that is checked again keeps its columns: the new ones get a number', async () => {
    const header = await written('csv', ['code', 'verdict', 'proof', 'proof_2'], []);
    const columns = header.trimEnd().split(',');
    expect(columns.slice(0, 4)).toEqual(['code', 'verdict', 'proof', 'proof_2']);
    expect(columns).toContain('verdict_2');
    expect(columns.at(-1)).toBe('proof_3');
    expect(new Set(columns).size).toBe(columns.length);
  });

  it('has empty cells where the record has none, and refuses more than there are columns', async () => {
    expect(await written('csv', ['a', 'b'], [row(['x'])])).toContain('\r\nx,,valid,');
    await expect(written('csv', ['a'], [row(['x', 'y'])])).rejects.toThrow('2 cells for 1');
  });

  it('is JSON with null for what isn’t known, in the columns’ order', async () => {
    const rows = [row(['a', 'b']), row(['=c', ''])];
    const names = ['7', '__proto__'];
    const list = await written('json', names, rows);
    const lines = await written('ndjson', names, rows);
    const parsed = JSON.parse(list) as Record<string, unknown>[];
    expect(parsed).toEqual(
      lines
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    );
    expect(parsed[0]).toMatchObject({
      7: 'a',
      item_id: 4711,
      price: '19.90',
      supported_until: null,
    });
    expect(Object.entries(parsed[1] ?? {})).toContainEqual(['__proto__', 'b'].with(1, ''));
    expect(parsed[1]?.['7']).toBe('=c');
    expect(lines.startsWith('{"7":"a","__proto__":"b","verdict":"valid"')).toBe(true);
  });

  it('is sound without any row', async () => {
    expect(JSON.parse(await written('json', ['a'], []))).toEqual([]);
    expect(await written('ndjson', ['a'], [])).toBe('');
    expect(await written('csv', ['a'], [])).toMatch(/^a,verdict,[\w,]+\r\n$/);
  });

  it('is written in pieces, as fast as it is taken', async () => {
    let asked = 0;
    function* rows(): Generator<ResultRow, void, undefined> {
      for (; asked < 100_000; asked++) yield row(['a']);
    }
    const pieces = resultText('csv', ['code'], rows());
    await pieces.next();
    await pieces.next();
    expect(asked).toBeLessThan(2000);
    await pieces.return();
  });
});

describe('a cell of a result in CSV', () => {
  it('is what it was when the result is read as a list, any text at all', async () => {
    const texts = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.string({
        unit: fc.constantFrom(...["'", '=', '-', '+', '@', ' ', '\t', '\n', '\r', '"', ',', '5']),
      }),
    );
    const rows = fc.array(fc.tuple(texts, texts), { minLength: 1 });
    const options = fc.record({
      delimiter: fc.constantFrom(',', ';', '\t'),
      bom: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(rows, options, async (given, options) => {
        const text = await written(
          'csv',
          ['code', 'note'],
          given.map((cells) => row(cells)),
          options,
        );
        const { rows, layout } = await readAll(text, { name: 'r.csv', column: 'code' });
        expect(layout.columns).toEqual(['code', 'note', ...RESULT_COLUMNS]);
        expect(rows.map(({ columns }) => columns.slice(0, 2))).toEqual(given);
        const again = await written(
          'csv',
          layout.columns,
          rows.map(({ columns }) => row(columns)),
          options,
        );
        const own = (csv: string): string[][] =>
          parse(csv, { delimiter: options.delimiter, bom: true }).map((cells) => cells.slice(0, 2));
        expect(own(again)).toEqual(own(text));
      }),
    );
  });
});
