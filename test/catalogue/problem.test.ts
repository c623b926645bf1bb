import { describe, expect, it } from 'vitest';
import { alertId } from '../../src/service/alerts/alerts.js';
import { problemAction, describeHeld, problemRemedy } from '../../src/catalogue/problem.js';
import type { Alert } from '../../src/catalogue/types.js';

describe('problemAction', () => {
  it.each([
    ['refused', 'park'],
    ['account-changed', 'park'],
    ['unreadable', 'give-up'],
    ['not-found', 'give-up'],
    ['limited', 'retry'],
    ['unavailable', 'retry'],
    ['store', 'retry'],
  ] as const)('%s: %s', (code, action) => {
    expect(problemAction(code)).toBe(action);
  });
});

describe('alerts', () => {
  const failed: Alert = { kind: 'run-failed', runId: '7' };

  it('have an id for each incident', () => {
    const since = '2026-11-20T02:00:00.000Z';
    const later = '2026-11-21T02:00:00.000Z';
    const alerts: Alert[] = [
      failed,
      { kind: 'run-held', runId: '7' },
      { kind: 'seller-parked', seller: 'main', runId: '7' },
      { kind: 'seller-parked', seller: 'main', runId: null },
      { kind: 'copy-stale', seller: 'main', since },
      { kind: 'copy-stale', seller: 'main', since: null },
      { kind: 'copy-stale', seller: 'other', since },
      { kind: 'feed-stale', feed: 'bi', since },
      { kind: 'feed-stale', feed: 'bi', since: later },
      { kind: 'feed-recovered', feed: 'bi', since },
      { kind: 'audit-finished', auditId: '7' },
      { kind: 'codes-no_longer_valid', auditId: '7' },
      { kind: 'codes-no_longer_valid', auditId: '7', since },
      { kind: 'codes-no_longer_valid', auditId: '7', since: later },
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
])('describeHeld says what is proven when %d of 12 items are denied', (confirmed, proven) => {
  const text = describeHeld({ items: 12, confirmed, present: 40, examples: [] });
  expect(text).toContain(
    `more than a run removes by itself; ${proven}; present items are mirrored`,
  );
});

it('the remedy of an interrupted run does not call the copy unchanged', () => {
  expect(problemRemedy('unavailable', 'main')).toContain('the copy is unchanged');
  expect(problemRemedy('interrupted', 'main')).toMatch(/again to continue; nothing is half done$/);
});
