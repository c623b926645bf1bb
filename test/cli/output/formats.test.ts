import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  csv,
  json,
  ndjsonLine,
  type CsvCell,
  type CsvOptions,
  withColumnNames,
} from '../../../src/cli/output/formats.js';
import { unguarded } from '../../../src/domain/csv.js';

/** A reader written from RFC 4180 alone: what comes back must be what went in. */
function parse(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = 0;
  while (at < text.length) {
    let cell = '';
    if (text[at] === '"') {
      for (at++; ; at++) {
        if (text[at] === '"' && text[at + 1] === '"') at++;
        else if (text[at] === '"') break;
        if (at >= text.length) throw new Error('a quote is never closed');
        cell += text[at];
      }
      at++;
    } else {
      while (at < text.length && text[at] !== ',' && text[at] !== '\r') cell += text[at++];
    }
    row.push(cell);
    if (text[at] === ',') {
      at++;
      if (text[at] === '\r') row.push('');
    }
    if (text.startsWith('\r\n', at)) {
      rows.push(row);
      row = [];
      at += 2;
    }
  }
  return rows;
}

/** The line of a single row. */
async function line(cells: readonly CsvCell[], options?: CsvOptions): Promise<string> {
  const lines: string[] = [];
  for await (const text of csv([], [cells], options)) lines.push(text);
  return lines[1] ?? '';
}

describe('CSV', () => {
  it('quotes what must be quoted and ends lines with CRLF', async () => {
    expect(await line(['a', 'b,c', 'say "x"', 'two\nlines', null, true])).toBe(
      'a,"b,c","say ""x""","two\nlines",,true\r\n',
    );
  });

  it.each(['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', '\n=1', '＝1+1'])(
    'puts an apostrophe before %j, because a spreadsheet would run it',
    async (text) => {
      expect(parse(await line([text, 'x']))[0]?.[0]).toBe(`'${text}`);
    },
  );

  it('keeps numbers numbers, negative ones and those that PostgreSQL gives as text', async () => {
    expect(await line([-5, 12n, '-5.00', '-5.00'], { numeric: [true, true, true, false] })).toBe(
      "-5,12,-5.00,'-5.00\r\n",
    );
  });

  it('guards text in a numeric column that is no number after all', async () => {
    expect(await line(['-1+cmd()'], { numeric: [true] })).toBe("'-1+cmd()\r\n");
  });

  it('writes dates as ISO 8601', async () => {
    expect(await line([new Date(0), new Date(NaN)])).toBe('1970-01-01T00:00:00.000Z,\r\n');
  });

  it('shows no control character on a terminal, but keeps every one in a file', async () => {
    const text = 'a\u001B[31m\u009Bb\u202E';
    expect(await line([text], { terminal: true })).toBe('a\uFFFD[31m\uFFFDb\r\n');
    expect(await line([text])).toBe(`${text}\r\n`);
  });

  it('reads back as what was written, any text at all, and nothing begins like a formula', async () => {
    const rows = fc.array(fc.array(fc.string({ unit: 'binary' }), { minLength: 2, maxLength: 2 }));
    await fc.assert(
      fc.asyncProperty(rows, async (given) => {
        let text = '';
        for await (const line of csv(['a', 'b'], given)) text += line;
        const [header, ...cells] = parse(text);
        expect(header).toEqual(['a', 'b']);
        expect(cells.map((row) => row.map(unguarded))).toEqual(given);
        for (const cell of cells.flat()) expect(cell).not.toMatch(/^[=+\-@\t\r\n]/);
      }),
    );
  });
});

describe('JSON', () => {
  it('writes integers as numbers while every reader reads them exactly, else as text', () => {
    expect(ndjsonLine({ a: 7n, b: 2n ** 53n - 1n, c: 2n ** 53n + 1n, d: -(2n ** 60n) })).toBe(
      '{"a":7,"b":9007199254740991,"c":"9007199254740993","d":"-1152921504606846976"}\n',
    );
  });

  it('writes dates as ISO 8601, bytes as hexadecimal and what is no number as text', () => {
    expect(ndjsonLine([new Date(0), Buffer.from([1, 255]), new Uint8Array([10]), NaN])).toBe(
      '["1970-01-01T00:00:00.000Z","\\\\x01ff","\\\\x0a","NaN"]\n',
    );
  });

  it('escapes what JSON alone would leave to act on a terminal', () => {
    expect(ndjsonLine('\u001B[2J\u009B2J\u007F\u202E\u2028é')).toBe(
      String.raw`"\u001b[2J\u009b2J\u007f\u202e\u2028é"` + '\n',
    );
  });

  it('is indented for people and one line for programs', () => {
    expect(json({ a: 1 })).toBe('{\n  "a": 1\n}\n');
    expect([{ a: 1 }, null, undefined].map(ndjsonLine)).toEqual(['{"a":1}\n', 'null\n', 'null\n']);
  });

  it('names members as columns are, but for what came with names of its own', () => {
    const at = new Date(0);
    expect(
      withColumnNames([{ runId: 7n, held: { itemId: null, at }, raw: { someField: 1 } }]),
    ).toEqual([{ run_id: 7n, held: { item_id: null, at }, raw: { someField: 1 } }]);
  });

  it('reads back as what was written, and holds nothing a terminal would act on', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        const line = ndjsonLine(value);
        expect(JSON.parse(line)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(line.slice(0, -1)).not.toMatch(/[\p{Cc}\u202A-\u202E\u2066-\u2069\u2028\u2029]/u);
      }),
      { numRuns: 500 },
    );
  });
});
