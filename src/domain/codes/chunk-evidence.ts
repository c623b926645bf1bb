import {
  isSameAccount,
  precedes,
  type AccountCall,
  type ChunkCall,
  type CodeCall,
  type Span,
  type Timeline,
} from './timeline.js';

/** The calls of a chunk, sorted by what they say of the credential. */
export interface ChunkEvidence {
  /** User name of the seller's account; null when nothing tells it. */
  readonly account: string | null;
  /** Account details answered, for the seller's account. */
  readonly proofs: readonly AccountCall[];
  /** Account details were answered for another account. */
  readonly accountChanged: boolean;
  /** A code of this seller was found, be it a canary or one of the chunk: the stronger proof. */
  readonly finds: readonly Find[];
  /** Proofs that failed: one of account details, or a canary that was not found. */
  readonly failures: readonly Span[];
  /** Replies to codes that say the credential or the API is off. */
  readonly doubts: readonly Span[];
  readonly denials: readonly CodeCall[];
  /** Answers that came while the key opened another account. */
  readonly foreign: ReadonlySet<ChunkCall>;
  /** Whether finds are called for: a code is known that the marketplace holds valid. */
  readonly findsDue: boolean;
  /**
   * What separates runs of denials: finds where they are called for, else account proofs; in the
   * order in which they began.
   */
  readonly marks: readonly Span[];
  /** Of each denial: how many came in a row with it. */
  readonly runs: ReadonlyMap<CodeCall, number>;
}

/** A code or a canary that was found. */
export type Find = Exclude<ChunkCall, AccountCall>;

/** Sorts the calls of a chunk. */
export function sortEvidence(timeline: Timeline): ChunkEvidence {
  // In the order in which they ended, which is the order in which a worker learned of them.
  const calls = [...timeline.calls].sort((a, b) => a.ended - b.ended);
  const account = timeline.account ?? calls.find(isOpened)?.account ?? null;
  const opened = calls.filter(isOpened);
  const isOurs = (call: AccountCall): boolean =>
    account !== null && call.account !== null && isSameAccount(call.account, account);
  const strangers = opened.filter((call) => !isOurs(call));
  const found = calls.filter(isFind);
  const foreign = new Set<ChunkCall>(
    strangers.length === 0 ? [] : found.filter((call) => !isOursAt(call, opened, isOurs)),
  );
  const finds = found.filter((call) => !foreign.has(call));
  const proofs = opened.filter(isOurs);
  const findsDue = timeline.canaries.length > 0 || finds.length > 0;
  const denials = calls.filter(isDenial);
  const marks = [...(findsDue ? finds : proofs)].sort((a, b) => a.begun - b.begun);
  return {
    account,
    proofs,
    accountChanged: strangers.length > 0,
    finds,
    failures: calls.filter(isFailedProof),
    doubts: calls.filter(({ kind, outcome }) => kind === 'code' && outcome.kind === 'doubtful'),
    denials,
    foreign,
    findsDue,
    marks,
    runs: runsOf(denials, marks),
  };
}

function isOpened(call: ChunkCall): call is AccountCall {
  return call.kind === 'account' && call.outcome.kind === 'affirmed';
}

function isFind(call: ChunkCall): call is Find {
  return call.kind !== 'account' && call.outcome.kind === 'affirmed';
}

function isDenial(call: ChunkCall): call is CodeCall {
  return call.kind === 'code' && call.outcome.kind === 'denied';
}

/** Proofs that nobody answered have not failed; they are just none. */
function isFailedProof({ kind, outcome }: ChunkCall): boolean {
  return kind !== 'code' && (outcome.kind === 'denied' || outcome.kind === 'doubtful');
}

/** Whose account the key opened when last asked before the call; ours when nobody asked. */
function isOursAt(
  call: Span,
  opened: readonly AccountCall[],
  isOurs: (call: AccountCall) => boolean,
): boolean {
  const last = opened.findLast((one) => precedes(one, call));
  return last === undefined || isOurs(last);
}

/**
 * A proof ends a run where it began, since it may have been answered then: one that was long under
 * way says nothing of the calls that ended meanwhile.
 * @param denials in the order in which they ended
 * @param marks in the order in which they began
 */
function runsOf(denials: readonly CodeCall[], marks: readonly Span[]): Map<CodeCall, number> {
  const runs = new Map<CodeCall, number>();
  let run: CodeCall[] = [];
  let next = 0;
  const close = (): void => {
    for (const denial of run) runs.set(denial, run.length);
    run = [];
  };
  for (const denial of denials) {
    while (next < marks.length && (marks[next] as Span).begun < denial.ended) {
      close();
      next++;
    }
    run.push(denial);
  }
  close();
  return runs;
}
