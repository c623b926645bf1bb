import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  changeText,
  listDiff,
  percentChange,
  shortenDiff,
  wideChanges,
} from '../../src/catalogue/changes.js';
import { ITEM_FIELDS } from '../../src/domain/item.js';

type Change = Parameters<typeof changeText>[0];

const LONG = 'Ten layouts and four colours. '.repeat(40);

const of = (change: Partial<Change>): string =>
  changeText({ class: 'text', field: 'name', old: null, new: null, ...change }, 40);

describe('the line of a change', () => {
  const usd = { old: 'USD', new: 'USD' };
  const price = { class: 'price', field: 'price_regular', old: '20.00', new: '15.00' } as const;
  const image = { class: 'media', field: 'thumbnail_url', old: 'https://one.example/1/a.png' };
  const shots = { class: 'media', field: 'screenshots', old: [image.old] } as const;
  const many = ['1', '2', '3', '4', '5', '6', '7'];

  it.each<[Partial<Change>, string]>([
    [{ field: 'state', class: 'added', new: 'live' }, 'added'],
    [{ field: 'state', class: 'missing', old: 'live', new: 'missing' }, 'missing'],
    [{ field: 'state', class: 'missing', old: 'missing', new: 'live' }, 'found again'],
    [{ field: 'state', class: 'removed', old: 'missing', new: 'removed' }, 'removed'],
    [{ field: 'state', class: 'restored', old: 'removed', new: 'live' }, 'restored'],
    // A currency that stays is shown once, and a percentage only within one currency.
    [{ ...price, currencies: usd }, '20.00 → 15.00 USD (-25.0 %)'],
    [{ ...price, currencies: { old: 'USD', new: 'EUR' } }, '20.00 USD → 15.00 EUR'],
    [{ ...price, new: null, currencies: usd }, '20.00 USD → –'],
    [{ field: 'tags', old: ['a', 'b'], new: ['b', 'c'] }, '+c −a'],
    [{ field: 'tags', old: ['a', 'b'], new: ['b', 'a'] }, '(in another order)'],
    [{ field: 'tags', old: [], new: many }, '+1 +2 +3 +4 +5 +2 more'],
    // Media are shown by file name, or by host if the file names are equal.
    [{ ...image, new: 'https://one.example/1/b.png' } as Change, 'a.png → b.png'],
    [
      { ...image, new: 'https://two.example/1/a.png' } as Change,
      'one.example → two.example (a.png)',
    ],
    [{ ...image, new: `${image.old}?v=2` } as Change, 'a.png → a.png (at another address)'],
    [{ ...shots, new: [image.old, 'https://one.example/c.png'] }, '+c.png (1 → 2)'],
    [{ ...shots, new: ['https://two.example/a.png'] }, '(1, at other addresses)'],
    [
      { field: 'published_at', class: 'release', old: '2024-01-02T03:04:05Z', new: null },
      '2024-01-02 03:04:05Z → –',
    ],
    [{ old: 'Shop', new: 'Sh\u200Bop' }, 'Shop → Sh\u200Bop (differs in invisible characters)'],
  ])('of %j is “%s”', (change, line) => {
    expect(of(change)).toBe(line);
  });
});

it('a field changed widely if it did in 90 % of the compared items, and in two at least; the state never counts', () => {
  const column = fc.constantFrom(...ITEM_FIELDS.map((field) => field.column));
  fc.assert(
    fc.property(column, fc.integer({ min: 2, max: 100_000 }), (field, of) => {
      expect(wideChanges(new Map([[field, of]]), of)).toEqual([{ field, items: of, of }]);
      expect(wideChanges(new Map([[field, Math.ceil(of * 0.9) - 1]]), of)).toEqual([]);
    }),
  );
  expect(wideChanges(new Map([['price_regular', 1]]), 1)).toEqual([]);
  expect(wideChanges(new Map([['state', 50]]), 50)).toEqual([]);
});

describe('a change in percent', () => {
  it.each([
    ['72.79', '58.23', '-20.0 %'],
    ['3.00', '4.00', '+33.3 %'],
    ['0.01', '999999999999.99', '+9999999999999800.0 %'],
    ['-10.00', '-5.00', '+50.0 %'],
    // Nothing is a percentage of zero, nor of what is no amount.
    ['0.00', '5.00', undefined],
    ['free', '5.00', undefined],
    ['1', '1.005', undefined],
  ])('from %s to %s is %s', (old, now, text) => {
    expect(percentChange(old, now)?.text).toBe(text);
  });

  it('is rounded half away from zero: `exact` to hundredths, `text` to tenths', () => {
    const cents = fc.bigInt({ min: 1n, max: 99_999_999_999_999n });
    const money = (amount: bigint): string =>
      `${amount / 100n}.${String(amount % 100n).padStart(2, '0')}`;
    fc.assert(
      fc.property(cents, cents, (old, now) => {
        const change = percentChange(money(old), money(now));
        // The error of a rounded percentage is at most half of its last digit.
        const isNear = (text: string, parts: bigint): boolean => {
          const rounded = BigInt(text.replaceAll(/[.+]/g, ''));
          const error = 2n * (100n * parts * (now - old) - rounded * old);
          return error <= old && -error <= old;
        };
        expect(isNear(change?.text.replace(' %', '') ?? '', 10n)).toBe(true);
        expect(isNear(change?.exact ?? '', 100n)).toBe(true);
      }),
    );
  });
});

describe('two long texts', () => {
  it('are cut around their first difference', () => {
    const text = `${LONG}8.3 and newer. ${LONG}`;
    expect(of({ old: text, new: text.replace('8.3', '8.4') })).toMatch(
      /^…olours\. 8\.3 and newer\..*… → …olours\. 8\.4 and newer\..*…$/,
    );
  });

  const word = fc.constantFrom('a', 'layout', 'PHP 8.3', '🎨🎨', 'ä', 'x'.repeat(50), '\n', '  ');
  const words = fc.array(word, { maxLength: 60 }).map((all) => all.join(' '));
  const any = fc.oneof(words, fc.string({ unit: 'binary', maxLength: 200 }));

  it('stay parts of themselves, within the width, with whole characters, and different if they are', () => {
    const width = fc.integer({ min: 16, max: 90 });
    fc.assert(
      fc.property(any, any, any, any, width, (head, a, b, tail, most) => {
        const whole = (text: string): string => text.toWellFormed().replaceAll('…', '.');
        const [old, now] = [whole(head + a + tail), whole(head + b + tail)];
        const diff = shortenDiff(old, now, most);
        for (const text of [diff.old, diff.new]) {
          expect(text.length).toBeLessThanOrEqual(most);
          expect(text.isWellFormed()).toBe(true);
        }
        expect(diff.old === diff.new).toBe(old === now);
        expect(old).toContain(diff.old.replaceAll('…', ''));
      }),
      { numRuns: 300 },
    );
  });
});

it('the added and removed entries of a list turn it into the other, except for the order', () => {
  const list = fc.array(fc.constantFrom<string>('a', 'b', 'c', 'd'), { maxLength: 12 });
  fc.assert(
    fc.property(list, list, (before, after) => {
      const { added, removed } = listDiff(before, after);
      const rest = [...before];
      for (const part of removed) rest.splice(rest.indexOf(part), 1);
      expect([...rest, ...added].toSorted()).toEqual(after.toSorted());
      expect(added.filter((part) => removed.includes(part))).toEqual([]);
    }),
  );
});
