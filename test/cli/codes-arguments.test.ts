import { describe, expect, it } from 'vitest';
import { sortArguments } from '../../src/cli/codes/lists.js';
import { outPlace } from '../../src/cli/codes/result-file.js';

const exists = (path: string): boolean => ['customers.csv', 'more.csv', 'codes'].includes(path);
const sorted = (...given: string[]) => sortArguments(given, exists);

describe('the arguments of codes check', () => {
  it('are lists where there is a file, whatever its name, and where they say stdin', () => {
    expect(sorted('customers.csv', 'codes', '-')).toEqual({
      kind: 'lists',
      places: ['customers.csv', 'codes', '-'],
    });
  });

  it('are codes otherwise, each once and without what surrounds them, since codes have no format', () => {
    expect(sorted(' 86781236-23d0-4b3c-7dfa-c1c147e0dece', 'ABC 123', 'ABC 123\n')).toEqual({
      kind: 'codes',
      codes: ['86781236-23d0-4b3c-7dfa-c1c147e0dece', 'ABC 123'],
    });
  });

  it.each(['custumers.csv', './customers', 'C:\\lists\\customers', 'old.csv.gz', 'list.XLSX'])(
    'are neither when they look like a path where nothing is: %s, which must not be asked as a code',
    (path) => {
      expect(() => sorted(path)).toThrow(`there is no file ${JSON.stringify(path)}`);
    },
  );

  it.each([
    [['customers.csv', 'abc-123'], 'some arguments are lists and others are codes'],
    [['customers.csv', 'customers.csv'], 'a list is named twice'],
    [['-', '-'], 'a list is named twice'],
    [[' '], 'the code is empty'],
    [['abc', 'a\u0000c'], 'code 2 has control characters within'],
  ])('are refused when they are %j', (given, message) => {
    expect(() => sorted(...given)).toThrow(message);
  });
});

describe('the place of a result', () => {
  it.each([
    ['result.csv', undefined, { path: 'result.csv', format: 'csv' }],
    ['a.b/Result.JSON', undefined, { path: 'a.b/Result.JSON', format: 'json' }],
    ['result.jsonl', undefined, { path: 'result.jsonl', format: 'ndjson' }],
    ['result.csv', 'json', { path: 'result.csv', format: 'json' }],
    ['result', 'ndjson', { path: 'result', format: 'ndjson' }],
    ['-', undefined, { path: null, format: 'csv' }],
    ['-', 'json', { path: null, format: 'json' }],
  ] as const)('%s, asked for as %s', (out, asked, place) => {
    expect(outPlace(out, asked)).toEqual(place);
  });

  it('must say its format one way or the other', () => {
    expect(() => outPlace('result.xlsx', undefined)).toThrow(
      'the ending of "result.xlsx" says no format',
    );
    expect(() => outPlace('result', undefined)).toThrow('says no format');
  });
});
