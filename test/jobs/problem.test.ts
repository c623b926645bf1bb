import { describe, expect, it } from 'vitest';
import { alertId, alertsAfter } from '../../src/jobs/alerts.js';
import { afterProblem } from '../../src/jobs/mirror-task.js';
import { describeHeld, problemOf, remedyFor } from '../../src/jobs/problem.js';
import type { Alert, JobOutcome } from '../../src/jobs/types.js';

describe('what follows from a failed run', () => {
  it.each([
    ['refused', 'park', 'park'],
    ['account-changed', 'park', 'park'],
    ['unreadable', 'give-up', 'give-up'],
    ['not-found', 'give-up', 'give-up'],
    ['limited', 'retry', 'hand-back'],
    ['unavailable', 'retry', 'hand-back'],
    ['store', 'retry', 'hand-back'],
    ['interrupted', 'hand-back', 'hand-back'],
  ] as const)('%s: %s, and while the worker stops: %s', (code, going, stopping) => {
    expect(afterProblem(code, false)).toBe(going);
    expect(afterProblem(code, true)).toBe(stopping);
  });

  it('agrees with what a run says of its own problem: what is permanent is not repeated', () => {
    const replies = [
      { kind: 'denied', httpStatus: 404, message: '' },
      { kind: 'refused', httpStatus: 401, message: '' },
      { kind: 'limited', httpStatus: 429, retryAt: null },
      { kind: 'unavailable', httpStatus: 503, reason: 'html', detail: '', retryAt: null },
      { kind: 'unreadable', httpStatus: 200, detail: '', excerpt: '' },
    ] as const;
    for (const reply of replies) {
      const { problem } = problemOf(reply);
      expect(afterProblem(problem.code, false) === 'retry', problem.code).toBe(!problem.permanent);
    }
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
