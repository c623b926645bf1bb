import { expect, test } from 'vitest';
import { recordsCatalogue, seededCatalogue, seededPurchases } from '../../src/simulator/index.js';
import { KEY, PATHS, call, get, listed, seller, started } from './support.js';

const denied = (msg: string) => ({ status: 'error', msg });

test.each([
  ['account', {}, 400, 'The api key field is required.'],
  ['item', { api_key: KEY }, 400, 'The item id field is required.'],
  ['item', { api_key: KEY, item_id: '12.5' }, 400, 'The item id must be an integer.'],
  ['item', { api_key: KEY, item_id: 'x' }, 400, 'The item id must be an integer.'],
  ['item', { api_key: KEY, item_id: '7' }, 404, 'Item Not Found'],
  ['account', { api_key: 'wrong' }, 401, 'Invalid request'],
  ['list', { api_key: 'wrong' }, 404, 'No items found'],
  ['item', { api_key: 'wrong', item_id: '1001' }, 404, 'Item Not Found'],
] as const)(
  '%s with %o answers %i "%s" (field notes: errors)',
  async (operation, query, status, msg) => {
    const simulator = await started();
    const got = await get(simulator.url + PATHS[operation], { query });
    expect(got.status).toBe(status);
    expect(got.json()).toEqual(denied(msg));
  },
);

test('a wrong key makes a valid code look invalid, which is why clients need proof', async () => {
  const purchases = seededPurchases({ seed: 1, count: 3 });
  const simulator = await started({ sellers: [seller({ purchases })] });
  const purchase_code = purchases.codeAt(0);
  const right = await call(simulator, 'validate', { purchase_code });
  const wrong = await call(simulator, 'validate', { api_key: 'wrong', purchase_code });
  expect([right.status, wrong.status]).toEqual([200, 404]);
  expect(wrong.json()).toEqual(denied('Invalid purchase code'));
  const missing = await call(simulator, 'validate');
  expect(missing.status).toBe(400);
  expect(missing.json()).toEqual(denied('The purchase code field is required.'));
});

test('refunded and cancelled purchases and codes of another seller answer like unknown codes', async () => {
  const mine = seededPurchases({ seed: 1, count: 4 });
  const theirs = seededPurchases({ seed: 2, count: 4 });
  const other = {
    key: 'other',
    username: 'bob',
    catalogue: seededCatalogue({ seed: 2, count: 4 }),
  };
  const simulator = await started({
    sellers: [seller({ purchases: mine }), { ...other, purchases: theirs }],
  });
  mine.setState(mine.codeAt(0), 'refunded');
  mine.setState(mine.codeAt(1), 'cancelled');
  for (const code of [mine.codeAt(0), mine.codeAt(1), theirs.codeAt(0)]) {
    const got = await call(simulator, 'validate', { purchase_code: code });
    expect(got.status).toBe(404);
    expect(got.json()).toEqual(denied('Invalid purchase code'));
  }
  mine.setState(mine.codeAt(0), 'valid');
  expect((await call(simulator, 'validate', { purchase_code: mine.codeAt(0) })).status).toBe(200);
});

test('codes are found in any letter case and values are trimmed (field notes: requests)', async () => {
  const simulator = await started({
    sellers: [seller({ purchases: [{ code: 'Gift-ABC', itemId: 1002, license: 'Extended' }] })],
  });
  const got = await call(simulator, 'validate', {
    api_key: ` ${KEY} `,
    purchase_code: ' gift-abc\n',
  });
  expect(got.json()).toMatchObject({
    data: { purchase: { purchase_code: 'Gift-ABC', license_type: 'Extended', item: { id: 1002 } } },
  });
});

test('the key of a user who sells nothing passes account details and fails everything else', async () => {
  const purchases = seededPurchases({ seed: 1, count: 1 });
  const simulator = await started({ sellers: [seller({ sells: false, purchases })] });
  expect((await call(simulator, 'account')).status).toBe(200);
  expect((await call(simulator, 'list')).json()).toEqual(denied('No items found'));
  expect((await call(simulator, 'item', { item_id: '1001' })).json()).toEqual(
    denied('Item Not Found'),
  );
  const code = { purchase_code: purchases.codeAt(0) };
  expect((await call(simulator, 'validate', code)).json()).toEqual(denied('Invalid purchase code'));
});

