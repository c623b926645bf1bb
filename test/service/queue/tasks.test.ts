import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkJobId,
  payloadOf,
  readPayload,
  requestedJobId,
  type AlertTask,
  type MirrorTask,
} from '../../../src/service/queue/tasks.js';

const AT = '2026-11-21T02:00:00.000Z';
const instant = fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) });
const iso = instant.map((date) => date.toISOString());
const seller = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,62}$/);
const runId = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }).map(String);

const mirrorTask: fc.Arbitrary<MirrorTask> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('sync' as const, 'account' as const, 'items' as const),
    seller,
    tick: fc.option(iso),
    askedAt: iso,
  }),
  fc.record({
    kind: fc.constant('item' as const),
    seller,
    itemId: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    tick: fc.constant(null),
    askedAt: iso,
  }),
);
const alertTask: fc.Arbitrary<AlertTask> = fc.oneof(
  fc.record({ kind: fc.constantFrom('run-failed' as const, 'run-held' as const), runId }),
  fc.record({ kind: fc.constant('seller-parked' as const), seller, runId: fc.option(runId) }),
  fc.record({ kind: fc.constant('copy-stale' as const), seller, since: fc.option(iso) }),
  fc.record({
    kind: fc.constantFrom('feed-stale' as const, 'feed-recovered' as const),
    feed: fc.constantFrom('bi', 'lake'),
    since: iso,
  }),
);

describe('a task', () => {
  it('is read from its payload unchanged, and is small', () => {
    fc.assert(
      fc.property(mirrorTask, (task) => {
        const text = JSON.stringify(payloadOf('mirror', task));
        expect(readPayload('mirror', JSON.parse(text))).toEqual({ task });
        expect(Buffer.byteLength(text)).toBeLessThan(500);
      }),
    );
    fc.assert(
      fc.property(alertTask, (task) => {
        const text = JSON.stringify(payloadOf('alerts', task));
        expect(readPayload('alerts', JSON.parse(text))).toEqual({ task });
      }),
    );
  });

  it('can’t be read from any other JSON value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(readPayload('mirror', value)).toHaveProperty('fault');
        expect(readPayload('mirror', { v: 1, mark: 'x', task: value })).toHaveProperty('fault');
        expect(readPayload('audits', { v: 1, mark: 'x', task: value })).toHaveProperty('fault');
      }),
    );
  });

  it('can’t be read from a newer version of the payload', () => {
    const task = { kind: 'sync', seller: 'acme', tick: null, askedAt: AT };
    expect(readPayload('mirror', { v: 1, mark: 'x', task })).toEqual({ task });
    expect(readPayload('mirror', { v: 2, mark: 'x', task })).toHaveProperty('fault');
  });
});

describe('the id of a job', () => {
  it('requested by a person is unique and valid for BullMQ, for any task', () => {
    fc.assert(
      fc.property(mirrorTask, instant, (task, now) => {
        const [one, two] = [requestedJobId(task, now), requestedJobId(task, now)];
        expect(() => checkJobId(one)).not.toThrow();
        expect(one).not.toBe(two);
        expect(one.startsWith(`${task.kind}.${task.seller}.asked-`)).toBe(true);
      }),
    );
  });

  it.each(['', '0', '-3', '12345', 'a:b', 'a b', 'a\nb', 'x'.repeat(201)])(
    'can’t be "%s"',
    (id) => {
      expect(() => checkJobId(id)).toThrow(TypeError);
    },
  );
});
