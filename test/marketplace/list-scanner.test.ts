import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ListScanner, type FoundRecord } from '../../src/marketplace/list-scanner.js';

const MIB = 1024 * 1024;

interface Scan {
  readonly elements: FoundRecord[];
  readonly texts: string[];
  readonly scanner: ListScanner;
}

/** Scans text that arrives in chunks. @param cuts positions between the chunks */
function scan(
  text: string | Buffer,
  cuts: readonly number[] = [],
  maxRecordBytes = 64 * MIB,
): Scan {
  const scanner = new ListScanner(maxRecordBytes);
  const whole = Buffer.from(text);
  const ends = [...cuts.filter((cut) => cut < whole.length).sort((a, b) => a - b), whole.length];
  const elements: FoundRecord[] = [];
  for (const [index, end] of ends.entries()) {
    scanner.push(Buffer.from(whole.subarray(ends[index - 1] ?? 0, end)));
    elements.push(...scanner.take());
  }
  const texts = elements.map(({ bytes }) => Buffer.from(bytes).toString());
  return { elements, texts, scanner };
}

const everyByte = (text: string): number[] => Array.from(Buffer.from(text).keys());

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
/** Positions between chunks; null for every byte. */
const cuts = fc.option(fc.array(fc.nat(2_000), { maxLength: 40 }), { freq: 4 });
const others = fc.dictionary(
  strings.filter((name) => name !== 'items' && name !== '__proto__'),
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
  it('finds what JSON.parse finds, for arrays and objects, wherever the list is and chunks are cut', () => {
    fc.assert(
      fc.property(
        fc.array(records, { maxLength: 8 }),
        others,
        others,
        fc.boolean(),
        spaces,
        cuts,
        (items, before, after, asObject, space, places) => {
          const list = asObject ? Object.fromEntries(items.entries()) : items;
          const envelope = { ...before, items: list, ...after };
          const text = `${space}${spaced(envelope, space)}${space}`;
          const { texts, elements, scanner } = scan(text, places ?? everyByte(text));
          expect(scanner.problem).toBeNull();
          expect(scanner.finished).toBe(true);
          expect(texts.map((record) => JSON.parse(record) as unknown)).toEqual(
            JSON.parse(JSON.stringify(items)),
          );
          expect(elements.map(({ idHint }) => idHint)).toEqual(items.map(plainId));
          const { items: _, ...rest } = JSON.parse(text) as Record<string, unknown>;
          expect(scanner.envelope()).toEqual(rest);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('takes the id from the record’s top-level key `id` only', () => {
    const items = [
      '{"id":5,"a":"id"}',
      '{"a":{"id":6}}',
      '[{"id":7}]',
      '{"id":8,"id":9}',
      '{"id":10,"id":null}',
      '["id",11]',
    ];
    const { elements } = scan(`{"items":[${items.join(',')}]}`);
    expect(elements.map(({ idHint }) => idHint)).toEqual([5, null, null, 9, null, null]);
  });

  it('never takes a truncated body for a complete one', () => {
    fc.assert(
      fc.property(fc.array(records, { maxLength: 4 }), others, cuts, (items, rest, places) => {
        const whole = Buffer.from(spaced({ items, ...rest }, ' '));
        for (let length = 0; length < whole.length; length++) {
          const { scanner } = scan(whole.subarray(0, length), places ?? []);
          expect(scanner.finished).toBe(false);
        }
      }),
      { numRuns: 50 },
    );
  });

  it.each(['{"a":tru,"id":2}', '{"a" 1 2 "id" 2}', 'nonsense', '{"a":"\u0001\\x"}'])(
    'continues after a record with invalid JSON: %s',
    (record) => {
      const { texts, scanner } = scan(`{"items":[{"id":1},${record},{"id":3}]}`);
      expect(texts).toEqual(['{"id":1}', record, '{"id":3}']);
      expect(scanner.finished).toBe(true);
      expect(scanner.problem).toBeNull();
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
    ['{"items":[1]} x { "', 'another object after the end'],
    ['{"items":[1]}{"items":[2]}', 'a second envelope'],
    ['{"items":[1],"items":[2]}', 'two lists'],
    ['{"items":{"name":1}}', 'an object that is not a list'],
    ['{"items":{"0":1,"total":1}}', 'an object that is only partly a list'],
    ['{"a\\x":1,"items":[]}', 'an invalid member name'],
  ])('reports broken framing: %s (%s)', (text) => {
    expect(scan(text).scanner.problem).not.toBeNull();
    expect(scan(text, everyByte(text)).scanner.problem).not.toBeNull();
  });

  it.each([
    ['{"status":"error","msg":"[]', false],
    ['{"items":null}', false],
    ['{"data":{"items":[1]}}', false],
    ['{"items":{', false],
    ['{"items":{}', true],
    ['{"it\\u0065ms":[', true],
  ])('in %s, has started a list: %s', (text, started) => {
    expect(scan(text).scanner.started).toBe(started);
  });

  it.each(['\uFEFF', '\n\n ', '<b>Warning</b>: {closure}() failed {\n', 'Notice { {'])(
    'finds the envelope after %j',
    (before) => {
      const text = `${before}{ "items": [1, 2]}`;
      for (const places of [[], everyByte(text)]) {
        const { texts, scanner } = scan(text, places);
        expect(texts).toEqual(['1', '2']);
        expect(scanner.finished).toBe(true);
        expect(scanner.preambleBytes).toBe(Buffer.byteLength(before));
      }
    },
  );

  it('gives up on a body without JSON in its first MiB', () => {
    expect(scan('x'.repeat(2 * MIB), [1_000]).scanner.problem).toMatch(/first MiB/);
  });

  it('keeps the envelope’s small members and skips large ones', () => {
    const text = `{"big":"${'x'.repeat(MIB)}","status":"error","items":[],"msg":"no"}`;
    expect(scan(text, [70_000, 140_000]).scanner.envelope()).toEqual({
      status: 'error',
      msg: 'no',
    });
  });

  it('returns no envelope if one of its members is invalid JSON', () => {
    expect(scan('{"status":oops,"items":[]}').scanner.envelope()).toBeNull();
  });
});

describe('records that must not be decoded', () => {
  it.each([[[]], [[40]], [[40, 50, 60, 70]]])(
    'are those that are too large (cut at %j)',
    (places) => {
      const text = `{"items":[{"id":1},{"id":2,"x":"${'x'.repeat(90)}"},{"id":3}]}`;
      const { elements } = scan(text, places, 50);
      expect(elements.map(({ unfit }) => unfit === null)).toEqual([true, false, true]);
      expect(elements.map(({ idHint }) => idHint)).toEqual([1, 2, 3]);
    },
  );

  it('are kept up to 1 MiB, whether they arrive in one chunk or in many', () => {
    const text = `{"items":[{"id":2,"x":"${'x'.repeat(5 * MIB)}"}]}`;
    for (const places of [[], [MIB, 2 * MIB, 3 * MIB, 4 * MIB], [3 * MIB - 5]]) {
      const { elements, texts } = scan(text, places, 3 * MIB);
      expect(elements[0]?.unfit).toMatch(/larger/);
      expect(texts[0]).toBe(text.slice(10, 10 + MIB));
    }
  });

  it('are those that nest deeper than 64 levels', () => {
    const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
    const { elements } = scan(`{"items":[${nested(64)},${nested(65)},{"a":${nested(64)}}]}`);
    expect(elements.map(({ unfit }) => unfit)).toEqual([
      null,
      'nests deeper than 64 levels',
      'nests deeper than 64 levels',
    ]);
  });

  it.each([0, 1])('are not those of exactly the size limit (limit less %i)', (less) => {
    const record = '{"id":2,"x":"123456789"}';
    const { elements } = scan(`{"items":[${record}]}`, [15], record.length - less);
    expect(elements[0]?.unfit === null).toBe(less === 0);
  });
});

it('does not copy records that lie within one chunk', () => {
  const scanner = new ListScanner(MIB);
  const chunk = Buffer.from('{"items":[{"id":1},{"id":2},{"i');
  scanner.push(chunk);
  for (const { bytes } of scanner.take()) expect(bytes.buffer).toBe(chunk.buffer);
});
