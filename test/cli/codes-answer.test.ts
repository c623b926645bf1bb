import { describe, expect, it } from 'vitest';
import { answerJson, answerLines, type Answer } from '../../src/cli/codes/answer.js';
import { resultOf } from '../../src/cli/codes/result-file.js';
import { costText } from '../../src/cli/codes/audit-view.js';
import { auditCost } from '../../src/domain/codes/cost.js';
import type { Purchase } from '../../src/domain/item.js';
import { RESULT_COLUMNS } from '../../src/intake/index.js';

const look = { columns: null, colour: false };
const now = new Date('2026-11-21T10:00:00Z');
const purchase: Purchase = {
  purchaseCode: '86781236-23d0-4b3c-7dfa-c1c147e0dece',
  licenseType: 'Regular',
  price: '19.00',
  currency: 'USD',
  item: { id: 1042, name: 'Dark\u001B[31m Theme', url: null, previewImageUrl: null, full: null },
  supportedUntil: '2026-12-01T00:00:00Z',
  downloaded: true,
  purchasedAt: '2024-05-01T10:00:12Z',
};
const valid: Answer = {
  code: '86781236-23d0-4b3c-7dfa-c1c147e0dece',
  verdict: 'valid',
  reason: 'answered',
  proof: 'purchase',
  purchase,
  checkedAt: new Date('2026-11-21T09:59:59Z'),
  httpStatus: 200,
  message: null,
  denials: null,
};
const invalid: Answer = {
  ...valid,
  verdict: 'invalid',
  reason: 'denied',
  proof: 'canary',
  httpStatus: 404,
  message: 'Invalid purchase code',
  denials: {
    times: 2,
    firstAt: new Date('2026-11-21T09:58:58Z'),
    lastAt: new Date('2026-11-21T09:59:59Z'),
  },
};
const EVIDENCE = 'denied twice, 61 s apart, at 2026-11-21 09:58:58Z and 2026-11-21 09:59:59Z';
const unproven: Answer = {
  ...invalid,
  verdict: 'unproven',
  reason: 'refused',
  proof: 'none',
  httpStatus: 401,
  message: 'Invalid request',
  denials: null,
};

describe('the answer about a code', () => {
  it('of a valid one says what was bought and until when support runs, safe for a terminal', () => {
    expect(answerLines(valid, now, look)).toBe(
      [
        '✓ 86781236-23d0-4b3c-7dfa-c1c147e0dece · valid',
        '  licence     Regular',
        '  item        1042 · Dark Theme',
        '  price       19.00 USD',
        '  purchased   2024-05-01 10:00:12Z',
        '  support     active until 2026-12-01 00:00:00Z, in 9 d',
        '  downloaded  yes',
        '  proof       the marketplace answered with the purchase',
        '  checked     2026-11-21 09:59:59Z, just now',
        '',
      ].join('\n'),
    );
  });

  it.each([
    [{ id: 1042, name: null }, '1042'],
    [{ id: null, name: 'Theme' }, 'Theme'],
    [{ id: null, name: null }, 'https://x/7'],
  ])('tells of the item what is known of it: %j', (known, text) => {
    const item = { url: 'https://x/7', previewImageUrl: null, full: null, ...known };
    const lines = answerLines({ ...valid, purchase: { ...purchase, item } }, now, look);
    expect(lines).toContain(`  item        ${text}\n`);
    const { item_id, item_name } = resultOf({ ...valid, purchase: { ...purchase, item } }, 0);
    expect([item_id, item_name]).toEqual([known.id, known.name]);
  });

  it('tells support that has ended from none', () => {
    const ended = { ...purchase, supportedUntil: '2026-11-20T00:00:00Z' };
    expect(answerLines({ ...valid, purchase: ended }, now, look)).toContain(
      'support     expired since 2026-11-20 00:00:00Z, 34 h ago',
    );
    const none = { ...purchase, supportedUntil: null };
    expect(answerLines({ ...valid, purchase: none }, now, look)).toMatch(/support +none\n/);
  });

  it('of an invalid one says what proved it, and what it was when it was valid', () => {
    const text = answerLines(invalid, now, look);
    expect(text).toMatch(/^✗ .* · invalid\n {2}was +valid before; probably refunded/);
    expect(text).toContain('item        1042');
    expect(text).not.toContain('support');
    expect(text).toContain(
      `${EVIDENCE} (404 "Invalid purchase code"), while the API key opened the account and found a valid code before and after`,
    );
    const never = answerLines({ ...invalid, purchase: null, proof: 'account' }, now, look);
    expect(never).not.toContain('valid before');
    expect(never).toContain('a code known to be valid (--canary) would prove more');
  });

  it('of an unproven one says why and what to do, and nothing of a purchase', () => {
    expect(answerLines(unproven, now, look)).toBe(
      [
        '? 86781236-23d0-4b3c-7dfa-c1c147e0dece · unproven',
        '  why         the marketplace refused the API key (401 "Invalid request")',
        '  what to do  check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it',
        '  checked     2026-11-21 09:59:59Z, just now',
        '',
      ].join('\n'),
    );
    expect(answerLines({ ...unproven, reason: 'from-the-future' }, now, look)).toContain(
      'why         from-the-future',
    );
  });

  it('for scripts has the columns of a result, the reason and what the server said', () => {
    expect(answerJson(invalid, now)).toEqual({
      code: invalid.code,
      verdict: 'invalid',
      license_type: 'Regular',
      item_id: 1042,
      item_name: 'Dark\u001B[31m Theme',
      price: '19.00',
      currency: 'USD',
      purchased_at: '2024-05-01T10:00:12Z',
      supported_until: '2026-12-01T00:00:00Z',
      support: null,
      checked_at: '2026-11-21T09:59:59.000Z',
      proof: 'canary',
      reason: 'denied',
      evidence: EVIDENCE,
      http_status: 404,
      message: 'Invalid purchase code',
    });
  });
});

