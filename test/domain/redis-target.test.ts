import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseRedisUrl, type RedisTarget } from '../../src/domain/redis-target.js';

function target(url: string): RedisTarget {
  const parsed = parseRedisUrl(url);
  if ('fault' in parsed) throw new Error(`${parsed.fault}: ${parsed.remedy}`);
  return parsed;
}

/** With the passwords in plain, for comparing. */
function plain(url: string): object {
  const { password, sentinelPassword, ...rest } = target(url);
  return {
    ...rest,
    password: password?.reveal() ?? null,
    sentinelPassword: sentinelPassword?.reveal() ?? null,
  };
}

const NOTHING = {
  mode: 'single',
  masterName: null,
  username: null,
  password: null,
  sentinelPassword: null,
  database: 0,
  tls: false,
};
const node = (host: string, port: number) => ({ host, port });

describe('an address of Redis', () => {
  const cases: readonly [string, object][] = [
    ['redis://cache', { nodes: [node('cache', 6379)] }],
    ['REDIS://cache/', { nodes: [node('cache', 6379)] }],
    ['redis://127.0.0.1:6380/2', { nodes: [node('127.0.0.1', 6380)], database: 2 }],
    ['redis://[::1]:6380', { nodes: [node('::1', 6380)] }],
    ['redis://[fe80::1]', { nodes: [node('fe80::1', 6379)] }],
    ['redis://my_cache.local', { nodes: [node('my_cache.local', 6379)] }],
    ['rediss://cache', { nodes: [node('cache', 6379)], tls: true }],
    ['valkey://cache', { nodes: [node('cache', 6379)] }],
    ['valkeys://cache', { nodes: [node('cache', 6379)], tls: true }],
    ['redis://:pw@cache', { nodes: [node('cache', 6379)], password: 'pw' }],
    ['redis://me:pw@cache', { nodes: [node('cache', 6379)], username: 'me', password: 'pw' }],
    ['redis://:@cache', { nodes: [node('cache', 6379)] }],
    ['redis://me:p:w@cache', { nodes: [node('cache', 6379)], username: 'me', password: 'p:w' }],
    [
      'redis://m%40e:%2F%23%3F%25%40@cache',
      { nodes: [node('cache', 6379)], username: 'm@e', password: '/#?%@' },
    ],
    [
      'redis-sentinel://me:pw@a,b:5000,[::1]/main/3?sentinelPassword=s%26p',
      {
        mode: 'sentinel',
        nodes: [node('a', 26379), node('b', 5000), node('::1', 26379)],
        masterName: 'main',
        username: 'me',
        password: 'pw',
        sentinelPassword: 's&p',
        database: 3,
      },
    ],
    [
      'rediss+sentinel://a/my%20master',
      { mode: 'sentinel', nodes: [node('a', 26379)], masterName: 'my master', tls: true },
    ],
    [
      'redis-cluster://:pw@a:7000,b',
      { mode: 'cluster', nodes: [node('a', 7000), node('b', 6379)], password: 'pw' },
    ],
    ['redis+cluster://a/0', { mode: 'cluster', nodes: [node('a', 6379)] }],
    ['rediss-cluster://a', { mode: 'cluster', nodes: [node('a', 6379)], tls: true }],
  ];
  it.each(cases)('%s is understood', (url, expected) => {
    expect(plain(url)).toEqual({ ...NOTHING, ...expected });
  });

  it('carries any user and password when they are percent-encoded', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 });
    fc.assert(
      fc.property(text, text, (user, password) => {
        const url = `redis://${encodeURIComponent(user)}:${encodeURIComponent(password)}@cache`;
        expect(plain(url)).toMatchObject({ username: user, password });
      }),
    );
  });

  it('can be printed, because its passwords mask themselves', () => {
    const parsed = target('redis-sentinel://me:hunter2@a/m?sentinelPassword=hunter3');
    expect(`${inspect(parsed)}${JSON.stringify(parsed)}`).not.toMatch(/hunter/);
  });
});

