import { describe, expect, it } from 'vitest';
import {
  answerJson,
  answerLines,
  auditDetails,
  costText,
  exitCodeOfAudit,
  summaryLines,
  unprovenLines,
} from '../../src/cli/codes/audit-view.js';
import { ownCommand } from '../../src/cli/own-command.js';
import { checkCost } from '../../src/codes/progress.js';
import type { KnownPurchase } from '../../src/codes/known-code.js';
import { RESULT_COLUMNS } from '../../src/codes/lists/result.js';
import { resultOf, type Answer } from '../../src/codes/audit-result.js';
import type { AuditProgress } from '../../src/codes/types.js';

const look = { columns: null, colour: false };
const now = new Date('2026-11-21T10:00:00Z');
const purchase: KnownPurchase = {
  purchaseCode: '86781236-23d0-4b3c-7dfa-c1c147e0dece',
  licenseType: 'Regular',
  price: '19.00',
  currency: 'USD',
  item: { id: 1042, name: 'Dark\u001B[31m Theme', url: null, previewImageUrl: null, full: false },
  supportedUntil: '2026-12-01T00:00:00Z',
  downloaded: true,
  purchasedAt: '2024-05-01T10:00:12Z',
  isSupportUnknown: false,
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
  hasUnknownItem: false,
};
const invalid: Answer = {
  ...valid,
  verdict: 'invalid',
  reason: 'denied',
  proof: 'known-valid',
  httpStatus: 404,
  message: 'Invalid purchase code',
  denials: {
    times: 2,
    first: Date.parse('2026-11-21T09:58:58Z'),
    last: Date.parse('2026-11-21T09:59:59Z'),
    before: Date.parse('2026-11-21T09:59:58Z'),
    after: Date.parse('2026-11-21T10:00:01Z'),
  },
};
const EVIDENCE =
  'denied at 2026-11-21 09:58:58Z and again at 09:59:59Z; your API key was tested before and after (09:59:58Z, 10:00:01Z)';
const unproven: Answer = {
  ...invalid,
  verdict: 'unproven',
  reason: 'refused',
  proof: 'none',
  httpStatus: 401,
  message: 'Invalid request',
  denials: null,
};

const rejected = { ...unproven, verdict: 'rejected', reason: 'the code is empty' } as const;

describe('the answer about a code', () => {
  it('shows purchase and support of a valid code, safe for a terminal', () => {
    expect(answerLines(valid, now, look)).toBe(
      [
        '✓ 86781236-23d0-4b3c-7dfa-c1c147e0dece · valid',
        '  licence     Regular',
        '  item        1042 · Dark Theme',
        '  price       19.00 USD',
        '  purchased   2024-05-01 10:00:12Z, 2 years ago',
        '  support     active',
        '  until       2026-12-01 00:00:00Z, in 9 d',
        '  downloaded  yes',
        '  proof       the marketplace answered with the purchase at 2026-11-21 09:59:59Z',
        '  checked     2026-11-21 09:59:59Z, just now',
        '',
      ].join('\n'),
    );
  });

  it.each([
    [{ id: 1042, name: null }, '1042'],
    [{ id: null, name: 'Theme' }, 'Theme'],
    [{ id: null, name: null }, 'https://x/7'],
  ])('shows what is known of the item: %j', (known, text) => {
    const item = { url: 'https://x/7', previewImageUrl: null, full: false, ...known };
    const answer = { ...valid, purchase: { ...purchase, item } };
    expect(answerLines(answer, now, look)).toContain(`  item        ${text}\n`);
    const { item_id, item_name } = resultOf(answer, 0);
    expect([item_id, item_name]).toEqual([known.id, known.name]);
  });

  it.each([
    ['2026-11-20T00:00:00Z', 'expired\n  until       2026-11-20 00:00:00Z, 34 h ago'],
    [null, 'none'],
  ])('distinguishes expired support from none: %s', (supportedUntil, support) => {
    const lines = answerLines({ ...valid, purchase: { ...purchase, supportedUntil } }, now, look);
    expect(lines).toContain(`  support     ${support}\n`);
  });

  it('says that an item is not in the catalogue: somebody else may have sold the code', () => {
    const answer = { ...valid, hasUnknownItem: true };
    const hint = 'purchase of an item that is not in your catalogue';
    expect(answerLines(answer, now, look)).toContain(`the marketplace answered with the ${hint}`);
    const { verdict, reason } = resultOf(answer, now.getTime());
    expect([verdict, reason]).toEqual(['valid', `a ${hint}`]);
  });

  it('says which form is valid, if the code was given with look-alike characters', () => {
    const found = { ...purchase, purchaseCode: '86781236-23d0' };
    const given = { ...valid, code: '86781236\u201323d0', purchase: found };
    expect(answerLines(given, now, look)).toContain(
      '  note        the marketplace knows it as 86781236-23d0, not as given\n',
    );
  });

  it('shows the proof of an invalid code, and its purchase if it was valid before', () => {
    const gone = { ...invalid, verdict: 'no_longer_valid' } as const;
    const text = answerLines(gone, now, look);
    expect(text).toMatch(
      /^✗ .* · no longer valid\n {2}was +valid; no longer valid: refunded, reversed/,
    );
    expect(text).toContain('item        1042');
    expect(text).not.toContain('support');
    expect(text).toContain(`${EVIDENCE} (404 "Invalid purchase code")`);
    const never = answerLines({ ...invalid, purchase: null, proof: 'account' }, now, look);
    expect(never).not.toContain('valid before');
    expect(never).toContain(
      'a known valid code (--known-valid CODE) would make the proof stronger',
    );
  });

  it('shows why a code is unproven and what to do, without a purchase', () => {
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

  it('has the columns of a result, the reason and the server’s reply in JSON', () => {
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
      downloaded: 'yes',
      checked_at: '2026-11-21T09:59:59.000Z',
      proof: 'known-valid',
      reason: 'denied',
      evidence: EVIDENCE,
      http_status: 404,
      message: 'Invalid purchase code',
    });
  });
});

