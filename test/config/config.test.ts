import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ONE_SELLER, useFolder } from './folder.js';

const folder = useFolder();

describe('a configuration that is right', () => {
  it('needs only address and key; all else has a default', () => {
    const config = folder.read(ONE_SELLER);
    expect(config).toMatchObject({
      sellers: [
        {
          name: 'main',
          requestsPerMinute: 60,
          carriage: { placement: 'default', keyHeader: null },
        },
      ],
      databaseUrl: null,
      dataDir: join(folder.path(), 'data'),
      allowPlainHttp: false,
      removalGuard: { items: 10, percent: 20 },
      lookupsPerRun: 100,
      logLevel: 'info',
      warnings: [],
    });
    expect(config.sellers[0]?.url.href).toBe('https://market.example/');
    expect(config.sellers[0]?.key.reveal()).toBe('key-0123456789abcdef');
  });

  it('takes every setting that is given', () => {
    const config = folder.read({
      ...ONE_SELLER,
      SELLER_NAME: 'shop.2_B-c',
      DATABASE_URL: 'postgresql://me:pw@db:5432/mirror',
      DATA_DIR: 'elsewhere',
      REQUESTS_PER_MINUTE: '0',
      MARKETPLACE_PARAMETERS: 'JSON',
      MARKETPLACE_KEY_HEADER: 'X-Api-Key',
      ALLOW_PLAIN_HTTP: 'yes',
      REMOVAL_GUARD_ITEMS: '0',
      REMOVAL_GUARD_PERCENT: '100',
      LOOKUPS_PER_RUN: '5',
      LOG_LEVEL: 'Debug',
    });
    expect(config.databaseUrl?.reveal()).toBe('postgresql://me:pw@db:5432/mirror');
    expect(config).toMatchObject({
      sellers: [
        {
          name: 'shop.2_B-c',
          requestsPerMinute: 0,
          carriage: { placement: 'json', keyHeader: 'X-Api-Key' },
        },
      ],
      dataDir: join(folder.path(), 'elsewhere'),
      allowPlainHttp: true,
      removalGuard: { items: 0, percent: 100 },
      lookupsPerRun: 5,
      logLevel: 'debug',
    });
  });

  it('may have no seller when only the store is needed, for status and sql', () => {
    expect(folder.read({}, 'store').sellers).toEqual([]);
  });

  it('treats an empty value as not set, because Compose passes unset variables so', () => {
    expect(folder.read({ ...ONE_SELLER, LOG_LEVEL: '', SELLERS_FILE: ' ' }).logLevel).toBe('info');
  });

  it.each([
    'postgres://db/mirror',
    'postgresql://me:p%40ss@[::1]:5432/mirror?sslmode=require',
    'postgresql:///mirror?host=/var/run/postgresql',
    'postgresql://me@/mirror?host=/var/run/postgresql',
  ])('accepts the database address %s, since PostgreSQL’s clients do', (DATABASE_URL) => {
    expect(folder.read({ DATABASE_URL }, 'store').databaseUrl?.reveal()).toBe(DATABASE_URL);
  });

  it.each([
    ['http://localhost:8080', 'localhost:8080'],
    ['http://127.0.0.1:1/shop', '127.0.0.1:1'],
    ['http://[::1]:9', '[::1]:9'],
  ])('allows plain http to %s, where nobody listens in', (MARKETPLACE_URL, host) => {
    expect(folder.read({ ...ONE_SELLER, MARKETPLACE_URL }).sellers[0]?.url.host).toBe(host);
  });

  it('allows plain http elsewhere when that was asked for', () => {
    const env = { ...ONE_SELLER, MARKETPLACE_URL: 'http://shop.lan', ALLOW_PLAIN_HTTP: 'true' };
    expect(folder.read(env).sellers).toHaveLength(1);
  });

  it('expands ~/ itself, because no shell does in .env', () => {
    expect(folder.read({ DATA_DIR: '~/mirror' }, 'store').dataDir).not.toContain('~');
  });
});

