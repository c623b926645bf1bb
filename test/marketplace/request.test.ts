import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { createMarketplace } from '../../src/marketplace/client.js';
import {
  checkCarriage,
  DEFAULT_CARRIAGE,
  requestBuilder,
  USER_AGENT,
} from '../../src/marketplace/request.js';
import { decideRedirect } from '../../src/marketplace/sender.js';
import {
  MarketplaceOptionsError,
  type ParameterCarriage,
  PlainHttpRefusedError,
} from '../../src/marketplace/types.js';
import { client } from './support.js';

const make = (url: string, allowPlainHttp?: boolean): unknown =>
  createMarketplace({
    baseUrl: new URL(url),
    key: new Secret('a-key-of-some-length'),
    ...(allowPlainHttp === undefined ? {} : { allowPlainHttp }),
  });

describe('the base address', () => {
  // Which addresses these are is tested with `addressFault`.
  it.each([
    ['http://shop.test', PlainHttpRefusedError],
    ['https://me:pw@shop.test', MarketplaceOptionsError],
    ['ftp://shop.test', MarketplaceOptionsError],
    ['https://shop.test/?a=1', MarketplaceOptionsError],
  ])('refuses %s, which would show the key or could not be meant', (url, error) => {
    expect(() => make(url)).toThrow(error);
  });

  it('takes https, loopback, and plain http anywhere once it is allowed', () => {
    for (const url of ['https://shop.test', 'http://[::1]:1'])
      expect(() => make(url)).not.toThrow();
    expect(() => make('http://shop.test', true)).not.toThrow();
  });

  it('names the budget by the host without www, so that both spellings share one', () => {
    expect(client(new URL('https://www.shop.test/')).host).toBe('shop.test');
    expect(client(new URL('https://shop.test:8443/x')).host).toBe('shop.test:8443');
  });
});

const build = (
  method: 'GET' | 'POST',
  values: Readonly<Record<string, string>>,
  secret: Secret,
  how: ParameterCarriage,
) => requestBuilder(secret, how)(method, values);

const key = new Secret('k&y =+é');
const FORM_KEY = 'k%26y+%3D%2B%C3%A9';
const parameters = { purchase_code: 'a b&c' };
const carriage = (placement: ParameterCarriage['placement'], keyHeader: string | null = null) => ({
  placement,
  keyHeader,
});

describe('where parameters travel', () => {
  it('puts them in the query on GET by default', () => {
    const request = build('GET', { item_id: '5' }, key, DEFAULT_CARRIAGE);
    expect(request.query).toBe(`?item_id=5&api_key=${FORM_KEY}`);
    expect(request.body).toBeNull();
  });

  it('puts them in a form body on POST by default, out of sight of access logs', () => {
    const request = build('POST', parameters, key, DEFAULT_CARRIAGE);
    expect(request.query).toBe('');
    expect(request.body).toBe(`purchase_code=a+b%26c&api_key=${FORM_KEY}`);
    expect(request.headers['content-type']).toBe('application/x-www-form-urlencoded');
  });

  it('puts them in the query on POST too when told to', () => {
    const request = build('POST', parameters, key, carriage('query'));
    expect(request.query).toBe(`?purchase_code=a+b%26c&api_key=${FORM_KEY}`);
    expect(request.body).toBeNull();
  });

  it.each(['GET', 'POST'] as const)('puts them in a JSON body on %s when told to', (method) => {
    const request = build(method, parameters, key, carriage('json'));
    expect(request.query).toBe('');
    expect(JSON.parse(request.body ?? '')).toEqual({ ...parameters, api_key: key.reveal() });
    expect(request.headers['content-type']).toBe('application/json');
  });

  it.each(['default', 'query', 'json'] as const)(
    'sends the key in the named header and nowhere else (%s)',
    (placement) => {
      const plain = new Secret('abcdef');
      const request = build('POST', parameters, plain, carriage(placement, 'X-Api-Key'));
      expect(request.headers['x-api-key']).toBe('abcdef');
      expect(`${request.query}${request.body ?? ''}`).not.toMatch(/abcdef|api_key/);
      expect(`${request.query}${request.body ?? ''}`).toContain('purchase_code');
    },
  );

  it('has no empty query when the key alone travels in a header', () => {
    expect(build('GET', {}, new Secret('abcdef'), carriage('default', 'x-key')).query).toBe('');
  });

  it.each(['Host', 'content-length', 'User-Agent', 'a b', 'a:b', '', 'x\r\ny'])(
    'refuses to build the key in a header named %j',
    (name) => {
      expect(() => checkCarriage(carriage('default', name), new Secret('abcdef'))).toThrow(
        MarketplaceOptionsError,
      );
    },
  );

  it.each(['a\r\nb', 'é', ' a', ''])('refuses a key that no header can build: %j', (text) => {
    expect(() => checkCarriage(carriage('default', 'x-key'), new Secret(text))).toThrow(
      MarketplaceOptionsError,
    );
  });
});

