import { describe, expect, it } from 'vitest';
import { hearAccount, hearCode } from '../../../src/domain/codes/outcome.js';
import type { ChunkCall } from '../../../src/domain/codes/timeline.js';
import { judgeChunk } from '../../../src/domain/codes/verdict.js';
import { Journal } from '../../../src/jobs/codes/journal.js';
import * as replies from '../../domain/codes/support.js';

type Begun = (reply: Parameters<typeof hearCode>[1]) => ChunkCall;

/** A journal, and calls that end when they are given a reply. */
function open(
  canaries: readonly string[] = [],
  account: string | null = 'ada',
  pace = { concurrency: 8, spacingMs: 0 },
) {
  const clock = { now: 1_000_000 };
  const journal = new Journal({ account, canaries }, pace, null, clock.now);
  const code = (asked: string, kind: 'code' | 'canary' = 'code'): Begun => {
    const begun = journal.begin(kind);
    return (reply) => {
      const call = {
        kind,
        code: asked,
        ...journal.end(begun, clock.now),
        ...hearCode(asked, reply),
      };
      journal.add(call);
      return call;
    };
  };
  const proof = (username = 'ada'): ChunkCall => {
    const begun = journal.begin('account');
    const heard = hearAccount(replies.opened(username));
    const call = { kind: 'account' as const, ...journal.end(begun, clock.now), ...heard };
    journal.add(call);
    return call;
  };
  const find = (asked: string): ChunkCall => code(asked)(replies.found(asked));
  return { journal, clock, code, proof, find };
}

describe('what is carried over to the next chunk', () => {
  it('is no proof from before denials that were not proven: their run would begin anew', () => {
    const { journal, code, proof, find } = open();
    proof();
    find('a');
    expect(journal.carried.calls).toHaveLength(2);
    code('denied')(replies.denied);
    expect(journal.carried.calls).toEqual([]);
    find('b');
    expect(journal.carried.calls).toHaveLength(2);
  });
});

describe('while calls are under way', () => {
  it('a find does not count that one of them may turn out to put in doubt', () => {
    const { journal, code, proof, find } = open();
    proof();
    find('a');
    code('denied')(replies.denied);
    proof();
    const slow = code('slow');
    find('b');
    expect(judgeChunk(journal.timeline).get('denied')?.verdict).toBe('invalid');
    expect(judgeChunk(journal.quietTimeline).get('denied')?.reason).toBe('no-canary-after');
    slow(replies.refused);
    expect(judgeChunk(journal.quietTimeline).get('denied')?.reason).toBe('credential-doubted');
  });

  it('a find counts that had ended before they began', () => {
    const { journal, code, proof, find } = open();
    proof();
    find('a');
    code('denied')(replies.denied);
    find('b');
    proof();
    code('slow');
    expect(judgeChunk(journal.quietTimeline).get('denied')?.verdict).toBe('invalid');
  });

  it('what speaks against the key counts at once, another account too', () => {
    const { journal, code, proof, find } = open();
    proof();
    find('a');
    code('denied')(replies.denied);
    find('b');
    proof();
    code('slow');
    proof('eve');
    expect(judgeChunk(journal.quietTimeline).get('denied')?.reason).toBe('account-changed');
  });

  it('a call that was cut off holds up nothing', () => {
    const { journal, proof } = open();
    const begun = journal.begin('code');
    const last = proof();
    expect(journal.quiet).toBe(begun - 1);
    journal.cutOff(begun);
    expect(journal).toMatchObject({ quiet: last.ended, isIdle: true });
  });
});

describe('what may be forgotten', () => {
  it('is all from before the proofs that still stand, when no denial waits', () => {
    const { journal, code, proof, find } = open();
    proof();
    for (let i = 0; i < 10; i++) code(`denied-${i}`)(replies.denied);
    const [last, found] = [proof(), find('a')];
    journal.forget(new Set());
    expect(journal.timeline.calls).toEqual([last, found]);
  });

  it('is nothing that the oldest open denial needs, or a call under way may', () => {
    const { journal, code, proof, find } = open();
    find('old');
    const before = [proof(), find('a')];
    const denied = code('denied')(replies.denied);
    const slow = code('slow');
    const after = [proof(), find('b')];
    journal.forget(new Set([denied]));
    expect(journal.timeline.calls).toEqual([...before, denied, ...after]);
    journal.forget(new Set());
    expect(journal.timeline.calls).toEqual([...before, denied, ...after]);
    const last = slow(replies.denied);
    journal.forget(new Set());
    expect(journal.timeline.calls).toEqual([...after, last]);
  });

  it('is no doubt that touches a proof that stays', () => {
    const { journal, code, proof, find } = open();
    proof();
    find('a');
    const doubtful = code('doubtful');
    const denied = code('denied')(replies.denied);
    const doubt = doubtful(replies.refused);
    proof();
    find('b');
    journal.forget(new Set([denied]));
    expect(journal.timeline.calls).toContain(doubt);
    expect(judgeChunk(journal.timeline).get('denied')?.reason).toBe('credential-doubted');
  });

  it('is no find when it is the last, or denials would need none any more', () => {
    const { journal, code, proof, find } = open();
    proof();
    const found = find('a');
    code('doubtful')(replies.refused);
    proof();
    journal.forget(new Set());
    expect(journal.timeline.calls).toContain(found);
  });

  it('is no canary that was lost, or it would be tried again', () => {
    const { journal, code, proof, find } = open(['bird']);
    proof();
    const lost = code('bird', 'canary')(replies.denied);
    proof();
    find('a');
    proof();
    journal.forget(new Set());
    expect(journal.timeline.calls).toContain(lost);
  });

  it('is not whose account it is', () => {
    const { journal, proof, find } = open([], null);
    proof();
    find('a');
    proof();
    find('b');
    journal.forget(new Set());
    expect(journal.timeline.account).toBe('ada');
  });
});