describe('a line of a result', () => {
  it('always has every column', () => {
    const facts = [
      valid,
      invalid,
      unproven,
      { verdict: 'pending' },
      { verdict: 'rejected', why: 'the code is empty' },
    ] as const;
    for (const one of facts) {
      expect(Object.keys(resultOf(one, now.getTime())).sort()).toEqual([...RESULT_COLUMNS].sort());
    }
  });

  it('says why there is no verdict where the proof would be', () => {
    expect(resultOf(unproven, now.getTime())).toMatchObject({
      verdict: 'unproven',
      item_id: null,
      support: null,
      proof: 'none: the marketplace refused the API key',
    });
    const rejected = resultOf({ verdict: 'rejected', why: 'the code is empty' }, now.getTime());
    expect(rejected).toMatchObject({ verdict: 'rejected', proof: 'none: the code is empty' });
  });

  it('says of an invalid code when it was denied, since an invalid code may cost a customer their support', () => {
    expect(resultOf(invalid, now.getTime())['proof']).toBe(`canary: ${EVIDENCE}`);
    expect(resultOf(valid, now.getTime())['proof']).toBe('purchase');
  });

  it('tells the state of support at the moment it is written', () => {
    expect(resultOf(valid, now.getTime())['support']).toBe('active');
    expect(resultOf(valid, Date.parse('2026-12-02T00:00:00Z'))['support']).toBe('expired');
  });
});

describe('what an audit will cost', () => {
  const size = { toAsk: 10_000, requestsPerMinute: 60, chunkSize: 100, concurrency: 4 };

  it('is told in calls, time and the moment of its end', () => {
    expect(costText(auditCost(size, now.getTime()), 60, 10_001)).toBe(
      '10,268 calls (268 proofs of the API key included) at 60 a minute: about 2 h 51 min, until 2026-11-21 12:51:07Z; up to one call more for each denied code',
    );
  });

  it('is nothing when every verdict is fresh', () => {
    expect(costText(auditCost({ ...size, toAsk: 0 }, now.getTime()), 60, 10_000)).toBe(
      'nothing to ask: every verdict is known',
    );
  });

  it('is nothing when every line was rejected, which must not read as if all were well', () => {
    expect(costText(auditCost({ ...size, toAsk: 0 }, now.getTime()), 60, 0)).toBe(
      'nothing to ask: no line holds a code',
    );
  });
});
