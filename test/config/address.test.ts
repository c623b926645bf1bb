import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { createMarketplace } from '../../src/marketplace/client.js';
import { MarketplaceOptionsError } from '../../src/marketplace/types.js';
import type { MarketplaceOptions } from '../../src/marketplace/types.js';
import { ONE_SELLER, useFolder } from './folder.js';

const folder = useFolder();

/** Whether the client can be made; a setting that passes and then stops the run is a defect. */
function clientTakes(options: Partial<MarketplaceOptions>): boolean {
  try {
    const baseUrl = new URL(ONE_SELLER.MARKETPLACE_URL);
    void createMarketplace({ baseUrl, key: new Secret('a-key'), ...options }).close();
    return true;
  } catch (error) {
    if (error instanceof MarketplaceOptionsError) return false;
    throw error;
  }
}

it('lets through just the addresses that the client takes, or a run would stop at what was checked', () => {
  const part = fc.constantFrom(
    'localhost',
    '127',
    '0',
    '1',
    '.',
    '[::1]',
    'a.example',
    '256',
    'www.',
    'x',
    '::1',
  );
  const host = fc.array(part, { minLength: 1, maxLength: 7 }).map((parts) => parts.join(''));
  const scheme = fc.constantFrom('http', 'https', 'ftp');
  const user = fc.constantFrom('', '', '', '@', 'me@', ':pw@');
  const end = fc.constantFrom('', '', '/', '/shop', '?', '#', '/?#', '/?a=1', '#a', '/%3F');
  fc.assert(
    fc.property(scheme, user, host, end, fc.boolean(), (protocol, who, name, path, allowed) => {
      const text = `${protocol}://${who}${name}${path}`;
      fc.pre(URL.canParse(text));
      const problems = folder.problems({
        ...ONE_SELLER,
        MARKETPLACE_URL: text,
        ALLOW_PLAIN_HTTP: String(allowed),
      });
      const taken = clientTakes({ baseUrl: new URL(text), allowPlainHttp: allowed });
      expect(problems.length === 0).toBe(taken);
    }),
    { numRuns: 1_000 },
  );
});

it('lets through just the header names and keys that the client takes', () => {
  const name = fc.oneof(
    fc.constantFrom('X-Api-Key', 'Host', 'TE', 'Keep-Alive', 'User-Agent', 'x key', 'X-Key:', 'ä'),
    fc.string({ minLength: 1, maxLength: 3 }).map((text) => `x${text}x`),
  );
  const key = fc.oneof(
    fc.constantFrom('plain-key-1', 'two words', 'clé-de-test', 'ключ-ключ', 'a\u00a0b', '~!@#'),
    fc.string({ minLength: 1, maxLength: 3, unit: 'binary' }).map((text) => `k${text}k`),
  );
  fc.assert(
    fc.property(name, key, (header, text) => {
      const env = { ...ONE_SELLER, MARKETPLACE_API_KEY: text, MARKETPLACE_KEY_HEADER: header };
      const carriage = { placement: 'default', keyHeader: header } as const;
      const taken = clientTakes({ key: new Secret(text), carriage });
      expect(folder.problems(env).length === 0).toBe(taken);
    }),
    { numRuns: 1_000 },
  );
});