describe('from the chunk before', () => {
  const next = (journal: Journal, now: number): Journal =>
    new Journal(
      { account: 'ada', canaries: [] },
      { concurrency: 8, spacingMs: 0 },
      journal.carried,
      now,
    );

  it('numbers go on, and proofs stand that were given a moment ago', () => {
    const { journal, clock, proof, find } = open();
    const carried = [proof(), find('a')];
    const following = next(journal, clock.now + 100);
    expect(following.begin('code')).toBeGreaterThan(journal.quiet);
    expect(following.timeline.calls).toMatchObject(carried.map(({ ended }) => ({ ended })));
  });

  it('nothing counts that was heard a minute ago, which is no lull then', () => {
    const { journal, clock, proof, find } = open();
    proof();
    find('a');
    const following = next(journal, clock.now + 60_000);
    const begun = following.begin('account');
    const span = following.end(begun, clock.now + 60_100);
    following.add({ kind: 'account', ...span, ...hearAccount(replies.opened('ada')) });
    expect(following.timeline).toMatchObject({ calls: [span], lulls: [] });
  });

  it('a small budget makes nothing of it old', () => {
    const slow = { concurrency: 2, spacingMs: 60_000 };
    const { journal, clock, proof, find } = open([], 'ada', slow);
    proof();
    find('a');
    expect(next(journal, clock.now + 60_000).timeline.calls).toHaveLength(2);
    expect(next(journal, clock.now + 3_600_000).timeline.calls).toEqual([]);
  });

  it('two that follow it, as of two audits at once, do not hear each other', () => {
    const { journal, clock, proof, find } = open();
    proof();
    find('a');
    const other = next(journal, clock.now);
    const begun = other.begin('account');
    const span = other.end(begun, clock.now + 59_000);
    other.add({ kind: 'account', ...span, ...hearAccount(replies.opened('ada')) });
    expect(next(journal, clock.now + 60_000).timeline.calls).toEqual([]);
  });
});

describe('a time in which nothing was heard', () => {
  it('lies between the calls on either side of it, and what told nothing does not end it', () => {
    const { journal, clock, code, proof, find } = open();
    proof();
    const before = find('a');
    clock.now += 40_000;
    code('b')(replies.maintenance);
    clock.now += 40_000;
    const after = find('c');
    expect(journal.timeline.lulls).toEqual([{ begun: before.ended, ended: after.ended }]);
  });

  it('is there before the first reply too, which may be as old as its call', () => {
    const { journal, clock, code } = open();
    const slow = code('a');
    clock.now += 40_000;
    const { ended } = slow(replies.found('a'));
    expect(journal.timeline.lulls).toEqual([{ begun: 0, ended }]);
  });

  it('is forgotten when proofs after it stand, and no sooner', () => {
    const { journal, clock, code, proof, find } = open();
    proof();
    find('a');
    const denied = code('denied')(replies.denied);
    clock.now += 40_000;
    find('b');
    proof();
    find('c');
    journal.forget(new Set([denied]));
    expect(judgeChunk(journal.timeline).get('denied')?.reason).toBe('lull');
    journal.forget(new Set());
    expect(journal.timeline.lulls).toEqual([]);
  });

  it('is not forgotten as long as a proof from across it is needed', () => {
    const { journal, clock, code, proof } = open();
    proof();
    const begun = journal.begin('account');
    clock.now += 40_000;
    const span = journal.end(begun, clock.now);
    journal.add({ kind: 'account', ...span, ...hearAccount(replies.opened('ada')) });
    const denied = code('denied')(replies.denied);
    proof();
    journal.forget(new Set([denied]));
    expect(judgeChunk(journal.timeline).get('denied')?.reason).toBe('lull');
  });

  it('is not held against denials before it that a find may still prove', () => {
    const { journal, clock, code, proof, find } = open();
    proof();
    find('a');
    code('denied')(replies.denied);
    const slow = code('slow');
    find('b');
    proof();
    clock.now += 40_000;
    code('late')(replies.denied);
    expect(judgeChunk(journal.quietTimeline).get('denied')?.reason).toBe('no-canary-after');
    slow(replies.denied);
    expect(judgeChunk(journal.quietTimeline).get('denied')?.verdict).toBe('invalid');
  });
});
