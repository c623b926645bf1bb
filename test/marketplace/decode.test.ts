import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeAccount,
  decodeItem,
  decodePurchase,
  NO_WIRE_HASH,
  wireHash,
} from '../../src/marketplace/decode.js';
import type { Account, Decoded, Decoding, Item, Json, Purchase } from '../../src/domain/item.js';

const ITEM = {
  id: 42,
  name: 'Aurora',
  description: '<p>Hello</p>',
  category: 'Themes',
  sub_category: 'Blog',
  options: ['Responsive'],
  version: '1.2.3',
  demo_link: 'https://demo.example/42',
  tags: ['clean', 'fast'],
  media: {
    thumbnail: 'https://cdn.example/t.png?wrap=0',
    preview_image: 'https://cdn.example/p.png',
    preview_video: 'https://cdn.example/v.mp4',
    preview_audio: 'https://cdn.example/a.mp3',
    screenshots: ['https://cdn.example/1.png'],
  },
  price: { regular: 19.9, extended: 100 },
  currency: 'USD',
  published_at: '2024-01-02T03:04:05Z',
} satisfies Json;

function decoded<T>(decoding: Decoding<T>): Decoded<T> {
  if (!decoding.ok) throw new Error(decoding.reason);
  return decoding.decoded;
}

/** The item with some fields replaced; undefined leaves a field out. */
function decodedItem(changes: { [key: string]: Json | undefined }): Decoded<Item> {
  const fields = Object.entries({ ...ITEM, ...changes }).filter(([, json]) => json !== undefined);
  return decoded(decodeItem(Object.fromEntries(fields) as Json));
}

describe('notations seen in the field are accepted', () => {
  const screenshots = { '0': 'https://x/1.png', '1': 'https://x/2.png' };
  const at = (published_at: string): object => ({ published_at });
  const price = (regular: Json, extended: Json = 1): object => ({ price: { regular, extended } });
  it.each<[string, object, object]>([
    ['options as a map of texts', { options: { Layout: 'Fluid' } }, { options: ['Layout: Fluid'] }],
    ['options as a map of lists', { options: { A: ['B', 'C'] } }, { options: ['A: B', 'A: C'] }],
    ['options null', { options: null }, { options: [] }],
    ['tags as one comma-separated text', { tags: 'clean, fast' }, { tags: ['clean', 'fast'] }],
    [
      'screenshots as an object with numeric keys',
      { media: { screenshots } },
      { screenshots: Object.values(screenshots) },
    ],
    ['an empty map as an empty array', { media: [] }, { previewImageUrl: null, screenshots: [] }],
    ['microseconds', at('2024-01-02T03:04:05.000000Z'), { publishedAt: '2024-01-02T03:04:05Z' }],
    ['another offset', at('2024-01-02T05:04:05+02:00'), { publishedAt: '2024-01-02T03:04:05Z' }],
    ['float noise', price(21.099999999999998), { priceRegular: '21.10' }],
    ['money as text', price('19.90', '5'), { priceRegular: '19.90', priceExtended: '5.00' }],
    ['numbers as text', { id: '42' }, { id: 42 }],
    ['an id as a float', { id: '42.0' }, { id: 42 }],
    ['version null', { version: null }, { version: null }],
    ['version of four parts', { version: '1.2.3.4' }, { version: '1.2.3.4' }],
    [
      'the optional fields of the contract left out',
      { version: undefined, media: { preview_image: 'https://x/p.png' } },
      { version: null, thumbnailUrl: null, screenshots: [] },
    ],
    ['NUL characters in text', { name: 'A\0B' }, { name: 'A\uFFFDB' }],
    ['half a surrogate pair', { name: 'A\ud800' }, { name: 'A\uFFFD' }],
  ])('%s', (_title, changes, expected) => {
    expect(decodedItem(changes as { [key: string]: Json }).value).toMatchObject(expected);
  });
});

