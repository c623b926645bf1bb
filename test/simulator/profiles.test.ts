import { expect, test } from 'vitest';
import {
  notationQuirks,
  recordsCatalogue,
  seededCatalogue,
  seededPurchases,
} from '../../src/simulator/index.js';
import type { Quirks, SimItem } from '../../src/simulator/index.js';
import { KEY, call, listed, listedIds, seller, started } from './support.js';

type Fields = Record<string, unknown>;

test('the notation quirks change the JSON of every record', async () => {
  const simulator = await started({
    sellers: [seller({ catalogue: seededCatalogue({ seed: 8, count: 300 }) })],
  });
  const plain = await listed(simulator);
  simulator.setProfile('documented', notationQuirks);
  const quirky = await listed(simulator);
  for (const [n, wire] of quirky.entries()) expect(wire).not.toEqual(plain[n]);
});

const bare: SimItem = {
  ...seededCatalogue({ seed: 1, count: 1 }).original(0),
  options: [],
  tags: [],
  screenshots: [],
  version: null,
  priceRegularCents: 2110,
  priceExtendedCents: 10_000,
};
const rich: SimItem = {
  ...bare,
  id: 1002,
  options: ['Size: S', 'Size: M', 'License: GPL'],
  tags: ['a', 'b'],
  previewImage: 'https://storage.example/a.jpg',
  screenshots: ['https://storage.example/s.png'],
  version: '1.2.3',
};

const cdn = 'https://cdn.marketplace.example/a.jpg';
const mapped = { Size: ['S', 'M'], License: 'GPL' };

test.each<[quirks: Partial<Quirks>, ofBare: Fields, ofRich: Fields]>([
  [{ options: 'map' }, { options: [] }, { options: mapped }],
  [{ noOptions: 'map', emptyMaps: 'array' }, { options: [] }, {}],
  [{ tags: 'comma' }, { tags: [] }, { tags: 'a, b' }],
  [{ noTags: 'empty-text' }, { tags: '' }, { tags: ['a', 'b'] }],
  [{ screenshots: 'map' }, {}, { media: { screenshots: { '0': rich.screenshots[0] } } }],
  [{ noScreenshots: 'empty' }, { media: { screenshots: [] } }, {}],
  [
    { timestamps: 'microseconds' },
    { published_at: `${bare.publishedAt.slice(0, -1)}.000000Z` },
    {},
  ],
  [{ money: 'whole' }, { price: { regular: 21, extended: 100 } }, {}],
  [{ money: 'string' }, { price: { regular: '21.10', extended: '100.00' } }, {}],
  [{ money: 'noise' }, { price: { regular: 21.099999999999998 } }, {}],
  [{ numbers: 'string' }, { id: '1001' }, { id: '1002' }],
  [{ noVersion: 'null' }, { version: null }, { version: '1.2.3' }],
  [{ version: 'four-part' }, {}, { version: '1.2.3.4' }],
  [{ extraFields: true }, { slug: 'item-1001', rating: { average: '4.50' } }, {}],
  [{ links: 'cdn' }, {}, { media: { preview_image: cdn } }],
])('%j sends the bare item with %j and the rich one with %j', async (quirks, ofBare, ofRich) => {
  const sellers = [seller({ catalogue: recordsCatalogue([bare, rich]) })];
  const [first, second] = await listed(await started({ sellers, quirks }));
  expect(first).toMatchObject(ofBare);
  expect(second).toMatchObject(ofRich);
});

test('1.x sends reduced shapes, purchases at `item` and an unstable order; 2.x purchases at `purchase`', async () => {
  const purchases = seededPurchases({ seed: 1, count: 6 });
  const catalogue = seededCatalogue({ seed: 8, count: 60 });
  const sellers = [seller({ catalogue, purchases })];
  const simulator = await started({ profile: 'field-1', sellers });
  for (const item of await listed(simulator)) {
    expect(item).not.toHaveProperty('version');
    const media = Object.keys(item['media'] as object).join();
    expect(media).toMatch(/^(preview_image)?,?(screenshots)?$/);
    expect(Number.isInteger((item['price'] as Fields)['regular'])).toBe(true);
  }
  const reduced = 'purchase_code,license_type,price,currency,item,date';
  for (const code of purchases.codes()) {
    const reply = (await call(simulator, 'validate', { purchase_code: code })).json();
    const purchase = reply['item'] as Fields;
    expect(Object.keys(purchase).join()).toBe(reduced);
    expect(Object.keys(purchase['item'] as object).join()).toBe('id,name,url,media');
  }
  const orders = [];
  for (let n = 0; n < 4; n++) orders.push(await listedIds(simulator));
  expect(new Set(orders.map(String)).size).toBeGreaterThan(1);
  const sorted = orders.map((order) => order.toSorted((a, b) => a - b).join());
  expect(new Set(sorted).size).toBe(1);
  simulator.setProfile('field-2');
  const reply = await call(simulator, 'validate', { purchase_code: purchases.codeAt(0) });
  expect(reply.json()).toMatchObject({ purchase: { purchase_code: purchases.codeAt(0) } });
});

test('social links may be handles, with null for unset ones, [] for none, or null as a whole', async () => {
  const simulator = await started({ profile: 'field-1' });
  const ada = simulator.seller(KEY);
  const links = async (): Promise<unknown> => {
    const { data } = (await call(simulator, 'account')).json();
    return ((data as Fields)['profile'] as Fields)['social_links'];
  };
  const unset = { youtube: null, linkedin: null, instagram: null, pinterest: null };
  expect(await links()).toEqual({ facebook: 'ada', x: 'ada', ...unset });
  ada.account = { ...ada.account, socialLinks: {} };
  expect(await links()).toEqual([]);
  ada.account = { ...ada.account, socialLinks: null };
  expect(await links()).toBeNull();
});

test.each([
  ['EN', 'SUCCESS', 'ERROR', 'ITEM NOT FOUND', 'REGULAR'],
  ['de', 'Erfolg', 'Fehler', 'Artikel nicht gefunden', 'Regulär'],
] as const)(
  'in language %s, status, msg and license are translated',
  async (language, ok, error, msg, regular) => {
    const purchases = [{ code: 'c', itemId: 1001 }];
    const simulator = await started({ language, sellers: [seller({ purchases })] });
    expect((await call(simulator, 'account')).json()['status']).toBe(ok);
    expect((await call(simulator, 'item', { item_id: '1' })).json()).toEqual({
      status: error,
      msg,
    });
    expect((await call(simulator, 'validate', { purchase_code: 'c' })).json()).toMatchObject({
      data: { purchase: { license_type: regular } },
    });
  },
);

test('PHP’s escapes of slashes and non-ASCII letters change the bytes, not the text', async () => {
  const simulator = await started({ quirks: { phpEscapes: true } });
  const catalogue = simulator.seller(KEY).catalogue;
  catalogue.change(1001, { name: 'Élan "1/2" 🚀' });
  const reply = await call(simulator, 'item', { item_id: '1001' });
  expect(reply.text).toContain(String.raw`"name":"\u00c9lan \"1\/2\" \ud83d\ude80"`);
  expect(reply.json()).toMatchObject({ item: { name: 'Élan "1/2" 🚀' } });
});
