import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  changeText,
  describeChange,
  fileName,
  listDiff,
  percentChange,
  shortenDiff,
  wideChanges,
} from '../../src/catalogue/changes.js';
import { ITEM_FIELDS, type FieldType, type FieldTypes } from '../../src/domain/item.js';
import { readMoment } from '../../src/domain/moment.js';

describe('the fields of an item', () => {
  const samples: { readonly [T in FieldType]: readonly FieldTypes[T][] } = {
    text: ['https://a.example/1.png', 'https://b.example/1.png', 'two', null],
    texts: [['a'], ['a', 'b'], ['https://a.example/c'], []],
    integer: [0, 12, -1, null],
    money: ['0.00', '19.90', '-1.00', null],
    time: ['2024-01-02T03:04:05Z', '2024-01-02T03:04:05.1Z', '2025-01-02T03:04:05Z', null],
  };
  const ofUnknownColumns = Object.keys(samples).map((type) => {
    return { column: `new_${type}`, type: type as FieldType, class: 'release' } as const;
  });

  it.each([...ITEM_FIELDS, ...ofUnknownColumns])(
    'print differently before and after a change: $column',
    ({ column: field, type, class: kind }) => {
      for (const old of samples[type]) {
        for (const now of samples[type].filter((value) => value !== old)) {
          const change = { class: kind, field, old, new: now, currencies: null };
          const text = describeChange(change, 40);
          if (text.kind === 'values') expect(text.old).not.toBe(text.new);
          else if (text.kind === 'list') expect([...text.added, ...text.removed]).not.toEqual([]);
          else expect.unreachable();
          const [before, after] = changeText(change, 40).split(' → ');
          expect(before).not.toBe(after);
        }
      }
    },
  );
});

describe('wideChanges', () => {
  const column = fc.constantFrom(...ITEM_FIELDS.map((field) => field.column));

  it('finds fields that changed in 90 % of the items or more', () => {
    const cases = fc.record({ column, compared: fc.integer({ min: 2, max: 100_000 }) });
    fc.assert(
      fc.property(cases, ({ column: changed, compared }) => {
        expect(wideChanges(new Map([[changed, compared]]), compared)).toEqual([
          { field: changed, items: compared, of: compared },
        ]);
        const few = Math.ceil(compared * 0.9) - 1;
        expect(wideChanges(new Map([[changed, few]]), compared)).toEqual([]);
      }),
    );
  });

  it('finds nothing with fewer than two items', () => {
    expect(wideChanges(new Map([['price_regular', 1]]), 1)).toEqual([]);
    expect(wideChanges(new Map(), 0)).toEqual([]);
  });

  it('ignores the state: the counts already show that all items were restored', () => {
    expect(wideChanges(new Map([['state', 50]]), 50)).toEqual([]);
  });
});

describe('a change in percent', () => {
  it.each([
    ['72.79', '58.23', '-20.0 %'],
    ['10.00', '12.50', '+25.0 %'],
    ['3.00', '4.00', '+33.3 %'],
    ['0.01', '999999999999.99', '+9999999999999800.0 %'],
    ['200.00', '200.10', '+0.1 %'],
    ['-10.00', '-5.00', '+50.0 %'],
  ])('from %s to %s is %s', (old, now, text) => {
    expect(percentChange(old, now)?.text).toBe(text);
  });

  it('does not exist if the old amount is zero, or if one is no amount', () => {
    expect(percentChange('0.00', '5.00')).toBeNull();
    expect(percentChange('free', '5.00')).toBeNull();
    expect(percentChange('1', '1.005')).toBeNull();
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
        expect(change?.text.startsWith(now < old ? '-' : '+')).toBe(true);
      }),
    );
  });
});

const word = fc.constantFrom('a', 'layout', 'PHP 8.3', '🎨🎨', 'ä', 'x'.repeat(50), '\n', '  ');
const words = fc.array(word, { maxLength: 60 }).map((all) => all.join(' '));
const any = fc.oneof(words, fc.string({ unit: 'binary', maxLength: 200 }));

