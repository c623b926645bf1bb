import { describe, expect, it } from 'vitest';
import type { Config } from '../../src/config/index.js';
import { ONE_SELLER, useFolder } from './folder.js';

const folder = useFolder();

const SECRET = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`;
const WEBHOOK = { ALERT_WEBHOOK_URL: 'https://hooks.example/t/0', ALERT_WEBHOOK_SECRET: SECRET };

const read = (env: NodeJS.ProcessEnv): Config => folder.read(env, 'store');
const problems = (env: NodeJS.ProcessEnv) => folder.problems(env, 'store');

it('settings of a service have defaults that suit one machine', () => {
  expect(read({})).toMatchObject({
    redis: null,
    queuePrefix: 'seller-mirror',
    workerConcurrency: 4,
    catchUp: true,
    shutdownTimeoutMs: 30_000,
    keepJobsDays: 7,
    staleAfterHours: 26,
    health: { host: '127.0.0.1', port: 8790, chosen: false },
    alerts: null,
    logFormat: 'auto',
  });
});

it('settings of a service are taken when given', () => {
  const config = read({
    ...{ REDIS_URL: 'rediss://:pw@cache', QUEUE_PREFIX: 'shop.2_B-c', WORKER_CONCURRENCY: '100' },
    ...{ CATCH_UP: 'no', SHUTDOWN_TIMEOUT: '0', KEEP_JOBS_DAYS: '365', STALE_AFTER_HOURS: '1' },
    ...{ HEALTH_LISTEN: 'localhost:80', LOG_FORMAT: 'JSON', ...WEBHOOK },
  });
  expect(config).toMatchObject({
    redis: { mode: 'single', tls: true },
    queuePrefix: 'shop.2_B-c',
    workerConcurrency: 100,
    catchUp: false,
    shutdownTimeoutMs: 0,
    keepJobsDays: 365,
    staleAfterHours: 1,
    health: { host: 'localhost', port: 80, chosen: true },
    logFormat: 'json',
    warnings: [],
  });
  expect(config.redis?.password?.reveal()).toBe('pw');
  expect(config.alerts?.url.reveal()).toBe('https://hooks.example/t/0');
  expect(config.alerts?.secret.reveal()).toBe(SECRET);
});

it.each([
  ['WORKER_CONCURRENCY', '0'],
  ['WORKER_CONCURRENCY', '101'],
  ['SHUTDOWN_TIMEOUT', '3601'],
  ['SHUTDOWN_TIMEOUT', '30s'],
  ['KEEP_JOBS_DAYS', '0'],
  ['KEEP_JOBS_DAYS', '366'],
  ['STALE_AFTER_HOURS', '0'],
  ['QUEUE_PREFIX', 'a:b'],
  ['QUEUE_PREFIX', '{a}'],
  ['QUEUE_PREFIX', 'a'.repeat(64)],
  ['CATCH_UP', 'perhaps'],
  ['LOG_FORMAT', 'xml'],
])('%s=%s is a problem, and the only one', (name, value) => {
  expect(problems({ [name]: value })).toEqual([
    expect.stringContaining(`${name} "${value.slice(0, 5)}`),
  ]);
});

describe('the address of Redis', () => {
  it('may be in a file, as containers get it', () => {
    folder.write('redis', 'redis-cluster://:pw@a:1,b:2\n');
    const { redis } = read({ REDIS_URL_FILE: 'redis' });
    expect(redis).toMatchObject({
      mode: 'cluster',
      nodes: [
        { host: 'a', port: 1 },
        { host: 'b', port: 2 },
      ],
    });
  });

  it('that can’t be used is a problem with what to do, and shows none of it', () => {
    expect(problems({ REDIS_URL: 'redis://me:hunter2@cache/hunter2' })).toEqual([
      expect.stringMatching(/^REDIS_URL names a database that is no number: /),
    ]);
    folder.write('redis', 'http://cache');
    expect(problems({ REDIS_URL_FILE: 'redis' })).toEqual([
      expect.stringMatching(/^REDIS_URL_FILE is an address of the web, not of Redis: /),
    ]);
  });

  it('is given once', () => {
    expect(problems({ REDIS_URL: 'redis://a', REDIS_URL_FILE: 'x' })).toEqual([
      'REDIS_URL_FILE and REDIS_URL are both given: keep one of them',
    ]);
  });
});

describe('the health endpoints', () => {
  it.each([
    ['127.0.0.1:9000', '127.0.0.1', 9000],
    ['127.9.9.9:9000', '127.9.9.9', 9000],
    ['LOCALHOST:9000', 'localhost', 9000],
    ['[::1]:9000', '::1', 9000],
    [':9000', '127.0.0.1', 9000],
    ['9000', '127.0.0.1', 9000],
    ['0', '127.0.0.1', 0],
  ])('listen as %s says, on this machine only', (HEALTH_LISTEN, host, port) => {
    const { health, warnings } = read({ HEALTH_LISTEN });
    expect(health).toEqual({ host, port, chosen: true });
    expect(warnings).toEqual([]);
  });

  it.each([
    ['0.0.0.0:9000', '0.0.0.0'],
    ['[::]:9000', '::'],
    ['10.0.0.5:9000', '10.0.0.5'],
    ['mirror.lan:9000', 'mirror.lan'],
  ])('may be open to other machines with %s, but not without a warning', (HEALTH_LISTEN, host) => {
    const { health, warnings } = read({ HEALTH_LISTEN });
    expect(health).toMatchObject({ host, port: 9000 });
    expect(warnings).toEqual([expect.stringMatching(/^HEALTH_LISTEN .* opens health and metrics/)]);
  });

  it('are not there when off', () => {
    expect(read({ HEALTH_LISTEN: 'OFF' }).health).toBeNull();
  });

  it.each([
    'localhost',
    '::1:9000',
    '[::1]',
    '[::x]:1',
    '*:9000',
    'a b:1',
    '65536',
    'http://a:1',
    '1:2:3',
  ])('can’t listen at %s', (HEALTH_LISTEN) => {
    expect(problems({ HEALTH_LISTEN })).toEqual([
      expect.stringMatching(
        /^HEALTH_LISTEN ".*" is no host and port: write it as 127\.0\.0\.1:8790/,
      ),
    ]);
  });
});

