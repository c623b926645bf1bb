import { expect, test } from 'vitest';
import { Purchases, seededCatalogue, seededPurchases } from '../../src/simulator/index.js';

const catalogue = seededCatalogue({ seed: 1, count: 20 });

test('a seeded purchase is found by its code alone, however many there are', () => {
  const purchases = seededPurchases({ seed: 3, count: 50_000_000 });
  for (const index of [0, 1, 49_999_999]) {
    const code = purchases.codeAt(index);
    expect(code).toMatch(/^[0-9a-f]{37}$/);
    expect(purchases.find(code.toUpperCase(), catalogue)).toMatchObject({ code, state: 'valid' });
  }
});

test('a code that is off by one character, or of another seed, is unknown', () => {
  const purchases = seededPurchases({ seed: 3, count: 1000 });
  const code = purchases.codeAt(5);
  for (const at of [0, 7, 8, 20, 36]) {
    const wrong = code.slice(0, at) + (code[at] === '0' ? '1' : '0') + code.slice(at + 1);
    expect(purchases.find(wrong, catalogue)).toBeNull();
  }
  expect(seededPurchases({ seed: 4, count: 1000 }).find(code, catalogue)).toBeNull();
  for (const junk of ['', 'x', '1', '\u0000', 'f'.repeat(37)])
    expect(purchases.find(junk, catalogue)).toBeNull();
});

test('codes may be UUIDs, all different', () => {
  const purchases = seededPurchases({ seed: 3, count: 2000, format: 'uuid' });
  const codes = [...purchases.codes()];
  expect(new Set(codes).size).toBe(2000);
  for (const code of codes) expect(code).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
  for (const code of codes.slice(0, 9)) expect(purchases.find(code, catalogue)?.code).toBe(code);
});

test('a purchase keeps its price and item whatever happens to the catalogue, as receipts do', () => {
  const changing = seededCatalogue({ seed: 1, count: 20 });
  const purchases = new Purchases({ seed: 3, count: 5 }, [{ code: 'Own', itemId: 1003 }]);
  const all = (): unknown[] => [...purchases.codes()].map((code) => purchases.find(code, changing));
  const before = all();
  expect(before).toHaveLength(6);
  changing.touchShare(100, 'price');
  changing.setShare(100, 'removed');
  changing.add({ ...changing.original(0), id: 9 });
  expect(all()).toEqual(before);
});

test('purchases change by code in any letter case', () => {
  const purchases = seededPurchases({ seed: 3, count: 5 });
  const code = purchases.codeAt(0);
  purchases.change(code.toUpperCase(), { supportedUntil: null, downloaded: null });
  purchases.setState(code, 'refunded');
  expect(purchases.find(code, catalogue)).toMatchObject({
    supportedUntil: null,
    downloaded: null,
    state: 'refunded',
  });
});
