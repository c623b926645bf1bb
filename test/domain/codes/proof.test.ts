import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  MAX_DENIALS_IN_ROW,
  Proofs,
  type Call,
  type CodeCall,
  type DenialJudgement,
} from '../../../src/domain/codes/proof.js';
import {
  account,
  canary,
  code,
  denied,
  diceOf,
  found,
  limited,
  opened,
  refused,
  switchedOff,
} from './support.js';

/** The checkpoints around a denial that counts. */
const COUNTS = { before: expect.any(Number) as number, after: expect.any(Number) as number };

/** Judges a denial after all these calls have ended. */
function judge(
  denial: CodeCall,
  others: readonly Call[],
  { knowsValidCode = true, allEndedBefore = Infinity, now = 0, maxGapMs = 120_000 } = {},
): DenialJudgement {
  const proofs = new Proofs('ada', knowsValidCode, maxGapMs);
  const calls = [...others, denial].sort((a, b) => a.ended - b.ended);
  for (const call of calls) proofs.add(call);
  return proofs.judgeDenial(denial, allEndedBefore, now);
}

const DENIAL = code('not-sold', 10, 12, denied);
const BEFORE = [account(1, 2, opened('ada')), canary('c', 3, 4, found('c'))] as const;
const AFTER = [canary('c', 20, 21, found('c')), account(22, 23, opened('ada'))] as const;

describe('a denial counts', () => {
  it.each<[string, readonly Call[], object?]>([
    ['between account details and a canary on either side', [...BEFORE, ...AFTER]],
    [
      'with a valid code of the list instead of the canary',
      [
        account(1, 2, opened('ada')),
        code('v', 3, 4, found('v')),
        code('w', 14, 15, found('w')),
        ...AFTER.slice(1),
      ],
    ],
    ['with the account in any letter case', [...BEFORE, AFTER[0], account(22, 23, opened('ADA'))]],
    [
      'between account details alone, if no valid code is known',
      [account(1, 2, opened('ada')), account(22, 23, opened('ada'))],
      { knowsValidCode: false },
    ],
    [
      'with a rate limit in between, which tells nothing about the key',
      [...BEFORE, code('x', 13, 14, limited), ...AFTER],
    ],
    [
      'after the key was refused before the first checkpoint',
      [account(-3, -2, refused), ...BEFORE, ...AFTER],
    ],
    [
      'before the key was refused after the second checkpoint',
      [...BEFORE, ...AFTER, account(30, 31, refused)],
    ],
  ])('%s', (_, calls, options) => {
    expect(judge(DENIAL, calls, options)).toEqual(COUNTS);
  });
});

it('a denial that counts has the times at which both checkpoints ended', () => {
  const judged = judge(DENIAL, [...BEFORE, ...AFTER]);
  expect(judged).toEqual({ before: BEFORE[1].endedAt, after: AFTER[1].endedAt });
});

describe('a denial does not count', () => {
  it.each<[string, string, readonly Call[], object?]>([
    ['no-account-before', 'without account details before it', [BEFORE[1], ...AFTER]],
    [
      'no-canary-before',
      'without a canary before it, if a valid code is known',
      [BEFORE[0], ...AFTER],
    ],
    [
      'no-account-before',
      'if account details had not ended when it began',
      [account(1, 11, opened('ada')), BEFORE[1], ...AFTER],
    ],
    [
      'no-canary-before',
      'if the canary had not ended when it began',
      [BEFORE[0], canary('c', 3, 11, found('c')), ...AFTER],
    ],
    [
      'pending',
      'if the canary after it began before it ended',
      [...BEFORE, canary('c', 11, 21, found('c')), AFTER[1]],
    ],
    [
      'pending',
      'if account details after it began before it ended',
      [...BEFORE, AFTER[0], account(11, 23, opened('ada'))],
    ],
    [
      'pending',
      'while a call under way may still cast doubt on the key',
      [...BEFORE, ...AFTER],
      { allEndedBefore: 15 },
    ],
    ['pending', 'while a checkpoint may still follow', BEFORE, { now: 100_000 }],
    ['gap', 'if no checkpoint followed in time', BEFORE, { now: 125_000 }],
    [
      'gap',
      'if the canary after it came too late',
      [...BEFORE, canary('c', 200, 201, found('c')), account(13, 14, opened('ada'))],
    ],
    [
      'gap',
      'if the account details after it came too late',
      [...BEFORE, AFTER[0], account(200, 201, opened('ada'))],
    ],
    [
      'proof-failed',
      'if the key was refused in between',
      [...BEFORE, account(13, 14, refused), ...AFTER],
    ],
    [
      'proof-failed',
      'if a canary was denied in between',
      [...BEFORE, canary('d', 5, 6, denied), ...AFTER],
    ],
    [
      'proof-failed',
      'if the API was switched off for a code in between',
      [...BEFORE, code('x', 13, 14, switchedOff), ...AFTER],
    ],
    [
      'proof-failed',
      'if a failed call overlapped the first checkpoint',
      [...BEFORE, code('x', 1, 13, refused), ...AFTER],
    ],
    ['proof-failed', 'as soon as a failure is known', [...BEFORE, account(13, 14, refused)]],
    [
      'account-changed',
      'once account details belonged to another account, before or after',
      [...BEFORE, ...AFTER, account(40, 41, opened('eve'))],
    ],
  ])('%s: %s', (reason, _, calls, options) => {
    expect(judge(DENIAL, calls, options)).toBe(reason);
  });
});

