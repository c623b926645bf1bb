import { expect, test } from 'vitest';
import { recordsCatalogue, seededCatalogue, seededPurchases } from '../../src/simulator/index.js';
import { KEY, PATHS, call, get, listed, seller, started } from './support.js';

const denied = (msg: string) => ({ status: 'error', msg });
const INVALID = denied('Invalid purchase code');
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const PROFILES = ['documented', 'field-1', 'field-2'] as const;

test('account details have all documented fields (API 2.1, 2.2), money with two decimals', async () => {
  const reply = await call(await started(), 'account');
  expect([reply.status, reply.headers['content-type']]).toEqual([200, 'application/json']);
  expect(reply.json()).toEqual({
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
        media: { avatar: expect.any(String) as string, cover: expect.any(String) as string },
      },
      registered_at: '2016-03-04T05:06:07Z',
    },
  });
  expect(reply.text).toContain('"balance":1234.50,');
});

test('items have the documented fields (API 2.3, 2.4), in the list and in look-ups', async () => {
  const catalogue = seededCatalogue({ seed: 3, count: 100 });
  const simulator = await started({ sellers: [seller({ catalogue })] });
  const items = await listed(simulator);
  const kinds = new Set<string>();
  for (const { version, media, ...item } of items) {
    expect(item).toEqual({
      id: expect.any(Number) as number,
      name: expect.any(String) as string,
      description: expect.any(String) as string,
      category: expect.any(String) as string,
      sub_category: expect.any(String) as string,
      options: expect.any(Array) as string[],
      tags: expect.any(Array) as string[],
      demo_link: expect.stringMatching(/^https:/) as string,
      price: { regular: expect.any(Number) as number, extended: expect.any(Number) as number },
      currency: 'USD',
      published_at: expect.stringMatching(MOMENT) as string,
    });
    if (version !== undefined) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    const has = (name: string): boolean => name in (media as object);
    expect(has('preview_image')).toBe(!has('preview_audio'));
    expect(has('preview_audio') && has('preview_video')).toBe(false);
    for (const name of ['preview_audio', 'preview_video', 'thumbnail', 'screenshots']) {
      kinds.add(`${name} ${has(name)}`);
    }
  }
  expect([items.length, kinds.size]).toEqual([100, 8]);
  catalogue.change(1001, { priceRegularCents: 1990, priceExtendedCents: 10_000 });
  const [first] = await listed(simulator);
  const reply = await call(simulator, 'item', { item_id: '1001' });
  expect(reply.text).toContain('"price":{"regular":19.90,"extended":100.00}');
  expect(reply.json()).toEqual({ status: 'success', item: first });
});

test('a validation returns the purchase with its full item at data.purchase (API 2.5)', async () => {
  const purchases = seededPurchases({ seed: 5, count: 12 });
  const simulator = await started({ sellers: [seller({ purchases })] });
  const items = await listed(simulator);
  const seen = new Set<unknown>();
  for (const code of purchases.codes()) {
    const { data } = (await call(simulator, 'validate', { purchase_code: code })).json();
    const { purchase } = data as { purchase: Record<string, unknown> };
    const { license_type, supported_until, ...others } = purchase;
    expect(others).toEqual({
      purchase_code: code,
      price: expect.any(Number) as number,
      currency: 'USD',
      item: expect.toSatisfy((item) =>
        items.some((one) => JSON.stringify(one) === JSON.stringify(item)),
      ) as unknown,
      downloaded: expect.any(Boolean) as boolean,
      date: expect.stringMatching(MOMENT) as string,
    });
    seen.add(license_type).add(typeof supported_until);
  }
  expect(seen).toEqual(new Set(['Regular', 'Extended', 'string', 'undefined']));
});

test.each([
  ['account', {}, 400, 'The api key field is required.'],
  ['item', { api_key: KEY }, 400, 'The item id field is required.'],
  ['item', { api_key: KEY, item_id: 'x' }, 400, 'The item id must be an integer.'],
  ['item', { api_key: KEY, item_id: '7' }, 404, 'Item Not Found'],
  ['account', { api_key: 'wrong' }, 401, 'Invalid request'],
  ['list', { api_key: 'wrong' }, 404, 'No items found'],
] as const)('%s with %o gets %i "%s" (servers: errors)', async (name, query, status, msg) => {
  const reply = await get((await started()).url + PATHS[name], { query });
  expect([reply.status, reply.json()]).toEqual([status, denied(msg)]);
});

