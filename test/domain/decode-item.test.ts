import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeItem } from '../../src/domain/decode-item.js';
import type { Json } from '../../src/domain/item.js';

const CONTRACT = {
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

function decode(changes: { [key: string]: Json | undefined }) {
  const entries = Object.entries({ ...CONTRACT, ...changes }).filter(
    ([, value]) => value !== undefined,
  );
  const decoding = decodeItem(Object.fromEntries(entries));
  if (!decoding.ok) throw new Error(decoding.reason);
  return decoding.decoded;
}

function refusal(changes: { [key: string]: Json }) {
  const decoding = decodeItem({ ...CONTRACT, ...changes });
  return decoding.ok ? null : decoding.reason;
}

describe('an item of the contract', () => {
  it('is read field by field and needs no tolerance', () => {
    const { value, extra, tolerated } = decode({});
    expect(value).toEqual({
      id: 42,
      name: 'Aurora',
      description: '<p>Hello</p>',
      category: 'Themes',
      subCategory: 'Blog',
      options: ['Responsive'],
      version: '1.2.3',
      demoLink: 'https://demo.example/42',
      tags: ['clean', 'fast'],
      thumbnailUrl: 'https://cdn.example/t.png?wrap=0',
      previewImageUrl: 'https://cdn.example/p.png',
      previewVideoUrl: 'https://cdn.example/v.mp4',
      previewAudioUrl: 'https://cdn.example/a.mp3',
      screenshots: ['https://cdn.example/1.png'],
      priceRegular: '19.90',
      priceExtended: '100.00',
      currency: 'USD',
      publishedAt: '2024-01-02T03:04:05Z',
    });
    expect(extra).toEqual({});
    expect(tolerated).toEqual([]);
  });

  it('may leave out what the contract lets it leave out', () => {
    const { value } = decode({ version: undefined, media: { preview_image: 'https://x/p.png' } });
    expect(value).toMatchObject({ version: null, thumbnailUrl: null, screenshots: [] });
  });
});

describe('notations seen in the field mean the same item', () => {
  const cases: readonly [string, { [key: string]: Json }, object][] = [
    ['options as a map of texts', { options: { Layout: 'Fluid' } }, { options: ['Layout: Fluid'] }],
    [
      'options as a map of lists',
      { options: { Files: ['PSD', 'HTML'] } },
      { options: ['Files: PSD', 'Files: HTML'] },
    ],
    ['options null', { options: null }, { options: [] }],
    ['options as an empty array', { options: [] }, { options: [] }],
    ['tags as one comma-separated text', { tags: 'clean, fast' }, { tags: ['clean', 'fast'] }],
    ['tags null', { tags: null }, { tags: [] }],
    [
      'screenshots as an object with numeric keys',
      { media: { screenshots: { '0': 'https://x/1.png', '1': 'https://x/2.png' } } },
      { screenshots: ['https://x/1.png', 'https://x/2.png'] },
    ],
    ['screenshots null', { media: { screenshots: null } }, { screenshots: [] }],
    ['an empty map as an empty array', { media: [] }, { previewImageUrl: null, screenshots: [] }],
    [
      'microseconds',
      { published_at: '2024-01-02T03:04:05.000000Z' },
      { publishedAt: '2024-01-02T03:04:05Z' },
    ],
    [
      'a fraction that is not zero',
      { published_at: '2024-01-02T03:04:05.120000Z' },
      { publishedAt: '2024-01-02T03:04:05.12Z' },
    ],
    [
      'another offset',
      { published_at: '2024-01-02T05:04:05+02:00' },
      { publishedAt: '2024-01-02T03:04:05Z' },
    ],
    ['integer money', { price: { regular: 100, extended: 200 } }, { priceRegular: '100.00' }],
    [
      'float noise',
      { price: { regular: 21.099999999999998, extended: 1 } },
      { priceRegular: '21.10' },
    ],
    [
      'money as text',
      { price: { regular: '19.90', extended: '5' } },
      { priceRegular: '19.90', priceExtended: '5.00' },
    ],
    ['numbers as text', { id: '42' }, { id: 42 }],
    ['an id as a float', { id: '42.0' }, { id: 42 }],
    ['version null', { version: null }, { version: null }],
    ['version of two parts', { version: '1.0' }, { version: '1.0' }],
    ['version of four parts', { version: '1.2.3.4' }, { version: '1.2.3.4' }],
    ['demo_link null', { demo_link: null }, { demoLink: null }],
    ['an id above 2^31', { id: 4294967296123 }, { id: 4294967296123 }],
    ['a negative price', { price: { regular: -5, extended: 1 } }, { priceRegular: '-5.00' }],
    ['a price that is null', { price: { regular: null, extended: 1 } }, { priceRegular: null }],
    ['NUL characters in text', { name: 'A\0B' }, { name: 'A\uFFFDB' }],
    ['half a surrogate pair', { name: 'A\ud800' }, { name: 'A\uFFFD' }],
  ];
  it.each(cases)('%s', (_title, changes, expected) => {
    expect(decode(changes).value).toMatchObject(expected);
  });
});

describe('unknown fields', () => {
  it('are kept with their path, since forks add and rename fields', () => {
    const { extra } = decode({
      rating: { stars: 5 },
      media: { preview_image: 'x', poster: 'y' },
      price: { regular: 1, extended: 2, old: 3 },
    });
    expect(extra).toEqual({ rating: { stars: 5 }, 'media.poster': 'y', 'price.old': 3 });
  });

  it('may be named like a prototype without becoming one', () => {
    const decoding = decodeItem(
      JSON.parse('{"id":1,"name":"x","__proto__":{"polluted":true}}') as Json,
    );
    expect(decoding.ok && Object.keys(decoding.decoded.extra)).toEqual(['__proto__']);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

describe('a record is refused rather than guessed when a field can’t be read', () => {
  const cases: readonly [string, { [key: string]: Json }, RegExp][] = [
    ['id missing', { id: null }, /^id is no integer: null/],
    ['id with a fraction', { id: 1.5 }, /^id is no integer/],
    ['id beyond 2^53', { id: 2 ** 53 }, /^id is beyond 2\^53/],
    ['name missing', { name: null }, /^name is missing/],
    ['name an object', { name: { en: 'x' } }, /^name is no text/],
    ['a huge price', { price: { regular: 1e20, extended: 1 } }, /^price.regular is too large/],
    [
      'a price in words',
      { price: { regular: 'free', extended: 1 } },
      /^price.regular is no amount/,
    ],
    ['a date that never was', { published_at: '2024-02-30T00:00:00Z' }, /^published_at is no date/],
    ['a date in words', { published_at: 'yesterday' }, /^published_at is no timestamp/],
  ];
  it.each(cases)('%s', (_title, changes, reason) => {
    expect(refusal(changes)).toMatch(reason);
  });

  it('names the id when that much could be read, so that nobody takes the item for missing', () => {
    const decoding = decodeItem({ ...CONTRACT, name: null });
    expect(decoding).toMatchObject({ ok: false, id: 42 });
  });
});

describe('whatever JSON comes', () => {
  it('is decoded or refused, never thrown at the caller', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.dictionary(fc.constantFrom(...Object.keys(CONTRACT)), fc.jsonValue()),
        (any, fields) => {
          expect(() => decodeItem(any as Json)).not.toThrow();
          expect(() => decodeItem({ ...CONTRACT, ...fields })).not.toThrow();
        },
      ),
    );
  });

  it('money in any notation of the same cents is the same text', () => {
    fc.assert(
      fc.property(fc.integer({ min: -99_999_999_999, max: 99_999_999_999 }), (cents) => {
        const amount = cents / 100;
        const read = (regular: Json): string | null =>
          decode({ price: { regular, extended: 1 } }).value.priceRegular;
        const text = read(amount);
        expect(read(amount.toFixed(2))).toBe(text);
        expect(read(amount + Math.sign(amount) * 1e-9)).toBe(text);
        expect(Math.round(Number(text) * 100)).toBe(cents === 0 ? 0 : cents);
      }),
    );
  });
});