describe('alerts', () => {
  it('may take both address and secret from files', () => {
    folder.write('url', 'https://hooks.example/t\n');
    folder.write('secret', `${SECRET}\n`);
    const env = { ALERT_WEBHOOK_URL_FILE: 'url', ALERT_WEBHOOK_SECRET_FILE: 'secret' };
    expect(read(env).alerts?.secret.reveal()).toBe(SECRET);
  });

  it('are never sent unsigned, since a receiver could not tell who sends', () => {
    expect(problems({ ALERT_WEBHOOK_URL: WEBHOOK.ALERT_WEBHOOK_URL })).toEqual([
      expect.stringMatching(/^ALERT_WEBHOOK_SECRET is not set, but ALERT_WEBHOOK_URL is, .*whsec_/),
    ]);
  });

  it('with a secret that can’t be read bring that problem only', () => {
    const env = { ...WEBHOOK, ALERT_WEBHOOK_SECRET: '', ALERT_WEBHOOK_SECRET_FILE: 'nope' };
    expect(problems(env)).toEqual([
      expect.stringMatching(/^ALERT_WEBHOOK_SECRET_FILE "nope" can't/),
    ]);
  });

  it('without an address do nothing, which is worth a warning', () => {
    const { alerts, warnings } = read({ ALERT_WEBHOOK_SECRET: SECRET });
    expect(alerts).toBeNull();
    expect(warnings).toEqual([expect.stringMatching(/^ALERT_WEBHOOK_SECRET is set without/)]);
  });

  it.each([
    ['no address at all', 'hooks', /^ALERT_WEBHOOK_URL is no web address/],
    ['another scheme', 'ftp://hooks.example', /is no web address/],
    ['plain http', 'http://hooks.example', /would get alerts unencrypted: use https/],
    ['a login', 'https://me:hunter2@hooks.example', /contains a user name or password/],
  ])('go nowhere with %s', (_, ALERT_WEBHOOK_URL, expected) => {
    expect(problems({ ...WEBHOOK, ALERT_WEBHOOK_URL })).toEqual([expect.stringMatching(expected)]);
  });

  it.each([
    'http://localhost:9/t',
    'http://127.0.0.1/t',
    'http://[::1]/t',
    'https://a.example/?t=1',
  ])('go to %s', (url) => {
    expect(read({ ...WEBHOOK, ALERT_WEBHOOK_URL: url }).alerts?.url.reveal()).toBe(url);
  });

  it('go over plain http where that was asked for', () => {
    const env = { ...WEBHOOK, ALERT_WEBHOOK_URL: 'http://hooks.lan', ALLOW_PLAIN_HTTP: 'true' };
    expect(read(env).alerts).not.toBeNull();
  });

  const bytes = (count: number) => Buffer.alloc(count, 7).toString('base64');
  it.each([
    ['24 bytes', `whsec_${bytes(24)}`],
    ['64 bytes', `whsec_${bytes(64)}`],
    ['no padding', `whsec_${bytes(32).replace(/=+$/, '')}`],
  ])('are signed with %s', (_, secret) => {
    expect(read({ ...WEBHOOK, ALERT_WEBHOOK_SECRET: secret }).alerts?.secret.reveal()).toBe(secret);
  });

  it.each([
    ['too few bytes', `whsec_${bytes(23)}`],
    ['too many bytes', `whsec_${bytes(65)}`],
    ['another prefix', `whsk_${bytes(32)}`],
    ['no prefix', bytes(32)],
    ['a character that base64 does not have', `whsec_${bytes(32).replace('B', '*')}`],
    ['a password', 'correct horse battery staple'],
  ])('can’t be signed with %s', (_, secret) => {
    expect(problems({ ...WEBHOOK, ALERT_WEBHOOK_SECRET: secret })).toEqual([
      expect.stringMatching(/^ALERT_WEBHOOK_SECRET is no secret of the Standard Webhooks form/),
    ]);
  });
});

it('misspelt names of these settings bring a warning, because a setting that does nothing fails silently', () => {
  const names = [
    'WORKER_CONCURENCY',
    'REDIS_URI',
    'ALERT_WEBHOOK',
    'ALERTS_WEBHOOK_URL',
    'SYNC_CORN',
  ];
  const env = Object.fromEntries(names.map((name) => [name, 'x']));
  expect(folder.read({ ...ONE_SELLER, ...env }).warnings).toHaveLength(names.length);
});
