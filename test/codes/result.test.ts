import { describe, expect, it } from 'vitest';
import type { RecordFacts } from '../../src/codes/evidence.js';
import type { KnownPurchase } from '../../src/codes/known-code.js';
import { answerColumns, RESULT_COLUMNS } from '../../src/codes/result.js';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const CODE = '86781236-23d0-4b3c-7dfa-c1c147e0dece';
const ITEM = { id: 1042, name: 'Dark Theme', url: null, previewImageUrl: null, full: false };
const PURCHASE: KnownPurchase = {
  ...{ purchaseCode: CODE, licenseType: 'Regular', price: '19.00', currency: 'USD', item: ITEM },
  ...{ supportedUntil: '2026-12-01T00:00:00Z', isSupportUnknown: false, downloaded: true },
  purchasedAt: '2024-05-01T10:00:12Z',
};
const at = (time: string): number => Date.parse(`2026-11-21T${time}Z`);
const DENIALS = {
  ...{ times: 2, first: at('09:58:58'), last: at('09:59:59') },
  ...{ before: at('09:59:58'), after: at('10:00:01') },
};
const VALID: RecordFacts = {
  ...{ code: CODE, verdict: 'valid', reason: 'answered', proof: 'purchase', purchase: PURCHASE },
  ...{ checkedAt: new Date('2026-11-21T09:59:59Z'), denials: null, hasUnknownItem: false },
};
const INVALID: RecordFacts = {
  ...{ ...VALID, verdict: 'invalid', reason: 'denied', proof: 'known-valid' },
  ...{ denials: DENIALS, purchase: null },
};
const GONE: RecordFacts = { ...INVALID, verdict: 'no_longer_valid', purchase: PURCHASE };
const EVIDENCE =
  'denied at 2026-11-21 09:58:58Z and again at 09:59:59Z; your API key was tested before and after (09:59:58Z, 10:00:01Z)';
const ANSWERED = 'the marketplace answered with the purchase';
const UNKNOWN_ITEM = 'purchase of an item that is not in your catalogue';
/** Without a verdict: nothing of the purchase. */
const NOTHING = { item_id: null, price: null, support: null, proof: 'none' };

describe('a line of a result', () => {
  it('has the purchase of a valid code, in columns that are all named and have a value', () => {
    expect(answerColumns(VALID, NOW)).toEqual({
      ...{ verdict: 'valid', reason: ANSWERED, license_type: 'Regular', item_id: 1042 },
      ...{ item_name: 'Dark Theme', price: '19.00', currency: 'USD', downloaded: 'yes' },
      ...{ purchased_at: '2024-05-01T10:00:12Z', supported_until: '2026-12-01T00:00:00Z' },
      ...{ support: 'active', checked_at: '2026-11-21T09:59:59.000Z', proof: 'purchase' },
      evidence: `${ANSWERED} at 2026-11-21 09:59:59Z`,
    });
    const values = RESULT_COLUMNS.map(({ value }) => value({ ...VALID, listed: 2 }, NOW));
    expect(values).not.toContain(undefined);
    expect(values).toContain(2);
  });

  it.each<[string, RecordFacts, Record<string, unknown>]>([
    ['the evidence of an invalid code', INVALID, { proof: 'known-valid', evidence: EVIDENCE }],
    ['that a code is unknown', INVALID, { reason: 'unknown to the marketplace', item_id: null }],
    [
      'the purchase of a code that was valid, without its support',
      GONE,
      { reason: 'was valid, bought 2024-05-01', item_id: 1042, support: null, evidence: EVIDENCE },
    ],
    [
      'that an item is not in the catalogue: somebody else may have sold the code',
      { ...VALID, hasUnknownItem: true },
      {
        reason: `a ${UNKNOWN_ITEM}`,
        evidence: expect.stringContaining(`with the ${UNKNOWN_ITEM}`),
      },
    ],
    [
      'the form that is valid, if it is not the one in the list',
      { ...VALID, code: '\u2013x', purchase: { ...PURCHASE, purchaseCode: '-x' } },
      { reason: 'valid as -x', evidence: expect.stringMatching(/; it knows the code as -x, not/) },
    ],
    [
      'that account details are a weak proof',
      { ...INVALID, proof: 'account' },
      { evidence: `${EVIDENCE}; no valid code was known to try` },
    ],
    [
      'why a code is unproven',
      { ...GONE, verdict: 'unproven', reason: 'refused' },
      { ...NOTHING, reason: 'the marketplace refused the API key' },
    ],
    [
      'a reason of a later version as it is',
      { ...VALID, verdict: 'unproven', reason: 'from-the-future' },
      { ...NOTHING, reason: 'from-the-future' },
    ],
    [
      'the whole reason and remedy for a line without a code',
      { ...VALID, code: null, verdict: 'rejected', reason: 'the code is empty' },
      { ...NOTHING, reason: 'the code is empty', evidence: 'the code is empty' },
    ],
    [
      'that a code was not checked yet',
      { ...VALID, verdict: 'pending', reason: '' },
      { ...NOTHING, reason: 'not checked yet' },
    ],
  ])('has %s', (_what, facts, expected) => {
    expect(answerColumns(facts, NOW)).toMatchObject(expected);
  });

  it.each(['n/a', '-', 'TBD', 'AB-12'])(
    'says so if a text does not look like a code: %s',
    (code) => {
      expect(answerColumns({ ...INVALID, code }, NOW)['reason']).toBe('does not look like a code');
      expect(answerColumns({ ...VALID, code, purchase: null }, NOW)['reason']).toBe(ANSWERED);
    },
  );

  it.each([
    ['2026-11-20T00:00:00Z', 'expired'],
    ['2026-11-22T00:00:00Z', 'active'],
    [null, 'none'],
  ])('has the state of support at the time of writing: until %s', (supportedUntil, support) => {
    const facts = { ...VALID, purchase: { ...PURCHASE, supportedUntil } };
    expect(answerColumns(facts, NOW)['support']).toBe(support);
  });
});
