import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Fault } from '../../src/domain/fault.js';
import { parseRedisUrl } from '../../src/domain/redis-target.js';

/** The target with a plain password, and its place as text. */
function plain(url: string): object {
  const { password, host, port, ...rest } = parseRedisUrl(url);
  return { ...rest, place: `${host} ${port}`, password: password?.reveal() ?? null };
}

/** What parsing throws; null if it succeeds. */
function faultOf(url: string): unknown {
  try {
    parseRedisUrl(url);
    return null;
  } catch (error) {
    return error;
  }
}

const USUAL = {
  place: 'cache 6379',
  username: null,
  password: null,
  database: 0,
  tls: false,
};

describe('an address of Redis', () => {
  it.each<[string, object]>([
    ['redis://cache', {}],
    ['REDIS://cache/', {}],
    ['redis://127.0.0.1:6380/2', { place: '127.0.0.1 6380', database: 2 }],
    ['redis://[fe80::1]:6380', { place: 'fe80::1 6380' }],
    ['redis://my_cache.local', { place: 'my_cache.local 6379' }],
    ['rediss://cache', { tls: true }],
    ['VALKEYS://cache', { tls: true }],
    ['valkey://:pw@cache', { password: 'pw' }],
    ['redis://:@cache', {}],
    ['redis://me:p:w@cache', { username: 'me', password: 'p:w' }],
  ])('%s is read', (url, expected) => {
    expect(plain(url)).toEqual({ ...USUAL, ...expected });
  });

  it('may have any user and password, percent-encoded, which print as a mask', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 });
    fc.assert(
      fc.property(text, text, (user, password) => {
        const url = `redis://${encodeURIComponent(user)}:${encodeURIComponent(password)}@cache`;
        expect(plain(url)).toMatchObject({ username: user, password });
      }),
    );
    const parsed = parseRedisUrl('redis://me:hunter2@a');
    expect(`${inspect(parsed)}${JSON.stringify(parsed)}`).not.toMatch(/hunter/);
  });
});

describe('a wrong address of Redis', () => {
  it.each<[string, RegExp]>([
    ['http://cache:6379', /not an address of a Redis server: begin it with redis:\/\//],
    ['cache:6379', /not an address of a Redis server: begin it with redis:\/\//],
    ['redis://a,b', /several hosts.*keep one/],
    ['redis-sentinel://a,b/m', /sentinels or a cluster.*name one server.*in PostgreSQL/],
    ['rediss+cluster://a', /sentinels or a cluster/],
    ['redis://cache/main', /a database that is not a number/],
    ['redis://cache/-1', /a database that is not a number/],
    ['redis://me@cache', /user name but no password.*:password@/],
    ...[
      ...['redis://', 'redis://:6379', 'redis://me:pw@', 'redis://cache:x', 'redis://cache:65536'],
      // An unset variable leaves the first of these.
      ...['redis://cache:', 'redis://cache:/1', 'redis://cache:0', 'redis://fe80::1:6379'],
      ...['redis://[cache]', 'redis://:p@ss@cache', 'redis://:p/ss@cache', 'redis://:p?ss@cache'],
      ...['redis://:p#ss@cache', 'redis://:p%ss@cache', 'redis://cache/0#x', 'redis://:p ss@cache'],
      ...['redis://cache?family=6', 'redis://cache\nredis://other'],
    ].map((url): [string, RegExp] => [
      url,
      /can’t be read as an address: write it as redis:.*@ is/,
    ]),
  ])('such as %j is refused with a remedy', (url, expected) => {
    expect(() => parseRedisUrl(url)).toThrow(expected);
  });

  it('throws no other error, and never repeats the address, because any part may be a password', () => {
    const words = 'redis rediss :// : @ / , ? # % [ ] hunter2'.split(' ');
    const word = fc.oneof(fc.constantFrom(...words), fc.string({ unit: 'binary', maxLength: 2 }));
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), fc.boolean(), (parts, hasScheme) => {
        const fault = faultOf(`${hasScheme ? 'redis://' : ''}${parts.join('')}`);
        expect(fault ?? new Fault()).toBeInstanceOf(Fault);
        expect(String(fault)).not.toContain('hunter2');
      }),
    );
  });
});