describe('shortenDiff', () => {
  it('keeps the words that differ and a few around them', () => {
    const text = `${'Ten layouts and four colours. '.repeat(40)}For PHP 8.3 and newer.${' Loved by buyers.'.repeat(40)}`;
    expect(shortenDiff(text, text.replace('8.3', '8.4'), 40)).toEqual({
      old: '…For PHP 8.3 and…',
      new: '…For PHP 8.4 and…',
    });
  });

  it('keeps short texts unchanged', () => {
    expect(shortenDiff('2.6.0', '2.7.0', 20)).toEqual({ old: '2.6.0', new: '2.7.0' });
  });

  it('respects the width, cuts no character in half, and never makes different texts equal', () => {
    fc.assert(
      fc.property(
        any,
        any,
        any,
        any,
        fc.integer({ min: 16, max: 90 }),
        (head, a, b, tail, width) => {
          const whole = (text: string): string => text.toWellFormed().replaceAll('…', '.');
          const [old, now] = [whole(head + a + tail), whole(head + b + tail)];
          const diff = shortenDiff(old, now, width);
          for (const text of [diff.old, diff.new]) {
            expect(text.length).toBeLessThanOrEqual(width);
            expect(text.isWellFormed()).toBe(true);
          }
          expect(diff.old === diff.new).toBe(old === now);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('adds nothing but …', () => {
    fc.assert(
      fc.property(words, words, words, (head, a, b) => {
        const [old, now] = [head + a, head + b];
        const diff = shortenDiff(old, now, 40);
        expect(old).toContain(diff.old.replaceAll('…', ''));
        expect(now).toContain(diff.new.replaceAll('…', ''));
      }),
    );
  });
});

describe('listDiff', () => {
  const list = fc.array(fc.constantFrom<string>('a', 'b', 'c', 'd'), { maxLength: 12 });

  it('turns one list into the other, except for the order', () => {
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
});

describe('describeChange', () => {
  const change = { class: 'text', field: 'name', old: null, new: null } as const;
  const describeWith = (more: Partial<Parameters<typeof describeChange>[0]>) =>
    describeChange({ ...change, ...more }, 40);
  const usd = { old: 'USD', new: 'USD' };

  it.each([
    ['added', null, 'live', 'added'],
    ['missing', 'live', 'missing', 'missing'],
    ['missing', 'missing', 'live', 'found again'],
    ['removed', 'missing', 'removed', 'removed'],
    ['restored', 'removed', 'live', 'restored'],
  ] as const)('calls the state change %s from %s to %s “%s”', (kind, old, now, expected) => {
    const text = describeChange({ class: kind, field: 'state', old, new: now }, 40);
    expect(text).toEqual({ kind: 'state', word: expected });
  });

  it('shows prices with their currency, and a percentage only within one currency', () => {
    const price = { class: 'price', field: 'price_regular', old: '20.00', new: '15.00' } as const;
    expect(describeWith({ ...price, currencies: usd })).toMatchObject({
      label: 'regular price',
      old: '20.00',
      new: '15.00 USD',
      note: '-25.0 %',
    });
    expect(describeWith({ ...price, currencies: { old: 'USD', new: 'EUR' } })).toMatchObject({
      old: '20.00 USD',
      new: '15.00 EUR',
      note: null,
    });
    expect(describeWith({ ...price, new: null, currencies: usd })).toMatchObject({
      old: '20.00 USD',
      new: '–',
      note: null,
    });
  });

  it('shows added and removed entries of a list, and counts those that are too many', () => {
    const tags = { field: 'tags', old: ['a', 'b'] };
    expect(describeWith({ ...tags, new: ['b', 'c'] })).toMatchObject({
      added: ['c'],
      removed: ['a'],
    });
    expect(describeWith({ ...tags, new: ['b', 'a'] })).toMatchObject({ note: 'in another order' });
    const many = describeWith({ ...tags, old: [], new: ['1', '2', '3', '4', '5', '6', '7'] });
    expect(many).toMatchObject({ added: ['1', '2', '3', '4', '5', '2 more'] });
  });

  it('shows media by file name, or by host if the file names are equal, and counts screenshots', () => {
    const media = { class: 'media', field: 'thumbnail_url' } as const;
    const a = 'https://one.example/1/a.png';
    expect(describeWith({ ...media, old: a, new: 'https://one.example/1/b.png' })).toMatchObject({
      old: 'a.png',
      new: 'b.png',
      note: null,
    });
    expect(describeWith({ ...media, old: a, new: 'https://two.example/1/a.png' })).toMatchObject({
      old: 'one.example',
      new: 'two.example',
      note: 'a.png',
    });
    expect(describeWith({ ...media, old: a, new: `${a}?v=2` })).toMatchObject({
      note: 'at another address',
    });
    const shots = { class: 'media', field: 'screenshots', old: [a] } as const;
    expect(describeWith({ ...shots, new: [a, 'https://one.example/c.png'] })).toMatchObject({
      added: ['c.png'],
      removed: [],
      note: '1 → 2',
    });
    expect(describeWith({ ...shots, new: ['https://two.example/a.png'] })).toMatchObject({
      added: [],
      removed: [],
      note: '1, at other addresses',
    });
  });

  it('finds a file name in any text', () => {
    expect(fileName('https://x.example/a/b.png?s=1/2#c')).toBe('b.png');
    expect(fileName('///')).toBe('///');
    expect(fileName('')).toBe('');
  });
});

describe('the line of a change', () => {
  const change = { class: 'text', field: 'name', currencies: null } as const;

  it('says what came and went in a list, and that texts differ where nobody sees it', () => {
    const tags = { ...change, field: 'tags', old: ['a', 'b'], new: ['b', 'c'] };
    expect(changeText(tags, 40)).toBe('+c −a');
    const hidden = { ...change, old: 'Shop', new: 'Sh\u200Bop' };
    expect(changeText(hidden, 40)).toContain('(differs in invisible characters)');
  });

  it('shows the difference in long texts, and stays short', () => {
    const visible = fc.constantFrom('日', '本', 'あ', '🎨', 'a', 'é', '<p>', ' layout ');
    const text = fc.array(visible, { maxLength: 120 }).map((parts) => parts.join('').trim());
    fc.assert(
      fc.property(text, visible, visible, text, (start, a, b, end) => {
        fc.pre(a.trim() !== b.trim());
        const line = changeText({ ...change, old: start + a + end, new: start + b + end }, 72);
        expect(line).not.toContain('invisible');
        expect(line.length).toBeLessThanOrEqual(2 * 72 + 3);
      }),
    );
  });
});

describe('readMoment', () => {
  const now = new Date('2026-03-10T12:00:00Z');

  it.each([
    ['2026-03-01', '2026-03-01T00:00:00.000Z'],
    ['2026-03-01T12:30Z', '2026-03-01T12:30:00.000Z'],
    ['2026-03-01 12:30:05.25', '2026-03-01T12:30:05.250Z'],
    ['2026-03-01T12:30+02:00', '2026-03-01T10:30:00.000Z'],
    ['2026-03-01T12:30-0130', '2026-03-01T14:00:00.000Z'],
    ['7d', '2026-03-03T12:00:00.000Z'],
    ['1d12h', '2026-03-09T00:00:00.000Z'],
  ])('reads %s as %s', (text, at) => {
    expect(readMoment(text, now)).toEqual({ at: new Date(at) });
  });

  it.each(['', 'yesterday', '2026-02-30', '2026-13-01', '2026-03-01T25:00', '2026-3-1', '7'])(
    'refuses “%s”',
    (text) => {
      expect(readMoment(text, now)).toHaveProperty('fault');
    },
  );

  it('reads any ISO timestamp', () => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }),
        (at) => {
          expect(readMoment(at.toISOString(), now)).toEqual({ at });
        },
      ),
    );
  });
});
