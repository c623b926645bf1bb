import { describe, expect, it } from 'vitest';
import { hostName, isLoopback, isSafeForKey, sameHost } from '../../src/domain/address.js';

describe('isLoopback', () => {
  it.each(['http://localhost:1', 'http://LOCALHOST', 'http://127.9.8.7', 'http://[::1]:80'])(
    'is true for %s, which may get the key',
    (url) => {
      expect(isLoopback(new URL(url).hostname)).toBe(true);
      expect(isSafeForKey(new URL(url), false)).toBe(true);
    },
  );

  it.each([
    'http://localhost.evil.test',
    'http://127.0.0.1.evil.test',
    'http://[::2]',
    'http://10.0.0.1',
  ])('is false for %s', (url) => {
    expect(isLoopback(new URL(url).hostname)).toBe(false);
    expect(isSafeForKey(new URL(url), false)).toBe(false);
    expect(isSafeForKey(new URL(url), true)).toBe(true);
  });
});

describe('a marketplace', () => {
  it('gives its budget a name with the port but without www, so that both spellings share it', () => {
    expect(hostName(new URL('https://WWW.shop.test:443/x'))).toBe('shop.test');
    expect(hostName(new URL('https://shop.test:8443'))).toBe('shop.test:8443');
  });
});

describe('two stored host names', () => {
  it.each([
    ['shop.test', 'shop.test'],
    ['shop.test:8443', 'shop.test', 'a port does not matter'],
    ['www.Shop.test', 'shop.TEST:80', 'case and www do not matter (API 1)'],
    ['localhost:3000', '127.0.0.1:4000', 'both are this machine'],
    ['127.1.2.3', '[::1]:80', 'both are this machine'],
    ['LOCALHOST', '::1', 'both are this machine'],
    ['[2001:db8::1]:80', '[2001:DB8::1]', 'IPv6 addresses contain colons'],
  ])('%s and %s are one host', (a, b, _why = '') => {
    expect(sameHost(a, b)).toBe(true);
    expect(sameHost(b, a)).toBe(true);
  });

  it.each([
    ['shop.test', 'other.test'],
    ['shop.test', 'api.shop.test'],
    ['shop.test', 'www.www.shop.test'],
    ['localhost', 'localhost.evil.test'],
    ['[2001:db8::1]', '[2001:db8::2]'],
    ['::1', '::2'],
  ])('%s and %s are two hosts', (a, b) => {
    expect(sameHost(a, b)).toBe(false);
    expect(sameHost(b, a)).toBe(false);
  });
});
