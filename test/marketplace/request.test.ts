import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { createMarketplace } from '../../src/marketplace/client.js';
import {
  DEFAULT_CARRIAGE,
  RequestBuilder,
  USER_AGENT,
  checkCarriage,
} from '../../src/marketplace/request.js';
import {
  MarketplaceOptionsError,
  PlainHttpRefusedError,
  type ParameterCarriage,
} from '../../src/marketplace/types.js';
import { client } from './support.js';

const make = (url: string, allowPlainHttp?: boolean): unknown =>
  createMarketplace({
    baseUrl: new URL(url),
    key: new Secret('a-key-of-some-length'),
    ...(allowPlainHttp === undefined ? {} : { allowPlainHttp }),
  });

describe('the base address', () => {
  it.each([
    'http://shop.test',
    'http://10.0.0.1',
    'http://127.0.0.1.evil.test',
    'http://localhost.evil.test',
  ])('refuses %s, since the key would travel unencrypted to another machine', (url) => {
    expect(() => make(url)).toThrow(PlainHttpRefusedError);
  });

  it.each([
    'http://localhost:1',
    'http://127.0.0.1:1',
    'http://127.9.8.7',
    'http://[::1]:1',
    'https://shop.test',
  ])('takes %s, where nobody can listen in', (url) => {
    expect(() => make(url)).not.toThrow();
  });

  it('takes plain http anywhere once it is allowed', () => {
    expect(() => make('http://shop.test', true)).not.toThrow();
  });

  it.each([
    'https://me@shop.test',
    'https://me:pw@shop.test',
    'ftp://shop.test',
    'https://shop.test/?a=1',
    'https://shop.test/#a',
  ])('refuses %s, which could not be meant', (url) => {
    expect(() => make(url)).toThrow(MarketplaceOptionsError);
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
) => new RequestBuilder(secret, how).build(method, values);

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
