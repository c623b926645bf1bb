import { describe, expect, it } from 'vitest';
import { Proofs, type Call, type CodeCall } from '../../../src/domain/codes/proof.js';
import {
  account,
  canary,
  code,
  denied,
  found,
  limited,
  opened,
  refused,
  switchedOff,
} from './support.js';

const NOBODYS = 'nobody-bought';

/** Judges a denial by these calls and itself, once all have ended. */
function judge(
  denial: CodeCall,
  others: readonly Call[],
  { knowsValidCode = true, quiet = Infinity, now = 0, longestGapMs = 120_000 } = {},
): string {
  const proofs = new Proofs('ada', knowsValidCode, longestGapMs);
  const calls = [...others, denial].sort((a, b) => a.ended - b.ended);
  for (const call of calls) proofs.add(call);
  return proofs.judge(denial, quiet, now);
}

const DENIAL = code(NOBODYS, 10, 12, denied);
const BEFORE = [account(1, 2, opened('ada')), canary('c', 3, 4, found('c'))];
const AFTER = [canary('c', 20, 21, found('c')), account(22, 23, opened('ada'))];

describe('a denial counts', () => {
  it.each<[string, readonly Call[], object?]>([
    ['between account details and a canary on either side', [...BEFORE, ...AFTER]],
    [
      'with a code of the list in place of the canary, as a valid answer is one',
      [
        account(1, 2, opened('ada')),
        code('v', 3, 4, found('v')),
        code('w', 14, 15, found('w')),
        ...AFTER.slice(1),
      ],
    ],
    [
      'whatever the letter case of the account',
      [...BEFORE, AFTER[0] as Call, account(22, 23, opened('ADA'))],
    ],
    [
      'by account details alone where no valid code is known',
      [account(1, 2, opened('ada')), account(22, 23, opened('ada'))],
      { knowsValidCode: false },
    ],
    [
      'when a limit was met in between, which says nothing of the key',
      [...BEFORE, code('x', 13, 14, limited), ...AFTER],
    ],
    [
      'when the key was refused before the checkpoint',
      [account(-3, -2, refused), ...BEFORE, ...AFTER],
    ],
    [
      'when the key was refused after the checkpoint',
      [...BEFORE, ...AFTER, account(30, 31, refused)],
    ],
  ])('%s', (_, calls, options) => {
    expect(judge(DENIAL, calls, options)).toBe('counts');
  });
});

describe('a denial does not count', () => {
  it.each<[string, string, readonly Call[], object?]>([
    ['no-account-before', 'without account details before it', [BEFORE[1] as Call, ...AFTER]],
    [
      'no-canary-before',
      'without a find before it, where a valid code is known',
      [BEFORE[0] as Call, ...AFTER],
    ],
    [
      'no-account-before',
      'when account details were still under way as it began',
      [account(1, 11, opened('ada')), BEFORE[1] as Call, ...AFTER],
    ],
    [
      'no-canary-before',
      'when the find was still under way as it began',
      [BEFORE[0] as Call, canary('c', 3, 11, found('c')), ...AFTER],
    ],
    [
      'waits',
      'when the find after it began before it had ended',
      [...BEFORE, canary('c', 11, 21, found('c')), AFTER[1] as Call],
    ],
    [
      'waits',
      'when account details after it began before it had ended',
      [...BEFORE, AFTER[0] as Call, account(11, 23, opened('ada'))],
    ],
    [
      'waits',
      'while a call is under way that may still speak against the key',
      [...BEFORE, ...AFTER],
      { quiet: 15 },
    ],
    ['waits', 'while a checkpoint may still follow', BEFORE, { now: 100_000 }],
    ['gap', 'when none followed in time', BEFORE, { now: 125_000 }],
    [
      'gap',
      'when the find after it came too late',
      [...BEFORE, canary('c', 200, 201, found('c')), account(13, 14, opened('ada'))],
    ],
    [
      'gap',
      'when the account details after it came too late',
      [...BEFORE, AFTER[0] as Call, account(200, 201, opened('ada'))],
    ],
    [
      'proof-failed',
      'when the key was refused in between',
      [...BEFORE, account(13, 14, refused), ...AFTER],
    ],
    [
      'proof-failed',
      'when a canary was denied in between',
      [...BEFORE, canary('d', 5, 6, denied), ...AFTER],
    ],
    [
      'proof-failed',
      'when the API was off for a code in between',
      [...BEFORE, code('x', 13, 14, switchedOff), ...AFTER],
    ],
    [
      'proof-failed',
      'when a call that failed ran beside the find',
      [...BEFORE, code('x', 1, 13, refused), ...AFTER],
    ],
    [
      'proof-failed',
      'as soon as it is clear that something failed',
      [...BEFORE, account(13, 14, refused)],
    ],
    [
      'account-changed',
      'once account details spoke of another account, before or after',
      [...BEFORE, ...AFTER, account(40, 41, opened('eve'))],
    ],
  ])('%s: %s', (reason, _, calls, options) => {
    expect(judge(DENIAL, calls, options)).toBe(reason);
  });
});

