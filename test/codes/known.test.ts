import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type FoundPurchase,
  foundPurchase,
  mergePurchase,
  supportAt,
  updateKnownCode,
  type NewVerdict,
  type KnownCode,
  type KnownPurchase,
} from '../../src/codes/known-code.js';
import { decodePurchase } from '../../src/marketplace/decode.js';
import type { Json } from '../../src/domain/item.js';

const DAY = 86_400_000;
const NOW = Date.parse('2026-05-01T00:00:00Z');

/** A purchase as the client returns it. */
function read(raw: Json): FoundPurchase {
  const decoding = decodePurchase(raw);
  if (!decoding.ok) throw new Error(decoding.reason);
  return foundPurchase({ value: decoding.decoded.value, raw, sha256: '' });
}

const FULL: Json = {
  purchase_code: 'x',
  license_type: 'Regular',
  price: 19.9,
  currency: 'USD',
  item: {
    id: 7,
    name: 'Item 7',
    url: 'https://example.com/7',
    price: { regular: 19.9, extended: 99 },
    media: { preview_image: 'https://example.com/7.png' },
  },
  supported_until: '2026-06-01T00:00:00Z',
  downloaded: true,
  date: '2025-12-01T00:00:00Z',
};
const REDUCED: Json = {
  purchase_code: 'x',
  license_type: 'Regular',
  price: '19.90',
  currency: 'USD',
  item: { id: 7, name: 'Item 7', media: [] },
  date: '2025-12-01T00:00:00.000000Z',
};

/** The purchase as it is kept after its first answer. */
const keep = (raw: Json): KnownPurchase => mergePurchase(null, read(raw));

const valid = (raw: Json): NewVerdict => ({ verdict: 'valid', purchase: read(raw) });
const kinds = (before: KnownCode | null, result: NewVerdict, at = NOW): string[] =>
  updateKnownCode(before, result, at).transitions.map(({ kind }) => kind);
const known = (raw: Json, checkedAt = NOW - DAY): KnownCode => ({
  verdict: 'valid',
  purchase: keep(raw),
  checkedAt,
});

