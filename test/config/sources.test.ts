import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ONE_SELLER, useFolder } from './folder.js';

const folder = useFolder();

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

describe('key and address files', () => {
  it('are read without their line ends, relative to the folder', () => {
    folder.write('key', '\uFEFFfile-key-12345\r\n');
    folder.write('db', 'postgresql://me:pw@db/mirror\n');
    folder.write('redis', 'redis-cluster://:pw@a:1,b:2\n');
    folder.write('url', 'https://hooks.example/t\n');
    folder.write('secret', `whsec_${'a'.repeat(32)}\n`);
    const config = folder.read({
      MARKETPLACE_URL: 'https://a.example',
      ...{ MARKETPLACE_API_KEY_FILE: 'key', DATABASE_URL_FILE: 'db', REDIS_URL_FILE: 'redis' },
      ...{ ALERT_WEBHOOK_URL_FILE: 'url', ALERT_WEBHOOK_SECRET_FILE: 'secret' },
    });
    expect(config.redis).toMatchObject({ mode: 'cluster', nodes: [{ host: 'a' }, { host: 'b' }] });
    expect(config.alerts?.url.reveal()).toBe('https://hooks.example/t');
    expect(config.alerts?.secret.reveal()).toBe(`whsec_${'a'.repeat(32)}`);
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
    ['WORKER_CONCURENCY', /did you mean WORKER_CONCURRENCY\?/],
    ['REDIS_URI', /did you mean REDIS_URL\?/],
    ['ALERT_WEBHOOK', /is no setting/],
    ['ALERTS_WEBHOOK_URL', /did you mean ALERT_WEBHOOK_URL\?/],
    ['SYNC_CORN', /did you mean SYNC_CRON\?/],
  ])(
    'bring a warning, because a setting that does nothing fails silently: %s',
    (name, expected) => {
      const { warnings } = folder.read({ [name]: 'x' }, 'store');
      expect(warnings).toEqual([expect.stringMatching(expected)]);
    },
  );

  it('do not include what any shell or tool sets, because false alarms teach people to ignore them', () => {
    const names = [
      ...['PATH', 'HOME', 'PWD', 'LANG', 'NODE_ENV', 'DATABASE', 'LOGNAME', 'PGHOST', 'SHELL'],
      ...['POSTGRES_PASSWORD', 'npm_config_cache', 'LS_COLORS', 'LOGLINES', 'REDISCLI_AUTH'],
      'WORKERS',
    ];
    const env = Object.fromEntries(names.map((name) => [name, 'x']));
    expect(folder.read(env, 'store').warnings).toEqual([]);
  });
});
