import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseJson } from '../../src/domain/values.js';

const digits = fc.stringMatching(/^[1-9]\d{19,40}$/).filter((text) => !text.endsWith('0'));
const others = fc.constantFrom('a', '"', '\\', '1', '.', 'e5', ' ', '🎨', '1e1234');

it('a number keeps all of its digits wherever it stands, and texts stay as they are', () => {
  const around = fc.array(others, { maxLength: 40 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(around, digits, fc.integer({ min: 308, max: 9_999 }), (text, long, exponent) => {
      const json = `{"t":${JSON.stringify(text)},"n":[${long},-0.${long}, 1.5e${exponent}],"d":2.5}`;
      expect(parseJson(json)).toEqual({
        t: text,
        n: [long, `-0.${long}`, exponent > 308 ? `1.5e${exponent}` : 1.5e308],
        d: 2.5,
      });
    }),
  );
});
