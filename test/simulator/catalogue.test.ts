import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Purchases, seededCatalogue, seededPurchases } from '../../src/simulator/index.js';
import { Permutation } from '../../src/simulator/random.js';
import { call, KEY, listed, listedIds, started } from './support.js';

const ids = (catalogue: ReturnType<typeof seededCatalogue>): number[] =>
  [...catalogue.truth()].map(({ id }) => id);

test('a permutation has each place once, and can be inverted', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3000 }), fc.integer(), (size, seed) => {
      const permutation = new Permutation(size, seed);
      const places = Array.from({ length: size }, (_, index) => permutation.at(index));
      expect(new Set(places).size).toBe(size);
      expect(Math.max(...places)).toBe(size - 1);
      expect(places.every((place, index) => permutation.invert(place) === index)).toBe(true);
    }),
    { numRuns: 20 },
  );
});

test('a seeded item depends only on the seed and its slot', () => {
  const a = seededCatalogue({ seed: 4, count: 1_000_000_000 });
  const b = seededCatalogue({ seed: 4, count: 1000 });
  const other = seededCatalogue({ seed: 5, count: 1000 });
  expect(a.find(1700)).toEqual(b.find(1700));
  expect(a.find(1700)).not.toEqual(other.find(1700));
  expect(a.find(1_000_000_500)?.item.id).toBe(1_000_000_500);
  expect(b.find(2001)).toBeNull();
});

test('changes show at once in the list and in look-ups', async () => {
  const simulator = await started();
  const { catalogue } = simulator.seller(KEY);
  catalogue.change(1002, { name: 'New name', priceRegularCents: -500 });
  catalogue.remove(1003);
  catalogue.setState(1004, 'pending');
  catalogue.setState(1005, 'unlisted');
  catalogue.add({ ...catalogue.original(0), id: 5_000_000_000 });
  expect(await listedIds(simulator)).toEqual([
    1001, 1002, 1006, 1007, 1008, 1009, 1010, 5_000_000_000,
  ]);
  const statuses = [];
  for (const id of [1002, 1003, 1004, 1005, 5_000_000_000]) {
    statuses.push((await call(simulator, 'item', { item_id: String(id) })).status);
    expect(catalogue.canLookUp(id)).toBe(statuses.at(-1) === 200);
  }
  expect(statuses).toEqual([200, 404, 404, 200, 200]);
  expect((await listed(simulator))[1]).toMatchObject({ name: 'New name', price: { regular: -5 } });
  catalogue.restore(1003);
  expect(await listedIds(simulator)).toContain(1003);
  expect(() => catalogue.add(catalogue.original(0))).toThrow('already is');
  expect(() => catalogue.change(7, {})).toThrow('no item 7');
});

test('a bulk change affects exactly its share of the items, and only its field', () => {
  for (const field of ['price', 'name'] as const) {
    const catalogue = seededCatalogue({ seed: 1, count: 500 });
    const before = [...catalogue.truth()];
    expect(catalogue.touchShare(2, field)).toBe(10);
    const after = [...catalogue.truth()];
    const changed = after.filter((item, n) => JSON.stringify(item) !== JSON.stringify(before[n]));
    expect(changed).toHaveLength(10);
    expect(after.map(({ tags }) => tags)).toEqual(before.map(({ tags }) => tags));
  }
});

test('records can be broken, altered and duplicated; the truth omits broken and altered ones', async () => {
  const simulator = await started();
  const { catalogue } = simulator.seller(KEY);
  catalogue.breakRecord(1001, '{"id":1001,"name":7}');
  catalogue.setWire(1002, { id: '1002', price: null });
  catalogue.duplicate(1003, { name: 'twin' });
  const [broken, altered, sound, twin] = await listed(simulator);
  expect(broken).toEqual({ id: 1001, name: 7 });
  expect(altered).toMatchObject({ id: '1002', price: null });
  expect(sound).toMatchObject({ id: 1003 });
  expect(twin).toEqual({ ...sound, name: 'twin' });
  expect(ids(catalogue)).toEqual([1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010]);
  catalogue.breakRecord(1005, '{"id":1005,');
  await expect(listed(simulator)).rejects.toThrow(SyntaxError);
  catalogue.restore(1005);
  catalogue.restore(1001);
  expect((await listed(simulator))[0]).toMatchObject({ name: catalogue.original(0).name });
});

test('a prerendered list has the same bytes, and is rendered again after each change', async () => {
  const plain = await started();
  const simulator = await started({ prerender: true });
  const first = await call(simulator, 'list');
  expect(first.text).toBe((await call(plain, 'list')).text);
  expect(first.headers['content-length']).toBe(String(first.bytes.length));
  expect((await call(simulator, 'list')).text).toBe(first.text);
  for (const round of [1, 2, 3]) {
    simulator.seller(KEY).catalogue.change(1001, { name: `Round ${round}` });
    expect((await listed(simulator))[0]).toMatchObject({ name: `Round ${round}` });
  }
  simulator.setProfile('documented', { money: 'string' });
  expect((await call(simulator, 'list')).text).toContain('"regular":"');
});

const catalogue = seededCatalogue({ seed: 1, count: 20 });

test('a seeded purchase is found by its code, even among millions, and no other code is', () => {
  const purchases = seededPurchases({ seed: 3, count: 50_000_000 });
  for (const index of [0, 49_999_999]) {
    const code = purchases.codeAt(index);
    expect(code).toMatch(/^[0-9a-f]{37}$/);
    expect(purchases.find(code.toUpperCase(), catalogue)).toMatchObject({ code, state: 'valid' });
    for (const at of [0, 8, 36]) {
      const wrong = code.slice(0, at) + (code[at] === '0' ? '1' : '0') + code.slice(at + 1);
      expect(purchases.find(wrong, catalogue)).toBeNull();
    }
  }
  for (const junk of ['', 'x', '\u0000', 'f'.repeat(37)]) {
    expect(purchases.find(junk, catalogue)).toBeNull();
  }
  const [uuid = ''] = seededPurchases({ seed: 3, count: 9, format: 'uuid' }).codes();
  expect(uuid).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
});

test('a purchase keeps its price and item when the catalogue changes', () => {
  const changing = seededCatalogue({ seed: 1, count: 20 });
  const purchases = new Purchases({ seed: 3, count: 5 }, [{ code: 'Own', itemId: 1003 }]);
  const all = (): unknown[] => [...purchases.codes()].map((code) => purchases.find(code, changing));
  const before = all();
  expect(before).toHaveLength(6);
  changing.touchShare(100, 'price');
  changing.remove(1003);
  changing.add({ ...changing.original(0), id: 9 });
  expect(all()).toEqual(before);
});
