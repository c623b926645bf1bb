import { describe, expect, it } from 'vitest';
import {
  nextStep,
  countsAgainst,
  describeStop,
  isGivenUp,
  isKeyNeverGood,
  type BatchResult,
} from '../../../src/jobs/codes/chunk-outcome.js';
import type { Stop, StopReason } from '../../../src/jobs/codes/types.js';

const NOW = 1_000_000;
const AFTER_LIMIT = { kind: 'later', delayMs: 60_000 };

function stop(reason: StopReason, notBefore: number | null = null): Stop {
  return { reason, notBefore, detail: null };
}

function after(fields: Partial<BatchResult>) {
  const result = { stop: null, done: 1, open: 1, failedRounds: 0, ...fields };
  return nextStep(result, NOW, 0);
}

describe('the next step after a batch', () => {
  it.each<[string, readonly StopReason[], Partial<BatchResult>, object, number?]>([
    [
      'is done when every code is done, whatever the reason for the stop',
      ['refused', 'limited', 'aborted'],
      { open: 0 },
      { kind: 'done' },
    ],
    ['is a hand-back after an abort', ['aborted'], {}, { kind: 'hand-back' }],
    [
      'is the pause that the server asked for',
      ['limited', 'unavailable', 'challenge'],
      {},
      { kind: 'later', delayMs: 12_345 },
      NOW + 12_345,
    ],
    ['is a default pause when the server named none', ['limited'], {}, AFTER_LIMIT],
    ['is a default pause when the server’s is over', ['limited'], {}, AFTER_LIMIT, NOW - 1],
    [
      'is one more round after a pause when all canaries are denied',
      ['canary-lost'],
      {},
      { kind: 'later', delayMs: 60_000 },
    ],
    [
      'is blocked when the key or the API is gone',
      ['refused', 'account-changed', 'switched-off', 'redirect'],
      {},
      { kind: 'blocked', notBefore: null },
    ],
  ])('%s', (_, reasons, result, expected, notBefore) => {
    for (const reason of reasons) {
      expect(after({ stop: stop(reason, notBefore), ...result })).toEqual(expected);
    }
  });

  it('is a longer pause after an outage without any answer', () => {
    const [some, none] = [1, 0].map((done) => after({ stop: stop('unavailable'), done }));
    if (some?.kind !== 'later' || none?.kind !== 'later') throw new Error('no pause');
    expect(none.delayMs).toBeGreaterThan(some.delayMs);
  });

  it('is a pause that doubles with each failed round, and short if waiting can’t help', () => {
    const pauses = [0, 1, 2, 3, 4].map((failedRounds) => after({ failedRounds }));
    expect(pauses).toEqual(
      [2_000, 15_000, 30_000, 60_000, 120_000].map((delayMs) => ({ kind: 'later', delayMs })),
    );
  });
});

describe('a call without a verdict', () => {
  it('counts against its code for any reason if the batch did not stop', () => {
    for (const reason of ['unreadable', 'unavailable', 'proof-failed'] as const) {
      expect(countsAgainst(reason, null)).toBe(true);
    }
  });

  it('does not count when an outage, a limit or the key stopped the batch', () => {
    for (const end of ['limited', 'unavailable', 'refused', 'challenge', 'aborted'] as const) {
      for (const reason of ['unavailable', 'refused', 'no-account-after', 'limited'] as const) {
        expect(countsAgainst(reason, stop(end))).toBe(false);
      }
      expect(countsAgainst('unreadable', stop(end))).toBe(true);
    }
  });

  it('does not count when unreadable replies stopped the batch', () => {
    expect(countsAgainst('unreadable', stop('unreadable'))).toBe(false);
  });

  it('gives up the code after five rounds, or two without a canary', () => {
    expect([4, 5].map((rounds) => isGivenUp(rounds, null))).toEqual([false, true]);
    const lost = stop('canary-lost');
    expect([1, 2].map((rounds) => isGivenUp(rounds, lost))).toEqual([false, true]);
  });
});

describe('a key that is refused', () => {
  const result = { done: 0, open: 1, failedRounds: 0, state: 'running' } as const;

  it('is never good if it has not worked for the audit, unless it did before', () => {
    expect(isKeyNeverGood({ ...result, stop: stop('refused'), isUntried: true })).toBe(true);
    expect(isKeyNeverGood({ ...result, stop: stop('refused'), isUntried: false })).toBe(false);
    expect(isKeyNeverGood({ ...result, stop: stop('refused'), isUntried: true, done: 1 })).toBe(
      false,
    );
  });

  it('is not assumed when the API is switched off', () => {
    expect(isKeyNeverGood({ ...result, stop: stop('switched-off'), isUntried: true })).toBe(false);
  });
});

it('describeStop makes a sentence for people', () => {
  const reasons: readonly StopReason[] = [
    'limited',
    'unavailable',
    'unreadable',
    'refused',
    'switched-off',
    'redirect',
    'challenge',
    'account-changed',
    'canary-lost',
  ];
  for (const reason of reasons) expect(describeStop(stop(reason))).toMatch(/^[a-z].* .*[a-z]$/);
  expect(describeStop(stop('aborted'))).toBeNull();
  expect(describeStop(null)).toBeNull();
  expect(describeStop({ ...stop('refused'), detail: 'Invalid request' })).toBe(
    'the marketplace refused the API key: Invalid request',
  );
  const notBefore = Date.UTC(2026, 10, 22, 13, 31, 55);
  expect(describeStop({ ...stop('refused'), detail: '' })).toBe(describeStop(stop('refused')));
  const detail = 'the bot protection blocks this program; ask its operator to allow requests';
  const challenged = describeStop({ ...stop('challenge'), detail }) ?? '';
  expect(challenged.match(/bot protection/g), 'no repetition').toHaveLength(1);
  expect(challenged).toContain('ask its operator');
  expect(describeStop({ ...stop('limited'), notBefore })).toMatch(
    /too many requests, not before 2026-11-22 13:31:55Z$/,
  );
});
