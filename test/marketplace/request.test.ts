import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { createMarketplace } from '../../src/marketplace/client.js';
import { requestBuilder, USER_AGENT } from '../../src/marketplace/request.js';
import { decideRedirect } from '../../src/marketplace/sender.js';
import {
  MarketplaceOptionsError,
  type MarketplaceOptions,
  type ParameterCarriage,
  PlainHttpRefusedError,
} from '../../src/marketplace/types.js';
import { client } from './support.js';

const create = (options: Partial<MarketplaceOptions>): unknown =>
  createMarketplace({ baseUrl: 'https://shop.test', key: 'a-key-of-some-length', ...options });

describe('the base address', () => {
  // The tests of `addressFault` have all cases.
  it.each([
    ['http://shop.test', PlainHttpRefusedError],
    ['https://me:pw@shop.test', MarketplaceOptionsError],
    ['ftp://shop.test', MarketplaceOptionsError],
    ['https://shop.test/?a=1', MarketplaceOptionsError],
  ])('is rejected: %s', (baseUrl, error) => {
    expect(() => create({ baseUrl })).toThrow(error);
  });

  it.each<Partial<MarketplaceOptions>>([
    { baseUrl: 'https://shop.test' },
    { baseUrl: 'http://[::1]:1' },
    { baseUrl: 'http://shop.test', allowPlainHttp: true },
  ])('is accepted: %j', (options) => {
    expect(() => create(options)).not.toThrow();
  });

  it('gives the client a host name without www, so that both spellings share a budget', () => {
    expect(client(new URL('https://www.shop.test/')).host).toBe('shop.test');
    expect(client(new URL('https://shop.test:8443/x')).host).toBe('shop.test:8443');
  });
});

const key = new Secret('k&y =+é');
const FORM_KEY = 'k%26y+%3D%2B%C3%A9';
const parameters = { purchase_code: 'a b&c' };
const carriage = (
  placement: ParameterCarriage['placement'],
  keyHeader: string | null = null,
): ParameterCarriage => ({ placement, keyHeader });
const build = requestBuilder(key, carriage('default'));

