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
  const result = { stop: null, settled: 1, open: 1, failedRounds: 0, ...fields };
  return nextStep(result, NOW, 0);
}

describe('what follows when asking has ended', () => {
  it.each<[string, readonly StopReason[], Partial<BatchResult>, object, number?]>([
    [
      'is nothing when all is settled, whatever ended it',
      ['refused', 'limited', 'aborted'],
      { open: 0 },
      { kind: 'done' },
    ],
    ['is another worker after an abort', ['aborted'], {}, { kind: 'hand-back' }],
    [
      'is a pause of exactly the length that the server asked for',
      ['limited', 'unavailable', 'challenge'],
      {},
      { kind: 'later', delayMs: 12_345 },
      NOW + 12_345,
    ],
    ['is a pause of ours when the server gave none', ['limited'], {}, AFTER_LIMIT],
    ['is a pause of ours when its own is over', ['limited'], {}, AFTER_LIMIT, NOW - 1],
    [
      'is a pause in which a marketplace that denies all codes for a moment may recover: there is one more round',
      ['canary-lost'],
      {},
      { kind: 'later', delayMs: 60_000 },
    ],
    [
      'is to wait for a person, or for the marketplace to come back, when the key or the API is gone',
      ['refused', 'account-changed', 'switched-off', 'redirect'],
      {},
      { kind: 'blocked', notBefore: null },
    ],
  ])('%s', (_, reasons, result, expected, notBefore) => {
    for (const reason of reasons) {
      expect(after({ stop: stop(reason, notBefore), ...result })).toEqual(expected);
    }
  });

  it('is a longer pause after an outage that let nothing through', () => {
    const [some, none] = [1, 0].map((settled) => after({ stop: stop('unavailable'), settled }));
    if (some?.kind !== 'later' || none?.kind !== 'later') throw new Error('no pause');
    expect(none.delayMs).toBeGreaterThan(some.delayMs);
  });

  it('is a pause that doubles with each round for codes that got no answer while others did; none to speak of where time would not help', () => {
    const pauses = [0, 1, 2, 3, 4].map((failedRounds) => after({ failedRounds }));
    expect(pauses).toEqual(
      [2_000, 15_000, 30_000, 60_000, 120_000].map((delayMs) => ({ kind: 'later', delayMs })),
    );
  });
});

describe('having been asked for in vain', () => {
  it('counts against a code in fair weather, whatever its reason', () => {
    for (const reason of ['unreadable', 'unavailable', 'proof-failed'] as const) {
      expect(countsAgainst(reason, null)).toBe(true);
    }
  });

  it('counts against no code when an outage, a limit or the key ended the asking', () => {
    for (const end of ['limited', 'unavailable', 'refused', 'challenge', 'aborted'] as const) {
      for (const reason of ['unavailable', 'refused', 'no-account-after', 'limited'] as const) {
        expect(countsAgainst(reason, stop(end))).toBe(false);
      }
      expect(countsAgainst('unreadable', stop(end))).toBe(true);
    }
  });

  it('does not count when nothing that comes can be understood', () => {
    expect(countsAgainst('unreadable', stop('unreadable'))).toBe(false);
  });

  it('is enough after five rounds, or two in which no known code was found', () => {
    expect([4, 5].map((rounds) => isGivenUp(rounds, null))).toEqual([false, true]);
    const lost = stop('canary-lost');
    expect([1, 2].map((rounds) => isGivenUp(rounds, lost))).toEqual([false, true]);
  });
});

describe('a key that is refused', () => {
  const result = { settled: 0, open: 1, failedRounds: 0, state: 'running' } as const;

  it('is hopeless when it never worked for the audit, not when it did', () => {
    expect(isKeyNeverGood({ ...result, stop: stop('refused'), isUntried: true })).toBe(true);
    expect(isKeyNeverGood({ ...result, stop: stop('refused'), isUntried: false })).toBe(false);
    expect(isKeyNeverGood({ ...result, stop: stop('refused'), isUntried: true, settled: 1 })).toBe(
      false,
    );
  });

  it('is nothing like an API that is off for a while', () => {
    expect(isKeyNeverGood({ ...result, stop: stop('switched-off'), isUntried: true })).toBe(false);
  });
});

it('why a chunk stopped is a sentence for a person', () => {
  const reasons: readonly StopReason[] = [
    ...(['limited', 'unavailable', 'unreadable', 'no-purchase', 'refused'] as const),
    ...(['switched-off', 'redirect', 'challenge', 'account-changed', 'canary-lost'] as const),
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
  expect(challenged.match(/bot protection/g), 'the same is not said twice').toHaveLength(1);
  expect(challenged).toContain('ask its operator');
  expect(describeStop({ ...stop('limited'), notBefore })).toMatch(
    /too many requests, not before 2026-11-22 13:31:55Z$/,
  );
});