describe('a line of a result', () => {
  const pending = { ...rejected, verdict: 'pending', reason: '' } as const;

  it('always has every column', () => {
    for (const one of [valid, invalid, unproven, rejected, pending]) {
      const columns = [...Object.keys(resultOf(one, now.getTime())), 'listed'];
      expect(columns.sort()).toEqual([...RESULT_COLUMNS].sort());
    }
  });

  it.each([
    ['unproven', unproven, 'the marketplace refused the API key'],
    ['rejected', rejected, 'the code is empty'],
    ['pending', pending, 'not checked yet'],
  ])('has the reason for a missing verdict: %s', (verdict, line, reason) => {
    const nothing = { item_id: null, price: null, support: null, proof: 'none' };
    expect(resultOf(line, now.getTime())).toMatchObject({ verdict, ...nothing, reason });
  });

  it('has the evidence against an invalid code', () => {
    const gone = { ...invalid, verdict: 'no_longer_valid' } as const;
    expect(resultOf(gone, now.getTime())).toMatchObject({
      reason: 'was valid, bought 2024-05-01',
      proof: 'known-valid',
      evidence: EVIDENCE,
    });
    expect(resultOf(valid, now.getTime())).toMatchObject({
      reason: 'the marketplace answered with the purchase',
      proof: 'purchase',
    });
  });

  it('has the whole reason and remedy, and says so if a text does not look like a code', () => {
    const reason =
      'Excel has converted this code to a number, which loses leading zeros and digits: format the cell as text';
    expect(resultOf({ ...rejected, reason }, now.getTime())).toMatchObject({ reason });
    for (const code of ['n/a', '-', 'TBD', 'AB-12']) {
      const reasonOf = (one: typeof invalid) =>
        resultOf({ ...one, code, purchase: null }, now.getTime()).reason;
      expect(reasonOf(invalid)).toBe('does not look like a code');
      expect(reasonOf(valid)).toBe('the marketplace answered with the purchase');
    }
  });

  it('has the state of support at the time of writing', () => {
    expect(resultOf(valid, now.getTime())['support']).toBe('active');
    expect(resultOf(valid, Date.parse('2026-12-02T00:00:00Z'))['support']).toBe('expired');
  });
});

it.each([
  [
    'calls, duration and end',
    10_000,
    10_001,
    '10,151 calls (151 of them for the API key) at 60 a minute: about 2 h 49 min, until 2026-11-21 12:49:10Z; each denied code takes 1.08 more calls, at least 1 min later',
  ],
  ['that every verdict is known', 0, 10_000, 'nothing to check: every verdict is known'],
  ['that no line has a code', 0, 0, 'nothing to check: no line has a code'],
])('the cost of an audit says %s', (_what, toCheck, codes, text) => {
  const size = { toCheck, requestsPerMinute: 60, foundEver: 1_000 };
  expect(costText(checkCost(size, now.getTime()), 60, codes)).toBe(text);
});

