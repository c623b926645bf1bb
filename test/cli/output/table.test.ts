import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pairs, table, type TableColumn } from '../../../src/cli/output/table.js';
import { type Look, lookOf, width } from '../../../src/cli/output/text.js';

const PIPE: Look = { columns: null, colour: false };
interface Row {
  name: string;
  price: number;
  note: string | null;
}
const ROWS: readonly Row[] = [
  { name: 'Short', price: 5, note: 'n' },
  { name: '价格 theme', price: 1200, note: null },
];
const COLUMNS: readonly TableColumn<Row>[] = [
  { header: 'name', value: (row) => row.name },
  { header: 'price', value: (row) => row.price },
  { header: 'note', value: (row) => row.note },
];

describe('a table', () => {
  it('aligns columns, numbers to the right, wide characters as wide as they are', () => {
    expect(table(ROWS, COLUMNS, PIPE)).toBe(
      ['name        price  note', 'Short           5  n', '价格 theme   1200', ''].join('\n'),
    );
  });

  it('has its header even without rows, so that scripts see the columns', () => {
    expect(table([], COLUMNS, PIPE)).toBe('name  price  note\n');
  });

  const terminal = (columns: number): Look => ({ columns, colour: false });

  it('cuts the longest texts to fit a terminal and leaves numbers whole', () => {
    const rows = [{ name: 'a name that goes on and on', price: 123_456_789, note: 'brief' }];
    expect(table(rows, COLUMNS, terminal(35))).toBe(
      ['name                   price  note', 'a name that goes…  123456789  brief', ''].join('\n'),
    );
  });

  it('breaks headers before it cuts texts, since they are longest where they say least', () => {
    const columns: readonly TableColumn<Row>[] = [
      { header: 'name', value: (row) => row.name },
      { header: 'price_regular_now', value: (row) => row.price },
    ];
    expect(table(ROWS, columns, terminal(20))).toBe(
      ['              price_', '            regular_', 'name             now']
        .concat(['Short              5', '价格 theme      1200', ''])
        .join('\n'),
    );
  });

  it('gives way to records where it would have to cut too much, psql’s \\x auto', () => {
    const rows = [{ name: 'a name that goes on and on', price: 123_456_789, note: 'brief' }];
    const records = (columns: number, vertical?: boolean): string =>
      table(rows, COLUMNS, terminal(columns), { vertical });
    expect(records(25)).toBe(
      '── 1 ──\nname   a name that goes\n       on and on\nprice  123456789\nnote   brief\n',
    );
    expect(records(35)).toMatch(/^name/);
    expect(records(35, true)).toMatch(/^── 1 ──\n/);
    expect(table(rows, COLUMNS, PIPE)).toMatch(/^name/);
    expect(table(rows, COLUMNS, PIPE, { vertical: true, first: 8 })).toMatch(/^── 8 ──\n/);
  });

  it('cuts values in records only when nobody asked for records', () => {
    const rows = [{ name: 'word '.repeat(1_000), price: 1, note: null }];
    const auto = table(rows, COLUMNS, terminal(20));
    expect(auto.length).toBeLessThan(800);
    const asked = table(rows, COLUMNS, terminal(20), { vertical: true, isWhole: true });
    expect(asked.match(/word/g)).toHaveLength(1_000);
  });

  it('shows problems on a line of their own on a terminal, and as a column in pipes', () => {
    const columns: readonly TableColumn<{ name: string; problem: string | null }>[] = [
      { header: 'name', value: (row) => row.name },
      { header: 'problem', value: (row) => row.problem, isNote: true },
    ];
    const [good, bad] = [
      { name: 'a', problem: null },
      { name: 'b', problem: 'the marketplace refused the key' },
    ];
    expect(table([good], columns, terminal(24))).toBe('name\na\n');
    expect(table([good], columns, PIPE)).toBe('name  problem\na\n');
    expect(table([good, bad], columns, terminal(24))).toBe(
      'name\na\nb\n  the marketplace\n    refused the key\n',
    );
  });

  it('is not cut in a pipe, where all of it is wanted', () => {
    const name = 'x'.repeat(500);
    expect(table([{ name, price: 1, note: '' }], COLUMNS, PIPE)).toContain(name);
  });

  it('takes cells of megabytes without measuring them whole', () => {
    const rows = [{ name: 'x'.repeat(16_000_000), price: 1, note: 'n' }];
    expect(table(rows, COLUMNS, { columns: 40, colour: false }).length).toBeLessThan(100);
  });

  it('fits any terminal, as a table or as records, as long as words do, and shows every row', () => {
    const words = fc
      .array(fc.string({ unit: fc.constantFrom('a', 'b', '价'), maxLength: 8 }), { maxLength: 12 })
      .map((all) => all.join(' '));
    const row = fc.record({
      name: words,
      price: fc.integer({ min: 100, max: 999 }),
      note: words,
    });
    fc.assert(
      fc.property(
        fc.array(row, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 24, max: 120 }),
        (rows, columns) => {
          const text = table(rows, COLUMNS, terminal(columns));
          for (const line of text.split('\n')) expect(width(line)).toBeLessThanOrEqual(columns);
          const isTable = !text.startsWith('──');
          if (isTable) expect(text.split('\n').length).toBeGreaterThanOrEqual(rows.length + 2);
          else expect(text.match(/^price  \d+$/gm)).toHaveLength(rows.length);
        },
      ),
    );
  });

  it('stays one line a row in a pipe, whatever the cells hold', () => {
    const text = fc.string({ unit: 'binary', maxLength: 80 });
    const row = fc.record({ name: text, price: fc.integer(), note: text });
    fc.assert(
      fc.property(fc.array(row, { maxLength: 5 }), (rows) => {
        expect(table(rows, COLUMNS, PIPE).split('\n')).toHaveLength(rows.length + 2);
      }),
    );
  });

  it('paints cells only where there are colours', () => {
    const rows = [{ name: 'a' }];
    const columns: readonly TableColumn<{ name: string }>[] = [
      { header: 'h', value: (row) => row.name, style: () => 'red' },
    ];
    expect(table(rows, columns, PIPE)).toBe('h\na\n');
    expect(table(rows, columns, { columns: 20, colour: true })).toContain('\u001B[31ma\u001B[39m');
  });

  it('shows one thing as names and values', () => {
    expect(
      pairs(
        [
          ['a', 1],
          ['long name', 'x\ny'],
          ['none', null],
        ],
        PIPE,
      ),
    ).toBe('a          1\nlong name  x y\nnone\n');
  });
});

describe('colours', () => {
  const terminal = { isTTY: true, columns: 100 } as Parameters<typeof lookOf>[0];
  it.each([
    ['a terminal', terminal, {}, { columns: 100, colour: true }],
    ['NO_COLOR', terminal, { NO_COLOR: '1' }, { columns: 100, colour: false }],
    [
      'an empty NO_COLOR, which means nothing',
      terminal,
      { NO_COLOR: '' },
      { columns: 100, colour: true },
    ],
    ['a dumb terminal', terminal, { TERM: 'dumb' }, { columns: 100, colour: false }],
    ['a pipe', {} as typeof terminal, {}, { columns: null, colour: false }],
  ])('follow %s', (_, output, env, expected) => {
    expect(lookOf(output, env)).toEqual(expected);
  });
});