it('a small budget allows a longer gap between checkpoints', () => {
  const calls = [...BEFORE, canary('c', 200, 201, found('c')), account(202, 203, opened('ada'))];
  expect(judge(DENIAL, calls, { maxGapMs: 600_000 })).toEqual(COUNTS);
});

describe('of denials in a row', () => {
  /** Overlapping calls: each begins 2 counter values after the last, and `wide` of them overlap. */
  const row = (count: number, wide: number, from = 10): CodeCall[] =>
    Array.from({ length: count }, (_, i) => {
      const begun = from + i * 2;
      return code(`no-${i}`, begun, begun + 2 * wide - 1, denied);
    });

  /** How many of the denials count, with these valid codes and a checkpoint on either side. */
  function counting(denials: readonly CodeCall[], validCodes: readonly CodeCall[] = []): number {
    const end = denials.reduce((last, { ended }) => Math.max(last, ended), 0);
    const after = [
      canary('c', end + 1, end + 2, found('c')),
      account(end + 3, end + 4, opened('ada')),
    ];
    const proofs = new Proofs('ada', true, 1e9);
    const calls = [...BEFORE, ...after, ...validCodes, ...denials];
    for (const call of calls.toSorted((a, b) => a.ended - b.ended)) proofs.add(call);
    return denials.filter((denial) => typeof proofs.judgeDenial(denial, Infinity, 0) === 'object')
      .length;
  }

  it.each([
    [25, 25],
    [26, 0],
  ])('of %i, %i count', (count, expected) => {
    expect(counting(row(count, 1))).toBe(expected);
  });

  it('none of 40 counts if all valid codes ended later: nobody knows which answer came first', () => {
    const denials = row(40, 20);
    const last = denials.at(-1)?.ended ?? 0;
    const validCodes = denials.map(({ begun }, i) =>
      code(`v-${i}`, begun + 0.5, last + 1 + i / 100, found(`v-${i}`)),
    );
    expect(counting(denials, validCodes)).toBe(0);
  });

  it('all of 40 count if a valid code began and ended between the halves', () => {
    const [first, second] = [row(20, 1), row(20, 1, 60)];
    expect(counting([...first, ...second], [code('v', 55, 56, found('v'))])).toBe(40);
  });

  it('not all of 40 count if the valid code overlapped denials of both halves', () => {
    const [first, second] = [row(20, 1), row(20, 1, 50)];
    expect(counting([...first, ...second], [code('v', 30, 69, found('v'))])).toBeLessThan(40);
  });
});

it('a valid code is not trusted if it began after account details belonged to another account', () => {
  const proofs = new Proofs('ada', true);
  proofs.add(account(1, 4, opened('eve')));
  expect(proofs.trusts(code('v', 3, 5, found('v')))).toBe(true);
  expect(proofs.trusts(code('v', 5, 6, found('v')))).toBe(false);
});

it('the first account details bind the account if none is known', () => {
  const proofs = new Proofs(null, false);
  proofs.add(account(1, 2, opened('ada')));
  proofs.add(account(3, 4, opened('eve')));
  expect(proofs).toMatchObject({ account: 'ada', otherAccount: { begun: 3 } });
});

interface Answered {
  readonly call: CodeCall;
  /** The server denied a valid code. */
  readonly isFalse: boolean;
}

