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

/** Reads a record in any notation; what a client must be able to do too. */
function read(wire: Fields): unknown {
  const media = Array.isArray(wire['media']) ? {} : (wire['media'] as Fields);
  const price = wire['price'] as Fields;
  const tags = wire['tags'];
  return {
    id: Number(wire['id']),
    name: wire['name'],
    description: wire['description'],
    category: wire['category'],
    subCategory: wire['sub_category'],
    options: readOptions(wire['options']),
    version: wire['version'] ?? null,
    demoLink: wire['demo_link'] ?? null,
    tags: typeof tags === 'string' ? tags.split(', ').filter(Boolean) : (tags ?? []),
    thumbnail: media['thumbnail'] ?? null,
    previewImage: media['preview_image'] ?? null,
    previewVideo: media['preview_video'] ?? null,
    previewAudio: media['preview_audio'] ?? null,
    screenshots: Object.values(media['screenshots'] ?? {}),
    priceRegularCents: Math.round(Number(price['regular']) * 100),
    priceExtendedCents: Math.round(Number(price['extended']) * 100),
    currency: wire['currency'],
    publishedAt: String(wire['published_at']).replace('.000000Z', 'Z'),
  };
}

function readOptions(options: unknown): unknown {
  if (options === null || Array.isArray(options)) return options ?? [];
  return Object.entries(options as Record<string, string | string[]>).flatMap(([name, values]) =>
    [values].flat().map((value) => `${name}: ${value}`),
  );
}

const byId = (a: unknown, b: unknown): number => (a as SimItem).id - (b as SimItem).id;

test.each(['documented', 'field-1', 'field-2'] as const)(
  'under %s the list says exactly what the truth says, or tests that compare the two prove nothing',
  async (profile) => {
    const catalogue = seededCatalogue({ seed: 8, count: 300 });
    const simulator = await started({ profile, sellers: [seller({ catalogue })] });
    const served = (await listed(simulator)).map(read);
    expect(served.toSorted(byId)).toEqual([...simulator.truth(KEY)].toSorted(byId));
  },
);

