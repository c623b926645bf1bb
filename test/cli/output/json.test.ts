import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { json, ndjson, ndjsonLine, withColumnNames } from '../../../src/cli/output/index.js';

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

  it('is indented for people and one line for programs', async () => {
    expect(json({ a: 1 })).toBe('{\n  "a": 1\n}\n');
    const lines: string[] = [];
    for await (const line of ndjson([{ a: 1 }, null, undefined])) lines.push(line);
    expect(lines).toEqual(['{"a":1}\n', 'null\n', 'null\n']);
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
