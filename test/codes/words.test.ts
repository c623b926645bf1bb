import { expect, it } from 'vitest';
import type { KnownPurchase } from '../../src/codes/known-code.js';
import { type UnprovenReason, unprovenOnPage } from '../../src/codes/evidence.js';
import { replyText, verdictSentence } from '../../src/codes/words.js';

const NOW = Date.parse('2026-11-28T12:00:00Z');
const PURCHASE: KnownPurchase = {
  purchaseCode: 'a1b2c3',
  licenseType: 'Regular',
  price: '49.00',
  currency: 'USD',
  supportedUntil: '2027-02-01T00:00:00Z',
  isSupportUnknown: false,
  downloaded: true,
  purchasedAt: '2026-05-02T10:00:00Z',
  item: { id: 7n, name: 'Aurora', url: null, previewImageUrl: null, full: false } as never,
};

type Facts = Parameters<typeof verdictSentence>[0];
const facts = (verdict: Facts['verdict'], purchase: KnownPurchase | null, more = {}): Facts => ({
  ...{ code: 'a1b2c3', verdict, reason: '', proof: 'none', denials: null, purchase },
  ...{ checkedAt: null, hasUnknownItem: false, ...more },
});
const bought = (changes: Partial<KnownPurchase>) => ({ ...PURCHASE, ...changes });

it.each([
  [facts('valid', PURCHASE), 'Valid. Regular licence for Aurora, support until 1 Feb 2027.'],
  [
    facts('valid', bought({ supportedUntil: '2026-03-03T00:00:00Z' })),
    'Valid. Regular licence for Aurora, support ended on 3 Mar 2026.',
  ],
  [
    facts('valid', bought({ supportedUntil: null })),
    'Valid. Regular licence for Aurora, without support.',
  ],
  [
    facts('valid', bought({ licenseType: 'Reguläre Lizenz', item: null }), {
      hasUnknownItem: true,
    }),
    'Valid. Reguläre Lizenz, support until 1 Feb 2027. The item is not in your catalogue.',
  ],
  [
    facts('no_longer_valid', bought({ licenseType: 'Extended' })),
    'No longer valid. It was an Extended licence for Aurora, bought 2 May 2026.',
  ],
  [facts('no_longer_valid', null), 'No longer valid. It was valid before.'],
  [facts('invalid', null), 'Invalid. The marketplace does not know this code.'],
  [
    facts('unproven', null, { reason: 'unavailable' }),
    'Unproven. The marketplace was not available.',
  ],
  [
    facts('rejected', null, { reason: 'holds 2 codes: give each its own line' }),
    'Not a code. Holds 2 codes: give each its own line.',
  ],
])('the answer about a code is one sentence: %#', (given, expected) => {
  const { head, rest } = verdictSentence(given, NOW);
  expect(`${head} ${rest}`.trim()).toBe(expected);
});

it.each([
  [
    'Hello {name},\\n\\n{licence} for {item}, {support}.',
    'Mira',
    'Hello Mira,\n\nRegular licence for Aurora, with support until 1 February 2027.',
  ],
  ['Hello {name}, {code} was valid until {last_valid}.', null, 'Hello, a1b2c3 was valid before.'],
  ['Until {until}. {nothing} stays.', null, 'Until 1 February 2027. {nothing} stays.'],
])(
  'a reply leaves out what is not known, and keeps what is no name: %j',
  (template, firstName, expected) => {
    const known = { firstName, code: 'a1b2c3', purchase: PURCHASE, lastValidAt: null };
    expect(replyText(template, known, NOW)).toBe(expected);
  },
);

const REASONS: Readonly<Record<UnprovenReason, true>> = {
  ...{ limited: true, unavailable: true, unreadable: true, refused: true, 'no-api': true },
  ...{
    'another-account': true,
    'another-marketplace': true,
    'mixed-up': true,
    unconfirmed: true,
    'key-not-proven': true,
  },
  ...{ 'known-valid-denied': true, contradicted: true, 'finds-everything': true },
};

it.each(Object.keys(REASONS))('a page says what to do about %s without a terminal', (reason) => {
  expect(unprovenOnPage(reason)).toMatch(/^[a-z][^.`]*[a-z]$/i);
  expect(unprovenOnPage(reason)).not.toContain('--');
});