describe('what is no address of Redis', () => {
  const cases: readonly [string, string, RegExp][] = [
    [
      'an address of the web',
      'http://cache:6379',
      /of the web, not of Redis: begin it with redis:/,
    ],
    ['an address of PostgreSQL', 'postgres://cache/1', /not an address of a Redis server/],
    ['a bare host', 'cache:6379', /not an address of a Redis server: begin it with redis:\/\//],
    ['nothing after the scheme', 'redis://', /lacks a host/],
    ['a port alone', 'redis://:6379', /lacks a host/],
    ['a login without a host', 'redis://me:pw@', /lacks a host/],
    ['a port that is not a number', 'redis://cache:x', /a port that is not a number/],
    [
      'an empty port, as an unset variable leaves it',
      'redis://cache:',
      /a port that is not a number/,
    ],
    [
      'a port beyond the last',
      'redis://cache:65536',
      /a port that is not a number from 1 to 65535/,
    ],
    ['IPv6 without brackets', 'redis://::1', /lacks a host|brackets/],
    ['IPv6 without brackets, with a port', 'redis://fe80::1:6379', /in brackets: \[::1\]/],
    ['no IPv6 in brackets', 'redis://[cache]', /a host that can’t be read/],
    ['a database that is not a number', 'redis://cache/main', /a database that is not a number/],
    ['a negative database', 'redis://cache/-1', /a database that is not a number/],
    [
      'two hosts where one is meant',
      'redis://a,b',
      /several hosts.*redis-sentinel:.*redis-cluster:/,
    ],
    ['sentinels without a master', 'redis-sentinel://a,b', /lacks the name of the master/],
    ['sentinels with an empty master', 'redis-sentinel://a,b//1', /lacks the name of the master/],
    ['sentinels whose database is no number', 'redis-sentinel://a/m/x', /after the master’s name/],
    ['an empty host among several', 'redis-cluster://a,,b', /lacks a host/],
    ['a cluster with a database', 'redis-cluster://a/1', /a cluster has only database 0/],
    ['a user without a password', 'redis://me@cache', /user name but no password.*:password@/],
    ['an unescaped @', 'redis://:p@ss@cache', /@ is %40/],
    ['an unescaped /', 'redis://:p/ss@cache', /\/ is %2F/],
    ['an unescaped ?', 'redis://:p?ss@cache', /\? is %3F/],
    ['an unescaped #', 'redis://:p#ss@cache', /# is %23/],
    ['an unescaped %', 'redis://:p%ss@cache', /% is %25/],
    ['a fragment', 'redis://cache/0#x', /write # in the password as %23/],
    ['an unknown option', 'redis://cache?family=6', /options that are not known: end it before/],
    [
      'an unknown option for sentinels',
      'redis-sentinel://a/m?db=1',
      /the only option is sentinelPass/,
    ],
    ['blanks', 'redis://:p ss@cache', /blanks or control characters/],
    ['several lines', 'redis://cache\nredis://other', /blanks or control characters/],
  ];
  it.each(cases)('includes %s, with what to do', (_, url, expected) => {
    const parsed = parseRedisUrl(url);
    expect('fault' in parsed && `${parsed.fault}: ${parsed.remedy}`).toMatch(expected);
  });

  it('is told without any part of it, because all of it may be a password', () => {
    const word = fc.constantFrom(
      ...[
        'redis',
        'rediss-sentinel',
        '://',
        ':',
        '@',
        '/',
        ',',
        '?',
        '#',
        '%',
        '[',
        ']',
        'hunter2',
      ],
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), (words) => {
        const parsed = parseRedisUrl(words.join(''));
        const told = 'fault' in parsed ? JSON.stringify(parsed) : '';
        expect(told).not.toContain('hunter2');
      }),
    );
  });

  it('never is an error, whatever was pasted', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(() => parseRedisUrl(`redis://${text}`)).not.toThrow();
      }),
    );
  });
});
