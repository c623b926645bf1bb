import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import type { IntakeOptions } from '../../src/intake/index.js';
import { code, codesOf, readAll, refusal } from './support.js';

const KEY = 'c0ffee00deadbeef0123456789abcdefc0ffee00deadbeef0123456789abcdef';
const SHORT = 'Abc-1234';
const keys = [new Secret(KEY), new Secret(SHORT)];
const read = (text: string, options: Partial<IntakeOptions> = {}) =>
  readAll(text, { keys, ...options });

describe('an API key in a list', () => {
  it.each([
    ['a line of text', `${code(1)}\n${KEY}\n`],
    ['capitals', `${code(1)}\n${KEY.toUpperCase()}\n`],
    ['spaces', `code,note\n${code(1)},\n"  ${KEY} ",\n`],
    ['a formula that is text', `code;note\n${code(1)};\n"=""${KEY}""";\n`],
    ['an address', `code\n${code(1)}\nhttps://market.example?api_key=${KEY}\n`],
    ['JSON with escapes', `["${code(1)}",\n"\\u0063${KEY.slice(1)}"]`],
    ['NDJSON', `{"code":"${code(1)}"}\n{"code":"${KEY}"}\n`],
    ['a short key in quotes', `code,note\n${code(1)},\n'${SHORT}',\n`],
  ])('in place of a code is rejected and masked: %s', async (_what, text) => {
    const all = await read(text);
    expect(all.rows).toMatchObject([
      { text: code(1) },
      { rejected: 'the code is an API key, which is masked here' },
    ]);
    expect(all.rows[1]?.columns[0]).toContain('[secret]');
    expect(JSON.stringify(all).toLowerCase()).not.toMatch(/c0ffee|abc-1234/);
  });

  it('beside a code is masked, and the code is taken', async () => {
    const text = `code,key,call\n${code(1)},${KEY},x?key=${KEY}&n=1\n${code(2)},${SHORT},\n`;
    const { rows } = await read(text);
    expect(rows).toMatchObject([
      { text: code(1), columns: [code(1), '[secret]', 'x?key=[secret]&n=1'] },
      { text: code(2), columns: [code(2), '[secret]', ''] },
    ]);
  });

  it('that is short may stand in a code by chance', async () => {
    expect(await codesOf(`x${SHORT}\n${SHORT}9\n`, { keys })).toEqual([`x${SHORT}`, `${SHORT}9`]);
  });

  it.each<[string, string, Partial<IntakeOptions>]>([
    ['a header', `${KEY},code\nx,${code(1)}\n`, { name: 'a.csv' }],
    ['a name in JSON', `[{"${KEY}":"x","code":"${code(1)}"}]`, {}],
    ['the name of a list in JSON', `{"${KEY}":["${code(1)}"]}`, { format: 'json' }],
  ])('is not shown in how the list is read: %s', async (_what, text, options) => {
    const { layout } = await read(text, options);
    expect(JSON.stringify(layout)).not.toContain(KEY.slice(0, 20));
  });

  it.each<[string, string, Partial<IntakeOptions>]>([
    ['no column of codes', `${KEY},name\n1,x\n2,y\n`, {}],
    ['no such column', `code,name\n${code(1)},x\n`, { column: KEY }],
    ['two lists', `{"${KEY}":["a"],"b":["c"]}`, { format: 'json' }],
  ])('is not shown in a message either: %s', async (_what, text, options) => {
    const said = await refusal(text, { keys, name: 'a.csv', ...options });
    expect(said).not.toContain(KEY.slice(0, 20));
  });
});