describe('unknown fields', () => {
  it('are kept by their path, because forks add and rename fields', () => {
    const { extra } = decodedItem({
      rating: { stars: 5 },
      media: { preview_image: 'x', poster: 'y' },
      price: { regular: 1, extended: 2, old: 3 },
    });
    expect(extra).toEqual({ rating: { stars: 5 }, 'media.poster': 'y', 'price.old': 3 });
  });

  it('may be named __proto__ without changing a prototype', () => {
    const decoding = decodeItem(
      JSON.parse('{"id":1,"name":"x","__proto__":{"polluted":true}}') as Json,
    );
    expect(decoding.ok && Object.keys(decoding.decoded.extra)).toEqual(['__proto__']);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

describe('a record with an unreadable field is refused', () => {
  it.each<[{ [key: string]: Json }, RegExp]>([
    [{ id: 1.5 }, /^id is not an integer/],
    [{ id: 2 ** 53 }, /^id is beyond 2\^53/],
    [{ name: null }, /^name is missing/],
    [{ name: { en: 'x' } }, /^name is not text/],
    [{ price: { regular: 1e20, extended: 1 } }, /^price.regular is too large/],
    [{ price: { regular: 'free', extended: 1 } }, /^price.regular is not an amount/],
    [{ published_at: '2024-02-30T00:00:00Z' }, /^published_at is not a date/],
  ])('%j', (changes, reason) => {
    const decoding = decodeItem({ ...ITEM, ...changes });
    expect(decoding.ok ? null : decoding.reason).toMatch(reason);
  });

  it('but its id is kept if readable, so that the item does not count as missing', () => {
    const decoding = decodeItem({ ...ITEM, name: null });
    expect(decoding).toMatchObject({ ok: false, id: 42 });
  });
});

describe('any JSON', () => {
  it('is decoded or refused without throwing', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.dictionary(fc.constantFrom(...Object.keys(ITEM)), fc.jsonValue()),
        (any, fields) => {
          expect(() => decodeItem(any as Json)).not.toThrow();
          expect(() => decodeItem({ ...ITEM, ...fields })).not.toThrow();
        },
      ),
    );
  });

  it('gives the same text for the same amount of money in any notation', () => {
    fc.assert(
      fc.property(fc.integer({ min: -99_999_999_999, max: 99_999_999_999 }), (cents) => {
        const amount = cents / 100;
        const read = (regular: Json): string | null =>
          decodedItem({ price: { regular, extended: 1 } }).value.priceRegular;
        const text = read(amount);
        expect(read(amount.toFixed(2))).toBe(text);
        expect(read(amount + Math.sign(amount) * 1e-9)).toBe(text);
        expect(Math.round(Number(text) * 100)).toBe(cents === 0 ? 0 : cents);
      }),
    );
  });
});

const ACCOUNT: { [key: string]: Json } = {
  name: { firstname: 'Ada', lastname: 'Byron', full_name: 'Ada Byron' },
  username: 'ada',
  email: 'ada@example.com',
  balance: 1234.5,
  currency: 'USD',
  profile: {
    heading: 'Hi',
    description: '<b>me</b>',
    contact: { email: 'shop@example.com' },
    social_links: { x: 'https://x.example/ada', facebook: 'https://f.example/ada' },
    media: { avatar: 'https://cdn.example/a.png', cover: 'https://cdn.example/c.png' },
  },
  registered_at: '2020-01-01T00:00:00Z',
};

const decodedAccount = (json: Json): Decoded<Account> => decoded(decodeAccount(json));

describe('the account', () => {
  it('may have handles, unset networks, or no social links at all', () => {
    const withLinks = (social_links: Json): Json => ({ ...ACCOUNT, profile: { social_links } });
    expect(decodedAccount(withLinks({ x: 'ada', youtube: null })).value.socialLinks).toEqual({
      x: 'ada',
    });
    expect(decodedAccount(withLinks(null)).value.socialLinks).toEqual({});
    expect(decodedAccount(withLinks([])).value.socialLinks).toEqual({});
  });

  it('keeps unknown fields at every level', () => {
    const json = { ...ACCOUNT, level: 3, profile: { badge: 'gold', media: { banner: 'b' } } };
    expect(decodedAccount(json).extra).toEqual({
      level: 3,
      'profile.badge': 'gold',
      'profile.media.banner': 'b',
    });
  });

  it('is refused without a username, which identifies it', () => {
    expect(decodeAccount({ ...ACCOUNT, username: null })).toMatchObject({ ok: false });
    expect(decodeAccount({ ...ACCOUNT, username: ' ' })).toMatchObject({ ok: false });
    expect(decodeAccount([])).toMatchObject({ ok: false });
  });
});

const PURCHASE: { [key: string]: Json } = {
  purchase_code: 'abc-123',
  license_type: 'Regular',
  price: 19.9,
  currency: 'USD',
  item: {
    id: 7,
    name: 'Aurora',
    url: 'https://m.example/7',
    media: { preview_image: 'https://m.example/p.png' },
  },
  date: '2024-05-06T07:08:09Z',
};

const decodedPurchase = (json: Json): Purchase => decoded(decodePurchase(json)).value;

describe('a purchase', () => {
  it('is read in its reduced shape, with null for absent fields', () => {
    expect(decodedPurchase(PURCHASE)).toEqual({
      purchaseCode: 'abc-123',
      licenseType: 'Regular',
      price: '19.90',
      currency: 'USD',
      item: {
        id: 7,
        name: 'Aurora',
        url: 'https://m.example/7',
        previewImageUrl: 'https://m.example/p.png',
        full: null,
      },
      supportedUntil: null,
      downloaded: null,
      purchasedAt: '2024-05-06T07:08:09Z',
    });
  });

  it.each([
    [{}, undefined],
    [{ supported_until: '' }, undefined],
    [{ supported_until: 'soon' }, true],
    [{ supported_until: 1798761600 }, true],
  ])('tells an end of support that can’t be read from none: %j', (fields, isSupportUnknown) => {
    const { supportedUntil, ...read } = decodedPurchase({ ...PURCHASE, ...fields });
    expect(read.isSupportUnknown).toBe(isSupportUnknown);
    if (isSupportUnknown === true) expect(supportedUntil).toBeNull();
  });

  it('is read with the full item', () => {
    const item = { id: 7, name: 'Aurora', price: { regular: 19.9, extended: 99 }, tags: ['a'] };
    const purchase = decodedPurchase({
      ...PURCHASE,
      item,
      supported_until: '2025-01-01T00:00:00.000000Z',
      downloaded: true,
    });
    expect(purchase).toMatchObject({ supportedUntil: '2025-01-01T00:00:00Z', downloaded: true });
    expect(purchase.item?.full).toMatchObject({ priceExtended: '99.00', tags: ['a'] });
  });

  it.each([
    ['2024-01-02T17:04:05+14:00', '2024-01-02T03:04:05Z'],
    ['2024-01-01T15:04:05-12', '2024-01-02T03:04:05Z'],
  ])('may have a date with any offset from UTC: %s', (date, utc) => {
    expect(decodedPurchase({ ...PURCHASE, date }).purchasedAt).toBe(utc);
  });

  it('stays valid if its item can’t be read', () => {
    expect(decodedPurchase({ ...PURCHASE, item: null }).item).toBeNull();
    expect(decodedPurchase({ ...PURCHASE, item: [] }).item).toBeNull();
  });

  it.each([
    [{ title: 'Aurora' }, { id: 7, name: null }, 'item.name.unreadable'],
    [{ name: { en: 'Aurora' } }, { id: 7, name: null }, 'item.name.unreadable'],
    [{ id: 'x7', name: 'Aurora' }, { id: null, name: 'Aurora' }, 'item.id.unreadable'],
  ])(
    'keeps the readable fields of an item, because forks rename fields: %j',
    (fields, kept, noted) => {
      const item = { id: 7, url: 'u', ...fields };
      const { value, tolerated } = decoded(decodePurchase({ ...PURCHASE, item }));
      expect(value.item).toEqual({ ...kept, url: 'u', previewImageUrl: null, full: null });
      expect(tolerated).toEqual([noted]);
    },
  );

  it.each([{}, { id: 0, name: '', url: '' }, { media: { preview_image: 'p' } }])(
    'has no item if nothing identifies it, so that an empty answer proves nothing: %j',
    (item) => {
      const decoding = decodePurchase({ ...PURCHASE, item });
      expect(decoding).toMatchObject({ ok: true, decoded: { value: { item: null } } });
      expect(decoding.ok && decoding.decoded.tolerated).toContain('item.unreadable');
    },
  );

  it('accepts flags that PHP sends as numbers', () => {
    expect(decodedPurchase({ ...PURCHASE, downloaded: 1 }).downloaded).toBe(true);
    expect(decodedPurchase({ ...PURCHASE, downloaded: '0' }).downloaded).toBe(false);
  });

  it.each([
    ['price', '1,299.00 $'],
    ['supported_until', false],
    ['date', '2024-01-02T03:04:05+14:01'],
    ['date', 1_704_164_645],
    ['license_type', { name: 'Regular' }],
    ['downloaded', 'maybe'],
  ])('stays valid if its %s is %j, which can’t be read', (field, json) => {
    const decoding = decodePurchase({ ...PURCHASE, [field]: json });
    expect(decoding).toMatchObject({ ok: true, decoded: { value: { purchaseCode: 'abc-123' } } });
    expect(decoding.ok && decoding.decoded.tolerated).toContain(`${field}.unreadable`);
  });

  it('is refused if its code can’t be read', () => {
    expect(decodePurchase({ ...PURCHASE, purchase_code: ['abc-123'] }).ok).toBe(false);
  });
});

it('the hash of a record changes with the version of the decoder, so that last night’s bytes are decoded again', () => {
  const record = Buffer.from('{"id": 1}');
  const versions = Array.from({ length: 256 }, (_, version) => wireHash(record, version));
  expect(new Set([...versions, NO_WIRE_HASH]).size).toBe(257);
  expect(versions.indexOf(wireHash(record))).toBeGreaterThan(0);
  expect(versions).not.toContain(wireHash(Buffer.from('{"id": 2}')));
});
