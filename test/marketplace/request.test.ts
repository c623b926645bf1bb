import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { MarketplaceOptionsError } from '../../src/marketplace/address.js';
import {
  Carrier,
  checkCarriage,
  DEFAULT_CARRIAGE,
  USER_AGENT,
} from '../../src/marketplace/request.js';
import type { ParameterCarriage } from '../../src/marketplace/types.js';

const carry = (
  method: 'GET' | 'POST',
  values: Readonly<Record<string, string>>,
  secret: Secret,
  how: ParameterCarriage,
) => new Carrier(secret, how).carry(method, values);

const key = new Secret('k&y =+é');
const FORM_KEY = 'k%26y+%3D%2B%C3%A9';
const parameters = { purchase_code: 'a b&c' };
const carriage = (placement: ParameterCarriage['placement'], keyHeader: string | null = null) => ({
  placement,
  keyHeader,
});

describe('where parameters travel', () => {
  it('puts them in the query on GET by default', () => {
    const request = carry('GET', { item_id: '5' }, key, DEFAULT_CARRIAGE);
    expect(request.query).toBe(`?item_id=5&api_key=${FORM_KEY}`);
    expect(request.body).toBeNull();
  });

  it('puts them in a form body on POST by default, out of sight of access logs', () => {
    const request = carry('POST', parameters, key, DEFAULT_CARRIAGE);
    expect(request.query).toBe('');
    expect(request.body).toBe(`purchase_code=a+b%26c&api_key=${FORM_KEY}`);
    expect(request.headers['content-type']).toBe('application/x-www-form-urlencoded');
  });

  it('puts them in the query on POST too when told to', () => {
    const request = carry('POST', parameters, key, carriage('query'));
    expect(request.query).toBe(`?purchase_code=a+b%26c&api_key=${FORM_KEY}`);
    expect(request.body).toBeNull();
  });

  it.each(['GET', 'POST'] as const)('puts them in a JSON body on %s when told to', (method) => {
    const request = carry(method, parameters, key, carriage('json'));
    expect(request.query).toBe('');
    expect(JSON.parse(request.body ?? '')).toEqual({ ...parameters, api_key: key.reveal() });
    expect(request.headers['content-type']).toBe('application/json');
  });

  it.each(['default', 'query', 'json'] as const)(
    'sends the key in the named header and nowhere else (%s)',
    (placement) => {
      const plain = new Secret('abcdef');
      const request = carry('POST', parameters, plain, carriage(placement, 'X-Api-Key'));
      expect(request.headers['x-api-key']).toBe('abcdef');
      expect(`${request.query}${request.body ?? ''}`).not.toMatch(/abcdef|api_key/);
      expect(`${request.query}${request.body ?? ''}`).toContain('purchase_code');
    },
  );

  it('has no empty query when the key alone travels in a header', () => {
    expect(carry('GET', {}, new Secret('abcdef'), carriage('default', 'x-key')).query).toBe('');
  });

  it.each(['Host', 'content-length', 'User-Agent', 'a b', 'a:b', '', 'x\r\ny'])(
    'refuses to carry the key in a header named %j',
    (name) => {
      expect(() => checkCarriage(carriage('default', name), new Secret('abcdef'))).toThrow(
        MarketplaceOptionsError,
      );
    },
  );

  it.each(['a\r\nb', 'é', ' a', ''])('refuses a key that no header can carry: %j', (text) => {
    expect(() => checkCarriage(carriage('default', 'x-key'), new Secret(text))).toThrow(
      MarketplaceOptionsError,
    );
  });
});

describe('the headers of a request', () => {
  it('names the product plainly: browser names are redirected to the home page', () => {
    expect(USER_AGENT).toMatch(/^seller-mirror\/\d+\.\d+\.\d+/);
    expect(USER_AGENT).not.toMatch(/mozilla|chrome|firefox|opera|edge/i);
    expect(carry('GET', {}, key, DEFAULT_CARRIAGE).headers).toMatchObject({
      'user-agent': USER_AGENT,
      accept: 'application/json',
      'accept-encoding': 'gzip, br',
    });
  });
});
