import fc from 'fast-check';
import { expect, it } from 'vitest';
import { keepsForEver, planRetention } from '../../src/domain/retention.js';

const days = fc.option(fc.integer({ min: 1, max: 36_500 }));

it('a part that nobody limited is kept for ever, and the others for just as many days as were said', () => {
  const all = fc.record({ raw: days, runs: days, versions: days, audits: days });
  const moment = fc.date({ min: new Date(0), max: new Date('2100-01-01'), noInvalidDate: true });
  fc.assert(
    fc.property(all, moment, (kept, now) => {
      const plan = planRetention(kept, now);
      for (const part of ['raw', 'runs', 'versions', 'audits'] as const) {
        const age = plan[part] === null ? null : now.getTime() - plan[part].getTime();
        expect(age).toBe(kept[part] === null ? null : kept[part] * 86_400_000);
      }
      expect(keepsForEver(kept)).toBe(Object.values(plan).every((before) => before === null));
    }),
  );
});