interface Trial {
  readonly calls: number;
  /** Calls under way at the same time. */
  readonly together: number;
  /** Share of the codes that are valid. */
  readonly valid: number;
  /** The server denies this many answers from this one on. */
  readonly bad: { readonly from: number; readonly answers: number };
  readonly seed: number;
}

/** Simulates calls. Their starts, answers and ends come in any order that `together` allows. */
function simulate({ calls, together, valid, bad, seed }: Trial): readonly Answered[] {
  const dice = diceOf(seed);
  interface OpenCall {
    number: number;
    isValid: boolean;
    outcome: 'denied' | 'found' | null;
    isFalse: boolean;
  }
  const begun: OpenCall[] = [];
  const pick = (calls: OpenCall[]) => calls[Math.floor(dice() * calls.length)] as OpenCall;
  const done: Answered[] = [];
  let number = 2;
  let answers = 0;
  let started = 0;
  while (done.length < calls) {
    number++;
    const open = started < calls && begun.length < together;
    const unanswered = begun.filter(({ outcome }) => outcome === null);
    const answered = begun.filter(({ outcome }) => outcome !== null);
    const choice = Math.floor(dice() * 3);
    if (open && (choice === 0 || begun.length === 0)) {
      begun.push({ number, isValid: dice() < valid, outcome: null, isFalse: false });
      started++;
    } else if (unanswered.length > 0 && (choice === 1 || answered.length === 0)) {
      const one = pick(unanswered);
      const isBad = answers >= bad.from && answers < bad.from + bad.answers;
      answers++;
      one.isFalse = isBad && one.isValid;
      one.outcome = isBad || !one.isValid ? 'denied' : 'found';
    } else if (answered.length > 0) {
      const one = pick(answered);
      begun.splice(begun.indexOf(one), 1);
      const name = `code-${one.number}`;
      const reply = one.outcome === 'denied' ? denied : found(name);
      done.push({ call: code(name, one.number, number, reply), isFalse: one.isFalse });
    }
  }
  return done;
}

const trials: fc.Arbitrary<Trial> = fc.record({
  calls: fc.integer({ min: 60, max: 400 }),
  together: fc.constantFrom(1, 4, 16, 48),
  valid: fc.constantFrom(0.3, 0.7, 0.95, 1),
  bad: fc.record({
    from: fc.integer({ min: 0, max: 200 }),
    answers: fc.integer({ min: MAX_DENIALS_IN_ROW + 1, max: 80 }),
  }),
  seed: fc.nat(0xffffffff),
});

function proofsOf(answered: readonly Answered[]): Proofs {
  const proofs = new Proofs('ada', true, Infinity);
  const end = answered.reduce((last, { call }) => Math.max(last, call.ended), 0);
  proofs.add(account(-2, -1, opened('ada')));
  for (const { call } of answered) proofs.add(call);
  proofs.add(account(end + 1, end + 2, opened('ada')));
  return proofs;
}

it('no false denial counts if the server denied more than 25 codes in a row, however calls overlap', () => {
  fc.assert(
    fc.property(trials, (trial) => {
      const answered = simulate(trial);
      const denials = answered.filter(({ call }) => call.outcome.kind === 'denied');
      const proofs = proofsOf(answered);
      // The end of the list may cut the row of denials short.
      const answersLeft = trial.calls - trial.bad.from;
      fc.pre(answersLeft > MAX_DENIALS_IN_ROW);
      for (const { call, isFalse } of denials) {
        if (isFalse) expect(proofs.judgeDenial(call, Infinity, 0)).not.toEqual(COUNTS);
      }
    }),
    { numRuns: 400 },
  );
});

it('nearly all denials count if few calls overlap and most codes are valid', () => {
  fc.assert(
    fc.property(trials, (trial) => {
      const healthy = { valid: 0.8, together: 8, bad: { from: 0, answers: 0 } };
      const answered = simulate({ ...trial, ...healthy });
      const denials = answered.filter(({ call }) => call.outcome.kind === 'denied');
      const proofs = proofsOf(answered);
      const counting = denials.filter(
        ({ call }) => typeof proofs.judgeDenial(call, Infinity, 0) === 'object',
      );
      // The first and the last denials have a valid code on one side only.
      expect(counting.length).toBeGreaterThanOrEqual(denials.length - 16);
    }),
    { numRuns: 100 },
  );
});
