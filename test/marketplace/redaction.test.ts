import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../src/domain/item.js';
import { MASK, Secret } from '../../src/domain/secret.js';
import { excerpt } from '../../src/marketplace/envelope.js';
import { judge } from '../../src/marketplace/judge.js';
import {
  accountEndpoint,
  itemEndpoint,
  type RecordEndpoint,
  validationEndpoint,
} from '../../src/marketplace/endpoints.js';
import { Redactor } from '../../src/domain/redact.js';
import { holds, spelling } from '../support/echoes.js';
import { startServer } from '../support/http-server.js';
import { ACCOUNT, client, PURCHASE, texts, wireItem } from './support.js';

const redactorOf = (key: string): Redactor => new Redactor([new Secret(key)]);

/** Keys of any characters, except parts of the mask itself. */
const anyKey = fc
  .string({ unit: 'grapheme', minLength: 4, maxLength: 40 })
  .filter((key) => key.trim().length >= 4 && !holds(MASK, key.trim()));
/** Realistic keys, which appear nowhere by chance. */
const realKey = fc.oneof(
  fc.uuid(),
  fc.stringMatching(/^[0-9a-f]{32}$/),
  fc.stringMatching(/^[A-Za-z0-9+/]{27}=$/),
);

const DATA: readonly [RecordEndpoint<unknown>, Json][] = [
  [accountEndpoint, { data: ACCOUNT }],
  [itemEndpoint(7), { item: wireItem(7) as Json }],
  [validationEndpoint('C0DE-1'), { data: { purchase: PURCHASE } }],
];

/** Returns a function that inserts an echo into a JSON value: as a string or a name, at any place. */
const inserter = fc
  .record({ path: fc.array(fc.nat(20), { maxLength: 5 }), manner: fc.nat(4), before: fc.string() })
  .map(({ path, manner, before }) => (document: Json, echo: string): Json => {
    const value: Json = `${before.slice(0, 5)} ${echo}`;
    const put = (json: Json, [step, ...rest]: readonly number[]): Json => {
      if (typeof json === 'number') return `x${echo}`;
      if (typeof json !== 'object' || json === null) return value;
      if (Array.isArray(json)) return [...json, value];
      const names = Object.keys(json);
      const name = names[(step ?? 0) % Math.max(1, names.length)];
      if (step === undefined || name === undefined) {
        return manner === 1 ? { ...json, [`x${echo}`]: 1 } : { ...json, fork: [{ echo: value }] };
      }
      return { ...json, [name]: put(json[name] as Json, rest) };
    };
    return put(document, path);
  });

describe('a key that the server echoes', () => {
  it('is in no reply, whatever its place and notation', () => {
    const status = fc.constantFrom(200, 400, 401, 404, 405, 422, 500);
    const documents = fc.constantFrom(
      ...DATA.map(([endpoint, data]) => ({
        endpoint,
        body: { status: 'success', ...(data as object) },
      })),
      ...DATA.map(([endpoint]) => ({ endpoint, body: { status: 'error', msg: 'no' } })),
      ...DATA.map(([endpoint]) => ({ endpoint, body: { message: 'no' } })),
    );
    fc.assert(
      fc.property(
        realKey,
        spelling,
        documents,
        inserter,
        status,
        (key, spell, { endpoint, body }, insert, httpStatus) => {
          const text = JSON.stringify(insert(body, spell(key)));
          const reply = judge(endpoint, httpStatus, Buffer.from(text), redactorOf(key));
          const shown = JSON.stringify(reply);
          expect(shown).toBe(JSON.stringify(JSON.parse(shown)));
          expect(redactorOf(key).text(shown)).toBe(shown);
          expect(holds(shown, key)).toBe(false);
        },
      ),
      { numRuns: 400 },
    );
  });

  it('is in no record of a list, and the other records keep their bytes', async () => {
    await fc.assert(
      fc.asyncProperty(realKey, spelling, inserter, async (key, spell, insert) => {
        const clean = JSON.stringify(wireItem(1));
        const dirty = JSON.stringify(insert(wireItem(2) as Json, spell(key)));
        const broken = `{"id":3,"echo":"${spell(key)}",}`;
        const server = await startServer({ body: `{"items":[${clean},${dirty},${broken}]}` });
        const marketplace = client(server.url, { key: new Secret(key) });
        const reply = await marketplace.items();
        if (reply.kind !== 'answered') throw new Error(reply.kind);
        const records = texts(reply.data);
        expect(records[0]).toBe(clean);
        expect(() => void JSON.parse(records[1] ?? '')).not.toThrow();
        for (const record of records) expect(redactorOf(key).text(record)).toBe(record);
        await marketplace.close();
      }),
      { numRuns: 25 },
    );
  });

  it('is masked in strings and names at any depth of JSON, and nothing else changes', () => {
    fc.assert(
      fc.property(anyKey, fc.jsonValue(), (key, other) => {
        const shown = key.trim();
        const json = { a: [{ [`x${shown}`]: `see ${shown}!` }], other } as Json;
        const masked = redactorOf(key).json(json) as { a: Json };
        expect(JSON.stringify(masked.a)).toBe('[{"x[secret]":"see [secret]!"}]');
        const clean = { b: 'nothing here', c: [1, null, { d: true }], other } as Json;
        expect(redactorOf('a-key-that-is-nowhere').json(clean)).toBe(clean);
      }),
    );
  });

  it('is not shown in part if it looks like markup', () => {
    const redactor = redactorOf('abcd<efgh>ijkl');
    expect(excerpt('<p>see abcd<efgh>ijkl</p>', redactor)).toBe('see [secret]');
  });

  it('does not reappear when control characters or markup are removed from its middle', () => {
    const key = 'abcdefgh12345678';
    expect(excerpt('<p>ABCDEFGH<b></b>12345678</p>', redactorOf(key))).toBe('ABCDEFGH 12345678');
    expect(excerpt('abcdefgh\u200b12345678', redactorOf(key))).toBe('[secret]');
  });

  it('is not shown in part at the end of an excerpt', () => {
    const key = 'abcdefgh12345678';
    for (let before = 250; before < 310; before++) {
      expect(excerpt(`${'.'.repeat(before)}${key}`, redactorOf(key))).not.toContain('abcd');
    }
    const long = 'abcd'.repeat(1_000);
    const text = `<${long} x="${'.'.repeat(100)}"> ${long} <i>${long}`;
    expect(excerpt(text, redactorOf(long))).not.toContain('abcd');
  });
});
