import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { editDistance, nearest } from '../../src/config/nearest.js';

describe('the nearest name', () => {
  it.each([
    ['', '', 0],
    ['', 'abc', 3],
    ['abc', 'abc', 0],
    ['abc', 'acb', 1],
    ['abc', 'abd', 1],
    ['kitten', 'sitting', 3],
  ])('counts the slips between %j and %j', (one, other, distance) => {
    expect(editDistance(one, other)).toBe(distance);
  });

  it('counts the same in both directions and never more than the longer word', () => {
    const word = fc.string({ maxLength: 12 });
    fc.assert(
      fc.property(word, word, (one, other) => {
        const distance = editDistance(one, other);
        expect(editDistance(other, one)).toBe(distance);
        expect(distance).toBeLessThanOrEqual(Math.max(one.length, other.length));
        expect(distance === 0).toBe(one === other);
      }),
    );
  });

  it('ignores case and separators, which people get wrong most', () => {
    expect(nearest('Key-File', ['keyEnv', 'keyFile'])).toBe('keyFile');
  });

  it('is none when the word is too different, because a wrong guess misleads', () => {
    expect(nearest('PATH', ['DATA_DIR', 'LOG_LEVEL'])).toBeNull();
  });
});
