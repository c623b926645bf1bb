import { describe, expect, it } from 'vitest';
import { decodePurchase } from '../../src/domain/decode-purchase.js';
import type { Json } from '../../src/domain/item.js';

const REDUCED: { [key: string]: Json } = {
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

function decode(json: Json) {
  const decoding = decodePurchase(json);
  if (!decoding.ok) throw new Error(decoding.reason);
  return decoding.decoded.value;
}

describe('a purchase', () => {
  it('is read in its reduced shape, what is absent being null', () => {
    expect(decode(REDUCED)).toEqual({
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

  it('is read with the full item, which is kept whole', () => {
    const item = { id: 7, name: 'Aurora', price: { regular: 19.9, extended: 99 }, tags: ['a'] };
    const purchase = decode({
      ...REDUCED,
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
    ['2024-01-02T08:49:05+0545', '2024-01-02T03:04:05Z'],
  ])('has a moment in any zone there is: %s', (date, utc) => {
    expect(decode({ ...REDUCED, date }).purchasedAt).toBe(utc);
  });

  it('keeps a translated licence word as it is', () => {
    expect(decode({ ...REDUCED, license_type: 'Erweitert' }).licenseType).toBe('Erweitert');
  });

  it('stays valid when its item can’t be read', () => {
    expect(decode({ ...REDUCED, item: null }).item).toBeNull();
    expect(decode({ ...REDUCED, item: [] }).item).toBeNull();
  });

  it.each([
    [{ title: 'Aurora' }, { id: 7, name: null }, 'item.name.unreadable'],
    [{ name: { en: 'Aurora' } }, { id: 7, name: null }, 'item.name.unreadable'],
    [{ name: ' ' }, { id: 7, name: null }, 'item.name.unreadable'],
    [{ id: 'x7', name: 'Aurora' }, { id: null, name: 'Aurora' }, 'item.id.unreadable'],
    [{ id: null, name: 'Aurora' }, { id: null, name: 'Aurora' }, 'item.id.unreadable'],
  ])('keeps of an item what can be read, since forks rename fields: %j', (fields, kept, noted) => {
    const decoding = decodePurchase({ ...REDUCED, item: { id: 7, url: 'u', ...fields } });
    if (!decoding.ok) throw new Error(decoding.reason);
    const { value, tolerated } = decoding.decoded;
    expect(value.item).toEqual({ ...kept, url: 'u', previewImageUrl: null, full: null });
    expect(tolerated).toEqual([noted]);
  });

  it('keeps an item of which the address or the picture can’t be read', () => {
    const item = { id: 7, name: 'Aurora', url: ['u'], media: 'none' };
    const kept = { id: 7, name: 'Aurora', url: null, previewImageUrl: null };
    expect(decode({ ...REDUCED, item }).item).toMatchObject(kept);
  });

  it.each([
    {},
    { title: 'Aurora' },
    { id: 0, name: '', url: '' },
    { media: { preview_image: 'p' } },
  ])(
    'has no item where nothing tells which, or an empty answer would count as a fact: %j',
    (item) => {
      const decoding = decodePurchase({ ...REDUCED, item });
      expect(decoding).toMatchObject({ ok: true, decoded: { value: { item: null } } });
      expect(decoding.ok && decoding.decoded.tolerated).toContain('item.unreadable');
    },
  );

  it('reads flags that PHP sends as numbers', () => {
    expect(decode({ ...REDUCED, downloaded: 1 }).downloaded).toBe(true);
    expect(decode({ ...REDUCED, downloaded: '0' }).downloaded).toBe(false);
  });

  it.each([
    ['price', '1,299.00 $'],
    ['price', 1e20],
    ['supported_until', false],
    ['supported_until', '-000001-11-30T00:00:00.000000Z'],
    ['supported_until', '2024-01-02T03:04:05+99:99'],
    ['date', '2024-01-02T03:04:05+14:01'],
    ['date', '2024-01-02T03:04:05-1500'],
    ['date', '2024-01-02T03:04:05+02:60'],
    ['date', 1_704_164_645],
    ['license_type', { name: 'Regular' }],
    ['currency', ['USD']],
    ['downloaded', 'maybe'],
  ])('stays valid when its %s is %j, which nobody can read', (field, json) => {
    const decoding = decodePurchase({ ...REDUCED, [field]: json });
    expect(decoding).toMatchObject({ ok: true, decoded: { value: { purchaseCode: 'abc-123' } } });
    expect(decoding.ok && decoding.decoded.tolerated).toContain(`${field}.unreadable`);
  });

  it('is not read when there is no telling whose it is', () => {
    expect(decodePurchase({ ...REDUCED, purchase_code: ['abc-123'] }).ok).toBe(false);
  });
});
