import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { useFolder } from './folder.js';

const folder = useFolder();

const SHOP = { name: 'shop', url: 'https://a.example', keyEnv: 'SHOP_KEY' };

function withSellers(...sellers: readonly object[]): NodeJS.ProcessEnv {
  folder.write('sellers.json', JSON.stringify({ sellers }));
  return { SELLERS_FILE: 'sellers.json', SHOP_KEY: 'shop-key-1234', OTHER_KEY: 'other-key-1234' };
}

describe('the sellers file', () => {
  it('lists several sellers, each with its own key, limits and carriage', () => {
    mkdirSync(join(folder.path(), 'conf'));
    folder.write('conf/other.key', 'key-of-the-other\n');
    folder.write(
      'conf/sellers.json',
      JSON.stringify({
        sellers: [
          SHOP,
          {
            name: 'other',
            url: 'https://b.example/market',
            keyFile: 'other.key',
            requestsPerMinute: 30,
            parameters: 'query',
            keyHeader: 'X-Key',
          },
        ],
      }),
    );
    const config = folder.read({
      SELLERS_FILE: 'conf/sellers.json',
      SHOP_KEY: 'shop-key-1234',
      REQUESTS_PER_MINUTE: '50',
      MARKETPLACE_PARAMETERS: 'json',
    });
    expect(config.sellers.map((seller) => [seller.name, seller.key.reveal()])).toEqual([
      ['shop', 'shop-key-1234'],
      ['other', 'key-of-the-other'],
    ]);
    expect(config.sellers).toMatchObject([
      { requestsPerMinute: 50, carriage: { placement: 'json', keyHeader: null } },
      { requestsPerMinute: 30, carriage: { placement: 'query', keyHeader: 'X-Key' } },
    ]);
  });

  it('may take a key from a variable named like one of ours, without a warning', () => {
    const env = withSellers(
      { ...SHOP, keyEnv: 'MARKETPLACE_API_KEY' },
      { ...SHOP, name: 'two', keyEnv: 'MARKETPLACE_KEY_TWO' },
    );
    const config = folder.read({
      ...env,
      MARKETPLACE_API_KEY: 'first-key',
      MARKETPLACE_KEY_TWO: 'second-key',
    });
    expect(config.sellers.map((seller) => seller.key.reveal())).toEqual([
      'first-key',
      'second-key',
    ]);
    expect(config.warnings).toEqual([]);
  });

  it('makes a single seller’s key beside it a warning, because it does nothing', () => {
    const config = folder.read({ ...withSellers(SHOP), MARKETPLACE_API_KEY: 'unused-key' });
    expect(config.warnings).toEqual([expect.stringMatching(/^MARKETPLACE_API_KEY is not used/)]);
  });

  it('gives sellers of one host the strictest of their limits, since they share its budget', () => {
    const config = folder.read(
      withSellers(
        { ...SHOP, requestsPerMinute: 0 },
        { ...SHOP, name: 'two', url: 'https://www.a.example', requestsPerMinute: 20 },
        { ...SHOP, name: 'three', url: 'https://b.example', requestsPerMinute: 0 },
      ),
    );
    expect(config.sellers.map((seller) => seller.requestsPerMinute)).toEqual([20, 20, 0]);
    expect(config.warnings).toEqual([expect.stringContaining('of shop is lowered to 20')]);
  });
});

