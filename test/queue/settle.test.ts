import { describe, expect, it } from 'vitest';
import { backoffMs } from '../../src/queue/tuning.js';
import { bounded, wordsOf } from '../../src/queue/errors.js';
import { endOf, type JobEnd, type JobOutcome } from '../../src/queue/worker.js';

const NOW = Date.parse('2026-11-21T02:00:00Z');
const end = (outcome: JobOutcome, attempt = 1): JobEnd =>
  endOf(outcome, attempt, 12, NOW, 1, backoffMs);

describe('what is recorded of an outcome', () => {
  it('is a pause that grows for what may pass, and the end after the last attempt', () => {
    const outcome = { kind: 'retry', problem: 'no answer', notBefore: null } as const;
    expect(end(outcome)).toEqual({ kind: 'retry', problem: 'no answer', delayMs: 30_000 });
    expect(end(outcome, 11)).toMatchObject({ kind: 'retry', delayMs: 4 * 3_600_000 });
    expect(end(outcome, 12)).toEqual({ kind: 'give-up', problem: 'no answer' });
  });

  it('keeps to the time a server gave', () => {
    const outcome = { kind: 'retry', problem: 'wait', notBefore: NOW + 3_600_000 } as const;
    expect(end(outcome)).toMatchObject({ delayMs: 3_630_000 });
  });

  it('is put off into the future, also by nothing or less', () => {
    expect(end({ kind: 'later', reason: 'busy', delayMs: 5_000 })).toEqual({
      kind: 'later',
      reason: 'busy',
      until: NOW + 5_000,
    });
    expect(end({ kind: 'later', reason: 'busy', delayMs: -5 })).toMatchObject({
      until: NOW + 1,
    });
  });

  it('holds a result that JSON can, and none that is large', () => {
    const result = { runId: 17n, at: new Date(NOW), none: undefined };
    expect(end({ kind: 'done', result })).toEqual({
      kind: 'done',
      result: { runId: '17', at: '2026-11-21T02:00:00.000Z' },
    });
    const large = { text: 'x'.repeat(10_000) };
    expect(end({ kind: 'done', result: large })).toMatchObject({ result: { tooLarge: true } });
  });
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
