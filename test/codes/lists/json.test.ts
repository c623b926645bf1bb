import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { code, codesOf, readAll, refusal } from './support.js';

describe('a JSON list', () => {
  it('may be of strings', async () => {
    const { layout, rows } = await readAll('[\n"a-1",\n "b\\u002d2" ]\n');
    expect(layout).toMatchObject({ format: 'json', columns: ['code'], codeColumn: 0 });
    expect(rows).toEqual([
      { line: 1, code: 'a-1', columns: ['a-1'] },
      { line: 2, code: 'b-2', columns: ['b-2'] },
    ]);
  });

  it('may be of objects, whose other fields are columns', async () => {
    const list = [
      { purchase_code: code(1), buyer: { name: 'A', tags: [1] }, paid: true, note: null },
      { purchase_code: code(2), extra: 1.5 },
    ];
    const { layout, rows } = await readAll(JSON.stringify(list, null, 2));
    expect(layout.columns).toEqual(['purchase_code', 'buyer', 'paid', 'note', 'extra']);
    expect(rows).toEqual([
      { line: 1, code: code(1), columns: [code(1), '{"name":"A","tags":[1]}', 'true', '', ''] },
      { line: 2, code: code(2), columns: [code(2), '', '', '', '1.5'] },
    ]);
  });

  it('may be a member of an object, next to any other members', async () => {
    const document = { total: 2, meta: { tags: ['x'] }, ids: [1, [2]], none: [], sold: ['a', 'b'] };
    const { layout, rows } = await readAll(JSON.stringify(document));
    expect(rows.map(({ columns }) => columns)).toEqual([['a'], ['b']]);
    expect(layout.reasons.join(' ')).toContain('member "sold"');
  });

  it.each([
    ['an object', (n: number) => ({ ref: `v${code(n).slice(1)}`, meta: { a: 'b0' } }), 'ref'],
    ['an object with a list', (n: number) => ({ code: `short-${n}`, deep: { a: [n] } }), 'code'],
  ])('has its codes in a field of strings, not in %s', async (_what, of, name) => {
    const { layout } = await readAll(JSON.stringify([of(1), of(2)]));
    expect(layout.columns[layout.codeColumn]).toBe(name);
  });

  it('may have its codes in a field that is sometimes an object', async () => {
    const list = [{ note: 'A', ref: { id: 1 } }, { note: 'B', ref: code(2) }, { ref: code(3) }];
    const { layout, rows } = await readAll(JSON.stringify(list));
    expect(layout.codeColumn).toBe(1);
    expect(rows.map((row) => 'code' in row)).toEqual([false, true, true]);
  });

  it('is read by a field of objects if that is requested', async () => {
    const list = JSON.stringify([{ code: { id: 1 }, ref: code(1) }]);
    const { layout } = await readAll(list, { column: 'code' });
    expect(layout.codeColumn).toBe(0);
  });

  it('is refused if the object has two lists', async () => {
    expect(await refusal('{"a":["x"],"b":["y"]}')).toContain('two lists: "a" and "b"');
  });

  it('has the digits of numbers that a double can’t hold', async () => {
    const { rows } = await readAll(
      '[{"code":12345678901234567890,"price":1.5,"t":"1.10 \\" 2.0","i":7}]',
    );
    expect(rows[0]?.columns).toEqual(['12345678901234567890', '1.5', '1.10 " 2.0', '7']);
  });

  it('is read past unusable values', async () => {
    const deep = `{"code":"x","a":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
    const list = `["a",\nnull,\n[1],\n1,\n{"code":{}},\n{"x":1},\n${deep},\n"",\n"${'x'.repeat(500_000)}",\n"z"]`;
    const codes = await codesOf(list, { column: 'code' });
    expect(codes).toEqual([
      'a',
      'line 2: is neither a string nor an object',
      'line 3: is neither a string nor an object',
      '1',
      'line 5: has a list or object as its code',
      'line 6: has no field with the code',
      'line 7: is nested too deeply',
      expect.stringMatching(/^line 8: .*empty/),
      expect.stringMatching(/^line 9: .*longer than 255/),
      'z',
    ]);
  });

  it.each([
    ['["a" "b"]', 'line 1: this is not valid JSON'],
    ['["a",\n"b', 'is cut off'],
    ['["a",\n"b"', 'is cut off'],
    ['["a",\n{bad}]', 'line 2: this is not valid JSON'],
    ['["a"]\n["b"]', 'line 2: this is not valid JSON'],
    ['{"a" 1}', 'line 1: this is not valid JSON'],
    ['{\n"a": 1}', 'has no list'],
    ['[]', 'the list is empty'],
    ['x', 'is not JSON'],
  ])('is refused with the line if its structure is broken: %s', async (text, problem) => {
    expect(await refusal(text, { format: 'json' })).toContain(problem);
  });

  it('is refused if it has no such field', async () => {
    const options = { name: 'a.ndjson', column: 'b' };
    expect(await refusal('{"a":1}', options)).toContain('there is no column "b"');
  });

  it('is read with every field, whatever its objects', async () => {
    const value = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.dictionary(fc.string(), fc.string({ unit: 'grapheme' })),
    );
    const object = fc.dictionary(fc.string({ unit: 'grapheme' }), value);
    const objects = fc.array(object, { minLength: 1 });
    const indent = fc.constantFrom(undefined, 2, '\t');
    await fc.assert(
      fc.asyncProperty(objects, indent, async (objects, indent) => {
        const list = objects.map((fields, n) => ({ 'the code': code(n), ...fields }));
        const options = { column: 'the code' };
        const json = await readAll(JSON.stringify(list, null, indent), options);
        const text = list.map((fields) => JSON.stringify(fields)).join('\n');
        const ndjson = await readAll(text, { ...options, name: 'x.ndjson' });
        const cellOf = (fields: Readonly<Record<string, unknown>>, name: string): string => {
          const field = Object.hasOwn(fields, name) ? fields[name] : null;
          if (field === null) return '';
          return typeof field === 'string' ? field : JSON.stringify(field);
        };
        const { columns } = json.layout;
        const expected = list.map((fields) => columns.map((name) => cellOf(fields, name)));
        expect(json.rows.map((row) => row.columns)).toEqual(expected);
        expect(ndjson.rows.map((row) => row.columns)).toEqual(expected);
        expect(ndjson.rows.map(({ line }) => line)).toEqual(list.map((_, n) => n + 1));
      }),
    );
  });
});

describe('NDJSON', () => {
  it('has a value a line: a broken line is rejected, and the others are read', async () => {
    const text = '{"code":"a"}\r\n{"code":\n\n"b"\n{"code":"c"} x\n{"code":"d"}';
    const { layout, rows, tally } = await readAll(text);
    expect(layout.format).toBe('ndjson');
    expect(tally.blankLines).toBe(1);
    expect(rows).toEqual([
      { line: 1, code: 'a', columns: ['a'] },
      { line: 2, rejected: 'is not valid JSON', columns: [] },
      { line: 4, code: 'b', columns: ['b'] },
      { line: 5, rejected: 'is not valid JSON', columns: [] },
      { line: 6, code: 'd', columns: ['d'] },
    ]);
  });

  it('is recognized by its content, even if its name ends in .json', async () => {
    const { layout } = await readAll('{"code":"a"}\n{"code":"b"}\n', { name: 'x.json' });
    expect(layout).toMatchObject({ format: 'ndjson' });
    expect(layout.reasons[0]).toContain('its beginning is ndjson');
  });

  it('may be a single line; a single line with a list is a JSON document', async () => {
    expect(await codesOf('{"code":"a"}')).toEqual(['a']);
    expect(await codesOf('{"codes":["a","b"]}')).toEqual(['a', 'b']);
    expect(await codesOf('{"code":"a","tags":["x"]}', { name: 'x.ndjson' })).toEqual(['a']);
  });

  it('has a column for every field, however late it occurs', async () => {
    const many = `{"code":"a"}\n`.repeat(30_000);
    const { layout, rows } = await readAll(`${many}{"code":"b","late":1}\n`);
    expect(layout.columns).toEqual(['code', 'late']);
    expect(rows.at(-1)?.columns).toEqual(['b', '1']);
  });

  it('may have fields such as `__proto__` and `constructor`', async () => {
    const { layout, rows } = await readAll('{"code":"a","__proto__":"x","constructor":"y"}');
    expect(layout.columns).toEqual(['code', '__proto__', 'constructor']);
    expect(rows[0]?.columns).toEqual(['a', 'x', 'y']);
  });

  it('is read past a line that is too long', async () => {
    const text = `{"code":"a"}\n{"code":"${'\\\\'.repeat(500_000)}"}\n{"code":"b"}\n`;
    expect(await codesOf(text)).toEqual(['a', expect.stringMatching(/^line 2: .*longer/), 'b']);
  });
});
