import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ChangeLines } from '../../src/cli/changes/lines.js';
import { width } from '../../src/cli/output/index.js';
import type { ItemChange } from '../../src/store/history-read.js';

const CHANGE: ItemChange = {
  ...{ seq: 1n, sellerId: 'main', itemId: 7n, itemName: 'Seven', runId: 3n },
  ...{ changedAt: new Date(0), class: 'text', field: 'description', old: null, new: null },
  currencies: null,
};

const told = (changes: readonly Partial<ItemChange>[], columns: number | null = null): string =>
  new ChangeLines({ columns, colour: false }).of(changes.map((one) => ({ ...CHANGE, ...one })));

describe('the lines of changes', () => {
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
