import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wireHash } from '../../src/domain/prepare-item.js';
import { KnownItems, type KnownState } from '../../src/domain/known-items.js';

const hashOf = (id: number): Buffer => wireHash(Buffer.from(`record ${id}`));

describe('the table of known items', () => {
  it('answers like a map, however many items come and whatever their ids', () => {
    const ids = fc.uniqueArray(fc.oneof(fc.maxSafeNat(), fc.integer({ min: 1, max: 5000 })), {
      maxLength: 3000,
      size: 'max',
    });
    const states = fc.constantFrom<KnownState>('live', 'missing', 'removed');
    fc.assert(
      fc.property(ids, states, fc.nat(100), (all, state, expected) => {
        const table = new KnownItems(expected);
        const known = all.filter((_, i) => i % 2 === 0);
        const fresh = all.filter((_, i) => i % 2 === 1);
        for (const id of known) table.addKnown(id, hashOf(id), state);
        for (const id of known.filter((_, i) => i % 3 === 0)) table.markSeen(table.find(id));
        for (const id of fresh) table.addNew(id, hashOf(id));
        for (const id of all) {
          expect(table.hasWireHash(table.find(id), hashOf(id))).toBe(true);
          expect(table.hasWireHash(table.find(id), hashOf(id + 1))).toBe(false);
        }
        const unseen = state === 'removed' ? [] : known.filter((_, i) => i % 3 !== 0);
        expect(new Set(table.unseen())).toEqual(new Set(unseen));
        expect(table.presentCount()).toBe(state === 'removed' ? 0 : known.length);
        expect(table.size).toBe(all.length);
        const stranger = all.reduce((a, b) => Math.max(a, b), 0) + 1;
        expect(table.find(stranger)).toBe(-1);
      }),
      { numRuns: 30 },
    );
  });

  it('tells a live item from one that is missing or removed', () => {
    const table = new KnownItems(3);
    table.addKnown(1, hashOf(1), 'live');
    table.addKnown(2, hashOf(2), 'missing');
    table.addKnown(3, hashOf(3), 'removed');
    expect([1, 2, 3].map((id) => table.isLive(table.find(id)))).toEqual([true, false, false]);
    expect(table.unseen()).toEqual([1, 2]);
  });
});