describe('a known purchase', () => {
  const full = keep(FULL);

  it('loses nothing to a reduced answer, and gains from a full one', () => {
    expect(mergePurchase(full, read(REDUCED))).toEqual(full);
    expect(mergePurchase(keep(REDUCED), read(FULL))).toEqual(full);
    expect(full.item?.full).toBe(true);
  });

  it('takes new values: licence, price, a renamed item', () => {
    const changed = { ...REDUCED, license_type: 'Extended', price: 99, downloaded: false };
    const item = { id: 7, name: 'New name' };
    expect(mergePurchase(full, read({ ...changed, item }))).toEqual({
      ...full,
      licenseType: 'Extended',
      price: '99.00',
      downloaded: false,
      item: { ...full.item, name: 'New name' },
    });
  });

  it('is never a mix of two items', () => {
    const other = { ...REDUCED, item: { id: 8, name: 'Item 8' } };
    expect(mergePurchase(full, read(other)).item).toEqual(keep(other).item);
  });

  it.each([
    [{ id: 7 }, { id: 7, name: 'Item 7' }, 'the same id is the same item'],
    [
      { name: 'Item 7' },
      { id: 7, name: 'Item 7' },
      'without an id, the same name is the same item',
    ],
    [{ url: 'u' }, { id: 7, name: 'Item 7' }, 'nothing shows that it is another item'],
    [{ id: 8 }, { id: 8, name: null }, 'another id is another item, with an unknown name'],
    [{ id: 8, name: 'Item 7' }, { id: 8, name: 'Item 7' }, 'two items may have the same name'],
    [{ name: 'Item 8' }, { id: null, name: 'Item 8' }, 'another name may be another item'],
  ])('merges an answer with item %j to %j, because %s', (item, expected, _why) => {
    expect(mergePurchase(full, read({ ...REDUCED, item })).item).toMatchObject(expected);
  });

  it('combines an id and a name only if they came together', () => {
    const item = (item: Json): Json => ({ item });
    const both = item({ id: 7, name: 'Item 7' });
    const [id, name, address] = [item({ id: 7 }), item({ name: 'Item 7' }), item({ url: 'u' })];
    const merged = (known: Json, fresh: Json) => mergePurchase(keep(known), read(fresh)).item;
    expect(merged(id, both)).toEqual(keep(both).item);
    expect(merged(name, both)).toEqual(keep(both).item);
    expect(merged(id, name)).toEqual(keep(id).item);
    expect(merged(name, id)).toEqual(keep(name).item);
    expect(merged(address, id)).toEqual(keep(id).item);
  });

  it('has an id and a name together only if one answer had both', () => {
    const part = fc.record(
      {
        id: fc.constantFrom(7, 8),
        name: fc.constantFrom('A', 'B'),
        url: fc.constantFrom('u', 'v'),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        let merged: KnownPurchase | null = null;
        for (const item of parts) {
          const reading = read({ item });
          const next: KnownPurchase = mergePurchase(merged, reading);
          expect(mergePurchase(next, reading)).toEqual(next);
          const { id = null, name = null } = next.item ?? {};
          if (id !== null && name !== null) {
            expect(parts).toContainEqual(expect.objectContaining({ id, name }));
          }
          merged = next;
        }
      }),
    );
  });

  it.each([
    [null, null],
    ['', null],
    ['2027-01-01T00:00:00Z', '2027-01-01T00:00:00Z'],
    ['lifetime', full.supportedUntil],
  ])('loses support only if the answer says so: %j', (supported_until, expected) => {
    expect(mergePurchase(full, read({ ...REDUCED, supported_until })).supportedUntil).toBe(
      expected,
    );
  });

  it('never loses a field to answers that leave fields out, in any order', () => {
    const names = Object.keys(FULL).filter((name) => name !== 'item');
    const parts = fc
      .subarray(names)
      .map((some) => read(Object.fromEntries(some.map((name) => [name, FULL[name] as Json]))));
    const isKnown = (of: object): string[] =>
      Object.entries(of).flatMap(([name, value]) => (value === null ? [] : [name]));
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 6 }), (readings) => {
        let merged: KnownPurchase | null = null;
        for (const reading of readings) {
          const next: KnownPurchase = mergePurchase(merged, reading);
          expect(isKnown(next)).toEqual(expect.arrayContaining(isKnown(reading.value)));
          if (merged !== null)
            expect(isKnown(next)).toEqual(expect.arrayContaining(isKnown(merged)));
          expect(mergePurchase(next, reading)).toEqual(next);
          merged = next;
        }
      }),
    );
  });
});

describe('support', () => {
  it.each([
    ['2026-05-01T00:00:01Z', 'active'],
    ['2026-05-01T00:00:00Z', 'expired'],
    ['2026-04-30T23:59:59.999999Z', 'expired'],
    [null, 'none'],
  ])('until %s is %s', (supportedUntil, expected) => {
    expect(supportAt({ supportedUntil, isSupportUnknown: false }, NOW)).toBe(expected);
  });

  it('whose end can’t be read is unknown, because the buyer may have support', () => {
    const odd = keep({ ...(FULL as object), supported_until: 'next summer' });
    expect(supportAt(odd, NOW)).toBe('unknown');
    expect(supportAt(mergePurchase(odd, read(REDUCED)), NOW)).toBe('unknown');
    expect(supportAt(mergePurchase(odd, read(FULL)), NOW)).toBe('active');
  });
});

