import { describe, expect, it } from 'vitest';
import {
  carriedOver,
  NOTHING_UNDER_WAY,
  proofsAfterCodes,
  proofsBeforeCodes,
  type ProofPlan,
  type UnderWay,
} from '../../../src/domain/codes/proofs.js';
import type { ChunkCall, Timeline } from '../../../src/domain/codes/timeline.js';
import { LONGEST_RUN } from '../../../src/domain/codes/verdict.js';
import { account, canary, code, denied, found, limited, opened, refused } from './support.js';

const timeline = (calls: readonly ChunkCall[], ...canaries: string[]): Timeline => ({
  account: 'ada',
  canaries,
  calls,
});
const plan = (chunk: Timeline, underWay: Partial<UnderWay> = {}): ProofPlan =>
  proofsBeforeCodes(chunk, { ...NOTHING_UNDER_WAY, ...underWay });

const ACCOUNT = { kind: 'account' } as const;
const BIRD = { kind: 'canary', code: 'bird' } as const;
const GO = { ask: [], next: 'codes' };
const END = { ask: [], next: 'end' };

const good = account(1, 2, opened('ada'));
const bird = canary('bird', 3, 4, found('bird'));
const denials = (count: number, from = 10): ChunkCall[] =>
  Array.from({ length: count }, (_, i) => code(`x${i}`, from + i, from + i + 0.5, denied));

describe('before its codes a chunk', () => {
  it('asks for account details, and for the canary where one is known', () => {
    expect(plan(timeline([]))).toEqual({ ask: [ACCOUNT], next: 'proofs' });
    expect(plan(timeline([], 'bird'))).toEqual({ ask: [ACCOUNT, BIRD], next: 'proofs' });
    expect(plan(timeline([good, bird], 'bird'))).toEqual(GO);
    expect(plan(timeline([good]))).toEqual(GO);
  });

  it('asks for nothing that is under way', () => {
    const both = { account: true, canary: true };
    expect(plan(timeline([], 'bird'), both)).toEqual({ ask: [], next: 'proofs' });
  });

  it('is proven anew after a failed proof, and ends when that fails too', () => {
    const one = [good, bird, account(5, 6, refused)];
    expect(plan(timeline(one, 'bird'))).toEqual({ ask: [ACCOUNT, BIRD], next: 'proofs' });
    const two = [...one, account(7, 8, limited)];
    expect(plan(timeline(two, 'bird'))).toEqual(END);
    const mended = [...one, account(7, 8, opened('ada')), canary('bird', 9, 10, found('bird'))];
    expect(plan(timeline(mended, 'bird'))).toEqual(GO);
  });

  it('ends when the key opened another account', () => {
    expect(plan(timeline([good, account(3, 4, opened('eve'))]))).toEqual(END);
  });

  it('is proven anew after a doubt: by a canary, or by account details where none is known', () => {
    const doubt = code('y', 5, 6, refused);
    expect(plan(timeline([good, bird, doubt], 'bird'))).toEqual({ ask: [BIRD], next: 'proofs' });
    expect(plan(timeline([good, doubt]))).toEqual({ ask: [ACCOUNT], next: 'proofs' });
    const cleared = code('z', 7, 8, found('z'));
    expect(plan(timeline([good, bird, doubt, cleared], 'bird'))).toEqual(GO);
  });

  it('is proven anew after a lull: by a canary, or by account details where none is known', () => {
    const afterLull = (calls: readonly ChunkCall[], ...canaries: string[]) =>
      plan({ ...timeline(calls, ...canaries), lulls: [{ begun: 4, ended: 6 }] });
    const across = canary('bird', 3.5, 6, found('bird'));
    expect(afterLull([good, bird, across], 'bird')).toEqual({ ask: [BIRD], next: 'proofs' });
    expect(afterLull([good, code('x', 3, 6, denied)])).toEqual({ ask: [ACCOUNT], next: 'proofs' });
    expect(afterLull([good, bird, canary('bird', 7, 8, found('bird'))], 'bird')).toEqual(GO);
  });

  it('takes the next canary when one is denied, and goes on without after two in vain', () => {
    const one = [good, canary('bird', 3, 4, denied), account(5, 6, opened('ada'))];
    const next = { ask: [{ kind: 'canary', code: 'wren' }], next: 'proofs' };
    expect(plan(timeline(one, 'bird', 'wren', 'tit'))).toEqual(next);
    const two = [...one, canary('wren', 7, 8, denied), account(9, 10, opened('ada'))];
    expect(plan(timeline(two, 'bird', 'wren', 'tit'))).toEqual(GO);
  });

  it('takes a canary again that was only refused, since that was about the key', () => {
    const calls = [good, canary('bird', 3, 4, refused), account(5, 6, opened('ada'))];
    expect(plan(timeline(calls, 'bird'))).toEqual({ ask: [BIRD], next: 'proofs' });
  });

  it('takes a code that it found itself for a canary where none is known from before', () => {
    const calls = [good, code('y', 3, 4, found('y')), code('z', 5, 6, refused)];
    expect(plan(timeline(calls)).ask).toEqual([{ kind: 'canary', code: 'y' }]);
    expect(plan(timeline(calls, 'bird')).ask).toEqual([BIRD]);
    const lost = [...calls, code('y', 7, 8, denied)];
    expect(plan(timeline(lost)).ask).toEqual([]);
  });

  it('looks into a run of denials that is longer than chance makes it, and goes on meanwhile', () => {
    const check = { ask: [BIRD], next: 'codes' };
    expect(plan(timeline([good, bird, ...denials(7)], 'bird'))).toEqual(GO);
    expect(plan(timeline([good, bird, ...denials(8)], 'bird'))).toEqual(check);
    expect(plan(timeline([good, bird, ...denials(8)], 'bird'), { canary: true })).toEqual(GO);
    const mostlyValid = Array.from({ length: 300 }, (_, i) =>
      code(`y${i}`, 5 + i / 100, 5 + i / 100 + 0.001, found(`y${i}`)),
    );
    expect(plan(timeline([good, bird, ...mostlyValid, ...denials(1)], 'bird'))).toEqual(GO);
    expect(plan(timeline([good, bird, ...mostlyValid, ...denials(2)], 'bird'))).toEqual(check);
    expect(plan(timeline([good, ...denials(8)]))).toEqual({ ask: [ACCOUNT], next: 'codes' });
  });

  it('waits before a run could become too long, calls under way counted as denied', () => {
    const calls = [good, bird, ...denials(20)];
    const busy = { codes: LONGEST_RUN - 20, canary: true };
    expect(plan(timeline(calls, 'bird'), { ...busy, codes: busy.codes - 1 })).toEqual(GO);
    expect(plan(timeline(calls, 'bird'), busy)).toEqual({ ask: [], next: 'proofs' });
  });

  it('asks a canary where it would wait for a few slow calls only, since waiting makes a lull of it', () => {
    const again = canary('bird', 200, 201, found('bird'));
    const calls = [good, bird, ...denials(100), again, ...denials(LONGEST_RUN - 3, 210)];
    const chunk = timeline(calls, 'bird');
    expect(plan(chunk, { codes: 2 })).toEqual(GO);
    expect(plan(chunk, { codes: 3 })).toEqual({ ask: [], next: 'proofs' });
    const one = timeline([...calls, code('x', 250, 251, denied)], 'bird');
    expect(plan(one, { codes: 2 })).toEqual({ ask: [BIRD], next: 'proofs' });
  });

  it('ends when a long run can’t be looked into any more', () => {
    const inVain = [account(50, 51, limited), account(52, 53, limited)];
    const calls = [good, ...denials(LONGEST_RUN)];
    expect(plan(timeline(calls)).ask).toEqual([ACCOUNT]);
    expect(plan(timeline([...calls, ...inVain]))).toEqual(END);
    expect(plan(timeline([...calls, ...inVain]), { codes: 1 })).toEqual({
      ask: [],
      next: 'proofs',
    });
  });
});