describe('.env', () => {
  it('is read when it is there, with BOM, CRLF, quotes and export', () => {
    folder.write(
      '.env',
      '\uFEFFMARKETPLACE_URL=https://dotenv.example\r\n# note\r\nexport MARKETPLACE_API_KEY="k e y"\r\n',
    );
    const config = folder.read({});
    expect(config.sellers[0]?.url.host).toBe('dotenv.example');
    expect(config.sellers[0]?.key.reveal()).toBe('k e y');
  });

  it('gives way to the real environment, and to an empty value there, so a setting can be taken back', () => {
    folder.write('.env', 'LOG_LEVEL=debug\nREQUESTS_PER_MINUTE=5\nSELLER_NAME=fromfile\n');
    const config = folder.read({ ...ONE_SELLER, LOG_LEVEL: 'warn', REQUESTS_PER_MINUTE: '' });
    expect(config.logLevel).toBe('warn');
    expect(config.sellers[0]).toMatchObject({ name: 'fromfile', requestsPerMinute: 60 });
  });

  it('that can’t be read is a problem, because silence would mean other settings', () => {
    mkdirSync(join(folder.path(), '.env'));
    expect(folder.problems(ONE_SELLER)).toEqual([expect.stringContaining('EISDIR')]);
  });
});

describe('what is wrong', () => {
  it('is reported all at once, each with setting, value and remedy', () => {
    const problems = folder.problems({
      MARKETPLACE_URL: 'market',
      REQUESTS_PER_MINUTE: 'sixty',
      LOG_LEVEL: 'loud',
      ALLOW_PLAIN_HTTP: 'maybe',
      REMOVAL_GUARD_PERCENT: '101',
      DATABASE_URL: 'mysql://x',
    });
    const names = problems.map((text) => text.split(' ')[0]);
    expect(new Set(names)).toEqual(
      new Set([
        'ALLOW_PLAIN_HTTP',
        'DATABASE_URL',
        'LOG_LEVEL',
        'MARKETPLACE_API_KEY',
        'MARKETPLACE_URL',
        'REMOVAL_GUARD_PERCENT',
        'REQUESTS_PER_MINUTE',
      ]),
    );
    expect(problems).toContain(
      'LOG_LEVEL "loud" is not known: choose one of info, trace, debug, warn, error, fatal, silent',
    );
  });

  const cases: readonly [string, NodeJS.ProcessEnv, RegExp][] = [
    ['no seller at all', { MARKETPLACE_URL: '' }, /^MARKETPLACE_URL is not set, so/],
    [
      'an address without a key',
      { MARKETPLACE_URL: 'https://a.example' },
      /^MARKETPLACE_API_KEY is not set/,
    ],
    [
      'a key without an address',
      { MARKETPLACE_API_KEY: 'abcdef' },
      /^MARKETPLACE_URL is not set, but/,
    ],
    [
      'two keys',
      { ...ONE_SELLER, MARKETPLACE_API_KEY_FILE: 'x' },
      /^MARKETPLACE_API_KEY_FILE and MARKETPLACE_API_KEY are both/,
    ],
    [
      'two database addresses',
      { ...ONE_SELLER, DATABASE_URL: 'postgres://a/b', DATABASE_URL_FILE: 'x' },
      /^DATABASE_URL_FILE and DATABASE_URL are both/,
    ],
    [
      'a scheme that is not the web’s',
      { ...ONE_SELLER, MARKETPLACE_URL: 'ftp://a.example' },
      /no web address/,
    ],
    [
      'a user name in the address',
      { ...ONE_SELLER, MARKETPLACE_URL: 'https://me:pw@a.example' },
      /user name or password/,
    ],
    [
      'a query in the address',
      { ...ONE_SELLER, MARKETPLACE_URL: 'https://a.example/?api_key=1' },
      /query or fragment/,
    ],
    [
      'an empty query in the address',
      { ...ONE_SELLER, MARKETPLACE_URL: 'https://a.example/?' },
      /query or fragment/,
    ],
    [
      'plain http to another machine',
      { ...ONE_SELLER, MARKETPLACE_URL: 'http://a.example' },
      /unencrypted: use https/,
    ],
    [
      'plain http to a name that only begins like this machine',
      { ...ONE_SELLER, MARKETPLACE_URL: 'http://127.0.0.1.a.example' },
      /unencrypted/,
    ],
    [
      'a seller name with a blank',
      { ...ONE_SELLER, SELLER_NAME: 'my shop' },
      /^SELLER_NAME "my shop" is no seller name/,
    ],
    ['a seller name of 64 letters', { ...ONE_SELLER, SELLER_NAME: 'a'.repeat(64) }, /^SELLER_NAME/],
    [
      'a negative number',
      { ...ONE_SELLER, LOOKUPS_PER_RUN: '-1' },
      /^LOOKUPS_PER_RUN "-1" is no whole number/,
    ],
    ['a fraction', { ...ONE_SELLER, REMOVAL_GUARD_ITEMS: '1.5' }, /^REMOVAL_GUARD_ITEMS "1.5"/],
    [
      'a number in hex',
      { ...ONE_SELLER, REMOVAL_GUARD_ITEMS: '0x10' },
      /^REMOVAL_GUARD_ITEMS "0x10"/,
    ],
    [
      'a placement nobody knows',
      { ...ONE_SELLER, MARKETPLACE_PARAMETERS: 'cookie' },
      /^MARKETPLACE_PARAMETERS "cookie"/,
    ],
    [
      'a header name with a colon',
      { ...ONE_SELLER, MARKETPLACE_KEY_HEADER: 'X-Key:' },
      /no name of a header/,
    ],
    [
      'a header every request uses',
      { ...ONE_SELLER, MARKETPLACE_KEY_HEADER: 'Host' },
      /every request uses already/,
    ],
    [
      'a key no header can carry',
      { ...ONE_SELLER, MARKETPLACE_API_KEY: 'ключ-ключ', MARKETPLACE_KEY_HEADER: 'X-Key' },
      /no request header can carry/,
    ],
    [
      'a key of two lines',
      { ...ONE_SELLER, MARKETPLACE_API_KEY: 'abcd\nefgh' },
      /^MARKETPLACE_API_KEY holds line breaks/,
    ],
    [
      'a database password with a bare slash',
      { ...ONE_SELLER, DATABASE_URL: 'postgres://me:a/b@db:5432/x' },
      /^DATABASE_URL can’t be read/,
    ],
    [
      'a database password with a bare #',
      { ...ONE_SELLER, DATABASE_URL: 'postgres://me:a@db/x#y' },
      /%23/,
    ],
    [
      'a sellers file beside a single seller',
      { ...ONE_SELLER, SELLERS_FILE: 'none.json' },
      /^SELLERS_FILE and MARKETPLACE_URL are both set/,
    ],
  ];
  it.each(cases)('names %s and what to do', (_, env, expected) => {
    expect(folder.problems(env)).toContainEqual(expect.stringMatching(expected));
  });

  it('is a data folder that is a file', () => {
    folder.write('data', '');
    expect(folder.problems({}, 'store')).toEqual([
      expect.stringMatching(/^DATA_DIR ".\/data" is no folder/),
    ]);
  });

  it('must be right even where it is not needed, so that it is found before the night', () => {
    expect(folder.problems({ MARKETPLACE_URL: 'nonsense' }, 'store')).toHaveLength(2);
  });
});

