import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ITEM_FIELDS,
  stateChangeClass,
  type ChangeClass,
  wideChanges,
} from '../../src/domain/changes.js';
import { ITEM_VALUE_COLUMNS } from '../../src/store/item-rows.js';

const columnsOf = (wanted: ChangeClass): string[] =>
  ITEM_FIELDS.filter((field) => field.class === wanted).map(({ column }) => column);

describe('the fields of an item', () => {
  it('are all that the store keeps of it, so that no change goes untold', () => {
    const others = new Set(['content_hash', 'extra_hash', 'wire_hash', 'extra', 'raw']);
    const canonical = ITEM_VALUE_COLUMNS.filter((column) => !others.has(column));
    expect(ITEM_FIELDS.map(({ column }) => column)).toEqual(canonical);
  });

  it('are followed by what they are about', () => {
    expect(columnsOf('price')).toEqual(['price_regular', 'price_extended', 'currency']);
    expect(columnsOf('release')).toEqual(['version', 'published_at']);
    expect(columnsOf('media')).toHaveLength(5);
    expect(columnsOf('text')).toHaveLength(7);
  });
});

describe('a change of state', () => {
  it('is of a class of its own for each that people act on', () => {
    expect(stateChangeClass(null, 'live')).toBe('added');
    expect(stateChangeClass('live', 'removed')).toBe('removed');
    expect(stateChangeClass('missing', 'removed')).toBe('removed');
    expect(stateChangeClass('removed', 'live')).toBe('restored');
  });

  it('is one of missing both ways, since an item that is found again never left', () => {
    expect(stateChangeClass('live', 'missing')).toBe('missing');
    expect(stateChangeClass('missing', 'live')).toBe('missing');
  });
});

describe('a change of the whole catalogue', () => {
  const column = fc.constantFrom(...ITEM_FIELDS.map((field) => field.column));

  it('is one that nearly every item shares', () => {
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

  it('is none when there is but one item, or none', () => {
    expect(wideChanges(new Map([['price_regular', 1]]), 1)).toEqual([]);
    expect(wideChanges(new Map(), 0)).toEqual([]);
  });

  it('knows no fields but those of items: that all are restored at once is told by the counts', () => {
    expect(wideChanges(new Map([['state', 50]]), 50)).toEqual([]);
  });
});
