import { expect, test } from 'vitest';
import { seededCatalogue, seededPurchases } from '../../src/simulator/index.js';
import { PATHS, KEY, call, get, listed, seller, started } from './support.js';

const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const ITEM_FIELDS = [
  'id',
  'name',
  'description',
  'category',
  'sub_category',
  'options',
  'version',
  'demo_link',
  'tags',
  'media',
  'price',
  'currency',
  'published_at',
];

test('account details have every field of spec 2.1 and 2.2, since clients decode them all', async () => {
  const simulator = await started();
  const got = await call(simulator, 'account');
  expect(got.status).toBe(200);
  expect(got.headers['content-type']).toMatch(/^application\/json/);
  expect(got.json()).toEqual({
    status: 'success',
    data: {
      name: { firstname: 'Ada', lastname: 'Seller', full_name: 'Ada Seller' },
      username: 'ada',
      email: 'ada@mail.example',
      balance: 1234.5,
      currency: 'USD',
      profile: {
        heading: expect.any(String) as string,
        description: expect.any(String) as string,
        contact: { email: 'help@ada.example' },
        social_links: { facebook: 'https://www.facebook.com/ada', x: 'https://x.com/ada' },
        media: {
          avatar: expect.stringMatching(/^https:/) as string,
          cover: expect.stringMatching(/^https:/) as string,
        },
      },
      registered_at: '2016-03-04T05:06:07Z',
    },
  });
  expect(got.text).toContain('"balance":1234.50,');
});

test('every listed item has the fields and types of spec 2.3 and no others', async () => {
  const catalogue = seededCatalogue({ seed: 3, count: 200 });
  const simulator = await started({ sellers: [seller({ catalogue })] });
  const items = await listed(simulator);
  expect(items).toHaveLength(200);
  for (const item of items) {
    const always = ITEM_FIELDS.filter((name) => name !== 'version');
    expect(Object.keys(item).filter((name) => name !== 'version')).toEqual(always);
    expect(Number.isInteger(item['id'])).toBe(true);
    for (const name of ['name', 'description', 'category', 'sub_category', 'demo_link', 'currency'])
      expect(item[name]).toBeTypeOf('string');
    expect(item['options']).toBeInstanceOf(Array);
    expect(item['tags']).toBeInstanceOf(Array);
    if ('version' in item) expect(item['version']).toMatch(/^\d+\.\d+\.\d+$/);
    expect(item['price']).toEqual({
      regular: expect.any(Number) as number,
      extended: expect.any(Number) as number,
    });
    expect(item['published_at']).toMatch(MOMENT);
  }
});

test('item media keep to the presence rules of spec 2.4', async () => {
  const catalogue = seededCatalogue({ seed: 3, count: 300 });
  const simulator = await started({ sellers: [seller({ catalogue })] });
  const kinds = new Set<string>();
  for (const { media } of (await listed(simulator)) as { media: Record<string, unknown> }[]) {
    const audio = 'preview_audio' in media;
    const video = 'preview_video' in media;
    kinds.add(audio ? 'audio' : video ? 'video' : 'image');
    kinds.add('thumbnail' in media ? 'with thumbnail' : 'without');
    expect('preview_image' in media).toBe(!audio);
    expect(audio && video).toBe(false);
    if ('screenshots' in media)
      expect((media['screenshots'] as string[]).length).toBeGreaterThan(0);
  }
  expect(kinds.size).toBe(5);
});

test('money is written with two decimals, as the contract says, not as JavaScript would', async () => {
  const catalogue = seededCatalogue({ seed: 1, count: 2 });
  catalogue.change(1001, { priceRegularCents: 1990, priceExtendedCents: 10_000 });
  const simulator = await started({ sellers: [seller({ catalogue })] });
  const got = await call(simulator, 'item', { item_id: '1001' });
  expect(got.text).toContain('"price":{"regular":19.90,"extended":100.00}');
});

test('an item looked up by id is the same record as in the list', async () => {
  const simulator = await started();
  for (const item of await listed(simulator)) {
    const got = await call(simulator, 'item', { item_id: String(item['id']) });
    expect(got.json()).toEqual({ status: 'success', item });
  }
});

