import { describe, expect, it } from 'vitest';
import {
  addressFault,
  headerNameFault,
  hostName,
  isLoopback,
  isSafeForKey,
  sameHost,
  fitsInHeader,
} from '../../src/domain/address.js';

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

describe('a base address', () => {
  it.each([
    ['https://shop.test/x/', null],
    ['http://127.0.0.1:8080', null],
    ['ftp://shop.test', 'scheme'],
    ['https://me@shop.test', 'user'],
    ['https://:pw@shop.test', 'user'],
    ['https://shop.test/?a=1', 'query'],
    ['https://shop.test?', 'query'],
    ['https://shop.test/#', 'query'],
    ['https://shop.test/%3F%23', null],
    ['http://shop.test', 'plain-http'],
  ])('%s has the fault %s', (url, fault) => {
    expect(addressFault(new URL(url), false)).toBe(fault);
  });

  it('may be plain http if allowed; other faults stay', () => {
    expect(addressFault(new URL('http://shop.test'), true)).toBeNull();
    expect(addressFault(new URL('ftp://shop.test'), true)).toBe('scheme');
  });

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

describe('a header that carries the key', () => {
  it.each([
    ['X-Api-Key', null],
    ['authorization', null],
    ['X-Key:', 'no-name'],
    ['', 'no-name'],
    ['Host', 'taken'],
    ['user-agent', 'taken'],
  ])('%j has the fault %s', (name, fault) => {
    expect(headerNameFault(name)).toBe(fault);
  });

  it.each([
    ['abc def', true],
    [' abc', false],
    ['é', false],
    ['a\r\nb', false],
    ['', false],
  ])('can carry %j: %s, because servers disagree about bytes beyond ASCII', (key, fits) => {
    expect(fitsInHeader(key)).toBe(fits);
  });
});
