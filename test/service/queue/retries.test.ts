import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorText, OutageLog } from '../../../src/service/queue/errors.js';
import { ATTEMPTS, backoffMs } from '../../../src/service/queue/backoff.js';
import { boundedResult } from '../../../src/service/queue/tasks.js';
import { recordingLog } from './support.js';

const HOUR = 3_600_000;
const attempts = fc.integer({ min: 1, max: 100 });
const randoms = fc.double({ min: 0, max: 1, noNaN: true });
const NOW = Date.parse('2026-11-21T02:00:00Z');

describe('the pause before a retry', () => {
  it('is half a minute at first and doubles up to four hours', () => {
    const pauses = [1, 2, 3, 9, 10, 11].map((attempt) => backoffMs(attempt, null, NOW, 1));
    expect(pauses).toEqual([30_000, 60_000, 120_000, 7_680_000, 4 * HOUR, 4 * HOUR]);
  });

  it('is at least half of that, whatever the jitter', () => {
    fc.assert(
      fc.property(attempts, randoms, (attempt, random) => {
        const most = backoffMs(attempt, null, NOW, 1);
        const pause = backoffMs(attempt, null, NOW, random);
        expect(pause).toBeGreaterThanOrEqual(most / 2);
        expect(pause).toBeLessThanOrEqual(most);
      }),
    );
  });

  it('never ends before the server’s Retry-After, but within a day and a minute', () => {
    const times = fc.integer({ min: -HOUR, max: 1_000 * HOUR });
    fc.assert(
      fc.property(attempts, times, randoms, (attempt, ahead, random) => {
        const pause = backoffMs(attempt, NOW + ahead, NOW, random);
        expect(pause).toBeGreaterThanOrEqual(Math.min(ahead, 24 * HOUR));
        expect(pause).toBeLessThanOrEqual(24 * HOUR + 60_000);
        expect(Number.isInteger(pause)).toBe(true);
      }),
    );
  });

  it('adds jitter to the server’s Retry-After, so that not all jobs retry at once', () => {
    expect(backoffMs(1, NOW + HOUR, NOW, 0)).toBe(HOUR);
    expect(backoffMs(1, NOW + HOUR, NOW, 0.5)).toBe(HOUR + 15_000);
    expect(backoffMs(8, NOW + HOUR, NOW, 1)).toBe(Math.max(HOUR + 60_000, 3_840_000));
  });

  it('adds up to about half a day over all attempts', () => {
    const pauses = Array.from({ length: ATTEMPTS - 1 }, (_, i) => backoffMs(i + 1, null, NOW, 1));
    const total = pauses.reduce((sum, pause) => sum + pause, 0);
    expect(total).toBeGreaterThan(8 * HOUR);
    expect(total).toBeLessThan(13 * HOUR);
  });
});

/** The lines logged for these events. @param events each with its time in seconds */
function linesFor(events: readonly (readonly ['failed' | 'succeeded', number])[]): string[] {
  const { log, lines } = recordingLog();
  const outages = new OutageLog(log, { lost: 'lost', stillLost: 'still-lost', back: 'back' });
  return events.flatMap(([event, second]) => {
    if (event === 'failed') outages.failed('why', second * 1_000);
    else outages.succeeded(second * 1_000);
    return lines.splice(0).map(({ message }) => `${second}: ${message}`);
  });
}

describe('an outage', () => {
  it('is logged when it begins, once a minute while it lasts, and when it ends', () => {
    const failures = Array.from({ length: 150 }, (_, second) => ['failed', second] as const);
    expect(linesFor([...failures, ['succeeded', 150], ['succeeded', 151]])).toEqual([
      '0: lost',
      '60: still-lost',
      '120: still-lost',
      '150: back',
    ]);
  });

  it('that returns within a minute is logged again only after that minute', () => {
    // prettier-ignore
    const events = [['failed', 0], ['succeeded', 5], ['failed', 10], ['succeeded', 12], ['failed', 61]] as const;
    expect(linesFor(events)).toEqual(['0: lost', '5: back', '61: lost']);
  });

  it('never causes more than two lines a minute', () => {
    const event = fc.tuple(fc.constantFrom('failed' as const, 'succeeded' as const), fc.nat(3));
    fc.assert(
      fc.property(fc.array(event, { maxLength: 300 }), (steps) => {
        let now = 0;
        const lines = linesFor(steps.map(([what, pause]) => [what, (now += pause)] as const));
        const warnings = lines.filter((line) => !line.includes('back'));
        expect(warnings.length).toBeLessThanOrEqual(1 + now / 60);
        expect(lines.length - warnings.length).toBeLessThanOrEqual(warnings.length);
      }),
    );
  });
});

it('stores results as plain JSON, and no large ones', () => {
  const at = '2026-11-21T02:00:00.000Z';
  const result = { runId: 17n, at: new Date(at), none: undefined };
  expect(boundedResult(result)).toEqual({ runId: '17', at });
  expect(boundedResult({ text: 'x'.repeat(10_000) })).toEqual({ tooLarge: true });
});

describe('the text of an error', () => {
  it('is one line of limited length', () => {
    expect(errorText(' a\n\tb\u0000c ')).toBe('a b c');
    expect(errorText('x'.repeat(1_000))).toHaveLength(500);
  });

  it.each([
    [new Error('no'), 'no'],
    [new TypeError(''), 'TypeError'],
    [new AggregateError([new Error('v6'), new Error('v4')]), 'v4'],
    ['text', 'text'],
  ])('%o is "%s"', (error, text) => {
    expect(errorText(error)).toBe(text);
  });
});