const afterwards = new Date('2026-11-21T13:00:00Z');
const finished: AuditProgress = {
  auditId: 12n,
  sellerId: 'main',
  state: 'finished',
  source: 'customers.csv',
  isLookUps: false,
  createdAt: new Date('2026-11-21T10:00:00Z'),
  finishedAt: new Date('2026-11-21T12:47:00Z'),
  lines: 10_012,
  rejected: 3,
  codes: 10_001,
  reused: 1,
  valid: 9_121,
  invalid: 871,
  noLongerValid: 0,
  unproven: 9,
  pending: 0,
  denied: 0,
  apiCalls: 10_104,
  overturned: 0,
  asked: null,
  resumeAt: null,
  problem: null,
  result: null,
};
const running: AuditProgress = {
  ...finished,
  state: 'running',
  finishedAt: null,
  valid: 1,
  invalid: 0,
  unproven: 0,
  pending: 10_000,
};
const reasons = [
  { reason: 'refused', codes: 2 },
  { reason: 'unavailable', codes: 7 },
];

describe('the summary of an audit', () => {
  it('shows verdicts, requests, reasons for missing verdicts, and the result', () => {
    expect(
      summaryLines(finished, { unproven: reasons, accountProven: 0 }, 'result.csv', look),
    ).toBe(
      [
        '! audit 12 · main · customers.csv · 9,121 valid · 871 invalid · 9 unproven',
        '  10,104 requests in 2 h 47 min · 1 verdict reused · 3 lines rejected',
        '  7 codes: the marketplace was not available → check again later',
        '  2 codes: the marketplace refused the API key → check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it',
        '  result: result.csv',
        '  → check the list again with --max-age 7d, which checks only codes without a verdict',
        '',
      ].join('\n'),
    );
  });

  it('shows how to continue an unfinished audit', () => {
    const text = summaryLines(running, { unproven: [], accountProven: 0 }, null, look);
    expect(text).toContain('10,000 codes not checked yet');
    expect(text).toContain(`→ ${ownCommand()} audits resume 12\n`);
    expect(text).toContain(`→ ${ownCommand()} audits export 12 --out result.csv\n`);
  });
});

it('the exit code is 0 only if every code has a verdict', () => {
  expect(exitCodeOfAudit(finished)).toBe(4);
  expect(exitCodeOfAudit({ ...finished, unproven: 0 })).toBe(0);
  expect(exitCodeOfAudit({ ...finished, state: 'cancelled', unproven: 0 })).toBe(1);
  expect(exitCodeOfAudit({ ...finished, state: 'failed', unproven: 0 })).toBe(1);
  const none = { ...finished, codes: 0, valid: 0, invalid: 0, unproven: 0 };
  expect(exitCodeOfAudit(none), 'all lines were rejected').toBe(4);
  expect(summaryLines(none, { unproven: [], accountProven: 0 }, null, look)).toMatch(
    /^! .* · no codes\n/,
  );
  expect(exitCodeOfAudit({ ...none, rejected: 0 }), 'an empty list').toBe(0);
  const good = { ...finished, invalid: 0, unproven: 0 };
  expect(exitCodeOfAudit(good, ['invalid']), 'some lines were rejected').toBe(4);
  expect(exitCodeOfAudit({ ...good, rejected: 0 }, ['invalid'])).toBe(0);
});

describe('audits for people', () => {
  it('are shown one by one with all details', () => {
    const text = auditDetails(
      { ...running, problem: 'the marketplace refused the API key' },
      {
        unproven: reasons,
        reading: ['Read as csv.'],
        costLeft: '10 calls',
        next: ['audits resume 12'],
      },
      look,
      afterwards,
    );
    expect(text).toMatch(/^audit 12 · main · customers\.csv · unfinished\n/);
    expect(text).toContain('started          2026-11-21 10:00:00Z, 3 h ago\n');
    expect(text).toContain('lines            10,012 (3 rejected, 8 with a code listed before)\n');
    expect(text).toContain('codes            10,001 (1 checked recently enough)\n');
    expect(text).toContain('problem          the marketplace refused the API key\n');
    expect(text).toContain('how the list was read\n  Read as csv.\n');
    expect(text).toContain('to continue\n  audits resume 12\n');
    expect(text).not.toMatch(/^finished/m);
  });

  it('list the most frequent reason first', () => {
    const codes = unprovenLines(reasons).map((line) => line.split(':')[0]);
    expect(codes).toEqual(['7 codes', '2 codes']);
  });
});
