import fc from 'fast-check';
import { expect, it } from 'vitest';
import { mayCarryKey } from '../../src/marketplace/address.js';
import { ONE_SELLER, useFolder } from './folder.js';

const folder = useFolder();

it('lets through just the addresses that the client would send a key to, since the layers may not share code', () => {
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
  const scheme = fc.constantFrom('http', 'https');
  fc.assert(
    fc.property(scheme, host, fc.boolean(), (protocol, name, allowed) => {
      const text = `${protocol}://${name}`;
      fc.pre(URL.canParse(text));
      const problems = folder.problems({
        ...ONE_SELLER,
        MARKETPLACE_URL: text,
        ALLOW_PLAIN_HTTP: String(allowed),
      });
      expect(problems.length === 0).toBe(mayCarryKey(new URL(text), allowed));
    }),
    { numRuns: 500 },
  );
});
