import { describe, expect, it } from 'vitest';
import { serverFacts } from '../../src/marketplace/server-facts.js';

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
