import type { Purchase } from '../domain/item.js';
import type { BadProof } from '../marketplace/prove-key.js';
import {
  checksPerWindow,
  MAX_WINDOW_CHECKS,
  provenWindow,
  type ProvenWindow,
  type WindowFault,
} from '../marketplace/proven-window.js';
import { meaningOf } from '../marketplace/reply.js';
import type { CallOptions, Sourced } from '../marketplace/types.js';
import {
  askCode,
  checkOf,
  type CodeReply,
  callOptions,
  endByProof,
  holderOf,
  isKeyFault,
  isWorthRepeating,
  pauseAfter,
  stopOf,
  unanswered,
  waitToProveAgain,
  type PieceEnd,
  type Work,
  type WorkMemory,
} from './piece.js';
import type { CodeResult, DeniedCode, LedgerCounts, ProvenBetween } from './ledger.js';
import type { UnprovenReason } from './evidence.js';
import { countedDenialsNeeded } from './rules.js';

/** Denied codes in a piece of confirmation: 20 windows. */
const PIECE_DENIED = 500;
/** Codes settled at a time. */
const SETTLE = 2_000;
/** Denied codes of a growing list wait so long for others to share their window, milliseconds. */
const GATHER_MS = 2_000;
const MINUTE_MS = 60_000;
/** Times that all known valid codes may be denied before the denied codes are given up. */
const MAX_LOST_CANARIES = 5;

/** Checks denied codes again, or settles them. @returns null when no code is denied */
export async function confirm(work: Work): Promise<PieceEnd | null> {
  const { ledger, memory, confirmAfterMs } = work;
  const counts: LedgerCounts = await ledger.counts();
  if (counts.denied === 0) return null;
  const needed = countedDenialsNeeded(counts);
  if (needed === null) return settle(work, 'unproven', 'contradicted');
  const denied = await ledger.denied(needed, PIECE_DENIED);
  // A growing list always has a new denial: codes that have enough of them don't wait for it.
  const hasConfirmed =
    work.isGrowing === true && (await ledger.denied(Infinity, 1, needed)).length > 0;
  if (denied.length === 0 || hasConfirmed) return settle(work, 'invalid', undefined, needed);
  memory.canaries.askFirst(denied.map(({ code }) => code));
  const waits = denied.map((code) => ({ code, ms: memory.waitFor(code, confirmAfterMs) }));
  const size = Math.min(memory.windowChecks, checksPerWindow(work.spacingMs), denied.length);
  const due = waits.filter(({ ms }) => ms === 0).map(({ code }) => code);
  const sorted = waits.map(({ ms }) => ms).sort((a, b) => a - b);
  const isOverdue =
    work.isGrowing === true &&
    due.some(({ deniedAt }) => Date.now() - deniedAt >= confirmAfterMs + GATHER_MS);
  if (due.length >= size || isOverdue) return confirmDue(work, due, size);
  // A window with few checks costs as many proofs as a full one.
  const fullMs = sorted[size - 1] ?? 0;
  const delayMs = work.isGrowing === true ? Math.min(fullMs, (sorted[0] ?? 0) + GATHER_MS) : fullMs;
  return { kind: 'wait', delayMs, until: 'confirm' };
}

async function confirmDue(work: Work, due: readonly DeniedCode[], size: number): Promise<PieceEnd> {
  const { market, ledger, memory, closing, spacingMs } = work;
  for (let from = 0; from < due.length; from += size) {
    if (closing?.aborted === true) return { kind: 'closed' };
    const results: CodeResult[] = [];
    const holder = holderOf(work, (result) => results.push(result));
    const codes = due.slice(from, from + size);
    const checks = codes.map((code) => checkFor(work, code));
    const window = await provenWindow<Sourced<Purchase>, DenialCheck>(market, checks, holder, {
      ...callOptions(work),
      concurrency: memory.isSerial ? 1 : work.concurrency,
      opening: memory.openingFor(codes),
      spacingMs,
      closing,
    });
    memory.opening = window.after;
    memory.account ??= window.before?.account ?? null;
    results.push(...resultsOf(window, memory));
    await ledger.record(results);
    const end = await afterWindow(work, window);
    if (end !== null) return end;
  }
  return { kind: 'more' };
}

interface DenialCheck {
  readonly denied: DeniedCode;
  ask(options: CallOptions): Promise<CodeReply>;
}

function checkFor({ market }: Work, denied: DeniedCode): DenialCheck {
  const { code } = denied;
  return { denied, ask: (options) => askCode(market, code, options) };
}

