import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ATTEMPTS, backoffMs } from '../../src/service/queue/backoff.js';
import { errorText, OutageLog } from '../../src/service/queue/errors.js';
import { readPayload, subjectOf } from '../../src/service/queue/tasks.js';
import { recordingLog } from '../support/recording-log.js';

const HOUR = 3_600_000;
const NOW = Date.parse('2026-11-21T02:00:00Z');

describe('the pause before a retry', () => {
  it('is half a minute at first, doubles up to four hours, and adds up to half a day', () => {
    const pauses = Array.from({ length: ATTEMPTS - 1 }, (_, n) => backoffMs(n + 1, null, NOW, 1));
    expect(pauses.slice(0, 3)).toEqual([30_000, 60_000, 120_000]);
    expect(pauses.slice(8)).toEqual([7_680_000, 4 * HOUR, 4 * HOUR]);
    const total = pauses.reduce((sum, pause) => sum + pause, 0);
    expect(total).toBeGreaterThan(8 * HOUR);
    expect(total).toBeLessThan(13 * HOUR);
  });

  it('is at least half of that, and never ends before Retry-After, but within a day and a minute', () => {
    const attempts = fc.integer({ min: 1, max: 100 });
    const times = fc.option(fc.integer({ min: -HOUR, max: 1_000 * HOUR }));
    const randoms = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(attempts, times, randoms, (attempt, ahead, random) => {
        const pause = backoffMs(attempt, ahead === null ? null : NOW + ahead, NOW, random);
        expect(pause).toBeGreaterThanOrEqual(backoffMs(attempt, null, NOW, 1) / 2);
        expect(pause).toBeGreaterThanOrEqual(Math.min(ahead ?? 0, 24 * HOUR));
        expect(pause).toBeLessThanOrEqual(24 * HOUR + 60_000);
        expect(Number.isInteger(pause)).toBe(true);
      }),
    );
  });

  it('has jitter after Retry-After, too, so that not all jobs retry at once', () => {
    const pauses = [0, 0.5, 1].map((random) => backoffMs(1, NOW + HOUR, NOW, random));
    expect(pauses).toEqual([HOUR, HOUR + 15_000, HOUR + 30_000]);
  });
});

it('an outage is logged when it begins and ends, but no more than one beginning a minute', () => {
  const { log, lines } = recordingLog();
  const outages = new OutageLog(log, { lost: 'lost', back: 'back' });
  const events = [
    ...['failed 0', 'failed 90', 'succeeded 150', 'succeeded 151', 'failed 160', 'succeeded 161'],
    ...['failed 170', 'succeeded 171', 'failed 190', 'failed 220', 'succeeded 221'],
  ];
  const told = events.flatMap((event) => {
    const [what, second] = event.split(' ');
    if (what === 'failed') outages.failed('why', Number(second) * 1_000);
    else outages.succeeded(Number(second) * 1_000);
    return lines.splice(0).map(({ message }) => `${message} ${second}`);
  });
  expect(told).toEqual(['lost 0', 'back 150', 'lost 160', 'back 161', 'lost 220', 'back 221']);
});

describe('the text of an error', () => {
  it.each([
    [' a\n\tb\u0000c ', 'a b c'],
    [new Error('no'), 'no'],
    [new TypeError(''), 'TypeError'],
    [new AggregateError([new Error('v6'), new Error('v4')]), 'v4'],
    ['x'.repeat(1_000), `${'x'.repeat(499)}…`],
  ])('%o is one line of limited length', (error, text) => {
    expect(errorText(error)).toBe(text);
  });
});

describe('a task', () => {
  const AT = '2026-11-21T02:00:00.000Z';
  it.each([
    ['mirror', { kind: 'sync', seller: 'acme', dueAt: AT, byHand: false }, 'sync.acme.20261121T020000Z'],
    ['mirror', { kind: 'item', itemId: 7, seller: 'acme', dueAt: '2026-11-21T02:00:00.250Z', byHand: true },
      'item-7.acme.20261121T020000.250Z'],
    ['audits', { kind: 'audit', seller: 'acme', auditId: '7' }, 'audit.7'],
    ['audits', { kind: 'recheck', seller: 'acme', dueAt: AT }, 'recheck.acme.20261121T020000Z'],
    ['alerts', { kind: 'send', alertId: 'run-failed.7:x', channel: 'mail' }, 'mail.run-failed.7-x'],
    ['feeds', { kind: 'deliver', feed: 'bi' }, 'feed.bi'],
  ] as const)('of queue %s, %j, is read unchanged, and is about %s, without a colon', (queue, task, subject) => {
    expect(readPayload(queue, JSON.parse(JSON.stringify({ v: 2, task })))).toEqual({ task });
    expect(subjectOf(task)).toBe(subject);
  }); // prettier-ignore

  it('can’t be read from any other JSON value, or another version of the payload', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(readPayload('mirror', value)).toHaveProperty('fault');
        expect(readPayload('audits', { v: 2, task: value })).toHaveProperty('fault');
      }),
    );
    const task = { kind: 'sync', seller: 'acme', dueAt: AT, byHand: false };
    expect(readPayload('mirror', { v: 1, task })).toHaveProperty('fault');
  });
});
