import { describe, expect, it } from 'vitest';
import type { Failure, Reply, UnavailableReason } from '../../src/domain/reply.js';
import { retryAt, serverFacts } from '../../src/marketplace/rate-limit.js';
import { pauseAfter } from '../../src/marketplace/retry.js';

const NOW = Date.parse('2026-11-20T10:00:00Z');
const policy = { attempts: 4, baseMs: 500, maxMs: 10_000 };

function unavailable(reason: UnavailableReason, retryAt: number | null = null): Failure {
  return { kind: 'unavailable', httpStatus: null, reason, detail: '', retryAt };
}
const limited = (retryAt: number | null): Failure => ({
  kind: 'limited',
  httpStatus: 429,
  retryAt,
});

describe('asking again', () => {
  it.each('network timeout server-error maintenance cut-off'.split(' '))(
    'is worth while after %s, which passes',
    (reason) => {
      const failure = unavailable(reason as UnavailableReason);
      expect(pauseAfter(failure, 1, policy, NOW, 0.5)).toBe(250);
    },
  );

  it.each<Reply<unknown>>([
    ...(['plain-http', 'challenge', 'html', 'redirect', 'switched-off'] as const).map((reason) =>
      unavailable(reason),
    ),
    { kind: 'answered', httpStatus: 200, data: 1 },
    { kind: 'denied', httpStatus: 404, message: '' },
    { kind: 'refused', httpStatus: 401, message: '' },
    { kind: 'unreadable', httpStatus: 200, detail: '', excerpt: '' },
  ])('is no use after %j', (reply) => {
    expect(pauseAfter(reply, 1, policy, NOW, 0.5)).toBeNull();
  });

  it('waits twice as long each time, up to the longest pause, anywhere from zero (full jitter)', () => {
    const patient = { ...policy, attempts: 99 };
    const longest = [1, 2, 3, 4, 5, 6, 7].map((n) =>
      pauseAfter(unavailable('network'), n, patient, NOW, 1),
    );
    expect(longest).toEqual([500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    expect(pauseAfter(unavailable('network'), 7, patient, NOW, 0)).toBe(0);
  });

  it('ends with the last attempt', () => {
    expect(pauseAfter(limited(null), 3, policy, NOW, 1)).not.toBeNull();
    expect(pauseAfter(limited(null), 4, policy, NOW, 1)).toBeNull();
  });

  it('waits as long as the server said, whatever the backoff', () => {
    expect(pauseAfter(limited(NOW + 9_000), 1, policy, NOW, 0)).toBe(9_000);
    expect(pauseAfter(unavailable('maintenance', NOW + 9_000), 1, policy, NOW, 0)).toBe(9_000);
    expect(pauseAfter(limited(NOW - 9_000), 1, policy, NOW, 1)).toBe(500);
  });

  it('returns the reply when the server asks for more than the longest pause', () => {
    expect(pauseAfter(limited(NOW + 10_001), 1, policy, NOW, 0)).toBeNull();
  });
});

const DAY_MS = 86_400_000;

describe('Retry-After', () => {
  it.each([
    ['30', NOW + 30_000, 'seconds'],
    [' 0 ', NOW, 'zero seconds'],
    ['Fri, 20 Nov 2026 10:01:00 GMT', NOW + 60_000, 'a date'],
    ['Friday, 20-Nov-26 10:01:00 GMT', NOW + 60_000, 'a date in the old form'],
    ['Fri Nov 20 10:01:00 2026', NOW + 60_000, 'a date that does not say it is in GMT'],
    ['Fri, 20 Nov 2026 09:00:00 GMT', NOW, 'a date gone by is now'],
    ['99999999999999999999999', NOW + DAY_MS, 'more than a day is not believed'],
    ['-5', null, 'a negative number says nothing'],
    ['1.5', null, 'a fraction is not in the standard'],
    ['soon', null, 'a word says nothing'],
    ['2026-11-20', null, 'other dates are not in the standard'],
    ['', null, 'an empty header says nothing'],
  ])('reads %j as %s (%s)', (text: string, expected: number | null, _why: string) => {
    expect(retryAt({ 'retry-after': text }, NOW)).toBe(expected);
  });

  it("reads a date against the server's own clock, which may differ from ours", () => {
    const headers = {
      date: 'Fri, 20 Nov 2026 12:00:00 GMT',
      'retry-after': 'Fri, 20 Nov 2026 12:00:10 GMT',
    };
    expect(retryAt(headers, NOW)).toBe(NOW + 10_000);
  });
});

describe('X-RateLimit-Reset', () => {
  it.each([
    [String(NOW / 1000 + 45), NOW + 45_000, 'seconds since 1970'],
    ['45', NOW + 45_000, 'a small number counts from now'],
    ['1000000000', NOW, 'a moment long gone is now'],
    [String(NOW), NOW + DAY_MS, 'a far future is cut'],
    ['later', null, 'a word says nothing'],
  ])('reads %j as %s (%s)', (text: string, expected: number | null, _why: string) => {
    expect(retryAt({ 'x-ratelimit-reset': text }, NOW)).toBe(expected);
  });

  it("is read against the server's own clock: one an hour ahead must not pause everybody for an hour", () => {
    const date = 'Fri, 20 Nov 2026 11:00:00 GMT';
    const reset = String(Date.parse(date) / 1000 + 45);
    expect(retryAt({ date, 'x-ratelimit-reset': reset }, NOW)).toBe(NOW + 45_000);
    expect(retryAt({ date, 'x-ratelimit-reset': '45' }, NOW)).toBe(NOW + 45_000);
  });

  it('is asked only when Retry-After says nothing', () => {
    expect(retryAt({ 'retry-after': '5', 'x-ratelimit-reset': '9' }, NOW)).toBe(NOW + 5_000);
    expect(retryAt({ 'retry-after': '?', 'x-ratelimit-reset': '9' }, NOW)).toBe(NOW + 9_000);
    expect(retryAt({}, NOW)).toBeNull();
  });
});

const origin = 'https://www.market.example';
const date = 'Sat, 21 Nov 2026 02:00:00 GMT';

describe('what an answer tells of its server', () => {
  it('is address, clock and limit, so that `doctor` can compare them with the settings', () => {
    const headers = { date, 'x-ratelimit-limit': '60', 'x-ratelimit-remaining': '0' };
    expect(serverFacts({ origin, headers })).toEqual({
      origin,
      date: Date.UTC(2026, 10, 21, 2),
      limit: 60,
      remaining: 0,
    });
  });

  it.each([
    [{}],
    [{ date: 'yesterday', 'x-ratelimit-limit': '', 'x-ratelimit-remaining': '-1' }],
    [{ date: '', 'x-ratelimit-limit': 'many', 'x-ratelimit-remaining': '1e3' }],
  ])('is null where the server says nothing that can be read: %j', (headers) => {
    const facts = serverFacts({ origin, headers });
    expect(facts).toEqual({ origin, date: null, limit: null, remaining: null });
  });

  it('takes the first of headers that a proxy repeats', () => {
    const headers = { 'x-ratelimit-limit': '60, 1000' };
    expect(serverFacts({ origin, headers }).limit).toBe(60);
  });
});