test('refunded, cancelled and other sellers’ codes, and any code with a wrong key, look unknown', async () => {
  const [mine, theirs] = [1, 2].map((seed) => seededPurchases({ seed, count: 4 }));
  if (mine === undefined || theirs === undefined) throw new Error('no purchases');
  const other = seller({ key: 'other', username: 'bob', purchases: theirs });
  const simulator = await started({ sellers: [seller({ purchases: mine }), other] });
  const validate = (purchase_code: string, api_key = KEY) =>
    call(simulator, 'validate', { purchase_code, api_key });
  mine.setState(mine.codeAt(0), 'refunded');
  mine.setState(mine.codeAt(1), 'cancelled');
  const replies = [
    await validate(mine.codeAt(0)),
    await validate(mine.codeAt(1)),
    await validate(theirs.codeAt(0)),
    await validate(mine.codeAt(2), 'wrong'),
  ];
  for (const reply of replies) expect([reply.status, reply.json()]).toEqual([404, INVALID]);
  mine.setState(mine.codeAt(0), 'valid');
  expect((await validate(mine.codeAt(0))).status).toBe(200);
  expect((await validate('')).json()).toEqual(denied('The purchase code field is required.'));
});

test.each(PROFILES)(
  'in profile %s, an empty list is "No items found", and outside the contract also a single item',
  async (profile) => {
    const simulator = await started({ profile });
    const { catalogue } = simulator.seller(KEY);
    simulator.seller(KEY).catalogue = recordsCatalogue([catalogue.original(0)]);
    const one = await call(simulator, 'list');
    expect((await call(simulator, 'item', { item_id: '1001' })).status).toBe(200);
    if (profile === 'documented') expect(one.json()).toHaveProperty('items');
    else expect([one.status, one.json()]).toEqual([404, denied('No items found')]);
    simulator.seller(KEY).catalogue = recordsCatalogue([]);
    expect((await call(simulator, 'list')).json()).toEqual(denied('No items found'));
  },
);

test('validation accepts only POST, the others only GET', async () => {
  const simulator = await started();
  const reply = await get(simulator.url + PATHS.validate, { query: { api_key: KEY } });
  expect([reply.status, reply.headers.allow]).toEqual([405, 'POST']);
  expect(reply.json()['message']).toContain('GET method is not supported');
  const post = await call(simulator, 'list', {}, { method: 'POST' });
  expect([post.status, post.headers.allow]).toEqual([405, 'GET, HEAD']);
  const page = await get(simulator.url + PATHS.validate, { headers: { accept: '*/*' } });
  expect(page.text).toMatch(/^<!DOCTYPE html>/);
});

test('a browser’s User-Agent is redirected to the home page', async () => {
  const simulator = await started();
  const reply = await call(simulator, 'list', {}, { headers: { 'user-agent': 'Mozilla/5.0' } });
  expect([reply.status, reply.headers.location]).toEqual([302, `${simulator.url}/`]);
  const home = await get(`${simulator.url}/`);
  expect([home.status, home.headers['content-type']]).toEqual([200, 'text/html; charset=UTF-8']);
});

test('parameters are read from query, form and JSON, but not from headers or broken bodies', async () => {
  const simulator = await started();
  const fields = { api_key: KEY, purchase_code: 'x' };
  const requests = [
    { query: fields },
    { form: fields },
    { json: fields },
    { query: { api_key: KEY }, json: { purchase_code: 'x' } },
  ];
  for (const request of requests) {
    const reply = await get(simulator.url + PATHS.validate, { method: 'POST', ...request });
    expect(reply.json()).toEqual(INVALID);
  }
  for (const type of ['application/json', 'text/plain']) {
    const headers = { 'content-type': type, 'x-api-key': KEY };
    const request = { method: 'POST', body: '{"api_key":', headers };
    expect((await get(simulator.url + PATHS.validate, request)).status).toBe(400);
  }
  expect(simulator.defects).toEqual([]);
});

test('the log has each request without the key', async () => {
  const simulator = await started();
  await call(simulator, 'item', { item_id: '1003' });
  const parameters = { item_id: '1003' };
  const expected = { operation: 'item', path: '/api/items/item', hasKey: true, parameters };
  expect(simulator.log).toMatchObject([{ ...expected, sellerName: 'ada', status: 200 }]);
  expect(JSON.stringify(simulator.log)).not.toContain(KEY);
});
