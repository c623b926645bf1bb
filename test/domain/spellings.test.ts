import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { base64SpellingsOf, spellingsOf } from '../../src/domain/spellings.js';

describe('spellings of a secret', () => {
  it.each([
    ['plain', 'a b/c"&é', 'a b/c"&é'],
    ['JSON', 'a b/c"&é', 'a b/c\\"&é'],
    ['JSON in ASCII', 'a b/c"&é', 'a b/c\\"&\\u00e9'],
    ['JSON of PHP', 'a b/c"&é', 'a b\\/c\\"&\\u00e9'],
    ['percent-encoded', 'a b/c"&é', 'a%20b%2Fc%22%26%C3%A9'],
    ['percent-encoded in lower case', 'a b/c"&é', 'a%20b%2fc%22%26%c3%a9'],
    ['percent-encoded but for slashes', 'a/b c+d!', 'a/b%20c%2Bd!'],
    ['percent-encoded by PHP but for slashes', 'a/b c+d!', 'a/b%20c%2Bd%21'],
    ['percent-encoded as a whole address is', 'a/b:c@d,e;f$g é', 'a/b:c@d,e;f$g%20%C3%A9'],
    ['percent-encoded as a whole address is, in lower case', 'a/b é', 'a/b%20%c3%a9'],
    ['form', 'a b/c"&é', 'a+b%2Fc%22%26%C3%A9'],
    ['HTML', 'a b/c"&é', 'a b/c&quot;&amp;é'],
    ['host name', 'AbCd', 'abcd'],
    ['without the blanks around it', ' key ', 'key'],
  ])('include %s', (_, secret, spelling) => {
    expect(spellingsOf(secret)).toContain(spelling);
  });

  it('are found for half a character too, which no encoding can carry', () => {
    expect(spellingsOf('key\uD800')).toContain('key\uD800');
  });
});

describe('base64 spellings', () => {
  it('find the secret whatever stands before and after it, as in an Authorization header', () => {
    const bytes = fc.uint8Array({ maxLength: 20 }).map((array) => Buffer.from(array));
    const encoding = fc.constantFrom('base64' as const, 'base64url' as const);
    fc.assert(
      fc.property(
        bytes,
        fc.string({ minLength: 8 }),
        bytes,
        encoding,
        (before, secret, after, as) => {
          const text = Buffer.concat([before, Buffer.from(secret), after]).toString(as);
          expect(base64SpellingsOf(secret).some((spelling) => text.includes(spelling))).toBe(true);
        },
      ),
    );
  });

  it('are none for a secret so short that its pieces turn up in any text', () => {
    expect(base64SpellingsOf('abcd')).toEqual([]);
  });
});
