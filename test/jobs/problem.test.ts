import { expect, it } from 'vitest';
import { describeHeld, remedyFor } from '../../src/jobs/problem.js';

it.each([
  [12, 'the marketplace denies each of them'],
  [5, 'the marketplace denies 5 of them, what became of the others is not proven'],
  [0, 'what became of them is not proven'],
])(
  'what a run holds back, of which %d are denied, is told with what is proven',
  (confirmed, what) => {
    const told = describeHeld({ items: 12, confirmed, present: 40, examples: [] });
    expect(told).toContain(
      `more than the removal guard allows; ${what}; present items are mirrored`,
    );
  },
);

it('an interrupted run may have taken its list in: the copy need not be as it was', () => {
  expect(remedyFor('unavailable', 'main')).toContain('the copy is as it was');
  expect(remedyFor('interrupted', 'main')).toMatch(/again to go on; nothing is half done$/);
});
