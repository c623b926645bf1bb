import { describe, expect, it } from 'vitest';
import {
  createMarketplace,
  MarketplaceOptionsError,
  PlainHttpRefusedError,
  type MarketplaceOptions,
  type ParameterCarriage,
} from '../../src/index.js';
import { decideRedirect } from '../../src/marketplace/redirect.js';
import { startServer } from '../support/http-server.js';
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

const carriage = (
  placement: ParameterCarriage['placement'],
  keyHeader: string | null = null,
): ParameterCarriage => ({ placement, keyHeader });

describe('the parameters of a request', () => {
  const key = 'k&y =+é and more';
  const code = 'a b&c';

  /** What a server gets for an item and for a code: query without the random parameter, type and body. */
  async function sent(options: Partial<MarketplaceOptions>) {
    const server = await startServer({ status: 404 });
    const market = client(server.url, { key, ...options });
    await market.item(5);
    await market.validate(code);
    return server.requests.map(({ url, headers, body }) => {
      url.searchParams.delete('_');
      const query = Object.fromEntries(url.searchParams);
      return { query, type: headers['content-type'], body, headers };
    });
  }

  it('are in the query of a GET, and in a form body of a POST, hidden from access logs', async () => {
    const [item, validation] = await sent({});
    expect(item).toMatchObject({ query: { item_id: '5', api_key: key }, body: '' });
    expect(validation).toMatchObject({ query: {}, type: 'application/x-www-form-urlencoded' });
    const form = Object.fromEntries(new URLSearchParams(validation?.body));
    expect(form).toEqual({ purchase_code: code, api_key: key });
  });

  it('are in the query of a POST if so configured', async () => {
    const [, validation] = await sent({ carriage: carriage('query') });
    const query = { purchase_code: code, api_key: key };
    expect(validation).toMatchObject({ query, body: '' });
  });

  it('are in a JSON body, also of a GET, if so configured', async () => {
    const requests = await sent({ carriage: carriage('json') });
    const own = [{ item_id: '5' }, { purchase_code: code }];
    for (const [index, { query, type, body }] of requests.entries()) {
      expect({ query, type }).toEqual({ query: {}, type: 'application/json' });
      expect(JSON.parse(body)).toEqual({ ...own[index], api_key: key });
    }
  });

  it.each(['default', 'query', 'json'] as const)(
    'have no key if a header carries it (%s)',
    async (placement) => {
      const requests = await sent({ key: 'abcdef', carriage: carriage(placement, 'X-Api-Key') });
      for (const { headers, query, body } of requests) {
        expect(headers['x-api-key']).toBe('abcdef');
        expect(JSON.stringify([query, body])).not.toMatch(/abcdef|api_key/);
      }
    },
  );

  it('come with a user agent that names the product and no browser', async () => {
    const [item] = await sent({});
    expect(item?.headers['user-agent']).toMatch(/^seller-mirror\/\d+\.\d+\.\d+$/);
  });

  it('ask for compression, except about a code: its answer fits into one packet', async () => {
    const asked = (await sent({})).map(({ headers }) => headers['accept-encoding']);
    expect(asked).toEqual(['gzip, br', 'identity']);
  });
});

describe('a key header', () => {
  it.each(['Host', 'a b', '', 'x\r\ny'])('can’t be named %j', (name) => {
    expect(() => create({ carriage: carriage('default', name) })).toThrow(MarketplaceOptionsError);
  });

  it.each(['a\r\nb', 'é'])('can’t carry the key %j', (text) => {
    const options = { key: text, carriage: carriage('default', 'x-key') };
    expect(() => create(options)).toThrow(MarketplaceOptionsError);
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
    ['https://www.shop.test:8443', 'https://shop.test:8443/api/items/all', 'on the same port'],
    ['http://shop.test', 'https://www.shop.test/api/items/all', 'both at once'],
    ['https://shop.test', 'https://shop.test/api/items/all/', 'a trailing slash'],
    ['https://shop.test', '//www.shop.test/api/items/all', 'an address without scheme'],
  ])('%s → %s (%s)', (origin, location) => {
    expect(follow(origin + PATH, location)).toBe(new URL(location, origin).href);
  });

  it('may remove a trailing slash, and drop the query and fragment that the server sends', () => {
    expect(follow(`https://shop.test${PATH}/`, `${PATH}?x=1#y`)).toBe(`https://shop.test${PATH}`);
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
    ['https://shop.test', 'https://api.shop.test/api/items/all', 'another label'],
    ['https://shop.test', 'http://shop.test/api/items/all', 'https to http'],
    ['https://shop.test', 'https://shop.test:8443/api/items/all', 'another port'],
    ['http://shop.test:8080', 'https://shop.test/api/items/all', 'https from an odd port'],
    ['https://shop.test', 'https://shop.test/', 'the home page'],
    ['https://shop.test', 'https://www.shop.test@evil.test/api/items/all', 'a disguised host'],
    ['https://shop.test', 'https://u:p@www.shop.test/api/items/all', 'user name and password'],
    ['https://shop.test', 'javascript:alert(1)', 'another scheme'],
    [
      'https://shop.test',
      'https://shop.test/api/items/all/%2e%2e/x',
      'a path that climbs, encoded',
    ],
    ['https://shop.test', null, 'nothing'],
  ])('%s → %s (%s)', (origin: string, location: string | null, _why: string) => {
    expect(follow(origin + PATH, location, true)).toMatch(/^refused/);
  });
});
