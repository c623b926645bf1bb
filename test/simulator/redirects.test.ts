import { expect, test } from 'vitest';
import type { Fault } from '../../src/simulator/index.js';
import { KEY, PATHS, call, get, started } from './support.js';

const from = (host: string) => ({ headers: { host } });

test.each<[string, Fault, string]>([
  ['www', { kind: 'redirect', to: 'www' }, 'http://www.shop.example/api/items/all?api_key=KEY'],
  ['apex', { kind: 'redirect', to: 'apex' }, 'http://shop.example/api/items/all?api_key=KEY'],
  ['https', { kind: 'redirect', to: 'https' }, 'https://shop.example/api/items/all?api_key=KEY'],
  [
    'https port',
    { kind: 'redirect', to: 'https', port: 8443 },
    'https://shop.example:8443/api/items/all?api_key=KEY',
  ],
  [
    'trailing slash',
    { kind: 'redirect', to: 'trailing-slash' },
    'http://shop.example/api/items/all/?api_key=KEY',
  ],
  [
    'another host',
    { kind: 'redirect', to: 'origin', origin: 'https://evil.example' },
    'https://evil.example/api/items/all?api_key=KEY',
  ],
  ['a URL', { kind: 'redirect', to: 'url', url: '//evil.example/x' }, '//evil.example/x'],
  ['home', { kind: 'redirect', to: 'home' }, 'http://shop.example/'],
])('a redirect to %s names the place the request should have come to', async (_, fault, target) => {
  const simulator = await started();
  simulator.faults.next('any', fault);
  const got = await call(simulator, 'list', {}, from('shop.example'));
  expect([got.status, got.headers.location]).toEqual([302, target.replace('KEY', KEY)]);
});

test.each([301, 302, 303, 307, 308] as const)(
  'a redirect is sent with status %i when asked',
  async (status) => {
    const simulator = await started();
    simulator.faults.next('any', { kind: 'redirect', to: 'www', status });
    expect((await call(simulator, 'list')).status).toBe(status);
  },
);

test('a server with a canonical host redirects until asked there, and no request counts before that', async () => {
  const simulator = await started({
    redirects: { canonical: 'www', status: 308 },
    requestsPerMinute: 9,
  });
  const got = await call(simulator, 'account', {}, from('shop.example:81'));
  expect([got.status, got.headers.location]).toEqual([
    308,
    `http://www.shop.example:81${PATHS.account}?api_key=${KEY}`,
  ]);
  const there = await call(simulator, 'account', {}, from('www.shop.example:81'));
  expect([there.status, there.headers['x-ratelimit-remaining']]).toEqual([200, '8']);
});

test('a server may want www away, a trailing slash, or none', async () => {
  const apex = await started({ redirects: { canonical: 'apex' } });
  const got = await call(apex, 'account', {}, from('www.a.example'));
  expect(got.headers.location).toMatch(/^http:\/\/a\.example\//);
  const slash = await started({ redirects: { trailingSlash: 'add' } });
  const url = slash.url + PATHS.account;
  expect((await get(url, { query: { api_key: KEY } })).headers.location).toBe(
    `${url}/?api_key=${KEY}`,
  );
  expect((await get(`${url}/`, { query: { api_key: KEY } })).status).toBe(200);
  const bare = await started({ redirects: { trailingSlash: 'remove' } });
  const there = await get(`${bare.url}${PATHS.account}/`, { query: { api_key: KEY } });
  expect(there.headers.location).toBe(`${bare.url}${PATHS.account}?api_key=${KEY}`);
  expect((await get(`${bare.url}/`)).status).toBe(200);
});

test('a server may send every plain request to its https port', async () => {
  const { certificate } = await import('./certificate.js');
  const secure = await started({ https: certificate });
  const plain = await started({ redirects: { httpsPort: secure.port } });
  const got = await call(plain, 'account');
  expect(got.status).toBe(301);
  expect((await get(got.headers.location ?? '')).status).toBe(200);
});

test('a request for an unknown host is turned away, so that a test sees a key that strayed', async () => {
  const simulator = await started({ knownHosts: ['127.0.0.1'] });
  expect((await call(simulator, 'account')).status).toBe(200);
  const got = await call(simulator, 'account', {}, from('elsewhere.example'));
  expect(got.status).toBe(421);
  expect(simulator.log.at(-1)).toMatchObject({ host: 'elsewhere.example', keySeenIn: 'query' });
});
