import { runNow, sortEvidence, type ChunkEvidence, type Find } from './chunk-evidence.js';
import type { Heard } from './outcome.js';
import {
  precedes,
  type AccountCall,
  type CanaryCall,
  type ChunkCall,
  type Span,
  type Timeline,
} from './timeline.js';
import { denialFaults, judgeCodes, LONGEST_RUN } from './verdict.js';

/** A call that a chunk needs besides its codes. */
export type NeededProof =
  { readonly kind: 'account' } | { readonly kind: 'canary'; readonly code: string };

/** Calls begun and not yet ended, which the timeline therefore lacks. */
export interface UnderWay {
  readonly codes: number;
  readonly account: boolean;
  readonly canary: boolean;
}

export const NOTHING_UNDER_WAY: UnderWay = { codes: 0, account: false, canary: false };

/** What a worker is to do before it asks for the next code. */
export interface ProofPlan {
  /** To be asked now, none of them under way already. */
  readonly ask: readonly NeededProof[];
  /**
   * `codes`: codes may be asked for beside what is in `ask`. `proofs`: none until what is to be asked
   * or under way has ended. `end`: nothing that is denied from here on could be proven; the chunk is
   * to be closed, and its other codes left for later.
   */
  readonly next: 'codes' | 'proofs' | 'end';
}

/** Proofs of a kind that may come to nothing, one after another, before a chunk is given up. */
const PATIENCE = 2;
/** Calls under way that are not worth waiting for. */
const FEW = 2;
/** A run of denials so long that chance makes it in fewer than one of so many cases is looked into. */
const SUSPICIOUS = 1 / 200;
/** Where less is denied, and as many were heard of as a run may have, chance denies but some of the codes under way. */
const RARE = 1 / 4;

/**
 * Which proofs the codes to come need, so that their denials can count: account details before the
 * first code and after every failed proof; a canary, where one is known, before the first code and
 * after anything that puts the credential in doubt, lulls included; and one whenever more codes in a
 * row were denied than the chunk so far makes likely, at the latest before `LONGEST_RUN` may be. Every
 * code that is found is a canary that costs nothing.
 */
export function proofsBeforeCodes(timeline: Timeline, underWay: UnderWay): ProofPlan {
  const evidence = sortEvidence(timeline);
  const stands = standingProof(evidence) !== null;
  const mayProve = mayAskAccount(timeline, evidence);
  if (evidence.accountChanged || (!stands && !mayProve)) return { ask: [], next: 'end' };
  const canary = evidence.findsDue ? chooseCanary(timeline, evidence) : null;
  const lacksFind = canary !== null && standingFind(evidence) === null;
  const run = runNow(evidence);
  const { share, heard } = denialsBefore(evidence, run);
  const isUnlikely = run >= likelyRun(share, underWay.codes);
  // What chance did not make may go on.
  const isRare = !isUnlikely && share < RARE && heard >= LONGEST_RUN;
  const mayBeDenied = isRare ? mostDenied(underWay.codes, share) : underWay.codes;
  const isFull = run + mayBeDenied >= LONGEST_RUN;
  // The last calls before a run is full may be slow ones. To wait for those alone looks like a lull, after
  // which all denials are asked for again.
  const waitsForFew = isFull && underWay.codes <= FEW;
  const suspicious = waitsForFew || isUnlikely;
  const checkAccount = suspicious && !evidence.findsDue && mayProve;
  const ask: NeededProof[] = [];
  if ((!stands || checkAccount) && !underWay.account) ask.push({ kind: 'account' });
  if (canary !== null && (lacksFind || suspicious) && !underWay.canary) {
    ask.push({ kind: 'canary', code: canary });
  }
  if (!stands || lacksFind) return { ask, next: 'proofs' };
  if (!isFull) return { ask, next: 'codes' };
  const stuck = ask.length === 0 && isIdle(underWay);
  return { ask, next: stuck ? 'end' : 'proofs' };
}

/**
 * Which proofs are missing after the last code of a chunk: only those that would make a denial
 * count. Asked when no call is under way, and again after each proof, since the first may settle
 * whether the second is worth its call.
 */
export function proofsAfterCodes(timeline: Timeline): readonly NeededProof[] {
  const evidence = sortEvidence(timeline);
  if (evidence.denials.length === 0) return [];
  const canary = evidence.findsDue ? chooseCanary(timeline, evidence) : null;
  const mayProve = mayAskAccount(timeline, evidence);
  const supposed = sortEvidence(withProofsNow(timeline, evidence.account, canary, mayProve));
  const denied = new Set(evidence.denials.map(({ code }) => code));
  const now = judgeCodes(timeline, evidence, denied);
  const then = judgeCodes(timeline, supposed, denied);
  const faultOf = denialFaults(supposed);
  const wouldCount = (code: string): boolean => {
    const judgement = then.get(code);
    return judgement?.verdict === 'invalid' || judgement?.reason === 'unconfirmed';
  };
  const denials = evidence.denials.filter(
    (call) =>
      now.get(call.code)?.verdict === 'unproven' && wouldCount(call.code) && faultOf(call) === null,
  );
  const lack = (proofs: readonly Span[]): boolean => {
    const last = proofs.reduce((begun, proof) => Math.max(begun, proof.begun), -1);
    return denials.some(({ ended }) => ended >= last);
  };
  const needed: NeededProof[] = [];
  if (canary !== null && lack(evidence.finds)) needed.push({ kind: 'canary', code: canary });
  if (mayProve && lack(evidence.proofs)) needed.push({ kind: 'account' });
  return needed;
}

