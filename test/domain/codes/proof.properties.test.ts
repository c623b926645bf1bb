import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LONGEST_ROW, Proofs, type CodeCall } from '../../../src/domain/codes/proof.js';
import { account, code, denied, diceOf, found, opened } from './support.js';

/** A call as the server knows it: it was answered at one moment of its time under way. */
interface Answered {
  readonly call: CodeCall;
  readonly isFalse: boolean;
}

interface Trial {
  readonly calls: number;
  /** Codes under way at the same time. */
  readonly together: number;
  /** Share of the codes that are valid. */
  readonly valid: number;
  /** From which answer on, and for how many, the server denies everything. */
  readonly bad: { readonly from: number; readonly answers: number };
  readonly seed: number;
}

/** Calls whose beginnings, answers and ends come in any order that so many calls at a time allow. */
function play({ calls, together, valid, bad, seed }: Trial): readonly Answered[] {
  const dice = diceOf(seed);
  const begun: {
    number: number;
    isValid: boolean;
    outcome: 'denied' | 'found' | null;
    isFalse: boolean;
  }[] = [];
  const done: Answered[] = [];
  let [number, answers, started] = [2, 0, 0];
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
      const one = unanswered[Math.floor(dice() * unanswered.length)] as (typeof begun)[number];
      const isBad = answers >= bad.from && answers < bad.from + bad.answers;
      answers++;
      one.isFalse = isBad && one.isValid;
      one.outcome = isBad || !one.isValid ? 'denied' : 'found';
    } else if (answered.length > 0) {
      const one = answered[Math.floor(dice() * answered.length)] as (typeof begun)[number];
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
    answers: fc.integer({ min: LONGEST_ROW + 1, max: 80 }),
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

it('no false denial counts of a stretch in which more than 25 codes were denied, however calls overlap', () => {
  fc.assert(
    fc.property(trials, (trial) => {
      const answered = play(trial);
      const denials = answered.filter(({ call }) => call.outcome.kind === 'denied');
      const proofs = proofsOf(answered);
      // A stretch at the end of the list that is cut short is shorter than was asked for.
      const answersLeft = trial.calls - trial.bad.from;
      fc.pre(answersLeft > LONGEST_ROW);
      for (const { call, isFalse } of denials) {
        if (isFalse) expect(proofs.judge(call, Infinity, 0)).not.toBe('counts');
      }
    }),
    { numRuns: 400 },
  );
});

it('denials count where calls overlap little and valid codes are many, or nothing would ever be settled', () => {
  fc.assert(
    fc.property(trials, (trial) => {
      const answered = play({ ...trial, valid: 0.8, together: 8, bad: { from: 0, answers: 0 } });
      const denials = answered.filter(({ call }) => call.outcome.kind === 'denied');
      const proofs = proofsOf(answered);
      const counting = denials.filter(({ call }) => proofs.judge(call, Infinity, 0) === 'counts');
      // Those at either end have no find on one side.
      expect(counting.length).toBeGreaterThanOrEqual(denials.length - 16);
    }),
    { numRuns: 100 },
  );
});
