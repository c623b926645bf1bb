import {
  cameToAnother,
  marksOf,
  runsOf,
  sortEvidence,
  type ChunkEvidence,
} from './chunk-evidence.js';
import type { Evidence } from './outcome.js';
import {
  byEnd,
  countEnded,
  precedes,
  touches,
  type AccountCall,
  type Bracket,
  type CodeCall,
  type Span,
  type Timeline,
} from './timeline.js';
import type { DenialFault, UnprovenReason } from './unproven.js';

export type Verdict = CodeJudgement['verdict'];

/** What is to be made of a code, and why. */
export type CodeJudgement = ValidJudgement | InvalidJudgement | UnprovenJudgement;

interface Judged {
  /** The call that decided; where a code was asked for more than once, one of several. */
  readonly call: CodeCall;
  readonly evidence: Evidence;
}

export interface ValidJudgement extends Judged {
  readonly verdict: 'valid';
  readonly reason: 'answered';
  readonly proof: 'purchase';
}

export interface InvalidJudgement extends Judged {
  readonly verdict: 'invalid';
  readonly reason: 'denied';
  /** What proved the credential on both sides of the denial; a canary and an account are more than an account. */
  readonly proof: 'account' | 'canary';
}

export interface UnprovenJudgement extends Judged {
  readonly verdict: 'unproven';
  readonly reason: UnprovenReason;
  readonly proof: 'none';
  /** When the server says to come back, milliseconds since 1970; null when it did not say. */
  readonly retryAt: number | null;
}

export type Proof = CodeJudgement['proof'];

/**
 * Most denials in a row that are believed without a proof between them: for fewer calls than this a
 * key may have been bad unnoticed. At 60 requests a minute that is half a minute; checking so often
 * costs 4 % on a list of nothing but invalid codes, and nothing on one of valid codes.
 */
export const LONGEST_RUN = 25;

/**
 * The verdict on every code that a chunk has asked for, by code.
 *
 * *Valid* is a code for which an answer about it came: the purchase is its own proof. Not believed is
 * an answer that came while account details last spoke of another account. Only what came before it
 * counts, so that a valid code may be recorded at once.
 *
 * *Invalid* is a code that was denied, when all of this holds, since a bad key and the key of a user
 * who sells nothing are given the very same denial (field notes: errors):
 * - account details were answered for the seller's account by a call that had ended before the
 *   denied one began, and by one that began after it had ended; and for no other account in the
 *   whole chunk;
 * - where any code is known to be valid, one was found before and one after in the same sense;
 * - no proof failed from the first to the last of these four calls;
 * - no code's reply put the credential or the API in doubt between the two finds (between the two
 *   account proofs where no code is known to be valid), and no lull lies between them;
 * - the denial is one of at most `LONGEST_RUN` in a row;
 * - it was denied so as often as `denialsNeeded` says, with a proof between, and not found since.
 *
 * Everything else is *unproven*, and to be asked for again.
 *
 * This excludes: a key that is bad, of another seller, or of one who sells nothing at any time that
 * one of the proofs falls into, for more calls in a row than a run may have, or into a lull and for
 * the calls beside it; an API that is off; answers that get mixed up; any weather.
 *
 * No rule can exclude: a key that is bad only between two proofs, in the extreme during one call, as
 * behind a balancer of which one machine is behind the others. Nothing in such a denial tells it from
 * a true one. `denialsNeeded` makes it less likely to be believed, no more. Nor a marketplace that
 * loses some of its codes for a while, but not the canaries. Where no valid code is known, only
 * account details speak, and a seller who sells nothing looks like one whose codes are all invalid.
 * And a key that passes to another seller and back between two account proofs: that seller's codes
 * are found with it, and vouch for what is denied beside them. Chunks that are worked on at the same
 * time, as those of two audits are, do not hear of each other: each has a run of its own.
 *
 * A chunk is to be judged when none of its calls is under way. Calls that begin later then change no
 * verdict, unless they are the first to find any code, or name another account.
 * @param only the codes to judge, by all that is known of the chunk; default all of them
 */
export function judgeChunk(
  timeline: Timeline,
  only?: ReadonlySet<string>,
): ReadonlyMap<string, CodeJudgement> {
  return judgeCodes(timeline, sortEvidence(timeline), only);
}

/** As `judgeChunk`, for evidence that is sorted already, or only supposed. */
export function judgeCodes(
  timeline: Timeline,
  evidence: ChunkEvidence,
  only?: ReadonlySet<string>,
): ReadonlyMap<string, CodeJudgement> {
  const asked = new Map<string, CodeCall[]>();
  for (const call of timeline.calls) {
    if (call.kind !== 'code' || only?.has(call.code) === false) continue;
    const calls = asked.get(call.code);
    if (calls === undefined) asked.set(call.code, [call]);
    else calls.push(call);
  }
  const faultOf = denialFaults(evidence);
  const judgements = new Map<string, CodeJudgement>();
  for (const [code, calls] of asked) {
    const needed = Math.max(1, timeline.denialsNeeded?.(code) ?? 1);
    judgements.set(code, judgeCode(calls, needed, evidence, faultOf));
  }
  return judgements;
}

/**
 * The verdict on a code for which an answer came and that nothing else is known of, as `judgeChunk`
 * has it.
 * @param opened account details that were answered so far, in the order of their ends
 */
export function judgeFind(
  find: CodeCall,
  opened: readonly AccountCall[],
  account: string | null,
): ValidJudgement | UnprovenJudgement {
  return cameToAnother(find, opened, account) ? unproven(find, 'account-changed') : believed(find);
}

