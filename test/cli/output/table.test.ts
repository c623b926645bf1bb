import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  lookOf,
  pairs,
  table,
  width,
  type Look,
  type TableColumn,
} from '../../../src/cli/output/index.js';

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

  it('cuts the longest texts to fit a terminal and leaves numbers whole', () => {
    const rows = [{ name: 'a name that goes on and on', price: 123_456_789, note: 'brief' }];
    expect(table(rows, COLUMNS, { columns: 30, colour: false })).toBe(
      ['name              price  note', 'a name that…  123456789  brief', ''].join('\n'),
    );
    expect(table(rows, COLUMNS, { columns: 25, colour: false })).toContain(
      'a name…  123456789  brief',
    );
  });

  it('leaves a column that is empty in all rows to pipes, where it is marked so', () => {
    const columns: readonly TableColumn<{ name: string; problem: string | null }>[] = [
      { header: 'name', value: (row) => row.name },
      { header: 'problem', value: (row) => row.problem, isRare: true },
    ];
    const [good, bad] = [
      { name: 'a', problem: null },
      { name: 'b', problem: 'no key' },
    ];
    const terminal = { columns: 40, colour: false };
    expect(table([good], columns, terminal)).toBe('name\na\n');
    expect(table([good], columns, PIPE)).toBe('name  problem\na\n');
    expect(table([good, bad], columns, terminal)).toBe('name  problem\na\nb     no key\n');
  });

  it('is not cut in a pipe, where all of it is wanted', () => {
    const name = 'x'.repeat(500);
    expect(table([{ name, price: 1, note: '' }], COLUMNS, PIPE)).toContain(name);
  });

  it('takes cells of megabytes without measuring them whole', () => {
    const rows = [{ name: 'x'.repeat(16_000_000), price: 1, note: 'n' }];
    expect(table(rows, COLUMNS, { columns: 40, colour: false }).length).toBeLessThan(100);
  });

  it('fits any terminal and stays one line a row, whatever the cells hold', () => {
    const row = fc.record({
      name: fc.string({ unit: 'binary', maxLength: 80 }),
      price: fc.integer({ min: 0, max: 999 }),
      note: fc.string({ unit: 'grapheme', maxLength: 80 }),
    });
    fc.assert(
      fc.property(
        fc.array(row, { maxLength: 5 }),
        fc.integer({ min: 1, max: 120 }),
        (rows, columns) => {
          const lines = table(rows, COLUMNS, { columns, colour: false }).split('\n');
          expect(lines).toHaveLength(rows.length + 2);
          for (const line of lines) expect(width(line)).toBeLessThanOrEqual(columns);
        },
      ),
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
