import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeItem } from '../../src/domain/decode.js';
import { extraHash, itemHash } from '../../src/domain/prepare-item.js';
import type { Item, Json } from '../../src/domain/item.js';

function item(json: Json): Item {
  const decoding = decodeItem(json);
  if (!decoding.ok) throw new Error(decoding.reason);
  return decoding.decoded.value;
}

const BASE = {
  id: 1,
  name: 'A',
  tags: ['x', 'y'],
  price: { regular: 21.1, extended: 50 },
  published_at: '2024-01-02T03:04:05Z',
};

describe('the fingerprint of an item', () => {
  it('is the same for another notation, so that quirks make no phantom change', () => {
    const other = {
      published_at: '2024-01-02T03:04:05.000000Z',
      price: { extended: '50', regular: 21.099999999999998 },
      tags: 'x,y',
      options: [],
      version: null,
      name: 'A',
      id: '1',
    };
    expect(itemHash(item(other))).toEqual(itemHash(item(BASE)));
  });

  it('differs when any one field differs', () => {
    const changed: { [key: string]: Json } = {
      name: 'B',
      description: 'd',
      category: 'c',
      sub_category: 's',
      options: ['o'],
      version: '2',
      demo_link: 'l',
      tags: ['x'],
      currency: 'EUR',
      published_at: '2024-01-02T03:04:06Z',
    };
    const base = itemHash(item(BASE));
    for (const [field, value] of Object.entries(changed)) {
      expect(itemHash(item({ ...BASE, [field]: value })), field).not.toEqual(base);
    }
    for (const field of ['thumbnail', 'preview_image', 'preview_video', 'preview_audio']) {
      expect(itemHash(item({ ...BASE, media: { [field]: 'u' } })), field).not.toEqual(base);
    }
    expect(itemHash(item({ ...BASE, media: { screenshots: ['u'] } }))).not.toEqual(base);
    expect(itemHash(item({ ...BASE, price: { regular: 21.1, extended: 51 } }))).not.toEqual(base);
  });

  it('does not confuse texts that run into each other', () => {
    expect(itemHash(item({ ...BASE, tags: ['x,y'] }))).not.toEqual(itemHash(item(BASE)));
  });
});

describe('the fingerprint of unknown fields', () => {
  it('does not depend on the order of keys, at any depth', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (extra) => {
        const reversed = Object.fromEntries(Object.entries(extra).reverse());
        expect(extraHash(reversed as { [k: string]: Json })).toEqual(
          extraHash(extra as { [k: string]: Json }),
        );
      }),
    );
    expect(extraHash({ a: { b: 1, c: 2 } })).toEqual(extraHash({ a: { c: 2, b: 1 } }));
    expect(extraHash({ a: { b: 1 } })).not.toEqual(extraHash({ a: { b: 2 } }));
  });
});
