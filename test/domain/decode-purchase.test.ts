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

  it('keeps a translated licence word as it is', () => {
    expect(decode({ ...REDUCED, license_type: 'Erweitert' }).licenseType).toBe('Erweitert');
  });

  it('stays valid when its item can’t be read', () => {
    expect(decode({ ...REDUCED, item: null }).item).toBeNull();
    expect(decode({ ...REDUCED, item: [] }).item).toBeNull();
  });

  it('reads flags that PHP sends as numbers', () => {
    expect(decode({ ...REDUCED, downloaded: 1 }).downloaded).toBe(true);
    expect(decode({ ...REDUCED, downloaded: '0' }).downloaded).toBe(false);
  });

  it.each([
    ['price', '1,299.00 $'],
    ['price', 1e20],
    ['supported_until', false],
    ['supported_until', '-000001-11-30T00:00:00.000000Z'],
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