test('a validation answers with the purchase at data.purchase, with its full item (spec 2.5)', async () => {
  const purchases = seededPurchases({ seed: 5, count: 50 });
  const simulator = await started({ sellers: [seller({ purchases })] });
  const [first] = await listed(simulator);
  const seen = new Set<string>();
  for (const code of purchases.codes()) {
    const { status, data } = (await call(simulator, 'validate', { purchase_code: code })).json();
    expect(status).toBe('success');
    const { purchase } = data as { purchase: Record<string, unknown> };
    expect(Object.keys(data as object)).toEqual(['purchase']);
    expect(purchase).toMatchObject({ purchase_code: code, currency: 'USD' });
    expect(purchase['price']).toBeTypeOf('number');
    expect(purchase['downloaded']).toBeTypeOf('boolean');
    expect(purchase['date']).toMatch(MOMENT);
    expect(Object.keys(purchase['item'] as object)).toEqual(
      expect.arrayContaining(Object.keys(first ?? {}).filter((name) => name !== 'version')),
    );
    seen.add(String(purchase['license_type']));
    seen.add('supported_until' in purchase ? 'supported' : 'unsupported');
    if ('supported_until' in purchase) expect(purchase['supported_until']).toMatch(MOMENT);
  }
  expect([...seen].toSorted()).toEqual(['Extended', 'Regular', 'supported', 'unsupported']);
});

test('parameters are read from query, form, multipart and JSON alike, and no header is', async () => {
  const simulator = await started();
  const url = simulator.url + PATHS.validate;
  const fields = { api_key: KEY, purchase_code: 'x' };
  const multipart = Object.entries(fields)
    .map(
      ([name, value]) =>
        `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
    )
    .join('');
  const asks = {
    query: { method: 'POST', query: fields },
    form: { method: 'POST', form: fields },
    json: { method: 'POST', json: fields },
    mixed: { method: 'POST', query: { api_key: KEY }, json: { purchase_code: 'x' } },
  };
  for (const [placement, ask] of Object.entries(asks)) {
    expect((await get(url, ask)).json()).toMatchObject({ msg: 'Invalid purchase code' });
    expect(simulator.log.at(-1)).toMatchObject({ parameterPlacement: placement, keyIndex: 0 });
  }
  const headers = { 'content-type': 'multipart/form-data; boundary=b' };
  await get(url, { method: 'POST', body: `${multipart}--b--\r\n`, headers });
  expect(simulator.log.at(-1)).toMatchObject({ parameterPlacement: 'form', sellerName: 'ada' });
  const inHeader = await get(simulator.url + PATHS.account, { headers: { 'x-api-key': KEY } });
  expect(inHeader.json()).toMatchObject({ msg: 'The api key field is required.' });
});

test('a server that looks for the key in a header finds it there and keeps it out of the log', async () => {
  const simulator = await started({ keyHeader: 'X-Api-Key' });
  const got = await get(simulator.url + PATHS.account, { headers: { 'x-api-key': KEY } });
  expect(got.status).toBe(200);
  expect(simulator.log[0]?.keySeenIn).toBe('header');
  expect(JSON.stringify(simulator.log)).not.toContain(KEY);
});

test('the log tells what came without the key, so that tests can print it', async () => {
  const simulator = await started();
  await call(simulator, 'item', { item_id: '1003' }, { headers: { 'user-agent': 'probe/1' } });
  expect(simulator.log).toHaveLength(1);
  expect(simulator.log[0]).toMatchObject({
    operation: 'item',
    method: 'GET',
    path: '/api/items/item',
    userAgent: 'probe/1',
    accept: 'application/json',
    parameterPlacement: 'query',
    keySeenIn: 'query',
    keyIndex: 0,
    sellerName: 'ada',
    parameters: { item_id: '1003' },
    status: 200,
    finished: true,
  });
  expect(simulator.log[0]?.bytesSent).toBeGreaterThan(300);
  expect(JSON.stringify(simulator.log)).not.toContain(KEY);
});

test('a base path and TLS change where the API is, not what it says', async () => {
  const { certificate } = await import('./certificate.js');
  const simulator = await started({ basePath: '/shop', https: certificate });
  expect(simulator.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+\/shop$/);
  expect((await call(simulator, 'account')).status).toBe(200);
  expect((await get(new URL(PATHS.account, simulator.url).href)).status).toBe(404);
});
