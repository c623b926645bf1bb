import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scanList } from '../../src/marketplace/list-scanner.js';

/** Scans an envelope that begins at the first brace. */
function scan(text: string | Buffer) {
  const bytes = Buffer.from(text);
  const { list, ...found } = scanList(bytes, bytes.indexOf('{'));
  const records = list?.records ?? [];
  const texts = records.map(({ start, end }) => bytes.toString('utf8', start, end));
  const [from, to] = [list?.from ?? 0, list?.to ?? 0];
  const rest = `${bytes.toString('utf8', 0, from)}[]${bytes.toString('utf8', to)}`;
  return { ...found, records, texts, rest };
}

/** JSON text of a value with white space between all tokens. */
function spaced(value: unknown, space: string): string {
  if (Array.isArray(value)) {
    const elements = value.map((element) => spaced(element, space));
    return `[${space}${elements.join(`${space},${space}`)}${space}]`;
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}${space}:${space}${spaced(member, space)}`,
  );
  return `{${space}${members.join(`${space},${space}`)}${space}}`;
}

const tricky = fc.constantFrom(...'" \\ \\" \\\\ { } [ ] , : id "id":1 é 𝄞 \u0000'.split(' '));
const strings = fc.oneof(
  fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
  fc.array(tricky, { maxLength: 30 }).map((parts) => parts.join('')),
  fc.string({ minLength: 20, maxLength: 60 }).map((text) => `${text}\\`),
);
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    strings,
    fc.double({ noDefaultInfinity: true, noNaN: true }),
    fc.constantFrom(null, true, false),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(strings, tie('value'), { maxKeys: 4 }),
  ),
})).value;
const ids = fc.oneof(
  fc.nat(),
  fc.maxSafeNat(),
  fc.nat().map(String),
  fc.constantFrom(-1, 1.5, 1e21, '007', '', '9007199254740992', 'x', null, [1], 0, '0'),
);
const records = fc.oneof(
  values,
  fc.record({ before: values, id: ids, after: values }, { requiredKeys: [] }),
  fc.record({ id: ids }),
);
const spaces = fc.constantFrom('', ' ', '\n', '\r\n\t ');
const others = fc.dictionary(
  strings.filter((name) => !['items', 'data', '__proto__'].includes(name)),
  values,
  { maxKeys: 3 },
);

/** The id that the hint should have: a safe integer in plain notation, bare or quoted. */
function plainId(record: unknown): number | null {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) return null;
  const { id } = record as { id?: unknown };
  const text = typeof id === 'number' ? JSON.stringify(id) : id;
  if (typeof text !== 'string' || !/^(?:0|[1-9]\d*)$/.test(text)) return null;
  return Number.isSafeInteger(Number(text)) ? Number(text) : null;
}

describe('splitting a list into records', () => {
  it('finds what JSON.parse finds, for arrays and objects, wherever the list is', () => {
    fc.assert(
      fc.property(
        fc.array(records, { maxLength: 8 }),
        ...[others, others, fc.boolean(), fc.boolean(), spaces],
        (items, before, after, asObject, inData, space) => {
          const list = asObject ? Object.fromEntries(items.entries()) : items;
          const beside = { ...before, items: list, ...after };
          const text = spaced(inData ? { ...after, data: beside, ...before } : beside, space);
          const found = scan(`${text}${space}`);
          expect(found.problem).toBeNull();
          expect(found.end).toBe(Buffer.byteLength(`${text}${space}`));
          expect(found.texts.map((record) => JSON.parse(record) as unknown)).toEqual(
            JSON.parse(JSON.stringify(items)),
          );
          expect(found.records.map(({ idHint }) => idHint)).toEqual(items.map(plainId));
          // What is left is the envelope with an empty list.
          const around = JSON.parse(found.rest) as Record<string, unknown>;
          const { items: none, ...others } = (inData ? around['data'] : around) as typeof around;
          const { items: _, ...expected } = JSON.parse(spaced(beside, space)) as typeof around;
          expect([none, others]).toEqual([[], expected]);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('takes the id from the record’s top-level key `id` only, and of several the last', () => {
    const items = [
      '{"id":5,"a":"id"}',
      '{"a":{"id":6}}',
      '[{"id":7}]',
      '{"id":8,"id":9}',
      '{"id":10,"id":null}',
      '["id",11]',
    ];
    const { records: found } = scan(`{"items":[${items.join(',')}]}`);
    expect(found.map(({ idHint }) => idHint)).toEqual([5, null, null, 9, null, null]);
  });

  it.each(['{"a":tru,"id":2}', '{"a" 1 2 "id" 2}', 'nonsense', '{"a":"\u0001\\x"}'])(
    'continues after a record with invalid JSON: %s',
    (record) => {
      const { texts, problem } = scan(`{"items":[{"id":1},${record},{"id":3}]}`);
      expect(texts).toEqual(['{"id":1}', record, '{"id":3}']);
      expect(problem).toBeNull();
    },
  );

  it.each([
    ['{"items":[1,]}', 'an extra comma'],
    ['{"items":[,1]}', 'a leading comma'],
    ['{"items":[1 2]}', 'a missing comma'],
    ['{"items":[1}', 'the wrong bracket'],
    ['{"items":{"0":1]}', 'the wrong bracket for an object'],
    ['{"items":[1],}', 'a comma before the end'],
    ['{"items" [1]}', 'no colon'],
    ['{"items":[1]]', 'a bracket for a brace'],
    ['{"items":[1],"items":[2]}', 'two lists'],
    ['{"items":[1],"data":{"items":[2]}}', 'two lists in two places'],
    ['{"items":{"name":1}}', 'an object that is not a list'],
    ['{"items":{"0":1,"total":1}}', 'an object that is only partly a list'],
  ])('reports broken framing: %s (%s)', (text) => {
    expect(scan(text).problem).toMatch(/^(?:is|has) /);
  });

  it('does not decode records that nest deeper than 64 levels', () => {
    const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
    const { records: found } = scan(`{"items":[${nested(64)},${nested(65)},{"a":${nested(64)}}]}`);
    expect(found.map(({ unfit }) => unfit)).toEqual([
      null,
      'nests deeper than 64 levels',
      'nests deeper than 64 levels',
    ]);
  });

  it('gives up on a list of millions of numbers, which would fill memory', () => {
    const numbers = `{"items":[${'1,'.repeat(2_000_001)}1]}`;
    expect(scan(numbers).problem).toMatch(/^has more than 2000000 records/);
  });
});
