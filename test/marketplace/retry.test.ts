import { describe, expect, it } from 'vitest';
import type { Failure, UnavailableReason } from '../../src/domain/reply.js';
import { pauseAfter } from '../../src/marketplace/retry.js';

const NOW = 1_700_000_000_000;
const policy = { attempts: 4, baseMs: 500, maxMs: 10_000 };
const chance = (random: number) => ({ now: () => NOW, random: () => random });

function unavailable(reason: UnavailableReason, retryAt: number | null = null): Failure {
  return { kind: 'unavailable', httpStatus: null, reason, detail: '', retryAt };
}
const limited = (retryAt: number | null): Failure => ({
  kind: 'limited',
  httpStatus: 429,
  retryAt,
});

describe('asking again', () => {
  it.each(['network', 'timeout', 'server-error', 'maintenance', 'cut-off'] as const)(
    'is worth while after %s, which passes',
    (reason) => {
      expect(pauseAfter(unavailable(reason), 1, policy, chance(0.5))).toBe(250);
    },
  );

  it.each(['plain-http', 'challenge', 'html', 'redirect', 'switched-off'] as const)(
    'is no use after %s',
    (reason) => {
      expect(pauseAfter(unavailable(reason), 1, policy, chance(0.5))).toBeNull();
    },
  );

  it.each([
    { kind: 'answered', httpStatus: 200, data: 1 },
    { kind: 'denied', httpStatus: 404, message: '' },
    { kind: 'refused', httpStatus: 401, message: '' },
    { kind: 'unreadable', httpStatus: 200, detail: '', excerpt: '' },
  ] as const)('is no use after a reply that is $kind', (reply) => {
    expect(pauseAfter(reply, 1, policy, chance(0.5))).toBeNull();
  });

  it('waits twice as long each time, up to the longest pause, anywhere from zero (full jitter)', () => {
    const patient = { ...policy, attempts: 99 };
    const longest = [1, 2, 3, 4, 5, 6, 7].map((n) =>
      pauseAfter(unavailable('network'), n, patient, chance(1)),
    );
    expect(longest).toEqual([500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    expect(pauseAfter(unavailable('network'), 7, patient, chance(0))).toBe(0);
  });

  it('ends with the last attempt', () => {
    expect(pauseAfter(limited(null), 3, policy, chance(1))).not.toBeNull();
    expect(pauseAfter(limited(null), 4, policy, chance(1))).toBeNull();
  });

  it('waits as long as the server said, whatever the backoff', () => {
    expect(pauseAfter(limited(NOW + 9_000), 1, policy, chance(0))).toBe(9_000);
    expect(pauseAfter(unavailable('maintenance', NOW + 9_000), 1, policy, chance(0))).toBe(9_000);
    expect(pauseAfter(limited(NOW - 9_000), 1, policy, chance(1))).toBe(500);
  });

  it('returns the reply when the server asks for more than the longest pause', () => {
    expect(pauseAfter(limited(NOW + 10_001), 1, policy, chance(0))).toBeNull();
  });
});