describe('a code', () => {
  const before = known(FULL);

  it('has no transitions at its first check; otherwise a million codes would be a million changes', () => {
    expect(updateKnownCode(null, valid(FULL), NOW)).toEqual({
      known: { verdict: 'valid', purchase: keep(FULL), checkedAt: NOW },
      transitions: [],
    });
    expect(updateKnownCode(null, { verdict: 'invalid' }, NOW).known).toMatchObject({
      purchase: null,
    });
  });

  it('keeps its purchase when it becomes invalid, probably by a refund', () => {
    expect(updateKnownCode(before, { verdict: 'invalid' }, NOW)).toEqual({
      known: { ...before, verdict: 'no_longer_valid', checkedAt: NOW },
      transitions: [{ kind: 'became-invalid', from: 'valid', to: 'no_longer_valid' }],
    });
  });

  it('also has its other changes when it becomes valid again', () => {
    const refunded: KnownCode = { ...before, verdict: 'invalid' };
    expect(kinds(refunded, valid(FULL))).toEqual(['became-valid']);
    expect(kinds(refunded, valid({ ...FULL, license_type: 'Extended' }))).toEqual([
      'became-valid',
      'license-changed',
    ]);
  });

  it('tells when its buyer has downloaded the item, since refunds after that are worth a look', () => {
    const fresh = { ...(FULL as object), downloaded: false };
    expect(kinds(known(fresh), valid(FULL))).toEqual(['downloaded']);
    expect(kinds(known(FULL), valid(FULL))).toEqual([]);
    expect(kinds(known(REDUCED), valid(FULL))).toEqual([]);
  });

  it('has no transition if only the shape or the letter case of the answer changed', () => {
    expect(kinds(before, valid(REDUCED))).toEqual([]);
    expect(kinds(known(REDUCED), valid(FULL))).toEqual([]);
    expect(kinds(before, valid({ ...FULL, license_type: ' REGULAR' }))).toEqual([]);
    expect(kinds(before, valid({ ...FULL, currency: 'usd' }))).toEqual([]);
  });

  it('has no change of item if an id is missing before or now', () => {
    const unnumbered = { ...REDUCED, item: { name: 'Item 7' } };
    const renamed = { ...REDUCED, item: { name: 'Item 8' } };
    expect(kinds(known(unnumbered), valid(REDUCED))).toEqual([]);
    expect(kinds(before, valid(unnumbered))).toEqual([]);
    expect(kinds(before, valid(renamed))).toEqual([]);
  });

  it.each([
    [{ license_type: 'Extended' }, 'license-changed', 'Regular', 'Extended'],
    [{ price: 99 }, 'price-changed', '19.90 USD', '99.00 USD'],
    [{ currency: 'EUR' }, 'price-changed', '19.90 USD', '19.90 EUR'],
    [{ item: { id: 8, name: 'Item 8' } }, 'item-changed', '7', '8'],
    [
      { supported_until: '2026-12-01T00:00:00Z' },
      'support-extended',
      '2026-06-01T00:00:00Z',
      '2026-12-01T00:00:00Z',
    ],
    [{ supported_until: null }, 'support-shortened', '2026-06-01T00:00:00Z', null],
  ])('has a transition for a changed purchase: %j', (fields, kind, from, to) => {
    const result = valid({ ...FULL, ...fields });
    expect(updateKnownCode(before, result, NOW).transitions).toEqual([{ kind, from, to }]);
  });

  it('has extended support only if a full answer showed that there was none before', () => {
    const none = { ...FULL, supported_until: null };
    expect(kinds(known(none), valid(FULL))).toEqual(['support-extended']);
  });

  it('has expired support once, at the first check after its end', () => {
    const june = NOW + 40 * DAY;
    expect(kinds(before, valid(REDUCED), june)).toEqual(['support-expired']);
    expect(
      kinds(updateKnownCode(before, valid(REDUCED), june).known, valid(FULL), june + DAY),
    ).toEqual([]);
  });

  it('does not change by an unproven answer, or by one older than the last check', () => {
    expect(updateKnownCode(before, { verdict: 'unproven' }, NOW)).toEqual({
      known: before,
      transitions: [],
    });
    expect(updateKnownCode(null, { verdict: 'unproven' }, NOW)).toEqual({
      known: null,
      transitions: [],
    });
    const old = before.checkedAt - 1;
    expect(updateKnownCode(before, { verdict: 'invalid' }, old)).toEqual({
      known: before,
      transitions: [],
    });
  });

  it('has the same state and no transitions if an answer is recorded twice', () => {
    const one = fc.constantFrom<NewVerdict>(
      valid(FULL),
      valid(REDUCED),
      valid({ ...FULL, license_type: 'Extended', supported_until: null }),
      { verdict: 'invalid' },
      { verdict: 'unproven' },
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(one, fc.nat(90)), { maxLength: 12 }), (checks) => {
        let state: KnownCode | null = null;
        let last: string | null = null;
        for (const [result, day] of checks) {
          const next = updateKnownCode(state, result, NOW + day * DAY);
          expect(updateKnownCode(next.known, result, NOW + day * DAY)).toEqual({
            known: next.known,
            transitions: [],
          });
          if (next.transitions.length === 0 && next.known !== null && state !== null)
            expect(next.known.verdict).toBe(last);
          if (state !== null && next.known !== null) {
            expect(next.known.checkedAt).toBeGreaterThanOrEqual(state.checkedAt);
          }
          state = next.known;
          last = state?.verdict ?? null;
        }
      }),
    );
  });
});
