import { describe, expect, it } from 'vitest';
import {
  type Failure,
  type Reply,
  type UnavailableReason,
  pauseAfter,
} from '../../src/marketplace/reply.js';
import { retryAt, serverFacts } from '../../src/marketplace/rate-limit.js';

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

describe('a retry', () => {
  it.each<Reply<unknown>>([
    ...(['plain-http', 'challenge', 'html', 'redirect', 'switched-off'] as const).map((reason) =>
      unavailable(reason),
    ),
    { kind: 'answered', httpStatus: 200, data: 1 },
    { kind: 'denied', httpStatus: 404, message: '' },
    { kind: 'refused', httpStatus: 401, message: '' },
    { kind: 'unreadable', httpStatus: 200, detail: '', excerpt: '' },
  ])('does not follow %j', (reply) => {
    expect(pauseAfter(reply, 1, policy, NOW, 0.5)).toBeNull();
  });

  it('doubles its pause up to the maximum, with full jitter', () => {
    const patient = { ...policy, attempts: 99 };
    const longest = [1, 2, 3, 4, 5, 6, 7].map((n) =>
      pauseAfter(unavailable('network'), n, patient, NOW, 1),
    );
    expect(longest).toEqual([500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    expect(pauseAfter(unavailable('network'), 7, patient, NOW, 0)).toBe(0);
  });

  it('waits at least as long as the server says', () => {
    expect(pauseAfter(limited(NOW + 9_000), 1, policy, NOW, 0)).toBe(9_000);
    expect(pauseAfter(unavailable('maintenance', NOW + 9_000), 1, policy, NOW, 0)).toBe(9_000);
    expect(pauseAfter(limited(NOW - 9_000), 1, policy, NOW, 1)).toBe(500);
  });
});

const DAY_MS = 86_400_000;

describe('Retry-After', () => {
  it.each([
    ['30', NOW + 30_000, 'seconds'],
    ['Fri, 20 Nov 2026 10:01:00 GMT', NOW + 60_000, 'a date'],
    ['Fri Nov 20 10:01:00 2026', NOW + 60_000, 'a date in asctime format, without GMT'],
    ['Fri, 20 Nov 2026 09:00:00 GMT', NOW, 'a past date counts as now'],
    ['99999999999999999999999', NOW + DAY_MS, 'at most a day'],
    ['2.5', NOW + 2_500, 'a fraction'],
    ['soon', null, 'a word'],
  ])('reads %j as %s (%s)', (text: string, expected: number | null, _why: string) => {
    expect(retryAt({ 'retry-after': text }, NOW)).toBe(expected);
  });

  it('reads a date relative to the server’s own clock', () => {
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
    [String(NOW / 1000 + 864_000), NOW + DAY_MS, 'at most a day'],
    [String(NOW + 5_000), NOW + 5_000, 'milliseconds since 1970'],
  ])('reads %j as %s (%s)', (text: string, expected: number | null, _why: string) => {
    expect(retryAt({ 'x-ratelimit-reset': text }, NOW)).toBe(expected);
  });

  it('is read relative to the server’s own clock, which may be an hour ahead', () => {
    const date = 'Fri, 20 Nov 2026 11:00:00 GMT';
    const reset = String(Date.parse(date) / 1000 + 45);
    expect(retryAt({ date, 'x-ratelimit-reset': reset }, NOW)).toBe(NOW + 45_000);
    expect(retryAt({ date, 'x-ratelimit-reset': '45' }, NOW)).toBe(NOW + 45_000);
  });

  it('counts only without a valid Retry-After', () => {
    expect(retryAt({ 'retry-after': '5', 'x-ratelimit-reset': '9' }, NOW)).toBe(NOW + 5_000);
    expect(retryAt({ 'retry-after': '?', 'x-ratelimit-reset': '9' }, NOW)).toBe(NOW + 9_000);
    expect(retryAt({}, NOW)).toBeNull();
  });
});

const origin = 'https://www.market.example';
const date = 'Sat, 21 Nov 2026 02:00:00 GMT';

describe('serverFacts', () => {
  it('reads address, clock and rate limit', () => {
    const headers = { date, 'x-ratelimit-limit': '60', 'x-ratelimit-remaining': '0' };
    expect(serverFacts(origin, headers)).toEqual({
      origin,
      date: Date.UTC(2026, 10, 21, 2),
      limit: 60,
      remaining: 0,
    });
  });

  it('is null where a header is absent or malformed', () => {
    const none = { origin, date: null, limit: null, remaining: null };
    const headers = { date: '', 'x-ratelimit-limit': 'many', 'x-ratelimit-remaining': '-1' };
    expect(serverFacts(origin, headers)).toEqual(none);
    expect(serverFacts(origin, {})).toEqual(none);
  });

  it('takes the first value of a header that a proxy repeats', () => {
    const headers = { 'x-ratelimit-limit': '60, 1000' };
    expect(serverFacts(origin, headers).limit).toBe(60);
  });
});
