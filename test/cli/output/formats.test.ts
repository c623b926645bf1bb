import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { json, ndjsonLine, withColumnNames } from '../../../src/cli/output/formats.js';

describe('JSON', () => {
  it.each([
    [
      'integers as numbers up to 2^53, else as text',
      { a: 7n, b: 2n ** 53n - 1n, c: 2n ** 53n + 1n, d: -(2n ** 60n) },
      '{"a":7,"b":9007199254740991,"c":"9007199254740993","d":"-1152921504606846976"}',
    ],
    [
      'dates as ISO 8601, bytes as hexadecimal and NaN as text',
      [new Date(0), Buffer.from([1, 255]), new Uint8Array([10]), NaN],
      '["1970-01-01T00:00:00.000Z","\\\\x01ff","\\\\x0a","NaN"]',
    ],
    [
      'escapes for control characters that JSON leaves alone',
      '\u001B[2J\u009B2J\u007F\u202E\u2028é',
      String.raw`"\u001b[2J\u009b2J\u007f\u202e\u2028é"`,
    ],
  ])('has %s', (_what, value, expected) => {
    expect(ndjsonLine(value)).toBe(`${expected}\n`);
  });

  it('is indented for people and one line for programs', () => {
    expect(json({ a: 1 })).toBe('{\n  "a": 1\n}\n');
    expect([{ a: 1 }, null, undefined].map(ndjsonLine)).toEqual(['{"a":1}\n', 'null\n', 'null\n']);
  });

  it('renames members to snake case, except in data from the marketplace', () => {
    const at = new Date(0);
    expect(
      withColumnNames([{ runId: 7n, held: { itemId: null, at }, raw: { someField: 1 } }]),
    ).toEqual([{ run_id: 7n, held: { item_id: null, at }, raw: { someField: 1 } }]);
  });

  it('can be read back, and contains no control characters', () => {
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
