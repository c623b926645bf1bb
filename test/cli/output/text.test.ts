import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, it } from 'vitest';
import { pairs, table, type TableColumn } from '../../../src/cli/output/table.js';
import { bytes, count, plural, age, duration } from '../../../src/domain/text.js';
import {
  cut,
  type Look,
  lookOf,
  momentCell,
  pad,
  safeLine,
  safeLines,
  width,
  wrap,
} from '../../../src/cli/output/text.js';

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
  it('aligns columns by display width, numbers to the right', () => {
    expect(table(ROWS, COLUMNS, PIPE)).toBe(
      ['name        price  note', 'Short           5  n', '价格 theme   1200', ''].join('\n'),
    );
    expect(table([], COLUMNS, PIPE)).toBe('name  price  note\n');
  });

  const terminal = (columns: number): Look => ({ columns, colour: false });

  it('cuts the longest texts to fit a terminal and leaves numbers whole', () => {
    const rows = [{ name: 'a name that goes on and on', price: 123_456_789, note: 'brief' }];
    expect(table(rows, COLUMNS, terminal(35))).toBe(
      ['name                   price  note', 'a name that goes…  123456789  brief', ''].join('\n'),
    );
  });

  it('breaks headers before it cuts texts', () => {
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

  it('becomes records if the terminal is too narrow, like psql’s \\x auto', () => {
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

  it('cuts values in records unless records were requested', () => {
    const rows = [{ name: 'word '.repeat(1_000), price: 1, note: null }];
    const auto = table(rows, COLUMNS, terminal(20));
    expect(auto.length).toBeLessThan(800);
    const asked = table(rows, COLUMNS, terminal(20), { vertical: true, isWhole: true });
    expect(asked.match(/word/g)).toHaveLength(1_000);
  });

  it('shows problems on separate lines on a terminal, and as a column in pipes', () => {
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

  it('is not cut in a pipe; on a terminal, cells of megabytes are cut before they are measured', () => {
    const row = (length: number) => [{ name: 'x'.repeat(length), price: 1, note: 'n' }];
    expect(table(row(500), COLUMNS, PIPE)).toContain('x'.repeat(500));
    expect(table(row(16_000_000), COLUMNS, terminal(40)).length).toBeLessThan(100);
  });

  it('fits any terminal, as a table or as records, and shows every row', () => {
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

  it('has one line per row in a pipe, for any cells', () => {
    const text = fc.string({ unit: 'binary', maxLength: 80 });
    const row = fc.record({ name: text, price: fc.integer(), note: text });
    fc.assert(
      fc.property(fc.array(row, { maxLength: 5 }), (rows) => {
        expect(table(rows, COLUMNS, PIPE).split('\n')).toHaveLength(rows.length + 2);
      }),
    );
  });

  it('colours cells only if colours are on', () => {
    const rows = [{ name: 'a' }];
    const columns: readonly TableColumn<{ name: string }>[] = [
      { header: 'h', value: (row) => row.name, style: () => 'red' },
    ];
    expect(table(rows, columns, PIPE)).toBe('h\na\n');
    expect(table(rows, columns, { columns: 20, colour: true })).toContain('\u001B[31ma\u001B[39m');
  });
});

it('pairs are names and values in two columns', () => {
  const lines = [['a', 1] as const, ['long name', 'x\ny'] as const, ['none', null] as const];
  expect(pairs(lines, PIPE)).toBe('a          1\nlong name  x y\nnone\n');
});

const TTY = { isTTY: true, columns: 100 } as Parameters<typeof lookOf>[0];

it.each([
  ['on for a terminal', TTY, {}, { columns: 100, colour: true }],
  ['off with NO_COLOR', TTY, { NO_COLOR: '1' }, { columns: 100, colour: false }],
  ['on with an empty NO_COLOR', TTY, { NO_COLOR: '' }, { columns: 100, colour: true }],
  ['off for a dumb terminal', TTY, { TERM: 'dumb' }, { columns: 100, colour: false }],
  ['off for a pipe', {} as typeof TTY, {}, { columns: null, colour: false }],
])('colours are %s', (_, output, env, expected) => {
  expect(lookOf(output, env)).toEqual(expected);
});

const ESC = '\u001B';
const anyText = fc.string({ unit: 'binary', maxLength: 60 });

describe('safe text', () => {
  it.each([
    ['colours', `${ESC}[31mred${ESC}[0m`, 'red'],
    ['a window title', `${ESC}]0;owned\u0007text`, 'text'],
    ['a cleared screen', `a${ESC}[2Jb`, 'ab'],
    ['a sequence hidden in a sequence', `${ESC}${ESC}[31m[31mx`, '\uFFFD[31mx'],
    ['an 8-bit sequence', '\u009B31mx', 'x'],
    ['a bell and a backspace', 'a\u0007b\u0008c', 'a\uFFFDb\uFFFDc'],
    ['a carriage return', 'good\rbad', 'good bad'],
    ['line ends', 'one\r\n  two\u2028three', 'one two three'],
    ['a reversed text direction', 'safe\u202Eexe.txt\u2066x', 'safeexe.txtx'],
    ['half a character', 'a\uD83D', 'a\uFFFD'],
    ['line ends with blanks around them', ' a \n \n\t b\n', ' a b '],
    ['a million blanks', `a${' '.repeat(1_000_000)}b\nc`, `a${' '.repeat(1_000_000)}b c`],
  ])('removes %s', (_, text, expected) => {
    expect(safeLine(text)).toBe(expected);
  });

  it('keeps letters of any language, emoji and, of several lines, their ends', () => {
    const text = 'Größe 价格 السعر 👩‍👩‍👧 é';
    expect(safeLine(text)).toBe(text);
    expect(safeLines(`a\tb\r\n${ESC}[1mc`)).toBe('a  b\nc');
  });

  it('never contains a control character', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(safeLine(text)).not.toMatch(/[\p{Cc}\u202A-\u202E\u2066-\u2069\u2028\u2029]/u);
        expect(safeLines(text)).not.toMatch(/(?!\n)\p{Cc}/u);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('the width of text', () => {
  it('is that of string-width, also for the characters that skip it', () => {
    const letters = Array.from({ length: 0x3000 }, (_, code) => String.fromCharCode(code));
    expect(letters.filter((letter) => width(letter) !== stringWidth(letter))).toEqual([]);
    expect(['abc', '价格', '👩‍👩‍👧', 'e\u0301'].map(width)).toEqual([3, 4, 2, 1]);
    // In a time that grows with its length, not with the square of it.
    expect(width('日本語'.repeat(300_000))).toBe(1_800_000);
  });

  it.each(['👩‍👩‍👧', 'e\u0301', '价', '🇩🇪🇫🇷', '\u001B[31m价\u001B[39m'])(
    'is that of its parts in long text, wherever %s is in it',
    (character) => {
      for (let place = 985; place <= 1005; place++) {
        const text = `${'a'.repeat(place)}${character}${'语'.repeat(1_500)}`;
        expect(width(text)).toBe(place + width(character) + 3_000);
      }
    },
  );
});

describe('cut text', () => {
  it('ends in … only if it was too long', () => {
    expect(cut('abcdef', 6)).toBe('abcdef');
    expect(cut('abcdef', 5)).toBe('abcd…');
    expect(cut('价格价格', 4)).toBe('价…');
    expect(cut('ab', 0)).toBe('');
    expect(cut('x'.repeat(16_000_000), 5)).toBe('xxxx…');
  });

  it('is never too wide and never ends in half a character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.nat(40), (text, columns) => {
        const safe = safeLine(text);
        const out = cut(safe, columns);
        expect(width(out)).toBeLessThanOrEqual(columns);
        expect(out.isWellFormed()).toBe(true);
        if (width(safe) <= columns) expect(out).toBe(safe);
      }),
    );
  });
});

it('text is padded on either side', () => {
  expect(pad('价', 4, 'left')).toBe('价  ');
  expect(pad('7', 3, 'right')).toBe('  7');
  expect(pad('long', 2, 'left')).toBe('long');
});

describe('wrapped text', () => {
  it.each([
    [
      'indents continuation lines',
      '  → set REDIS_URL to the address of a server',
      20,
      '  → set REDIS_URL to\n    the address of a\n    server',
    ],
    [
      'does not indent sentences',
      'Everything is kept for ever.',
      16,
      'Everything is\nkept for ever.',
    ],
    [
      'keeps a command on one line',
      'x: run `seller-mirror sync` now',
      16,
      'x: run\n  `seller-mirror sync`\n  now',
    ],
    ['keeps a number with its unit', 'it took 10 s and 5 MB', 10, 'it took\n  10 s and\n  5 MB'],
    ['does not change lines that fit', 'a  b', 4, 'a  b'],
  ])('%s', (_, text, columns, expected) => {
    expect(wrap(text, columns)).toBe(expected);
  });

  it('has the same words, in lines that fit, in linear time', () => {
    const word = fc.string({
      unit: fc.constantFrom('a', 'b', '价', '\u001B[1mc'),
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(fc.array(word), fc.integer({ min: 14, max: 80 }), (words, columns) => {
        const lines = wrap(words.join(' '), columns).split('\n');
        expect(lines.flatMap((line) => line.split(' ').filter(Boolean))).toEqual(words);
        for (const line of lines) expect(width(line)).toBeLessThanOrEqual(columns);
      }),
    );
    expect(wrap('word '.repeat(200_000), 80).length).toBeGreaterThan(1_000_000);
  });
});

const NOW = new Date('2026-05-01T12:00:00Z');
const SECOND = 1000;
const HOUR = 3_600_000;

describe('figures for people', () => {
  it.each([
    [0, '0 s'],
    [94, '0.1 s'],
    [230, '0.2 s'],
    [999.9, '1 s'],
    [4200, '4.2 s'],
    [59_600, '1 min'],
    [185 * SECOND, '3 min 5 s'],
    [HOUR * 2 + 600 * SECOND, '2 h 10 min'],
    [HOUR * 24 - 1, '1 d'],
    [HOUR * 76, '3 d 4 h'],
    [-5, '0 s'],
  ])('a duration of %d ms is %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it.each([
    [0, 'just now'],
    [45 * SECOND, '45 s ago'],
    [90 * SECOND, '1 min ago'],
    [3.9 * HOUR, '3 h ago'],
    [49 * HOUR, '2 d ago'],
    [-3 * HOUR, 'in 3 h'],
  ])('an age of %d ms is %s, rounded down', (ms, text) => {
    expect(age(new Date(NOW.getTime() - ms), NOW)).toBe(text);
  });

  it.each([
    [0, '0 B'],
    [1500, '1.5 kB'],
    [999_960, '1 MB'],
    [108_000_000, '108 MB'],
  ])('%d bytes are %s', (number, text) => {
    expect(bytes(number)).toBe(text);
  });

  it('counts have thousands separators and the plural of their noun', () => {
    expect(count(1234567n)).toBe('1,234,567');
    expect(plural(1, 'item')).toBe('1 item');
    expect(plural(0, 'item')).toBe('0 items');
    expect(plural(2, 'entry', 'entries')).toBe('2 entries');
  });
});

it('a time is complete in a pipe, and a day or a time of today on a terminal', () => {
  const now = new Date('2026-11-22T13:45:00Z');
  const [today, before] = [new Date('2026-11-22T00:00:59Z'), new Date('2026-11-21T23:59:59Z')];
  expect(momentCell(today, now, { columns: null })).toBe('2026-11-22 00:00:59Z');
  expect(momentCell(today, now, { columns: 80 })).toBe('00:00Z');
  expect(momentCell(before, now, { columns: 80 })).toBe('2026-11-21');
});
