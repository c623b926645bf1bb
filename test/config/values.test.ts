import { describe, expect, it } from 'vitest';
import type { Config } from '../../src/config/index.js';
import { ONE_SELLER, useFolder } from './folder.js';

const folder = useFolder();

const SECRET = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`;
const WEBHOOK = { ALERT_WEBHOOK_URL: 'https://hooks.example/t/0', ALERT_WEBHOOK_SECRET: SECRET };
const MAIL = { ALERT_EMAIL: 'a@b.example', SMTP_URL: 'smtp://mail.example' };
const MACHINE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The configuration of one seller with these settings. */
const read = (env: NodeJS.ProcessEnv = {}): Config => folder.read({ ...ONE_SELLER, ...env });
const problems = (env: NodeJS.ProcessEnv) => folder.problems({ ...ONE_SELLER, ...env });
const sellerOf = (env: NodeJS.ProcessEnv) => read(env).sellers[0];
const base64 = (count: number): string => Buffer.alloc(count, 7).toString('base64');

describe('a valid configuration', () => {
  it('needs only address and key; the defaults suit one machine', () => {
    const config = read();
    expect(config).toMatchObject({
      sellers: [
        {
          name: 'main',
          requestsPerMinute: 60,
          carriage: { placement: 'default', keyHeader: null },
          listMarks: 'check',
          syncCron: '0 2 * * *',
          accountCron: null,
          auditCron: null,
          timeZone: MACHINE,
        },
      ],
      databaseUrl: null,
      dataDir: '/srv/shop/data',
      allowPlainHttp: false,
      maxListBytes: 512 * 1024 * 1024,
      removalGuard: { items: 10, percent: 20 },
      lookupsPerRun: 100,
      redis: null,
      queuePrefix: 'seller-mirror',
      workerConcurrency: 4,
      catchUp: true,
      shutdownTimeoutMs: 30_000,
      keepJobsDays: 7,
      staleAfterHours: 26,
      alertWebhook: null,
      alertMail: null,
      recheck: { share: 0.25, olderThanDays: 30 },
      retention: { raw: null, runs: null, versions: null, audits: null },
      health: { host: '127.0.0.1', port: 8790, chosen: false },
      logLevel: 'info',
      logFormat: 'auto',
      warnings: [],
    });
    expect(config.sellers[0]?.url.href).toBe('https://market.example/');
    expect(config.sellers[0]?.key.reveal()).toBe('key-0123456789abcdef');
  });

  it('uses every setting', () => {
    const config = read({
      SELLER_NAME: 'shop.2_B-c',
      REQUESTS_PER_MINUTE: '0',
      MARKETPLACE_PARAMETERS: 'JSON',
      MARKETPLACE_KEY_HEADER: 'X-Api-Key',
      ALLOW_PLAIN_HTTP: 'yes',
      LIST_MARKS: 'ignore',
      MAX_LIST_MB: '2',
      DATA_DIR: 'elsewhere',
      SYNC_CRON: '*/5 1 * * 1-5',
      ACCOUNT_CRON: ' 0 * * * * ',
      AUDIT_CRON: '0 4 * * 0',
      TZ: 'Europe/Berlin',
      AUDIT_SHARE: '100',
      AUDIT_OLDER_THAN_DAYS: '1',
      DATABASE_URL: 'postgresql://me:pw@db:5432/mirror',
      REMOVAL_GUARD_ITEMS: '0',
      REMOVAL_GUARD_PERCENT: '100',
      LOOKUPS_PER_RUN: '5',
      REDIS_URL: 'rediss://:pw@cache',
      QUEUE_PREFIX: 'shop.2_B-c',
      WORKER_CONCURRENCY: '100',
      CATCH_UP: 'no',
      SHUTDOWN_TIMEOUT: '0',
      KEEP_JOBS_DAYS: '365',
      STALE_AFTER_HOURS: '1',
      KEEP_RAW_DAYS: '1',
      KEEP_RUNS_DAYS: '2',
      KEEP_VERSIONS_DAYS: '3',
      KEEP_AUDITS_DAYS: '4',
      HEALTH_LISTEN: 'localhost:80',
      LOG_LEVEL: 'Debug',
      LOG_FORMAT: 'JSON',
      ...WEBHOOK,
    });
    expect(config).toMatchObject({
      sellers: [
        {
          name: 'shop.2_B-c',
          requestsPerMinute: 0,
          carriage: { placement: 'json', keyHeader: 'X-Api-Key' },
          listMarks: 'ignore',
          syncCron: '*/5 1 * * 1-5',
          accountCron: '0 * * * *',
          auditCron: '0 4 * * 0',
          timeZone: 'Europe/Berlin',
        },
      ],
      dataDir: '/srv/shop/elsewhere',
      allowPlainHttp: true,
      maxListBytes: 2 * 1024 * 1024,
      removalGuard: { items: 0, percent: 100 },
      lookupsPerRun: 5,
      recheck: { share: 1, olderThanDays: 1 },
      redis: { tls: true },
      queuePrefix: 'shop.2_B-c',
      workerConcurrency: 100,
      catchUp: false,
      shutdownTimeoutMs: 0,
      keepJobsDays: 365,
      staleAfterHours: 1,
      retention: { raw: 1, runs: 2, versions: 3, audits: 4 },
      health: { host: 'localhost', port: 80, chosen: true },
      logLevel: 'debug',
      logFormat: 'json',
      warnings: [],
    });
    expect(config.databaseUrl?.reveal()).toBe('postgresql://me:pw@db:5432/mirror');
    expect(config.redis?.password?.reveal()).toBe('pw');
    expect(config.alertWebhook?.url.reveal()).toBe(WEBHOOK.ALERT_WEBHOOK_URL);
    expect(config.alertWebhook?.secret?.reveal()).toBe(SECRET);
  });

  it('may have no seller if only the store is needed, as for status and sql', () => {
    expect(folder.read({}, 'store').sellers).toEqual([]);
  });

  it('treats an empty value as not set, because Compose passes unset variables as empty', () => {
    expect(read({ LOG_LEVEL: '', SELLERS_FILE: ' ' }).logLevel).toBe('info');
  });

  it.each([
    'postgres://db/mirror',
    'postgresql://me:p%40ss@[::1]:5432/mirror?sslmode=require',
    'postgresql:///mirror?host=/var/run/postgresql',
    'postgresql://me@/mirror?host=/var/run/postgresql',
  ])('accepts the database address %s, like PostgreSQL’s clients', (DATABASE_URL) => {
    expect(read({ DATABASE_URL }).databaseUrl?.reveal()).toBe(DATABASE_URL);
  });

  it.each([
    ['http://localhost:8080', 'localhost:8080'],
    ['http://127.0.0.1:1/shop', '127.0.0.1:1'],
    ['http://[::1]:9', '[::1]:9'],
  ])('allows plain http to %s, which is this machine', (MARKETPLACE_URL, host) => {
    expect(sellerOf({ MARKETPLACE_URL })?.url.host).toBe(host);
  });

  it('allows plain http to other machines with ALLOW_PLAIN_HTTP', () => {
    const env = { MARKETPLACE_URL: 'http://shop.lan', ALERT_WEBHOOK_URL: 'http://hooks.lan' };
    const { sellers, alertWebhook } = read({ ...WEBHOOK, ...env, ALLOW_PLAIN_HTTP: 'true' });
    expect([sellers.length, alertWebhook?.url.reveal()]).toEqual([1, 'http://hooks.lan']);
  });

  it('expands ~/ itself, because no shell does in .env', () => {
    expect(read({ DATA_DIR: '~/mirror' }).dataDir).not.toContain('~');
  });

  it('may switch schedules off', () => {
    const off = { SYNC_CRON: 'Off', ACCOUNT_CRON: 'off', AUDIT_CRON: 'OFF' };
    expect(sellerOf(off)).toMatchObject({ syncCron: null, accountCron: null, auditCron: null });
  });

  it('brings a warning about an address that ends in /api, which requests add again', () => {
    const { warnings } = read({ MARKETPLACE_URL: 'https://a.example/api/' });
    expect(warnings).toEqual([expect.stringContaining('ends in /api')]);
  });
});

describe('a wrong configuration', () => {
  it('is reported completely, with setting and remedy, and without its value, even for settings not needed now', () => {
    const env = {
      MARKETPLACE_URL: 'market',
      REQUESTS_PER_MINUTE: 'sixty',
      LOG_LEVEL: 'loud',
      ALLOW_PLAIN_HTTP: 'maybe',
      REMOVAL_GUARD_PERCENT: '101',
      DATABASE_URL: 'mysql://x',
      SYNC_CRON: '0 2',
      ACCOUNT_CRON: 'hourly',
      TZ: 'Mars/Olympus',
    };
    const found = folder.problems(env, 'store');
    const names = [...Object.keys(env), 'MARKETPLACE_API_KEY'];
    expect(found).toHaveLength(names.length);
    expect(new Set(found.map((text) => text.split(' ')[0]))).toEqual(new Set(names));
    expect(found).toEqual(
      expect.arrayContaining([
        'LOG_LEVEL is not known: choose one of info, trace, debug, warn, error, fatal, silent',
        'SYNC_CRON has 2 fields instead of 5 (or 6, with seconds first): write minute, hour, day, month and weekday, such as 0 2 * * *, or off',
        'TZ is not a time zone: give an IANA name such as Europe/Berlin',
        'REMOVAL_GUARD_PERCENT is not a whole number in range: give a number from 0 to 100',
      ]),
    );
  });

  it.each<[NodeJS.ProcessEnv, RegExp]>([
    [{}, /^MARKETPLACE_URL is not set, so/],
    [{ MARKETPLACE_URL: 'https://a.example' }, /^MARKETPLACE_API_KEY is not set/],
    [{ MARKETPLACE_API_KEY: 'abcdef' }, /^MARKETPLACE_URL is not set, but/],
    [
      { ...ONE_SELLER, MARKETPLACE_API_KEY_FILE: 'x' },
      /^MARKETPLACE_API_KEY_FILE and MARKETPLACE_API_KEY are both/,
    ],
    [
      { ...ONE_SELLER, SELLERS_FILE: 'none.json' },
      /^MARKETPLACE_URL is set, and so is SELLERS_FILE/,
    ],
    [
      { DATABASE_URL: 'postgres://a/b', DATABASE_URL_FILE: 'x' },
      /^DATABASE_URL_FILE and DATABASE_URL are both/,
    ],
    [
      { REDIS_URL: 'redis://a', REDIS_URL_FILE: 'x' },
      /^REDIS_URL_FILE and REDIS_URL are both set: keep one of them$/,
    ],
    [
      { ...ONE_SELLER, MARKETPLACE_API_KEY: 'ключ-ключ', MARKETPLACE_KEY_HEADER: 'X-Key' },
      /no request header can carry/,
    ],
  ])('is reported with a remedy: %j', (env, expected) => {
    expect(folder.problems(env)).toContainEqual(expect.stringMatching(expected));
  });

  it.each<[name: string, values: readonly string[], problem: RegExp, more?: NodeJS.ProcessEnv]>([
    ['MARKETPLACE_URL', ['ftp://a.example'], /not a web address/],
    ['MARKETPLACE_URL', ['https://me:pw@a.example'], /user name or password/],
    ['MARKETPLACE_URL', ['https://a.example/?'], /query or fragment/],
    // The second only looks like this machine.
    [
      'MARKETPLACE_URL',
      ['http://a.example', 'http://127.0.0.1.a.example'],
      /unencrypted: use http/,
    ],
    ['MARKETPLACE_API_KEY', ['abcd\nefgh'], /^MARKETPLACE_API_KEY has line breaks/],
    ['MARKETPLACE_PARAMETERS', ['cookie'], /is not known: choose one of default, query/],
    ['MARKETPLACE_KEY_HEADER', ['X-Key:'], /not the name of a header/],
    ['MARKETPLACE_KEY_HEADER', ['Host'], /every request already uses/],
    ['SELLER_NAME', ['my shop', 'a'.repeat(64)], /^SELLER_NAME is not a seller name/],
    ['DATABASE_URL', ['postgres://me:a/b@db:5432/x'], /^DATABASE_URL can’t be read/],
    ['DATABASE_URL', ['postgres://me:a@db/x#y'], /%23/],
    ['LOOKUPS_PER_RUN', ['-1', '1.5', '0x10', '30s'], /^LOOKUPS_PER_RUN is not a whole number/],
    ['SHUTDOWN_TIMEOUT', ['3601'], /from 0 to 3600$/],
    ['WORKER_CONCURRENCY', ['0', '101'], /from 1 to 100$/],
    ['KEEP_JOBS_DAYS', ['0', '366'], /from 1 to 365$/],
    ['KEEP_RAW_DAYS', ['0'], /from 1 to 36500$/],
    ['STALE_AFTER_HOURS', ['0'], /from 1 to 8760$/],
    ['QUEUE_PREFIX', ['a:b', '{a}', 'a'.repeat(64)], /^QUEUE_PREFIX is not a prefix for keys in R/],
    ['CATCH_UP', ['perhaps'], /^CATCH_UP is neither true nor false/],
    ['LOG_FORMAT', ['xml'], /^LOG_FORMAT is not known/],
    // Shows no part of the address.
    ['REDIS_URL', ['redis://me:hunter2@a/hunter2'], /names a database that is not a number: /],
    ['REDIS_URL', ['http://cache'], /^REDIS_URL is not an address of a Redis server: /],
    ['TZ', ['Europe/Berln', 'Berlin'], /^TZ is not a time zone: did you mean Europe\/Berlin\?$/],
    ['TZ', ['america-sao-paolo'], /: did you mean America\/Sao_Paulo\?$/],
    // These don't say when clocks change.
    ['TZ', ['CET-1CEST', '+02:00', '-0500', 'x', '/nowhere/zone'], /^TZ is not a time zone: give /],
    [
      'HEALTH_LISTEN',
      ['localhost', '::1:9', '[::1]', '[::x]:1', '*:9', 'a b:1', '65536', 'http://a:1'],
      /^HEALTH_LISTEN is not a host and port: write it as 127\.0\.0\.1:8790/,
    ],
    ['ALERT_WEBHOOK_SECRET', [''], /^ALERT_WEBHOOK_SECRET is not set, but .*whsec_/, WEBHOOK],
    ['ALERT_WEBHOOK_URL', ['hooks', 'ftp://hooks.example'], /is not a web address/, WEBHOOK],
    ['ALERT_WEBHOOK_URL', ['http://hooks.example'], /unencrypted: use https/, WEBHOOK],
    ['ALERT_WEBHOOK_URL', ['https://me:hunter2@a.example'], /user name or passw/, WEBHOOK],
    [
      'ALERT_WEBHOOK_SECRET',
      [
        ...[`whsec_${base64(23)}`, `whsec_${base64(65)}`, `whsk_${base64(32)}`, base64(32)],
        ...[`whsec_${base64(32).replace('B', '*')}`, 'correct horse battery staple'],
      ],
      /^ALERT_WEBHOOK_SECRET is not a Standard Webhooks secret/,
      WEBHOOK,
    ],
    [
      'ALERT_WEBHOOK_URL',
      ['https://t.org/bot42:t0ken/sendMessage', 'https://t.org/bot42:t0ken?chat_id=-1'],
      /^ALERT_WEBHOOK_URL has no bot or no chat/,
      { ALERT_FORMAT: 'telegram' },
    ],
    ['ALERT_WEBHOOK_URL', ['https://a.example/'], /has no topic/, { ALERT_FORMAT: 'ntfy' }],
    ['ALERT_EMAIL', ['a@b.example'], /^ALERT_EMAIL does nothing without SMTP_URL: set both/],
    [
      'ALERT_EMAIL',
      ['Bob <a@b.example>', 'a@b.example\nBcc: c@d.example'],
      /not a list of m/,
      MAIL,
    ],
    ['SMTP_URL', ['https://mail.example'], /^SMTP_URL is not the address of a mail/, MAIL],
    ['SMTP_URL', ['smtp://m.example?ignoreTLS=1'], /contains more than/, MAIL],
    ['SMTP_URL', ['smtp://m.example?from=me'], /has no mail address after/, MAIL],
  ])('has one problem with %s=%j', (name, values, expected, more = {}) => {
    for (const value of values) {
      const found = problems({ ...more, [name]: value });
      expect(found, value).toEqual([expect.stringMatching(expected)]);
      expect(found.join()).not.toMatch(/t0ken|hunter2/);
    }
  });

  it('has a problem with a data folder that is a file', () => {
    folder.write('data', '');
    expect(problems({})).toEqual([expect.stringMatching(/^DATA_DIR is not a folder/)]);
  });
});

it.each([
  ['UTC', 'UTC'],
  ['Asia/Kolkata', 'Asia/Kolkata'],
  ['europe/berlin', 'Europe/Berlin'],
  ['Etc/GMT+1', 'Etc/GMT+1'],
])('the time zone %s is read as %s', (TZ, timeZone) => {
  expect(sellerOf({ TZ })?.timeZone).toBe(timeZone);
});

it.each([
  ['HEALTH_LISTEN', ({ health }: Config) => health],
  ['DASHBOARD_LISTEN', ({ dashboard }: Config) => dashboard.listen],
  ['API_LISTEN', ({ api }: Config) => api.listen],
] as const)(
  '%s with only a port listens on this machine only, since other machines need a decision',
  (name, listenOf) => {
    const expected = { host: '127.0.0.1', port: 9000, chosen: true };
    expect(listenOf(read({ [name]: '9000' }))).toEqual(expected);
  },
);

it('ALERTS_OFF switches alerts off by their types; without it, none is off', () => {
  const off = read({ ALERTS_OFF: 'items.removed,audit.finished' }).alertsOff;
  expect(off.toSorted()).toEqual(['audit.finished', 'items.removed']);
  expect(read().alertsOff).toEqual([]);
});

describe('the health endpoints', () => {
  it.each([
    ['127.9.9.9:9000', '127.9.9.9', true],
    ['LOCALHOST:9000', 'localhost', true],
    ['[::1]:9000', '::1', true],
    [':9000', '127.0.0.1', true],
    ['0.0.0.0:9000', '0.0.0.0', false],
    ['[::]:9000', '::', false],
    ['mirror.lan:9000', 'mirror.lan', false],
  ])('at %s listen at %s; if others can reach that, there is a warning', (value, host, isOwn) => {
    const { health, warnings } = read({ HEALTH_LISTEN: value });
    expect(health).toEqual({ host, port: 9000, chosen: true });
    const warning = expect.stringMatching(/^HEALTH_LISTEN opens health and metrics/) as string;
    expect(warnings).toEqual(isOwn ? [] : [warning]);
  });

  it('can be switched off', () => {
    expect(read({ HEALTH_LISTEN: 'OFF' }).health).toBeNull();
  });
});

describe('alerts', () => {
  it('with an unreadable secret have only that problem', () => {
    const env = { ALERT_WEBHOOK_SECRET: '', ALERT_WEBHOOK_SECRET_FILE: 'nope' };
    expect(problems({ ...WEBHOOK, ...env })).toEqual([
      expect.stringMatching(/^ALERT_WEBHOOK_SECRET_FILE can’t/),
    ]);
  });

  it('without an address bring a warning', () => {
    const { alertWebhook, warnings } = read({ ALERT_WEBHOOK_SECRET: SECRET });
    expect(alertWebhook).toBeNull();
    expect(warnings).toEqual([
      expect.stringMatching(/^ALERT_WEBHOOK_SECRET does nothing without ALERT_WEBHOOK_URL/),
    ]);
  });

  it('go to other services without a signature, by an address with all that the service needs', () => {
    const bot = 'https://api.telegram.org/bot42:t0ken/sendMessage?chat_id=-1007';
    for (const [format, url] of [
      ...['slack', 'discord', 'ntfy'].map((one) => [one, WEBHOOK.ALERT_WEBHOOK_URL] as const),
      ['telegram', bot] as const,
    ]) {
      const { alertWebhook } = read({ ALERT_WEBHOOK_URL: url, ALERT_FORMAT: format });
      expect(alertWebhook).toMatchObject({ format, secret: null });
    }
  });

  it.each([
    ['smtps://me%40a.example:p%2Fw@mail.example', 465, true, 'me@a.example', 'p/w'],
    ['smtp://me%40a.example:pass-word@mail.example', 587, false, 'me@a.example', 'pass-word'],
    ['smtp://apikey:pass-word@mail.example:25?from=x@b.example', 25, false, 'x@b.example', null],
    ['smtp://mail.example', 587, false, 'you@shop.example', null],
  ])('are mailed through %s', (SMTP_URL, port, isTls, from, password) => {
    const { alertMail } = read({ SMTP_URL, ALERT_EMAIL: 'you@shop.example, she@shop.example' });
    expect(alertMail).toMatchObject({
      host: 'mail.example',
      port,
      isTls,
      from,
      mayBePlain: false,
      to: ['you@shop.example', 'she@shop.example'],
    });
    if (password !== null) expect(alertMail?.password?.reveal()).toBe(password);
  });

  it.each([
    ['localhost', {}, true],
    ['mail.example', {}, false],
    ['mail.example', { ALLOW_PLAIN_HTTP: 'true' }, true],
  ])('may be mailed without TLS to %s with %j: %s', (host, more, mayBePlain) => {
    const env = { SMTP_URL: `smtp://${host}`, ALERT_EMAIL: 'a@b.example', ...more };
    expect(read(env).alertMail?.mayBePlain).toBe(mayBePlain);
  });

  it.each([
    ...['http://localhost:9/t', 'http://127.0.0.1/t', 'http://[::1]/t', 'https://a.example/?t=1'],
  ])('are posted to %s', (url) => {
    expect(read({ ...WEBHOOK, ALERT_WEBHOOK_URL: url }).alertWebhook?.url.reveal()).toBe(url);
  });

  it.each([base64(24), base64(64), base64(32).replace(/=+$/, '')])('are signed with %s', (key) => {
    const secret = `whsec_${key}`;
    const { alertWebhook } = read({ ...WEBHOOK, ALERT_WEBHOOK_SECRET: secret });
    expect(alertWebhook?.secret?.reveal()).toBe(secret);
  });
});