/** The canary that shows best whether the marketplace finds codes now; null when there is none to ask. */
export function canaryToAsk(timeline: Timeline): string | null {
  return chooseCanary(timeline, sortEvidence(timeline));
}

/**
 * The calls that prove the credential for the next chunk as well, so that it need not begin with
 * proofs of its own: to be put into its timeline, whose numbers go on from this one's. Empty when the
 * last word on the credential was not a good one. How long ago that may be is for the worker to say.
 */
export function carriedOver(timeline: Timeline): readonly ChunkCall[] {
  const evidence = sortEvidence(timeline);
  const proof = evidence.accountChanged ? null : standingProof(evidence);
  if (proof === null) return [];
  const find = standingFind(evidence);
  // The next chunk may know of no code to ask for, and then the account proof would do alone.
  if (find === null && evidence.findsDue) return [];
  // As a code of the new chunk it would be judged there once more.
  const canary: CanaryCall | null = find === null ? null : { ...find, kind: 'canary' };
  return canary === null ? [proof] : [proof, canary];
}

/** The last account proof, when nothing has spoken against the credential since it began. */
function standingProof(evidence: ChunkEvidence): AccountCall | null {
  const { proofs, failures, findsDue } = evidence;
  // Where no code speaks for the credential, account details must answer for every doubt.
  const against = findsDue ? failures : everythingAgainst(evidence);
  return proofs.findLast((proof) => isAfterAll(proof, against)) ?? null;
}

function standingFind(evidence: ChunkEvidence): Find | null {
  const against = everythingAgainst(evidence);
  return evidence.finds.findLast((find) => isAfterAll(find, against)) ?? null;
}

function everythingAgainst({ failures, doubts, lulls }: ChunkEvidence): readonly Span[] {
  return [...failures, ...doubts, ...lulls];
}

function mayAskAccount({ calls }: Timeline, { proofs }: ChunkEvidence): boolean {
  const asked = calls.filter(({ kind }) => kind === 'account');
  return inVain(asked, proofs) < PATIENCE;
}

/**
 * The code to ask for as a canary; null when none is known, or those asked in vain are enough.
 * Those known from before come first, since a code of this chunk was found with the very credential
 * that is to be proven.
 */
function chooseCanary(timeline: Timeline, evidence: ChunkEvidence): string | null {
  const { finds, failures, denials } = evidence;
  const canaries = timeline.calls.filter(({ kind }) => kind === 'canary');
  if (inVain(canaries, finds) >= PATIENCE) return null;
  const isLost = (code: string): boolean =>
    [...failures, ...denials].some(
      (one) => one.kind !== 'account' && one.code === code && one.outcome.kind === 'denied',
    );
  const known = timeline.canaries.find((code) => !isLost(code));
  return known ?? finds.findLast(({ code }) => !isLost(code))?.code ?? null;
}

/** How many of the calls have come to nothing since the last success. */
function inVain(calls: readonly ChunkCall[], successes: readonly Span[]): number {
  const last = latest(successes);
  return calls.filter(({ outcome, ended }) => outcome.kind !== 'affirmed' && ended > last).length;
}

/** The number of the last end; -1 when there is none. */
function latest(calls: readonly Span[]): number {
  return calls.reduce((last, { ended }) => Math.max(last, ended), -1);
}

function isAfterAll(call: Span, others: readonly Span[]): boolean {
  return others.every((other) => precedes(other, call));
}

/** How many codes were heard of before the run, and which share was denied; a half where nothing is known. */
function denialsBefore(
  { denials, finds }: ChunkEvidence,
  run: number,
): { readonly heard: number; readonly share: number } {
  const denied = denials.length - run;
  const found = finds.reduce((count, { kind }) => (kind === 'code' ? count + 1 : count), 0);
  const heard = denied + found;
  return { heard, share: (denied + 1) / (heard + 2) };
}

/**
 * From how many denials in a row on chance is an unlikely explanation: 2 where hardly a code was denied,
 * 8 at the beginning, `LONGEST_RUN` where most are. Of codes under way together, those found end no run
 * of those denied.
 */
function likelyRun(share: number, together: number): number {
  const likely = Math.ceil(Math.log(SUSPICIOUS) / Math.log(share));
  // The code after a single denial tells more than a canary would, and costs nothing extra.
  return Math.min(LONGEST_RUN, Math.max(2, likely) + Math.floor(together * share));
}

/** How many of the codes under way chance may have denied, three standard deviations over the mean. */
function mostDenied(underWay: number, share: number): number {
  const most = underWay * share + 3 * Math.sqrt(underWay * share * (1 - share));
  return Math.min(underWay, Math.ceil(most));
}

function isIdle({ codes, account, canary }: UnderWay): boolean {
  return codes === 0 && !account && !canary;
}

/** The timeline as it would be if the proofs that can be asked for now succeeded. */
function withProofsNow(
  timeline: Timeline,
  account: string | null,
  canary: string | null,
  mayProve: boolean,
): Timeline {
  const end = latest(timeline.calls);
  const heard: Heard = {
    outcome: { kind: 'affirmed' },
    evidence: { httpStatus: null, message: null },
  };
  const calls: ChunkCall[] = [...timeline.calls];
  if (canary !== null) {
    calls.push({ ...heard, kind: 'canary', code: canary, begun: end + 1, ended: end + 2 });
  }
  if (mayProve) calls.push({ ...heard, kind: 'account', account, begun: end + 3, ended: end + 4 });
  return { ...timeline, calls };
}