describe('the parameters of a request', () => {
  it('are in the query of a GET by default', () => {
    const request = build('GET', { item_id: '5' }, null);
    expect(request).toMatchObject({ query: `?item_id=5&api_key=${FORM_KEY}`, body: null });
  });

  it('are in a form body of a POST by default, hidden from access logs', () => {
    expect(build('POST', parameters, null)).toMatchObject({
      query: '',
      body: `purchase_code=a+b%26c&api_key=${FORM_KEY}`,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
  });

  it('are in the query of a POST if so configured', () => {
    const request = requestBuilder(key, carriage('query'))('POST', parameters, null);
    const query = `?purchase_code=a+b%26c&api_key=${FORM_KEY}`;
    expect(request).toMatchObject({ query, body: null });
  });

  it.each(['GET', 'POST'] as const)('are in a JSON body of a %s if so configured', (method) => {
    const request = requestBuilder(key, carriage('json'))(method, parameters, null);
    expect(request.query).toBe('');
    expect(JSON.parse(request.body ?? '')).toEqual({ ...parameters, api_key: key.reveal() });
    expect(request.headers['content-type']).toBe('application/json');
  });
});

describe('a key header', () => {
  it.each(['default', 'query', 'json'] as const)(
    'carries the key, which is then nowhere else (%s)',
    (placement) => {
      const inHeader = requestBuilder(new Secret('abcdef'), carriage(placement, 'X-Api-Key'));
      const { headers, query, body } = inHeader('POST', parameters, null);
      expect(headers['x-api-key']).toBe('abcdef');
      expect(`${query}${body ?? ''}`).not.toMatch(/abcdef|api_key/);
      expect(`${query}${body ?? ''}`).toContain('purchase_code');
      if (placement === 'default') expect(inHeader('GET', {}, null).query).toBe('');
    },
  );

  it.each(['Host', 'content-length', 'User-Agent', 'a b', 'a:b', '', 'x\r\ny'])(
    'can’t be named %j',
    (name) => {
      expect(() => create({ carriage: carriage('default', name) })).toThrow(
        MarketplaceOptionsError,
      );
    },
  );

  it.each(['a\r\nb', 'é', ' a'])('can’t carry the key %j', (text) => {
    const options = { key: text, carriage: carriage('default', 'x-key') };
    expect(() => create(options)).toThrow(MarketplaceOptionsError);
  });
});

it('sends a user agent that names the product and no browser', () => {
  expect(USER_AGENT).toMatch(/^seller-mirror\/\d+\.\d+\.\d+/);
  expect(USER_AGENT).not.toMatch(/mozilla|chrome|firefox|opera|edge/i);
  expect(build('GET', {}, null).headers).toMatchObject({
    'user-agent': USER_AGENT,
    accept: 'application/json',
    'accept-encoding': 'gzip, br',
  });
});

const PATH = '/api/items/all';

function follow(from: string, location: string | null, allowPlainHttp = false): string {
  const { to, host } = decideRedirect(new URL(from), location, allowPlainHttp);
  return to?.href ?? `refused: ${host ?? 'no host'}`;
}

describe('redirects that may be followed', () => {
  it.each([
    ['https://shop.test', 'https://www.shop.test/api/items/all', 'apex to www'],
    ['https://www.shop.test', 'https://shop.test/api/items/all', 'www to apex'],
    ['https://www.shop.test:8443', 'https://shop.test:8443/api/items/all', 'on the same port'],
    ['http://shop.test', 'https://shop.test/api/items/all', 'http to https'],
    ['http://shop.test', 'https://www.shop.test/api/items/all', 'both at once'],
    ['https://shop.test', 'https://shop.test/api/items/all/', 'a trailing slash'],
    ['https://shop.test', '/api/items/all/', 'a relative address'],
    ['https://shop.test', '//www.shop.test/api/items/all', 'an address without scheme'],
    ['https://shop.test', 'HTTPS://WWW.SHOP.TEST/api/items/all', 'in capitals'],
  ])('%s → %s (%s)', (origin, location) => {
    expect(follow(origin + PATH, location)).toBe(new URL(location, origin).href);
  });

  it('may remove a trailing slash', () => {
    expect(follow(`https://shop.test${PATH}/`, PATH)).toBe(`https://shop.test${PATH}`);
  });

  it('drop the query and fragment that the server sends', () => {
    expect(follow(`https://shop.test${PATH}`, `https://www.shop.test${PATH}?x=1#y`)).toBe(
      `https://www.shop.test${PATH}`,
    );
  });

  it('stay on plain http only if plain http is allowed', () => {
    expect(follow(`http://shop.test${PATH}`, `http://www.shop.test${PATH}`, true)).toMatch(
      /^http:/,
    );
    expect(follow(`http://localhost${PATH}`, `http://www.localhost${PATH}`)).toMatch(/^refused/);
  });
});

describe('redirects that must not be followed', () => {
  it.each([
    ['https://shop.test', 'https://evil.test/api/items/all', 'another host'],
    ['https://shop.test', 'https://shop.test.evil.test/api/items/all', 'a look-alike'],
    ['https://shop.test', 'https://www.www.shop.test/api/items/all', 'an extra label'],
    ['https://shop.test', 'https://api.shop.test/api/items/all', 'another label'],
    ['https://shop.test', 'http://shop.test/api/items/all', 'https to http'],
    ['https://shop.test', 'https://shop.test:8443/api/items/all', 'another port'],
    ['http://shop.test:8080', 'https://shop.test/api/items/all', 'https from an odd port'],
    ['https://shop.test', 'https://shop.test/', 'the home page'],
    ['https://shop.test', 'https://shop.test/api/items/all//', 'another path'],
    ['https://shop.test', 'https://shop.test/API/items/all', 'the path in another letter case'],
    ['https://shop.test', 'https://www.shop.test@evil.test/api/items/all', 'a disguised host'],
    ['https://shop.test', 'https://u:p@www.shop.test/api/items/all', 'user name and password'],
    ['https://shop.test', 'https://u@www.shop.test/api/items/all', 'a user name'],
    ['https://shop.test', 'javascript:alert(1)', 'another scheme'],
    ['https://shop.test', 'https://shop.test/api/items/all/../../x', 'a path that climbs'],
    [
      'https://shop.test',
      'https://shop.test/api/items/all/%2e%2e/x',
      'a path that climbs, encoded',
    ],
    ['https://shop.test', 'https://[bad/', 'not an address'],
    ['https://shop.test', null, 'nothing'],
  ])('%s → %s (%s)', (origin: string, location: string | null, _why: string) => {
    expect(follow(origin + PATH, location, true)).toMatch(/^refused/);
  });
});