function believed(find: CodeCall): ValidJudgement {
  const { evidence } = find;
  return { verdict: 'valid', reason: 'answered', proof: 'purchase', call: find, evidence };
}

/** @param calls at least one, all for the same code */
function judgeCode(
  calls: readonly CodeCall[],
  denialsNeeded: number,
  evidence: ChunkEvidence,
  faultOf: FaultOf,
): CodeJudgement {
  const inOrder = byEnd(calls);
  const last = inOrder[inOrder.length - 1] as CodeCall;
  const denials = inOrder.filter(({ outcome }) => outcome.kind === 'denied');
  const answer = inOrder.findLast(({ outcome }) => outcome.kind === 'affirmed');
  if (answer !== undefined) {
    if (evidence.foreign.has(answer)) return unproven(answer, 'account-changed');
    // Refunded in this very minute, or denied wrongly: the next chunk will tell.
    const later = denials.find((denial) => !precedes(denial, answer));
    if (later !== undefined) return unproven(later, 'contradicted');
    return believed(answer);
  }
  const denial = denials[denials.length - 1];
  if (denial === undefined) return unheard(last);
  return judgeDenials(denials, denialsNeeded, evidence, faultOf);
}

function judgeDenials(
  denials: readonly CodeCall[],
  denialsNeeded: number,
  evidence: ChunkEvidence,
  faultOf: FaultOf,
): CodeJudgement {
  const proven = denials.filter((denial) => faultOf(denial) === null);
  const last = proven[proven.length - 1];
  if (last === undefined) {
    const latest = denials[denials.length - 1] as CodeCall;
    return unproven(latest, faultOf(latest) as DenialFault);
  }
  if (countApart(proven, marksOf(evidence)) < denialsNeeded) return unproven(last, 'unconfirmed');
  const proof = evidence.findsDue ? 'canary' : 'account';
  return { verdict: 'invalid', reason: 'denied', proof, call: last, evidence: last.evidence };
}

/** Why a denial is not to be believed; null when it is proven. */
export type FaultOf = (denial: CodeCall) => DenialFault | null;

/** Weighs the denials of a chunk. */
export function denialFaults(evidence: ChunkEvidence): FaultOf {
  // Most chunks are judged for the codes that were found.
  let runs: ReturnType<typeof runsOf> | null = null;
  return (denial) => {
    const fault = faultAround(denial, evidence);
    if (fault !== null) return fault;
    runs ??= runsOf(evidence);
    return (runs.get(denial) ?? 1) > LONGEST_RUN ? 'run-too-long' : null;
  };
}

const NEVER: Span = { begun: Infinity, ended: Infinity };

function faultAround(denial: CodeCall, evidence: ChunkEvidence): DenialFault | null {
  const { proofs, finds, findsDue, failures, doubts, lulls } = evidence;
  if (evidence.accountChanged) return 'account-changed';
  const account = around(denial, proofs);
  if (account.before === null) return 'no-account-before';
  const found = findsDue ? around(denial, finds) : account;
  if (found.before === null) return 'no-canary-before';
  // No proof to come could mend it.
  const open = { before: found.before, after: found.after ?? NEVER };
  if (lulls.some((lull) => touches(lull, open))) return 'lull';
  if (found.after === null) return 'no-canary-after';
  if (account.after === null) return 'no-account-after';
  const hull = hullOf(account as Bracket, found as Bracket);
  if (failures.some((failure) => touches(failure, hull))) return 'proof-failed';
  return doubts.some((doubt) => touches(doubt, found as Bracket)) ? 'credential-doubted' : null;
}

/**
 * The nearest proof on either side, none of them under way at the same time as the call: before it
 * the last to begin, after it the first to end.
 * @param proofs in the order of their ends
 */
function around(
  call: Span,
  proofs: readonly Span[],
): { readonly before: Span | null; readonly after: Span | null } {
  const ended = countEnded(proofs, call.begun);
  let before: Span | null = null;
  for (let i = ended - 1; i >= 0; i--) {
    const proof = proofs[i] as Span;
    // One that had ended by then began earlier still.
    if (before !== null && proof.ended <= before.begun) break;
    if (before === null || proof.begun > before.begun) before = proof;
  }
  for (let i = ended; i < proofs.length; i++) {
    const after = proofs[i] as Span;
    if (precedes(call, after)) return { before, after };
  }
  return { before, after: null };
}

function hullOf(a: Bracket, b: Bracket): Bracket {
  return {
    before: a.before.begun < b.before.begun ? a.before : b.before,
    after: a.after.ended > b.after.ended ? a.after : b.after,
  };
}

/** How many of the calls have a proof between each and the one counted before it. */
function countApart(calls: readonly Span[], proofs: readonly Span[]): number {
  let counted = 0;
  let last: Span | null = null;
  for (const call of calls) {
    const former: Span | null = last;
    const apart =
      former === null || proofs.some((one) => precedes(former, one) && precedes(one, call));
    if (!apart) continue;
    counted++;
    last = call;
  }
  return counted;
}

/** The judgement on a code that was neither found nor denied. */
function unheard(call: CodeCall): UnprovenJudgement {
  const { outcome } = call;
  const reason = 'reason' in outcome ? outcome.reason : 'unreadable';
  return unproven(call, reason, outcome.kind === 'silent' ? outcome.retryAt : null);
}

function unproven(
  call: CodeCall,
  reason: UnprovenReason,
  retryAt: number | null = null,
): UnprovenJudgement {
  const { evidence } = call;
  return { verdict: 'unproven', reason, proof: 'none', call, evidence, retryAt };
}
