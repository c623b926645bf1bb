import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bounded, Outage, wordsOf } from '../../src/queue/errors.js';
import { backoffMs, TUNING } from '../../src/queue/tuning.js';
import { smallResult } from '../../src/queue/worker.js';
import { listeningLog } from './support.js';

const HOUR = 3_600_000;
const attempts = fc.integer({ min: 1, max: 100 });
const dice = fc.double({ min: 0, max: 1, noNaN: true });
const NOW = Date.parse('2026-11-21T02:00:00Z');

describe('the pause before a job is tried again', () => {
  it('is half a minute at first and doubles, up to four hours', () => {
    const pauses = [1, 2, 3, 9, 10, 11].map((attempt) => backoffMs(attempt, null, NOW, 1));
    expect(pauses).toEqual([30_000, 60_000, 120_000, 7_680_000, 4 * HOUR, 4 * HOUR]);
  });

  it('is at least half of that, so that chance spreads it without making it short', () => {
    fc.assert(
      fc.property(attempts, dice, (attempt, random) => {
        const most = backoffMs(attempt, null, NOW, 1);
        const pause = backoffMs(attempt, null, NOW, random);
        expect(pause).toBeGreaterThanOrEqual(most / 2);
        expect(pause).toBeLessThanOrEqual(most);
      }),
    );
  });

  it('never ends before the time a server gave, but does within a day and a minute', () => {
    const times = fc.integer({ min: -HOUR, max: 1_000 * HOUR });
    fc.assert(
      fc.property(attempts, times, dice, (attempt, ahead, random) => {
        const pause = backoffMs(attempt, NOW + ahead, NOW, random);
        expect(pause).toBeGreaterThanOrEqual(Math.min(ahead, 24 * HOUR));
        expect(pause).toBeLessThanOrEqual(24 * HOUR + 60_000);
        expect(Number.isInteger(pause)).toBe(true);
      }),
    );
  });

  it('comes after the time a server gave by chance, so that not all come in one moment', () => {
    expect(backoffMs(1, NOW + HOUR, NOW, 0)).toBe(HOUR);
    expect(backoffMs(1, NOW + HOUR, NOW, 0.5)).toBe(HOUR + 15_000);
    expect(backoffMs(8, NOW + HOUR, NOW, 1)).toBe(Math.max(HOUR + 60_000, 3_840_000));
  });

  it('adds up to half a day at most over all attempts', () => {
    const pauses = Array.from({ length: TUNING.attempts - 1 }, (_, i) =>
      backoffMs(i + 1, null, NOW, 1),
    );
    const total = pauses.reduce((sum, pause) => sum + pause, 0);
    expect(total).toBeGreaterThan(8 * HOUR);
    expect(total).toBeLessThan(13 * HOUR);
  });
});

/** What is logged when these things happen at these seconds. */
function story(events: readonly (readonly ['fails' | 'works', number])[]): string[] {
  const { log, lines } = listeningLog();
  const outage = new Outage(log, { lost: 'lost', stillLost: 'still-lost', back: 'back' });
  return events.flatMap(([event, second]) => {
    if (event === 'fails') outage.failed('why', second * 1_000);
    else outage.worked(second * 1_000);
    return lines.splice(0).map(({ message }) => `${second}: ${message}`);
  });
}

describe('an outage', () => {
  it('is told when it begins, once a minute while it lasts, and when it ends', () => {
    const failures = Array.from({ length: 150 }, (_, second) => ['fails', second] as const);
    expect(story([...failures, ['works', 150], ['works', 151]])).toEqual([
      '0: lost',
      '60: still-lost',
      '120: still-lost',
      '150: back',
    ]);
  });

  it('is not worth a word while all is well', () => {
    expect(story([['works', 0], ['works', 100]])).toEqual([]); // prettier-ignore
  });

  it('that comes back within a minute is told again only after that minute', () => {
    const story_ = [['fails', 0], ['works', 5], ['fails', 10], ['works', 12], ['fails', 61]] as const; // prettier-ignore
    expect(story(story_)).toEqual(['0: lost', '5: back', '61: lost']);
  });

  it('never makes more than a line or two a minute, however it flickers', () => {
    const event = fc.tuple(fc.constantFrom('fails' as const, 'works' as const), fc.nat(3));
    fc.assert(
      fc.property(fc.array(event, { maxLength: 300 }), (steps) => {
        let now = 0;
        const said = story(steps.map(([what, pause]) => [what, (now += pause)] as const));
        const warned = said.filter((line) => !line.includes('back'));
        expect(warned.length).toBeLessThanOrEqual(1 + now / 60);
        expect(said.length - warned.length).toBeLessThanOrEqual(warned.length);
      }),
    );
  });
});

it('keeps a result that JSON can hold, and none that is large', () => {
  const at = '2026-11-21T02:00:00.000Z';
  const result = { runId: 17n, at: new Date(at), none: undefined };
  expect(smallResult(result)).toEqual({ runId: '17', at });
  expect(smallResult({ text: 'x'.repeat(10_000) })).toEqual({ tooLarge: true });
});

describe('words of an error', () => {
  it('are one line of bounded length', () => {
    expect(bounded(' a\n\tb\u0000c ')).toBe('a b c');
    expect(bounded('x'.repeat(1_000))).toHaveLength(500);
  });

  it('are its message, its name without one, or those of what failed last', () => {
    expect(wordsOf(new Error('no'))).toBe('no');
    expect(wordsOf(new TypeError(''))).toBe('TypeError');
    expect(wordsOf(new AggregateError([new Error('v6'), new Error('v4')]))).toBe('v4');
    expect(wordsOf('text')).toBe('text');
  });
});