describe('.env', () => {
  it('may have a BOM, CRLF, quotes and export', () => {
    folder.write(
      '.env',
      '\uFEFFMARKETPLACE_URL=https://dotenv.example\r\n# note\r\nexport MARKETPLACE_API_KEY="k e y"\r\n',
    );
    const config = folder.read({});
    expect(config.sellers[0]?.url.host).toBe('dotenv.example');
    expect(config.sellers[0]?.key.reveal()).toBe('k e y');
  });

  it('is overridden by the environment, where an empty value removes a setting', () => {
    folder.write('.env', 'LOG_LEVEL=debug\nREQUESTS_PER_MINUTE=5\nSELLER_NAME=fromfile\n');
    const config = folder.read({ ...ONE_SELLER, LOG_LEVEL: 'warn', REQUESTS_PER_MINUTE: '' });
    expect(config.logLevel).toBe('warn');
    expect(config.sellers[0]).toMatchObject({ name: 'fromfile', requestsPerMinute: 60 });
  });

  it.each<[text: string, warnings: RegExp[]]>([
    ['QUEUE_PREFIX=5f6c#0014', [/^QUEUE_PREFIX is cut at a # in \.env: put quotes around/]],
    ['export QUEUE_PREFIX = a#b # c', [/^QUEUE_PREFIX is cut at a #/]],
    ['QUEUE_PREFIX=#b', [/^QUEUE_PREFIX is cut at a #/]],
    ['QUEUE_PREFIX=a # a comment', []],
    ['QUEUE_PREFIX= # a comment', []],
    ['OTHER="a#b"', []],
    ['# QUEUE_PREFIX=a#b\n', []],
    [
      'LOG LEVEL\nQUEUE_PREFIX=a',
      [/^\.env has a line without =, and the setting below it is not read/],
    ],
  ])('with %j brings the warnings %j', (text, warnings) => {
    folder.write('.env', text);
    expect(read().warnings).toEqual(warnings.map((one) => expect.stringMatching(one) as string));
  });

  it.each(['\uFEFFLOG_LEVEL=warn', 'LOG_LEVEL=warn'])('in UTF-16 is a problem: %j', (text) => {
    folder.write('.env', Buffer.from(text, 'utf16le'));
    const problem = expect.stringMatching(/^\.env is not UTF-8 text: save it as UTF-8$/) as string;
    expect(folder.problems(ONE_SELLER)).toEqual([problem]);
  });

  it('that can’t be read is a problem', () => {
    folder.makeFolder('.env');
    expect(folder.problems(ONE_SELLER)).toEqual([expect.stringContaining('EISDIR')]);
  });
});

describe('key and address files', () => {
  it('are relative to the folder, and read without line ends', () => {
    folder.write('key', '\uFEFFfile-key-12345\r\n');
    folder.write('db', 'postgresql://me:pw@db/mirror\n');
    folder.write('redis', 'redis://:pw@a:1\n');
    folder.write('url', 'https://hooks.example/t\n');
    folder.write('secret', `whsec_${'a'.repeat(32)}\n`);
    const config = folder.read({
      MARKETPLACE_URL: 'https://a.example',
      MARKETPLACE_API_KEY_FILE: 'key',
      DATABASE_URL_FILE: 'db',
      REDIS_URL_FILE: 'redis',
      ALERT_WEBHOOK_URL_FILE: 'url',
      ALERT_WEBHOOK_SECRET_FILE: 'secret',
    });
    expect(config.redis).toMatchObject({ host: 'a', port: 1 });
    expect(config.alertWebhook?.url.reveal()).toBe('https://hooks.example/t');
    expect(config.alertWebhook?.secret?.reveal()).toBe(`whsec_${'a'.repeat(32)}`);
    expect(config.sellers[0]?.key.reveal()).toBe('file-key-12345');
    expect(config.databaseUrl?.reveal()).toBe('postgresql://me:pw@db/mirror');
    expect(config.warnings).toEqual([]);
  });

  it.each([
    ['missing', null, /can’t be read \(ENOENT\)/],
    ['empty', ' \n', /is an empty file/],
    ['of several lines', 'abc\ndef', /line breaks/],
    ['larger than any key', 'k'.repeat(70_000), /can’t be read \(too large\)/],
  ])('that are %s are problems', (_, text, expected) => {
    if (text !== null) folder.write('key', text);
    const env = { MARKETPLACE_URL: 'https://a.example', MARKETPLACE_API_KEY_FILE: 'key' };
    expect(folder.problems(env)).toEqual([expect.stringMatching(expected)]);
  });

  it('that every user can read bring a warning', () => {
    folder.write('key', 'file-key-12345', true);
    const env = { MARKETPLACE_URL: 'https://a.example', MARKETPLACE_API_KEY_FILE: 'key' };
    const { warnings, exposedSecrets } = folder.read(env);
    expect(exposedSecrets).toEqual([
      `MARKETPLACE_API_KEY_FILE can be read by every user of this machine: run chmod 600 /srv/shop/key`,
    ]);
    expect(warnings).toEqual([]);
  });

  it.each([
    ['the key', 'MARKETPLACE_API_KEY=key-0123456789', 'MARKETPLACE_API_KEY'],
    ['a database’s password', 'DATABASE_URL=postgres://a:pw@db/x', 'DATABASE_URL'],
    ['a key for the sellers file', 'SHOP_KEY=key-0123456789', 'SHOP_KEY'],
    ['no secret', 'TZ=UTC', null],
  ])(
    'a .env that every user can read brings a warning only if it holds a secret: %s',
    (_, text, secret) => {
      const sellers = [{ name: 'shop', url: 'https://a.example', keyEnv: 'SHOP_KEY' }];
      folder.write('sellers.json', JSON.stringify({ sellers }));
      folder.write('.env', `${text}\n`, true);
      const env = {
        ...(secret === 'MARKETPLACE_API_KEY'
          ? { MARKETPLACE_URL: 'https://a.example' }
          : { SELLERS_FILE: 'sellers.json' }),
        ...(secret === 'SHOP_KEY' || secret === 'MARKETPLACE_API_KEY' ? {} : { SHOP_KEY: 'x' }),
      };
      const warning = `.env holds ${secret} and can be read by every user of this machine: run chmod 600 /srv/shop/.env`;
      expect(folder.read(env).exposedSecrets).toEqual(secret === null ? [] : [warning]);
      folder.write('.env', `${text}\n`);
      expect(folder.read(env).exposedSecrets).toEqual([]);
    },
  );
});

describe('variables that look like misspelt settings', () => {
  it.each([
    ['MARKETPLACE_APIKEY', /did you mean MARKETPLACE_API_KEY\?/],
    ['MARKETPLACE_KEY', /MARKETPLACE_/],
    ['DATABASE_URI', /did you mean DATABASE_URL\?/],
    ['marketplace_url', /did you mean MARKETPLACE_URL\?/],
    ['SELLER_FILE', /did you mean SELLERS_FILE\?/],
    ['REQUEST_PER_MINUTE', /did you mean REQUESTS_PER_MINUTE\?/],
    ['REMOVAL_GUARD', /is not a setting/],
    ['WORKER_CONCURENCY', /did you mean WORKER_CONCURRENCY\?/],
    ['REDIS_URI', /did you mean REDIS_URL\?/],
    ['ALERT_WEBHOOK', /is not a setting/],
    ['ALERTS_WEBHOOK_URL', /did you mean ALERT_WEBHOOK_URL\?/],
    ['SYNC_CORN', /did you mean SYNC_CRON\?/],
  ])('bring a warning: %s', (name, expected) => {
    const { warnings } = folder.read({ [name]: 'x' }, 'store');
    expect(warnings).toEqual([expect.stringMatching(expected)]);
  });

  it('do not include the variables of shells and tools', () => {
    const names = [
      ...['PATH', 'HOME', 'PWD', 'LANG', 'NODE_ENV', 'DATABASE', 'LOGNAME', 'PGHOST', 'SHELL'],
      ...['POSTGRES_PASSWORD', 'npm_config_cache', 'LS_COLORS', 'LOGLINES', 'REDISCLI_AUTH'],
      'WORKERS',
    ];
    const env = Object.fromEntries(names.map((name) => [name, 'x']));
    expect(folder.read(env, 'store').warnings).toEqual([]);
  });
});