describe('the headers of a request', () => {
  it('names the product plainly: browser names are redirected to the home page', () => {
    expect(USER_AGENT).toMatch(/^seller-mirror\/\d+\.\d+\.\d+/);
    expect(USER_AGENT).not.toMatch(/mozilla|chrome|firefox|opera|edge/i);
    expect(build('GET', {}, key, DEFAULT_CARRIAGE).headers).toMatchObject({
      'user-agent': USER_AGENT,
      accept: 'application/json',
      'accept-encoding': 'gzip, br',
    });
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
    ['https://shop.test', 'https://shop.test/api/items/all/', 'a trailing slash more'],
    ['https://shop.test', '/api/items/all/', 'a relative address'],
    ['https://shop.test', '//www.shop.test/api/items/all', 'an address without scheme'],
    ['https://shop.test', 'HTTPS://WWW.SHOP.TEST/api/items/all', 'in capitals'],
  ])('%s → %s (%s)', (origin, location) => {
    expect(follow(origin + PATH, location)).toBe(new URL(location, origin).href);
  });

  it('takes a trailing slash away too', () => {
    expect(follow(`https://shop.test${PATH}/`, PATH)).toBe(`https://shop.test${PATH}`);
  });

  it('takes only origin and path from the server: parameters are ours to attach', () => {
    expect(follow(`https://shop.test${PATH}`, `https://www.shop.test${PATH}?x=1#y`)).toBe(
      `https://www.shop.test${PATH}`,
    );
  });

  it('stays on plain http only where plain http is allowed', () => {
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
    ['https://shop.test', 'https://www.www.shop.test/api/items/all', 'one label too many'],
    ['https://shop.test', 'https://api.shop.test/api/items/all', 'another label'],
    ['https://shop.test', 'http://shop.test/api/items/all', 'https to http'],
    ['https://shop.test', 'https://shop.test:8443/api/items/all', 'another port'],
    ['http://shop.test:8080', 'https://shop.test/api/items/all', 'https from an odd port'],
    ['https://shop.test', 'https://shop.test/', 'the home page'],
    ['https://shop.test', 'https://shop.test/api/items/all//', 'another path'],
    ['https://shop.test', 'https://shop.test/API/items/all', 'another path by case'],
    ['https://shop.test', 'https://www.shop.test@evil.test/api/items/all', 'a disguised host'],
    ['https://shop.test', 'https://u:p@www.shop.test/api/items/all', 'user name and password'],
    ['https://shop.test', 'https://u@www.shop.test/api/items/all', 'a user name'],
    ['https://shop.test', 'javascript:alert(1)', 'another scheme'],
    ['https://shop.test', 'https://shop.test/api/items/all/../../x', 'a path that climbs'],
    ['https://shop.test', 'https://shop.test/api/items/all/%2e%2e/x', 'a path that climbs in code'],
    ['https://shop.test', 'https://[bad/', 'not an address'],
    ['https://shop.test', null, 'nothing'],
  ])('%s → %s (%s)', (origin: string, location: string | null, _why: string) => {
    expect(follow(origin + PATH, location, true)).toMatch(/^refused/);
  });
});
