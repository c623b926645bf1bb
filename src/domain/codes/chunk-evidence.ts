import {
  byEnd,
  isSameAccount,
  precedes,
  type AccountCall,
  type ChunkCall,
  type CodeCall,
  type Span,
  type Timeline,
} from './timeline.js';

/** A code or a canary that was found. */
export type Find = Exclude<ChunkCall, AccountCall>;

/** The calls of a chunk by what they say of the credential, each list in the order of their ends. */
export interface ChunkEvidence {
  /** User name of the seller's account; null when nothing tells it. */
  readonly account: string | null;
  /** Account details answered, for that account. */
  readonly proofs: readonly AccountCall[];
  /** Account details were answered for another account. */
  readonly accountChanged: boolean;
  /** A code of this seller was found, be it a canary or one of the chunk: the stronger proof. */
  readonly finds: readonly Find[];
  /** Whether finds are called for: a code is known that the marketplace holds valid. */
  readonly findsDue: boolean;
  /** Answers that came while the key opened another account. */
  readonly foreign: ReadonlySet<ChunkCall>;
  /** Proofs that failed: one of account details, or a canary that was not found. */
  readonly failures: readonly ChunkCall[];
  /** Replies to codes that say the credential or the API is off. */
  readonly doubts: readonly CodeCall[];
  /** As in `Timeline`: the credential may have been anything meanwhile. */
  readonly lulls: readonly Span[];
  readonly denials: readonly CodeCall[];
}

/** Sorts the calls of a chunk. In one pass, since a worker does this before every code. */
export function sortEvidence(timeline: Timeline): ChunkEvidence {
  const opened: AccountCall[] = [];
  const found: Find[] = [];
  const failures: ChunkCall[] = [];
  const doubts: CodeCall[] = [];
  const denials: CodeCall[] = [];
  for (const call of byEnd(timeline.calls)) {
    const { kind } = call.outcome;
    if (kind === 'affirmed') {
      if (call.kind === 'account') opened.push(call);
      else found.push(call);
    } else if (kind !== 'silent') {
      // Proofs that nobody answered have not failed; they are just none.
      if (call.kind !== 'code') failures.push(call);
      else if (kind === 'denied') denials.push(call);
      else doubts.push(call);
    }
  }
  const account = timeline.account ?? opened[0]?.account ?? null;
  const proofs = opened.filter((call) => opens(call, account));
  const accountChanged = proofs.length < opened.length;
  const isForeign = (find: Find): boolean => cameToAnother(find, opened, account);
  const foreign = new Set<ChunkCall>(accountChanged ? found.filter(isForeign) : []);
  const finds = accountChanged ? found.filter((find) => !foreign.has(find)) : found;
  const findsDue = timeline.canaries.length > 0 || finds.length > 0;
  return {
    account,
    proofs,
    accountChanged,
    finds,
    findsDue,
    foreign,
    failures,
    doubts,
    lulls: timeline.lulls ?? [],
    denials,
  };
}

/**
 * Whether an answer came while the key opened another account: the one it opened when last asked
 * before the call; ours when nobody asked.
 * @param opened account details that were answered, in the order of their ends
 */
export function cameToAnother(
  call: Span,
  opened: readonly AccountCall[],
  account: string | null,
): boolean {
  const last = opened.findLast((one) => precedes(one, call));
  return last !== undefined && !opens(last, account);
}

/** Whether account details were answered for this very account. */
export function opens(call: AccountCall, account: string | null): boolean {
  return account !== null && call.account !== null && isSameAccount(call.account, account);
}

/** What separates runs of denials: finds where they are called for, else account proofs. */
export function marksOf({ findsDue, finds, proofs }: ChunkEvidence): readonly Span[] {
  return findsDue ? finds : proofs;
}

/**
 * Of each denial: how many came in a row with it. A proof ends a run where it began, since it may
 * have been answered then: one that was long under way says nothing of what ended meanwhile.
 */
export function runsOf(evidence: ChunkEvidence): ReadonlyMap<CodeCall, number> {
  const marks = [...marksOf(evidence)].sort((a, b) => a.begun - b.begun);
  const runs = new Map<CodeCall, number>();
  let run: CodeCall[] = [];
  let next = 0;
  const close = (): void => {
    for (const denial of run) runs.set(denial, run.length);
    run = [];
  };
  for (const denial of evidence.denials) {
    while (next < marks.length && (marks[next] as Span).begun < denial.ended) {
      close();
      next++;
    }
    run.push(denial);
  }
  close();
  return runs;
}

/** How many denials came in a row up to now. */
export function runNow(evidence: ChunkEvidence): number {
  const last = marksOf(evidence).reduce((begun, mark) => Math.max(begun, mark.begun), -1);
  const { denials } = evidence;
  return denials.length - 1 - denials.findLastIndex(({ ended }) => ended < last);
}
