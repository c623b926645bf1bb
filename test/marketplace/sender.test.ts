import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideRedirect } from '../../src/marketplace/sender.js';

const PATH = '/api/items/all';

function follow(from: string, location: string | null, allowPlainHttp = false): string {
  const decision = decideRedirect(new URL(from), location, allowPlainHttp);
  return decision.follow ? decision.to.href : `refused: ${decision.host ?? 'no host'}`;
}

describe('redirects that may be followed', () => {
  it.each([
    ['https://shop.test', 'https://www.shop.test/api/items/all', 'apex to www'],
    ['https://www.shop.test', 'https://shop.test/api/items/all', 'www to apex'],
    ['https://www.shop.test:8443', 'https://shop.test:8443/api/items/all', 'on the same port'],
    ['http://shop.test', 'https://shop.test/api/items/all', 'http to https'],
    ['http://shop.test', 'https://www.shop.test/api/items/all', 'both at once'],
    ['https://shop.test', 'https://shop.test/api/items/all/', 'a trailing slash more'],
    ['https://shop.test', '/api/items/all/', 'a relative address'],
    ['https://shop.test', '//www.shop.test/api/items/all', 'an address without scheme'],
    ['https://shop.test', 'HTTPS://WWW.SHOP.TEST/api/items/all', 'in capitals'],
  ])('%s → %s (%s)', (origin, location) => {
    expect(follow(origin + PATH, location)).toBe(new URL(location, origin).href);
  });

  it('takes a trailing slash away too', () => {
    expect(follow(`https://shop.test${PATH}/`, PATH)).toBe(`https://shop.test${PATH}`);
  });

  it('takes only origin and path from the server: parameters are ours to attach', () => {
    expect(follow(`https://shop.test${PATH}`, `https://www.shop.test${PATH}?x=1#y`)).toBe(
      `https://www.shop.test${PATH}`,
    );
  });

  it('stays on plain http only where plain http is allowed', () => {
    expect(follow(`http://shop.test${PATH}`, `http://www.shop.test${PATH}`, true)).toMatch(
      /^http:/,
    );
    expect(follow(`http://localhost${PATH}`, `http://www.localhost${PATH}`)).toMatch(/^refused/);
  });
});

describe('redirects that must not be followed', () => {
  it.each([
    ['https://shop.test', 'https://evil.test/api/items/all', 'another host'],
    ['https://shop.test', 'https://shop.test.evil.test/api/items/all', 'a look-alike'],
    ['https://shop.test', 'https://www.www.shop.test/api/items/all', 'one label too many'],
    ['https://shop.test', 'https://api.shop.test/api/items/all', 'another label'],
    ['https://shop.test', 'http://shop.test/api/items/all', 'https to http'],
    ['https://shop.test', 'https://shop.test:8443/api/items/all', 'another port'],
    ['http://shop.test:8080', 'https://shop.test/api/items/all', 'https from an odd port'],
    ['https://shop.test', 'https://shop.test/', 'the home page'],
    ['https://shop.test', 'https://shop.test/api/items/all//', 'another path'],
    ['https://shop.test', 'https://shop.test/API/items/all', 'another path by case'],
    ['https://shop.test', 'https://www.shop.test@evil.test/api/items/all', 'a disguised host'],
    ['https://shop.test', 'https://u:p@www.shop.test/api/items/all', 'user name and password'],
    ['https://shop.test', 'https://u@www.shop.test/api/items/all', 'a user name'],
    ['https://shop.test', 'javascript:alert(1)', 'another scheme'],
    ['https://shop.test', 'https://[bad/', 'no address'],
    ['https://shop.test', null, 'nothing'],
  ])('%s → %s (%s)', (origin: string, location: string | null, _why: string) => {
    expect(follow(origin + PATH, location, true)).toMatch(/^refused/);
  });

  it('never leads the key off the host, to weaker encryption or to another path, whatever is asked', () => {
    const host = fc.constantFrom(
      'shop.test',
      'www.shop.test',
      'evil.test',
      'www.evil.test',
      'shop.test.evil.test',
      'localhost',
    );
    const address = fc
      .tuple(
        fc.constantFrom('http:', 'https:', ''),
        fc.constantFrom('', 'shop.test@', 'a:b@'),
        host,
        fc.constantFrom('', ':80', ':443', ':8443'),
        fc.constantFrom(
          PATH,
          `${PATH}/`,
          '/',
          `${PATH}/../../x`,
          `/%2e%2e${PATH}`,
          PATH.toUpperCase(),
        ),
        fc.webQueryParameters(),
      )
      .map(
        ([scheme, user, name, port, path, query]) =>
          `${scheme}//${user}${name}${port}${path}?${query}`,
      );
    fc.assert(
      fc.property(
        fc.constantFrom(
          'http://shop.test',
          'https://shop.test',
          'https://www.shop.test',
          'https://shop.test:8443',
        ),
        fc.oneof(address, fc.string(), fc.webUrl()),
        fc.boolean(),
        (origin, location, allowPlainHttp) => {
          const from = new URL(origin + PATH);
          const decision = decideRedirect(from, location, allowPlainHttp);
          if (!decision.follow) return;
          const { to } = decision;
          expect(['shop.test', 'www.shop.test']).toContain(to.hostname);
          expect([PATH, `${PATH}/`]).toContain(to.pathname);
          expect(to.search + to.hash + to.username + to.password).toBe('');
          if (from.protocol === 'https:') expect(to.protocol).toBe('https:');
          if (to.protocol === from.protocol) expect(to.port).toBe(from.port);
          if (to.protocol === 'http:') expect(allowPlainHttp).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  });
});