test('the notation quirks change every record as sent and nothing that it says', async () => {
  const simulator = await started({
    sellers: [seller({ catalogue: seededCatalogue({ seed: 8, count: 300 }) })],
  });
  const plain = await listed(simulator);
  simulator.setProfile('documented', notationQuirks);
  const quirky = await listed(simulator);
  expect(quirky.map(read)).toEqual(plain.map(read));
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

/** Note, quirk, and what it does to the bare and the rich item as sent. */
const rows: [string, Partial<Quirks>, Fields, Fields][] = [
  [
    'options as a map',
    { options: 'map' },
    { options: [] },
    { options: { Size: ['S', 'M'], License: 'GPL' } },
  ],
  ['options null', { noOptions: 'null' }, { options: null }, { options: rich.options }],
  ['no options, an empty map', { noOptions: 'map' }, { options: {} }, {}],
  ['no options, an empty map, PHP', { noOptions: 'map', emptyMaps: 'array' }, { options: [] }, {}],
  ['tags comma-separated', { tags: 'comma' }, { tags: [] }, { tags: 'a, b' }],
  ['no tags, empty text', { noTags: 'empty-text' }, { tags: '' }, { tags: ['a', 'b'] }],
  ['tags null', { noTags: 'null' }, { tags: null }, { tags: ['a', 'b'] }],
  [
    'screenshots as a map',
    { screenshots: 'map' },
    {},
    { media: { screenshots: { '0': rich.screenshots[0] } } },
  ],
  ['screenshots null', { noScreenshots: 'null' }, { media: { screenshots: null } }, {}],
  ['screenshots empty', { noScreenshots: 'empty' }, { media: { screenshots: [] } }, {}],
  [
    'microseconds',
    { timestamps: 'microseconds' },
    { published_at: bare.publishedAt.replace('Z', '.000000Z') },
    {},
  ],
  ['whole money', { money: 'whole' }, { price: { regular: 21, extended: 100 } }, {}],
  ['string money', { money: 'string' }, { price: { regular: '21.10', extended: '100.00' } }, {}],
  ['float noise', { money: 'noise' }, { price: { regular: 21.099999999999998 } }, {}],
  ['numeric strings', { numbers: 'string' }, { id: '1001' }, { id: '1002' }],
  ['version null', { noVersion: 'null' }, { version: null }, { version: '1.2.3' }],
  ['version 1.2', { version: 'two-part' }, {}, { version: '1.2' }],
  ['version 1.2.3.4', { version: 'four-part' }, {}, { version: '1.2.3.4' }],
  ['fields added', { extraFields: true }, { slug: 'item-1001', rating: { average: '4.50' } }, {}],
  [
    'field renamed',
    { renamedFields: true },
    { demo_url: bare.demoLink },
    { demo_url: rich.demoLink },
  ],
  [
    'links with wrap',
    { links: 'wrap' },
    {},
    { media: { preview_image: 'https://storage.example/a.jpg?wrap=0' } },
  ],
  [
    'links on a CDN',
    { links: 'cdn' },
    {},
    { media: { preview_image: 'https://cdn.marketplace.example/a.jpg' } },
  ],
];

test.each(rows)(
  'the switch for "%s" (field notes: shapes) does what it says',
  async (_, quirks, ofBare, ofRich) => {
    const simulator = await started({
      sellers: [seller({ catalogue: recordsCatalogue([bare, rich]) })],
      quirks,
    });
    const [first, second] = await listed(simulator);
    expect(first).toMatchObject(ofBare);
    expect(second).toMatchObject(ofRich);
  },
);

test('short money is printed as PHP prints it, 21.1 and 100', async () => {
  const catalogue = recordsCatalogue([bare, rich]);
  const simulator = await started({ sellers: [seller({ catalogue })], quirks: { money: 'short' } });
  expect((await call(simulator, 'list')).text).toContain('{"regular":21.1,"extended":100}');
});

test('demo links and profile texts are null where servers send null', async () => {
  const catalogue = seededCatalogue({ seed: 8, count: 40 });
  const simulator = await started({ sellers: [seller({ catalogue })], quirks: { nulls: true } });
  const links = (await listed(simulator)).map((item) => item['demo_link']);
  expect(links).toContain(null);
  expect(new Set(links).size).toBeGreaterThan(10);
  expect((await call(simulator, 'account')).json()).toMatchObject({
    data: { profile: { heading: null, description: null, contact: { email: null } } },
  });
});

test('the list may be a map with numeric keys that have gaps (field notes: PHP)', async () => {
  const simulator = await started({ quirks: { list: 'map' } });
  const { items } = (await call(simulator, 'list')).json();
  expect(Object.keys(items as object)).toEqual([
    '0',
    '1',
    '2',
    '4',
    '5',
    '6',
    '8',
    '9',
    '10',
    '12',
  ]);
});

test('1.x sends reduced shapes only: no version, thumbnail, support date', async () => {
  const purchases = seededPurchases({ seed: 1, count: 30 });
  const catalogue = seededCatalogue({ seed: 8, count: 60 });
  const simulator = await started({
    profile: 'field-1',
    sellers: [seller({ catalogue, purchases })],
  });
  for (const item of await listed(simulator)) {
    expect(item).not.toHaveProperty('version');
    const extra = Object.keys(item['media'] as object).filter(
      (name) => !/^(preview_image|screenshots)$/.test(name),
    );
    expect(extra).toEqual([]);
    expect(Number.isInteger((item['price'] as Fields)['regular'])).toBe(true);
  }
  for (const code of purchases.codes()) {
    const got = (await call(simulator, 'validate', { purchase_code: code })).json();
    const purchase = got['item'] as Fields;
    expect(Object.keys(purchase)).toEqual([
      'purchase_code',
      'license_type',
      'price',
      'currency',
      'item',
      'date',
    ]);
    expect(Object.keys(purchase['item'] as object)).toEqual(['id', 'name', 'url', 'media']);
  }
});

test('1.x lists in another order each time', async () => {
  const simulator = await started({ profile: 'field-1' });
  const orders = [];
  for (let n = 0; n < 4; n++) orders.push(await listedIds(simulator));
  expect(new Set(orders.map(String)).size).toBeGreaterThan(1);
  for (const order of orders)
    expect(order.toSorted((a, b) => a - b)).toEqual(orders[0]?.toSorted((a, b) => a - b));
});

test('2.x answers a validation at top-level purchase', async () => {
  const purchases = seededPurchases({ seed: 1, count: 1 });
  const simulator = await started({ profile: 'field-2', sellers: [seller({ purchases })] });
  const got = await call(simulator, 'validate', { purchase_code: purchases.codeAt(0) });
  expect(got.json()).toMatchObject({ purchase: { purchase_code: purchases.codeAt(0) } });
});

test('social links are handles, null where unset, [] when there are none, or null as a whole', async () => {
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
  ['ja', '成功', 'エラー', 'アイテムが見つかりません', '通常'],
] as const)(
  'in %s status, msg and licence pass through the translation table',
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

test('PHP escapes slashes and non-ASCII letters, which changes the bytes and not the text', async () => {
  const simulator = await started({ quirks: { phpEscapes: true } });
  const catalogue = simulator.seller(KEY).catalogue;
  catalogue.change(1001, { name: 'Élan "1/2" 🚀' });
  const got = await call(simulator, 'item', { item_id: '1001' });
  expect(got.text).toContain(String.raw`"name":"\u00c9lan \"1\/2\" \ud83d\ude80"`);
  expect(got.json()).toMatchObject({ item: { name: 'Élan "1/2" 🚀' } });
});

test('fields of a fork travel as they are, on items and accounts', async () => {
  const simulator = await started();
  const ada = simulator.seller(KEY);
  ada.catalogue.change(1001, { extra: { sales: 5, nested: { a: [1] } } });
  ada.account = { ...ada.account, extra: { level: 'gold' } };
  expect((await call(simulator, 'item', { item_id: '1001' })).json()).toMatchObject({
    item: { sales: 5, nested: { a: [1] } },
  });
  expect((await call(simulator, 'account')).json()).toMatchObject({ data: { level: 'gold' } });
});