describe('key and address files', () => {
  it('are read without their line ends, relative to the folder', () => {
    folder.write('key', '\uFEFFfile-key-12345\r\n');
    folder.write('db', 'postgresql://me:pw@db/mirror\n');
    const config = folder.read({
      MARKETPLACE_URL: 'https://a.example',
      MARKETPLACE_API_KEY_FILE: 'key',
      DATABASE_URL_FILE: 'db',
    });
    expect(config.sellers[0]?.key.reveal()).toBe('file-key-12345');
    expect(config.databaseUrl?.reveal()).toBe('postgresql://me:pw@db/mirror');
    expect(config.warnings).toEqual([]);
  });

  it.each([
    ['missing', null, /can't be read \(ENOENT\)/],
    ['empty', ' \n', /is an empty file/],
    ['of several lines', 'abc\ndef', /line breaks/],
    ['larger than any key', 'k'.repeat(70_000), /can't be read \(too large\)/],
  ])('that are %s are problems', (_, text, expected) => {
    if (text !== null) folder.write('key', text);
    const env = { MARKETPLACE_URL: 'https://a.example', MARKETPLACE_API_KEY_FILE: 'key' };
    expect(folder.problems(env)).toEqual([expect.stringMatching(expected)]);
  });

  it.skipIf(process.platform === 'win32')(
    'that every user can read bring a warning (modes of files need an operating system other than Windows)',
    () => {
      folder.write('key', 'file-key-12345', 0o644);
      const env = { MARKETPLACE_URL: 'https://a.example', MARKETPLACE_API_KEY_FILE: 'key' };
      const { warnings, exposedSecrets } = folder.read(env);
      expect(exposedSecrets).toEqual([
        `MARKETPLACE_API_KEY_FILE "key" can be read by every user of this machine: run chmod 600 ${folder.path()}/key`,
      ]);
      expect(warnings).toEqual([]);
    },
  );

  it.skipIf(process.platform === 'win32').each([
    ['the key', 'MARKETPLACE_API_KEY=key-0123456789', 'MARKETPLACE_API_KEY'],
    ['a database’s password', 'DATABASE_URL=postgres://a:pw@db/x', 'DATABASE_URL'],
    ['a key that the sellers file names', 'SHOP_KEY=key-0123456789', 'SHOP_KEY'],
    ['a path and an address without a password', 'DATABASE_URL=postgres:///x\nTZ=UTC', null],
  ])(
    'as .env itself bring a warning when everybody can read it and it holds %s',
    (_, text, held) => {
      const sellers = [{ name: 'shop', url: 'https://a.example', keyEnv: 'SHOP_KEY' }];
      folder.write('sellers.json', JSON.stringify({ sellers }));
      folder.write('.env', `${text}\n`, 0o644);
      const env = {
        ...(held === 'MARKETPLACE_API_KEY'
          ? { MARKETPLACE_URL: 'https://a.example' }
          : { SELLERS_FILE: 'sellers.json' }),
        ...(held === 'SHOP_KEY' || held === 'MARKETPLACE_API_KEY' ? {} : { SHOP_KEY: 'x' }),
      };
      expect(folder.read(env).exposedSecrets).toEqual(
        held === null
          ? []
          : [
              `.env holds ${held} and can be read by every user of this machine: run chmod 600 ${folder.path()}/.env`,
            ],
      );
      folder.write('.env', `${text}\n`);
      expect(folder.read(env).exposedSecrets).toEqual([]);
    },
  );
});

describe('names that are almost settings', () => {
  it.each([
    ['MARKETPLACE_APIKEY', /did you mean MARKETPLACE_API_KEY\?/],
    ['MARKETPLACE_KEY', /MARKETPLACE_/],
    ['DATABASE_URI', /did you mean DATABASE_URL\?/],
    ['marketplace_url', /did you mean MARKETPLACE_URL\?/],
    ['SELLER_FILE', /did you mean SELLERS_FILE\?/],
    ['REQUEST_PER_MINUTE', /did you mean REQUESTS_PER_MINUTE\?/],
    ['REMOVAL_GUARD', /is no setting/],
  ])('bring a warning: %s', (name, expected) => {
    const { warnings } = folder.read({ [name]: 'x' }, 'store');
    expect(warnings).toEqual([expect.stringMatching(expected)]);
  });

  it('do not include what any shell or tool sets, because false alarms teach people to ignore them', () => {
    const names = [
      'PATH',
      'HOME',
      'PWD',
      'LANG',
      'NODE_ENV',
      'DATABASE',
      'LOGNAME',
      'PGHOST',
      'POSTGRES_PASSWORD',
      'npm_config_cache',
      'LS_COLORS',
      'LOGLINES',
      'REDISCLI_AUTH',
      'WORKERS',
      'SHELL',
    ];
    const env = Object.fromEntries(names.map((name) => [name, 'x']));
    expect(folder.read(env, 'store').warnings).toEqual([]);
  });
});

it('warns of an address that ends in /api, which would be asked under /api/api', () => {
  const config = folder.read({ ...ONE_SELLER, MARKETPLACE_URL: 'https://a.example/api/' });
  expect(config.warnings).toEqual([expect.stringContaining('ends in /api')]);
});
