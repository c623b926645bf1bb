import { describe, expect, it } from 'vitest';
import { useFolder } from './folder.js';

const folder = useFolder();

const SHOP = { name: 'shop', url: 'https://a.example', keyEnv: 'SHOP_KEY' };

function withSellers(...sellers: readonly object[]): NodeJS.ProcessEnv {
  folder.write('sellers.json', JSON.stringify({ sellers }));
  return { SELLERS_FILE: 'sellers.json', SHOP_KEY: 'shop-key-1234', OTHER_KEY: 'other-key-1234' };
}

describe('the sellers file', () => {
  it('lists several sellers, each with its own key, limits and parameters', () => {
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

  it('is read again while a service runs; with a fault the sellers stay as they were', () => {
    const env = withSellers(SHOP);
    const config = folder.read(env);
    const { secrets } = config;
    const names = () => config.sellers.map(({ name }) => name);
    withSellers(SHOP, { name: 'other', url: 'https://b.example', keyEnv: 'OTHER_KEY' });
    expect(folder.reread(config, env)).toEqual({ problems: [], added: ['other'], removed: [] });
    expect(names()).toEqual(['shop', 'other']);
    // The log masks the new key, too: it holds this very list.
    expect(secrets.map((secret) => secret.reveal())).toContain('other-key-1234');
    folder.write('sellers.json', '{"sellers": [');
    expect(folder.reread(config, env)?.problems).toHaveLength(1);
    expect(names()).toEqual(['shop', 'other']);
    withSellers({ ...SHOP, url: 'ftp://a.example' });
    expect(folder.reread(config, env)?.problems[0]).toMatch(/sellers\[0\]\.url|url/);
    withSellers(SHOP);
    expect(folder.reread(config, env)).toEqual({ problems: [], added: [], removed: ['other'] });
    expect(folder.reread(config, { ...env, SELLERS_FILE: '' })).toBeNull();
  });

  it('may take a key from a variable with the name of a setting, without a warning', () => {
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

  it('can’t be set beside the key of a single seller', () => {
    const env = { ...withSellers(SHOP), MARKETPLACE_API_KEY: 'unused-key' };
    expect(folder.problems(env)).toEqual([
      'MARKETPLACE_API_KEY is set, and so is SELLERS_FILE: keep one of them',
    ]);
  });

  it('gives sellers of one host the lowest of their limits, because they share its budget', () => {
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

describe('a problem in the sellers file', () => {
  it.each<[object, RegExp]>([
    [
      { request_per_minute: 1 },
      / has the unknown field "request_per_minute": the fields are .*requestsPerMinute/,
    ],
    [{ colour: 1 }, / has the unknown field "colour": the fields are name, url/],
    [{ api_key: 'plain-secret-1' }, / has the unknown field "api_key": .*keyFile, keyEnv/],
    [{ url: undefined }, /\.url is missing or of another type: write it as string/],
    [{ url: 'http://a.example' }, /\.url would get the API key unencrypted/],
    [
      { requestsPerMinute: '60' },
      /\.requestsPerMinute is missing or of another type: write it as number/,
    ],
    [{ requestsPerMinute: 0.5 }, /\.requestsPerMinute is not a whole number/],
    [{ name: '../x' }, /\.name is not a seller name/],
    [{ keyEnv: undefined }, / has no key: add keyFile or keyEnv/],
    [{ keyFile: 'x' }, /\.keyFile and SELLERS_FILE sellers\[0\].keyEnv are both set/],
    [{ keyEnv: 'NOPE' }, / has a keyEnv that names no variable in the environment or in \.env/],
    // This may be the key itself, so the message does not show it.
    [
      { keyEnv: 'k3y0123456789abcdef0123456789' },
      / has a keyEnv that names no variable (?!.*k3y0123)/,
    ],
    [{ keyEnv: undefined, keyFile: 'no.key' }, /\.keyFile can’t be read \(ENOENT\)/],
    [{ parameters: 'form' }, /\.parameters is not known/],
    [{ keyHeader: 'a b' }, /\.keyHeader is not the name/],
    [{ syncCron: '0' }, /\.syncCron has 1 field instead/],
    [{ accountCron: '1 2 3' }, /\.accountCron has 3 fields/],
    [{ timeZone: 'Europe/Berln' }, /\.timeZone is not a time zone: .* Europe\/Berlin\?/],
    [{ syncCron: 5 }, /\.syncCron is missing or of another type/],
  ])('is reported with its position: %j', (fields, expected) => {
    const [problem, ...others] = folder.problems(withSellers({ ...SHOP, ...fields }));
    expect(problem).toMatch(/^SELLERS_FILE sellers\[0\]/);
    expect(problem).toMatch(expected);
    expect(others).toEqual([]);
  });

  it('is reported for all sellers, even if one has the wrong shape', () => {
    const bad = { ...SHOP, syncCron: '0', timeZone: 'Mars/Olympus', keyEnv: 'NOPE' };
    const problems = folder.problems(
      withSellers({ ...SHOP, url: 1 }, { ...bad, name: 'two' }, { ...bad, name: '' }),
    );
    expect(problems.filter((text) => text.includes('sellers[0]'))).toHaveLength(1);
    expect(problems.filter((text) => text.includes('sellers[1]'))).toHaveLength(3);
    expect(problems.filter((text) => text.includes('sellers[2]'))).toHaveLength(4);
  });

  it('may be a duplicate name, an entry of another type, or an empty list', () => {
    expect(folder.problems(withSellers(SHOP, SHOP))).toEqual([
      expect.stringMatching(/sellers\[1\].name is also the name of SELLERS_FILE sellers\[0\]/),
    ]);
    expect(folder.problems(withSellers('shop' as unknown as object))).toEqual([
      expect.stringMatching(/sellers\[0\] is missing or of another type: write it as object/),
    ]);
    expect(folder.problems(withSellers())).toEqual([expect.stringMatching(/lists no seller/)]);
  });

  it.each([
    ['no JSON', '{ "sellers": [ { "key": "plain-secret-1" ', /is not valid JSON/],
    ['a bare list', '[{"name":"a"}]', /^SELLERS_FILE is not an object: .*{"sellers": \[…\]}/],
    ['JSON of another shape', '"sellers"', /^SELLERS_FILE is not an object/],
    ['without sellers', '{"seller": []}', /the fields are sellers$/],
  ])('may be a file that is %s', (_, text, expected) => {
    folder.write('sellers.json', text);
    const problems = folder.problems({ SELLERS_FILE: 'sellers.json' });
    expect(problems).toContainEqual(expect.stringMatching(expected));
    expect(problems.join()).not.toContain('plain-secret-1');
  });

  it('may be a missing file', () => {
    expect(folder.problems({ SELLERS_FILE: 'nope.json' })).toEqual([
      expect.stringMatching(/^SELLERS_FILE can’t be read \(ENOENT\)/),
    ]);
  });
});

describe('a seller of the file', () => {
  it('may have its own schedule, field by field', () => {
    const env = withSellers(
      SHOP,
      { ...SHOP, name: 'two', syncCron: '0 5 * * *', timeZone: 'Asia/Tokyo' },
      { ...SHOP, name: 'three', syncCron: 'off', accountCron: '30 * * * *' },
      { ...SHOP, name: 'four', accountCron: 'off' },
    );
    const common = { ACCOUNT_CRON: '0 * * * *', TZ: 'Europe/Berlin' };
    expect(folder.read({ ...env, ...common }).sellers).toMatchObject([
      { syncCron: '0 2 * * *', accountCron: '0 * * * *', timeZone: 'Europe/Berlin' },
      { syncCron: '0 5 * * *', accountCron: '0 * * * *', timeZone: 'Asia/Tokyo' },
      { syncCron: null, accountCron: '30 * * * *', timeZone: 'Europe/Berlin' },
      { syncCron: '0 2 * * *', accountCron: null, timeZone: 'Europe/Berlin' },
    ]);
  });
});