describe('what is wrong in the sellers file', () => {
  const cases: readonly [string, readonly object[], RegExp][] = [
    [
      'a misspelt field',
      [{ ...SHOP, request_per_minute: 1 }],
      /^SELLERS_FILE sellers\[0\] "request_per_minute" is no field: did you mean requestsPerMinute\?/,
    ],
    [
      'an unknown field',
      [{ ...SHOP, colour: 1 }],
      /"colour" is no field: the fields are name, url/,
    ],
    [
      'a key in plain',
      [{ name: 'a', url: 'https://a.example', api_key: 'plain-secret-1' }],
      /has the key itself in "api_key": .*keyFile.*keyEnv/,
    ],
    [
      'a second seller of the same name',
      [SHOP, SHOP],
      /sellers\[1\].name "shop" is the name of SELLERS_FILE sellers\[0\] too/,
    ],
    [
      'a missing address',
      [{ name: 'a', keyEnv: 'SHOP_KEY' }],
      /sellers\[0\].url is missing or no string/,
    ],
    [
      'a number as text',
      [{ ...SHOP, requestsPerMinute: '60' }],
      /sellers\[0\].requestsPerMinute is missing or no number/,
    ],
    [
      'a fraction of a request',
      [{ ...SHOP, requestsPerMinute: 0.5 }],
      /sellers\[0\].requestsPerMinute "0.5" is no whole number/,
    ],
    ['a bad name', [{ ...SHOP, name: '../x' }], /sellers\[0\].name "..\/x" is no seller name/],
    [
      'a bad address',
      [{ ...SHOP, url: 'http://a.example' }],
      /sellers\[0\].url "http:\/\/a.example" would get the API key unencrypted/,
    ],
    [
      'no key',
      [{ name: 'a', url: 'https://a.example' }],
      /sellers\[0\] has no key: add keyFile or keyEnv/,
    ],
    [
      'two keys',
      [{ ...SHOP, keyFile: 'x' }],
      /sellers\[0\].keyFile and SELLERS_FILE sellers\[0\].keyEnv are both given/,
    ],
    [
      'a variable that is not set',
      [{ ...SHOP, keyEnv: 'NOPE' }],
      /sellers\[0\] takes its key from the variable NOPE, which is not set: set NOPE in/,
    ],
    [
      'what may be the key itself in the place of a variable',
      [{ ...SHOP, keyEnv: 'k3y0123456789abcdef0123456789' }],
      /sellers\[0\] has a keyEnv that names no variable: name the variable (?!.*k3y0123)/,
    ],
    [
      'a key file that is not there',
      [{ ...SHOP, keyEnv: undefined, keyFile: 'nope.key' }],
      /sellers\[0\].keyFile "nope.key" can't be read \(ENOENT\)/,
    ],
    [
      'a placement nobody knows',
      [{ ...SHOP, parameters: 'form' }],
      /sellers\[0\].parameters "form" is not known/,
    ],
    [
      'a header no request can have',
      [{ ...SHOP, keyHeader: 'a b' }],
      /sellers\[0\].keyHeader "a b" is no name/,
    ],
    [
      'a seller that is no object',
      ['shop' as unknown as object],
      /sellers\[0\] is missing or no object/,
    ],
    ['an empty list', [], /lists no seller/],
  ];
  it.each(cases)('is named with its place: %s', (_, sellers, expected) => {
    expect(folder.problems(withSellers(...sellers))).toContainEqual(
      expect.stringMatching(expected),
    );
  });

  it.each([
    ['no JSON', '{ "sellers": [ { "key": "plain-secret-1" ', /is not valid JSON/],
    [
      'a bare list',
      '[{"name":"a"}]',
      /^SELLERS_FILE ".*sellers.json" is no object: .*{"sellers": \[…\]}/,
    ],
    ['JSON of another shape', '"sellers"', /^SELLERS_FILE ".*sellers.json" is no object/],
    ['without sellers', '{"seller": []}', /did you mean sellers\?/],
  ])('includes a file that is %s', (_, text, expected) => {
    folder.write('sellers.json', text);
    const problems = folder.problems({ SELLERS_FILE: 'sellers.json' });
    expect(problems).toContainEqual(expect.stringMatching(expected));
    expect(problems.join()).not.toContain('plain-secret-1');
  });

  it('includes a file that is not there', () => {
    expect(folder.problems({ SELLERS_FILE: 'nope.json' })).toEqual([
      expect.stringMatching(/^SELLERS_FILE ".*nope.json" can't be read \(ENOENT\)/),
    ]);
  });
});
