import { expect, it } from 'vitest';
import { Allowance, CallShare } from '../../src/api/allowance.js';

it('lets a burst of a tenth of a minute through, then an even rate', () => {
  let now = 0;
  const allowance = new Allowance(60, () => now);
  let taken = 0;
  for (; allowance.waitMs === 0; taken++) allowance.charge();
  expect(taken).toBe(6);
  expect(allowance.waitMs).toBe(1_000);
  now += 1_000;
  expect(allowance.waitMs).toBe(0);
});

it('lets one through at once, however few are allowed, and no limit means none', () => {
  const few = new Allowance(0.5, () => 0);
  expect(few.waitMs).toBe(0);
  const unlimited = new Allowance(Infinity, () => 0);
  for (let n = 0; n < 1_000; n++) unlimited.charge();
  expect(unlimited.waitMs).toBe(0);
});

/** Milliseconds that a share of 60 calls a minute is overdrawn: one second for each call beyond the burst. */
function overdrawn(settle: (share: CallShare) => void): number {
  const share = new CallShare(60, () => 0);
  share.charge(6);
  settle(share);
  return share.waitMs;
}

it('charges the second checks that a worker made since the last look-up', () => {
  const first = { auditId: 1n, own: 1, total: 101 };
  // What was spent before this process began is not its debt.
  expect(overdrawn((share) => share.settle('main', first))).toBe(1_000);
  expect(
    overdrawn((share) => {
      share.settle('main', first);
      share.charge();
      share.settle('main', { auditId: 1n, own: 1, total: 107 });
    }),
  ).toBe(7_000);
});

it('charges retries, and gives back a call that was never made', () => {
  expect(overdrawn((share) => share.settle('main', { auditId: 1n, own: 3, total: 3 }))).toBe(3_000);
  expect(overdrawn((share) => share.settle('main', { auditId: 1n, own: 0, total: 0 }))).toBe(0);
});

it('counts each call once when look-ups end in another order than they were recorded', () => {
  expect(
    overdrawn((share) => {
      share.settle('main', { auditId: 1n, own: 1, total: 1 });
      share.charge(2);
      share.settle('main', { auditId: 1n, own: 1, total: 3 });
      share.settle('main', { auditId: 1n, own: 1, total: 2 });
    }),
  ).toBe(3_000);
});

it('goes on counting with the look-ups of the next day, and keeps sellers of one host apart', () => {
  expect(
    overdrawn((share) => {
      share.settle('main', { auditId: 1n, own: 1, total: 50 });
      share.charge(2);
      share.settle('second', { auditId: 2n, own: 1, total: 1 });
      share.settle('main', { auditId: 3n, own: 1, total: 5 });
    }),
  ).toBe(7_000);
});