test('an account with exactly one item has "No items found" in the field, and a list by the contract', async () => {
  const item = seededCatalogue({ seed: 1, count: 1 }).original(0);
  for (const profile of ['field-1', 'field-2', 'documented'] as const) {
    const sellers = [seller({ catalogue: recordsCatalogue([item]) })];
    const simulator = await started({ profile, sellers });
    const got = await call(simulator, 'list');
    const found = await call(simulator, 'item', { item_id: '1001' });
    expect(found.status).toBe(200);
    if (profile === 'documented') expect(got.json()).toHaveProperty('items');
    else expect([got.status, got.json()]).toEqual([404, denied('No items found')]);
  }
});

test('an empty account has "No items found" under every profile (spec 7)', async () => {
  for (const profile of ['documented', 'field-1', 'field-2'] as const) {
    const simulator = await started({
      profile,
      sellers: [seller({ catalogue: recordsCatalogue([]) })],
    });
    const got = await call(simulator, 'list');
    expect([got.status, got.json()]).toEqual([404, denied('No items found')]);
  }
});

test('other servers of the contract may send error envelopes at 200', async () => {
  const simulator = await started({ errorStatus: 200 });
  const got = await call(simulator, 'account', { api_key: 'wrong' });
  expect([got.status, got.json()]).toEqual([200, denied('Invalid request')]);
});

test('validation takes POST only and says so; the reads take GET only', async () => {
  const simulator = await started();
  const got = await get(simulator.url + PATHS.validate, { query: { api_key: KEY } });
  expect([got.status, got.headers.allow]).toEqual([405, 'POST']);
  expect(got.json()['message']).toContain('GET method is not supported');
  const post = await call(simulator, 'list', {}, { method: 'POST' });
  expect([post.status, post.headers.allow]).toEqual([405, 'GET, HEAD']);
  const page = await get(simulator.url + PATHS.validate, { headers: { accept: '*/*' } });
  expect(page.text).toMatch(/^<!DOCTYPE html>/);
});

test.each(['Mozilla/5.0', 'x Chrome/1', 'Firefox', 'Opera', 'Edge'])(
  'a User-Agent with %s is sent to the home page, which is why clients name themselves plainly',
  async (agent) => {
    const simulator = await started();
    const got = await call(simulator, 'list', {}, { headers: { 'user-agent': agent } });
    expect([got.status, got.headers.location]).toEqual([302, `${simulator.url}/`]);
    const home = await get(`${simulator.url}/`);
    expect([home.status, home.headers['content-type']]).toEqual([200, 'text/html; charset=UTF-8']);
  },
);

test('a broken body or form carries no parameters and breaks nothing', async () => {
  const simulator = await started();
  const url = simulator.url + PATHS.validate;
  for (const type of ['application/json', 'multipart/form-data; boundary=q', 'text/plain']) {
    const ask = { method: 'POST', body: '{"api_key":', headers: { 'content-type': type } };
    expect((await get(url, ask)).status).toBe(400);
  }
  expect(simulator.defects).toEqual([]);
});

test('keys can be revoked or go over to another seller after so many requests', async () => {
  const simulator = await started();
  simulator.afterRequests(2, () => simulator.revoke(KEY));
  simulator.afterRequests(3, () => {
    simulator.addSeller(
      seller({ username: 'eve', catalogue: seededCatalogue({ seed: 9, count: 3 }) }),
    );
  });
  const statuses = [];
  for (let n = 0; n < 4; n++) statuses.push((await call(simulator, 'account')).status);
  expect(statuses).toEqual([200, 200, 401, 200]);
  expect(await listed(simulator)).toHaveLength(3);
  expect(simulator.log.map(({ sellerName }) => sellerName)).toEqual([
    'ada',
    'ada',
    null,
    'eve',
    'eve',
  ]);
});

test('close ends open connections at once', async () => {
  const simulator = await started();
  simulator.faults.always('any', { kind: 'stall', ms: Number.POSITIVE_INFINITY });
  const waiting = call(simulator, 'account').catch((error: unknown) => error);
  await expect.poll(() => simulator.log.length).toBe(1);
  await simulator.close();
  expect(await waiting).toBeInstanceOf(Error);
  expect(simulator.defects).toEqual([]);
});
