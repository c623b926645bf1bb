import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  payloadOf,
  readPayload,
  subjectOf,
  type AlertTask,
  type MirrorTask,
} from '../../../src/service/queue/tasks.js';

const AT = '2026-11-21T02:00:00.000Z';
const instant = fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) });
const dueAt = instant.map((date) => date.toISOString());
const seller = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,62}$/);

const mirrorTask: fc.Arbitrary<MirrorTask> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('sync' as const, 'account' as const, 'items' as const),
    seller,
    dueAt,
    byHand: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('item' as const),
    seller,
    itemId: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    dueAt,
    byHand: fc.constant(true as const),
  }),
);
const alertTask: fc.Arbitrary<AlertTask> = fc.record({
  kind: fc.constant('send' as const),
  alertId: fc.stringMatching(/^[a-z]{3,9}\.[A-Za-z0-9._:-]{1,80}$/),
  channel: fc.constantFrom('webhook' as const, 'mail' as const),
});

describe('a task', () => {
  it('is read from its payload unchanged, is small, and has a subject that BullMQ takes', () => {
    fc.assert(
      fc.property(mirrorTask, alertTask, (mirror, alert) => {
        const text = JSON.stringify(payloadOf('mirror', mirror));
        expect(readPayload('mirror', JSON.parse(text))).toEqual({ task: mirror });
        expect(Buffer.byteLength(text)).toBeLessThan(500);
        const other = JSON.stringify(payloadOf('alerts', alert));
        expect(readPayload('alerts', JSON.parse(other))).toEqual({ task: alert });
        for (const subject of [mirror, alert].map(subjectOf)) expect(subject).not.toMatch(/[:\s]/);
      }),
    );
  });

  it('can’t be read from any other JSON value, or another version of the payload', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(readPayload('mirror', value)).toHaveProperty('fault');
        expect(readPayload('mirror', { v: 2, task: value })).toHaveProperty('fault');
        expect(readPayload('audits', { v: 2, task: value })).toHaveProperty('fault');
      }),
    );
    const task = { kind: 'sync', seller: 'acme', dueAt: AT, byHand: false };
    expect(readPayload('mirror', { v: 2, task })).toEqual({ task });
    expect(readPayload('mirror', { v: 1, task })).toHaveProperty('fault');
  });

  it.each([
    [{ kind: 'sync', seller: 'acme', dueAt: AT, byHand: false }, 'sync.acme.20261121T020000Z'],
    [
      { kind: 'item', itemId: 7, seller: 'acme', dueAt: '2026-11-21T02:00:00.250Z', byHand: true },
      'item-7.acme.20261121T020000.250Z',
    ],
    [{ kind: 'audit', seller: 'acme', auditId: '7' }, 'audit.7'],
    [{ kind: 'send', alertId: 'run-failed.7', channel: 'mail' }, 'mail.run-failed.7'],
    [{ kind: 'deliver', feed: 'bi' }, 'feed.bi'],
  ] as const)('%j is about %s', (task, subject) => {
    expect(subjectOf(task)).toBe(subject);
  });
});
