import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { MarketplaceOptionsError, PlainHttpRefusedError } from '../../src/marketplace/address.js';
import { createMarketplace } from '../../src/marketplace/client.js';
import { client } from './support.js';

const key = new Secret('a-key-of-some-length');
const make = (url: string, allowPlainHttp?: boolean): unknown =>
  createMarketplace({
    baseUrl: new URL(url),
    key,
    ...(allowPlainHttp === undefined ? {} : { allowPlainHttp }),
  });

describe('the base address', () => {
  it.each([
    'http://shop.test',
    'http://10.0.0.1',
    'http://127.0.0.1.evil.test',
    'http://localhost.evil.test',
  ])('refuses %s, since the key would travel unencrypted to another machine', (url) => {
    expect(() => make(url)).toThrow(PlainHttpRefusedError);
  });

  it.each([
    'http://localhost:1',
    'http://127.0.0.1:1',
    'http://127.9.8.7',
    'http://[::1]:1',
    'https://shop.test',
  ])('takes %s, where nobody can listen in', (url) => {
    expect(() => make(url)).not.toThrow();
  });

  it('takes plain http anywhere once it is allowed', () => {
    expect(() => make('http://shop.test', true)).not.toThrow();
  });

  it.each([
    'https://me@shop.test',
    'https://me:pw@shop.test',
    'ftp://shop.test',
    'https://shop.test/?a=1',
    'https://shop.test/#a',
  ])('refuses %s, which could not be meant', (url) => {
    expect(() => make(url)).toThrow(MarketplaceOptionsError);
  });

  it('names the budget by the host without www, so that both spellings share one', () => {
    expect(client(new URL('https://www.shop.test/')).host).toBe('shop.test');
    expect(client(new URL('https://shop.test:8443/x')).host).toBe('shop.test:8443');
  });
});
