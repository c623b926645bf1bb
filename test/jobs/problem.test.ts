import { describe, expect, it } from 'vitest';
import { alertId, alertsAfter } from '../../src/jobs/alerts.js';
import { problemAction, describeHeld, problemRemedy } from '../../src/jobs/problem.js';
import type { Alert, JobOutcome } from '../../src/jobs/types.js';

describe('what follows from a failed run', () => {
  it.each([
    ['refused', 'park'],
    ['account-changed', 'park'],
    ['unreadable', 'give-up'],
    ['not-found', 'give-up'],
    ['limited', 'retry'],
    ['unavailable', 'retry'],
    ['store', 'retry'],
  ] as const)('%s: %s', (code, what) => {
    expect(problemAction(code)).toBe(what);
  });
});

describe('alerts', () => {
  const failed: Alert = { kind: 'run-failed', runId: '7' };
  const retry: JobOutcome = { kind: 'retry', problem: '', notBefore: null, alert: failed };

  it('of a failure that may pass come when the last attempt has failed too, not at each', () => {
    const of = (attempt: number) => alertsAfter(retry, { attempt, attempts: 12 });
    expect([1, 2, 11].flatMap(of)).toEqual([]);
    expect(of(12)).toEqual([failed]);
  });

  it('of what repeating can’t help, and of a held run, come at once', () => {
    const first = { attempt: 1, attempts: 12 };
    const parked: Alert = { kind: 'seller-parked', seller: 'main', runId: '7' };
    const held: Alert = { kind: 'run-held', runId: '8' };
    expect(alertsAfter({ kind: 'give-up', problem: '', alert: parked }, first)).toEqual([parked]);
    expect(alertsAfter({ kind: 'done', result: {}, alert: held }, first)).toEqual([held]);
  });

  it('are not sent when there is nothing to tell', () => {
    const last = { attempt: 12, attempts: 12 };
    const quiet: JobOutcome[] = [
      { kind: 'done', result: {}, alert: null },
      { kind: 'later', reason: '', delayMs: 1 },
      { kind: 'hand-back' },
      { kind: 'retry', problem: '', notBefore: null, alert: null },
    ];
    expect(quiet.flatMap((outcome) => alertsAfter(outcome, last))).toEqual([]);
  });

  it('have ids that tell incidents apart, and that a queue takes', () => {
    const since = '2026-11-20T02:00:00.000Z';
    const alerts: Alert[] = [
      failed,
      { kind: 'run-held', runId: '7' },
      { kind: 'seller-parked', seller: 'main', runId: '7' },
      { kind: 'seller-parked', seller: 'main', runId: null },
      { kind: 'copy-stale', seller: 'main', since },
      { kind: 'copy-stale', seller: 'main', since: null },
      { kind: 'copy-stale', seller: 'other', since },
    ];
    const ids = alerts.map(alertId);
    expect(new Set(ids).size).toBe(alerts.length);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z][\w.-]*$/);
    expect(alerts.map(alertId)).toEqual(ids);
  });
});

it.each([
  [12, 'the marketplace denies each of them'],
  [5, 'the marketplace denies 5 of them, the others are not proven to be gone'],
  [0, 'none of them is proven to be gone'],
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
  expect(problemRemedy('unavailable', 'main')).toContain('the copy is unchanged');
  expect(problemRemedy('interrupted', 'main')).toMatch(/again to continue; nothing is half done$/);
});
