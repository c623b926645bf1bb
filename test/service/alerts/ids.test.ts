import { expect, it } from 'vitest';
import { alertId } from '../../../src/service/alerts/alerts.js';
import type { Alert } from '../../../src/catalogue/types.js';

it('alerts have an id for each incident', () => {
  const failed: Alert = { kind: 'run-failed', runId: '7' };
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
