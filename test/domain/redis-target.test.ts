import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseRedisUrl, RedisUrlFault } from '../../src/domain/redis-target.js';

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
    ['redis://[::1]:6380', { place: '::1 6380' }],
    ['redis://[fe80::1]', { place: 'fe80::1 6379' }],
    ['redis://my_cache.local', { place: 'my_cache.local 6379' }],
    ['rediss://cache', { tls: true }],
    ['valkey://cache', {}],
    ['VALKEYS://cache', { tls: true }],
    ['redis://:pw@cache', { password: 'pw' }],
    ['redis://me:pw@cache', { username: 'me', password: 'pw' }],
    ['redis://:@cache', {}],
    ['redis://me:p:w@cache', { username: 'me', password: 'p:w' }],
    ['redis://m%40e:%2F%23%3F%25%40@cache', { username: 'm@e', password: '/#?%@' }],
  ])('%s is read', (url, expected) => {
    expect(plain(url)).toEqual({ ...USUAL, ...expected });
  });

  it('may have any user and password, percent-encoded', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 });
    fc.assert(
      fc.property(text, text, (user, password) => {
        const url = `redis://${encodeURIComponent(user)}:${encodeURIComponent(password)}@cache`;
        expect(plain(url)).toMatchObject({ username: user, password });
      }),
    );
  });

  it('is safe to print, because its passwords mask themselves', () => {
    const parsed = parseRedisUrl('redis://me:hunter2@a');
    expect(`${inspect(parsed)}${JSON.stringify(parsed)}`).not.toMatch(/hunter/);
  });
});

describe('a wrong address of Redis', () => {
  it.each<[string, RegExp]>([
    ['http://cache:6379', /a web address, not a Redis address: begin it with redis:/],
    ['postgres://cache/1', /not an address of a Redis server/],
    ['cache:6379', /not an address of a Redis server: begin it with redis:\/\//],
    ['redis://', /has no host/],
    ['redis://:6379', /has no host/],
    ['redis://me:pw@', /has no host/],
    ['redis://cache:x', /a port that is not a number/],
    // An unset variable leaves this.
    ['redis://cache:', /a port that is not a number/],
    ['redis://cache:65536', /a port that is not a number from 1 to 65535/],
    ['redis://::1', /has no host|brackets/],
    ['redis://fe80::1:6379', /in brackets, such as \[::1\]/],
    ['redis://[cache]', /a host that can’t be read/],
    ['redis://cache/main', /a database that is not a number/],
    ['redis://cache/-1', /a database that is not a number/],
    ['redis://a,b', /several hosts.*keep one/],
    ['redis-sentinel://a,b/m', /sentinels or a cluster.*name one server.*in PostgreSQL/],
    ['rediss+cluster://a', /sentinels or a cluster/],
    ['redis://me@cache', /user name but no password.*:password@/],
    ['redis://:p@ss@cache', /@ is %40/],
    ['redis://:p/ss@cache', /\/ is %2F/],
    ['redis://:p?ss@cache', /\? is %3F/],
    ['redis://:p#ss@cache', /# is %23/],
    ['redis://:p%ss@cache', /% is %25/],
    ['redis://cache/0#x', /write # in the password as %23/],
    ['redis://cache?family=6', /unknown options after the question mark: end it before/],
    ['redis://:p ss@cache', /spaces or control characters/],
    ['redis://cache\nredis://other', /spaces or control characters/],
  ])('such as %j is refused with a remedy', (url, expected) => {
    expect(() => parseRedisUrl(url)).toThrow(expected);
  });

  it('is never repeated in the message, because any part may be a password', () => {
    const words = 'redis rediss :// : @ / , ? # % [ ] hunter2'.split(' ');
    const word = fc.constantFrom(...words);
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), (words) => {
        expect(String(faultOf(words.join('')))).not.toContain('hunter2');
      }),
    );
  });

  it('never throws another error', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(faultOf(`redis://${text}`) ?? new RedisUrlFault('', '')).toBeInstanceOf(
          RedisUrlFault,
        );
      }),
    );
  });
});
