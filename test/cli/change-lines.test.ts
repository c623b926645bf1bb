import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ChangeLines } from '../../src/cli/change-lines.js';
import { width } from '../../src/cli/output/text.js';
import type { ChangeClass } from '../../src/domain/changes.js';
import type { ItemChange } from '../../src/store/history-read.js';

const CHANGE: ItemChange = {
  ...{ seq: 1n, sellerId: 'main', itemId: 7n, itemName: 'Seven', runId: 3n },
  ...{ changedAt: new Date(0), class: 'text', field: 'description', old: null, new: null },
  currencies: null,
};

const told = (changes: readonly Partial<ItemChange>[], columns: number | null = null): string =>
  new ChangeLines({ columns, colour: false }).of({
    changes: changes.map((one) => ({ ...CHANGE, ...one })),
    folds: [],
  });

describe('the lines of changes', () => {
  it('of folds come before the items of their run, each as one line that says how to see all', () => {
    const fold = {
      ...{ runId: 3n, sellerId: 'main', changedAt: new Date(0), class: 'text' as ChangeClass },
      ...{ items: 4_812, of: 5_000, place: 9n },
    };
    const lines = new ChangeLines({ columns: null, colour: false }).of({
      changes: [{ ...CHANGE, seq: 4n, field: 'name', old: 'Six', new: 'Seven' }],
      folds: [
        { ...fold, field: 'category', same: { old: 'A', new: null } },
        { ...fold, field: 'tags', same: { old: ['a', 'b'], new: ['b', 'c'] } },
        { ...fold, field: 'price_regular', class: 'price', same: { old: '10.00', new: '8.00' } },
        { ...fold, field: 'thumbnail_url', class: 'media', same: null },
        { ...fold, field: 'state', class: 'removed', same: { old: 'live', new: 'removed' } },
      ],
    });
    const many = '4,812 of 5,000 items (--all shows each)';
    expect(lines.split('\n')).toEqual([
      'run 3 · main · 1970-01-01 00:00:00Z',
      `  category: A → – in ${many}`,
      `  tags: +c −a in ${many}`,
      `  regular price: 10.00 → 8.00 (-20.0 %) in ${many}`,
      `  thumbnail: changed in ${many}`,
      `  removed: ${many}`,
      '  7 Seven',
      '    name  Six → Seven',
      '',
    ]);
  });

  it('name each item as its own seller does: marketplaces number their items alike', () => {
    const lines = told([
      { sellerId: 'a', itemName: 'Of the first', field: 'name', old: '1', new: '2' },
      { sellerId: 'b', itemName: 'Of the second', field: 'name', old: '1', new: '2' },
    ]);
    expect(lines).toMatch(/ · a · [^]* {2}7 Of the first\n[^]* · b · [^]* {2}7 Of the second\n/);
  });

  it('show what differs in texts of wide characters, which take twice the room', () => {
    const visible = fc.constantFrom('日', '本', 'あ', '🎨', 'a', 'é', '<p>', ' layout ');
    const text = fc.array(visible, { maxLength: 120 }).map((parts) => parts.join('').trim());
    const columns = fc.constantFrom(null, 40, 80, 200);
    fc.assert(
      fc.property(text, visible, visible, text, columns, (start, a, b, end, room) => {
        fc.pre(a.trim() !== b.trim());
        const lines = told([{ old: `${start}${a}${end}`, new: `${start}${b}${end}` }], room);
        expect(lines).not.toContain('invisible');
        if (room === null) return;
        for (const line of lines.split('\n')) expect(width(line)).toBeLessThanOrEqual(room);
      }),
    );
  });
});