/** What a window says about its codes. */
function resultsOf(
  { answers, fault, before, after }: ProvenWindow<Sourced<Purchase>, DenialCheck>,
  memory: WorkMemory,
): CodeResult[] {
  const proven: ProvenBetween | null =
    fault !== null || before === null || after === null
      ? null
      : {
          by: before.by === 'witness' && after.by === 'witness' ? 'known-valid' : 'account',
          before: before.at,
          after: after.at,
        };
  const isOutage = answers.every(({ reply }) => meaningOf(reply).kind === 'silent');
  const isTooSlow = fault?.kind === 'slow' || fault?.kind === 'pause';
  const isTooSlowAlone = isTooSlow && answers.length === 1;
  return answers.flatMap(({ check: { denied }, reply, at }): CodeResult[] => {
    const { position, code } = denied;
    const check = checkOf(code, reply, at, proven);
    switch (check.outcome) {
      case 'found':
        // Another account's purchase says nothing about the seller's.
        if (isAnotherAccount(fault)) return [];
        memory.canaries.found(code);
        return [{ position, code, check, verdict: 'valid' }];
      case 'denied':
        if (proven !== null) {
          return [{ position, code, check, verdict: null }];
        }
        return isTooSlowAlone
          ? [unanswered(denied, { ...check, outcome: 'unanswered', reason: 'key-not-proven' })]
          : [];
      case 'unanswered':
        return isOutage && fault?.kind !== 'doubt' ? [] : [unanswered(denied, check)];
    }
  });
}

function isAnotherAccount(fault: WindowFault | null): boolean {
  return fault?.kind === 'proof' && fault.proof.reason === 'another-account';
}

/** Decides how to go on after a window. @returns null: with the next one */
async function afterWindow(
  work: Work,
  { fault, answers }: ProvenWindow<Sourced<Purchase>, DenialCheck>,
): Promise<PieceEnd | null> {
  const { memory } = work;
  if (fault === null) {
    memory.badProofs = 0;
    memory.lostCanaries = 0;
    memory.windowChecks = Math.min(MAX_WINDOW_CHECKS, 2 * memory.windowChecks);
    const silent = answers.find(({ reply }) => meaningOf(reply).kind === 'silent')?.reply;
    const isOutage = answers.every(({ reply }) => meaningOf(reply).kind === 'silent');
    return isOutage && silent !== undefined ? pauseAfter(silent, false) : null;
  }
  switch (fault.kind) {
    case 'slow':
      memory.windowChecks = Math.max(1, answers.length >> 1);
      return { kind: 'more' };
    case 'doubt':
      if (fault.reason === 'mixed-up') memory.isSerial = true;
      return null;
    case 'pause': {
      memory.windowChecks = Math.max(1, answers.length >> 1);
      const last = answers.at(-1)?.reply;
      return last === undefined ? { kind: 'more' } : pauseAfter(last, true);
    }
    case 'proof': {
      const { proof } = fault;
      if (isWorthRepeating(proof) && ++memory.badProofs < 2) {
        await waitToProveAgain(work);
        return null;
      }
      memory.badProofs = 0;
      if (!isKeyFault(proof)) return endByProof(proof, answers.length > 0);
      return proof.reason === 'witness-denied'
        ? afterLostCanaries(work, proof)
        : endByProof(proof, false);
    }
  }
}

/** Every code known to be valid was denied twice. It may be a moment's fault, so this is tried some times. */
async function afterLostCanaries(work: Work, proof: BadProof): Promise<PieceEnd> {
  const { memory } = work;
  const lost = ++memory.lostCanaries;
  if (work.isBrief === true || lost >= MAX_LOST_CANARIES)
    return settle(work, 'unproven', 'known-valid-denied');
  return { kind: 'pause', stop: stopOf(proof), delayMs: MINUTE_MS * 2 ** (lost - 1) };
}

/** Gives every denied code the verdict that its recorded denials lead to. */
async function settle(
  { ledger, memory }: Work,
  verdict: 'invalid' | 'unproven',
  reason?: UnprovenReason,
  counted = 0,
): Promise<PieceEnd> {
  for (;;) {
    const codes = await ledger.denied(Infinity, SETTLE, counted);
    if (codes.length === 0) return { kind: 'more' };
    const common = { check: null, verdict, ...(reason === undefined ? {} : { reason }) };
    await ledger.record(codes.map(({ position, code }) => ({ position, code, ...common })));
    if (verdict === 'invalid') for (const { code } of codes) memory.canaries.drop(code);
  }
}