it('a small budget has more time between two checkpoints', () => {
  const calls = [...BEFORE, canary('c', 200, 201, found('c')), account(202, 203, opened('ada'))];
  expect(judge(DENIAL, calls, { longestGapMs: 600_000 })).toBe('counts');
});

describe('of denials in a row', () => {
  /** Calls side by side, each of them `wide` numbers long, one begun after the other. */
  const row = (count: number, wide: number, from = 10): CodeCall[] =>
    Array.from({ length: count }, (_, i) => {
      const begun = from + i * 2;
      return code(`no-${i}`, begun, begun + 2 * wide - 1, denied);
    });

  /** How many of the row count between a checkpoint before and one after, and these finds. */
  function counting(denials: readonly CodeCall[], finds: readonly CodeCall[] = []): number {
    const end = denials.reduce((last, { ended }) => Math.max(last, ended), 0);
    const after = [
      canary('c', end + 1, end + 2, found('c')),
      account(end + 3, end + 4, opened('ada')),
    ];
    const proofs = new Proofs('ada', true, 1e9);
    const calls = [...BEFORE, ...after, ...finds, ...denials];
    for (const call of calls.toSorted((a, b) => a.ended - b.ended)) proofs.add(call);
    return denials.filter((denial) => proofs.judge(denial, Infinity, 0) === 'counts').length;
  }

  it.each([
    [25, 25],
    [26, 0],
  ])('25 count and not one of more: of %i, %i', (count, expected) => {
    expect(counting(row(count, 1))).toBe(expected);
  });

  it('none of 40 counts when all finds beside them ended later: nobody knows which came first', () => {
    const denials = row(40, 20);
    const last = denials.at(-1)?.ended ?? 0;
    const finds = denials.map(({ begun }, i) =>
      code(`v-${i}`, begun + 0.5, last + 1 + i / 100, found(`v-${i}`)),
    );
    expect(counting(denials, finds)).toBe(0);
  });

  it('all of 40 count when a find lies whole between the halves', () => {
    const [first, second] = [row(20, 1), row(20, 1, 60)];
    expect(counting([...first, ...second], [code('v', 55, 56, found('v'))])).toBe(40);
  });

  it('a find beside denials of both halves parts none of those it ran beside', () => {
    const [first, second] = [row(20, 1), row(20, 1, 50)];
    expect(counting([...first, ...second], [code('v', 30, 69, found('v'))])).toBeLessThan(40);
  });
});

it('an answer is not believed once account details have spoken of another account', () => {
  const proofs = new Proofs('ada', true);
  proofs.add(account(1, 4, opened('eve')));
  expect(proofs.believes(code('v', 3, 5, found('v')))).toBe(true);
  expect(proofs.believes(code('v', 5, 6, found('v')))).toBe(false);
});

it('the first account details tell whose the key is, where nobody else does', () => {
  const proofs = new Proofs(null, false);
  proofs.add(account(1, 2, opened('ada')));
  proofs.add(account(3, 4, opened('eve')));
  expect(proofs).toMatchObject({ account: 'ada', stranger: { begun: 3 } });
});