describe('after its codes a chunk', () => {
  const [x] = denials(1);
  const start = [good, bird, x as ChunkCall];

  it('needs nothing when nothing was denied', () => {
    const calls = [good, bird, code('y', 5, 6, found('y')), code('z', 7, 8, limited)];
    expect(proofsAfterCodes(timeline(calls, 'bird'))).toEqual([]);
  });

  it('needs the canary and account details after the last denial', () => {
    expect(proofsAfterCodes(timeline(start, 'bird'))).toEqual([BIRD, ACCOUNT]);
    expect(proofsAfterCodes(timeline([good, x as ChunkCall]))).toEqual([ACCOUNT]);
  });

  it('needs no canary when a code was found since', () => {
    const calls = [...start, code('y', 20, 21, found('y'))];
    expect(proofsAfterCodes(timeline(calls, 'bird'))).toEqual([ACCOUNT]);
  });

  it('spends nothing on denials that can’t be proven any more', () => {
    const failed = [...start, account(20, 21, refused)];
    expect(proofsAfterCodes(timeline(failed, 'bird'))).toEqual([]);
    const lost = [...start, canary('bird', 20, 21, denied)];
    expect(proofsAfterCodes(timeline(lost, 'bird', 'wren'))).toEqual([]);
    expect(proofsAfterCodes(timeline([x as ChunkCall], 'bird'))).toEqual([]);
    expect(proofsAfterCodes(timeline(denials(LONGEST_RUN + 1), 'bird'))).toEqual([]);
  });

  it('spends nothing on a denial whose other proof was asked for twice in vain', () => {
    const calls = [...start, account(20, 21, limited), account(22, 23, limited)];
    expect(proofsAfterCodes(timeline(calls, 'bird'))).toEqual([]);
  });

  it('spends nothing on codes that are found or proven already', () => {
    const proven = [
      ...start,
      canary('bird', 20, 21, found('bird')),
      account(22, 23, opened('ada')),
    ];
    expect(proofsAfterCodes(timeline(proven, 'bird'))).toEqual([]);
    const again = [...proven, code('x0', 30, 31, denied)];
    expect(proofsAfterCodes(timeline(again, 'bird'))).toEqual([]);
    const other = [...start, code('x0', 20, 21, found('x0'))];
    expect(proofsAfterCodes(timeline(other, 'bird'))).toEqual([]);
  });
});

describe('to the next chunk', () => {
  it('the last proofs go over, a code found as a canary', () => {
    const y = code('y', 5, 6, found('y'));
    expect(carriedOver(timeline([good, bird, y], 'bird'))).toEqual([
      good,
      { ...y, kind: 'canary' },
    ]);
    expect(carriedOver(timeline([good]))).toEqual([good]);
  });

  it('no proof goes over that something spoke against since', () => {
    expect(carriedOver(timeline([good, bird, account(5, 6, refused)]))).toEqual([]);
    expect(carriedOver(timeline([good, bird, code('y', 5, 6, refused)]))).toEqual([]);
    expect(carriedOver(timeline([good, code('y', 5, 6, refused)]))).toEqual([]);
    expect(carriedOver(timeline([good, bird, account(5, 6, opened('eve'))]))).toEqual([]);
    expect(carriedOver(timeline([]))).toEqual([]);
  });
});
